"""The screens that pages are tested on, as Playwright takes them."""

# A step that fades in has little contrast for a moment.
_STILL = {"reduced_motion": "reduce"}
DESKTOP = {"viewport": {"width": 1280, "height": 800}, **_STILL}
PHONE = {
    "viewport": {"width": 390, "height": 780}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True, **_STILL,
}  # fmt: skip
