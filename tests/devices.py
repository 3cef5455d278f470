"""The screens that pages are tested on, as Playwright takes them."""

import pytest

# A step that fades in has little contrast for a moment.
_STILL = {"reduced_motion": "reduce"}
DESKTOP = {"viewport": {"width": 1280, "height": 800}, **_STILL}
PHONE = {
    "viewport": {"width": 390, "height": 780}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True, **_STILL,
}  # fmt: skip

_MOSTLY_DESKTOP = [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone", marks=pytest.mark.soak)]
#: The mark of a test whose `device` is a phone only with `make soak`: its layout is tested elsewhere.
MOSTLY_DESKTOP = pytest.mark.parametrize("device", _MOSTLY_DESKTOP)
#: The same, where the fixture `context` is the browser of that device.
MOSTLY_IN_DESKTOP_BROWSER = pytest.mark.parametrize("context", _MOSTLY_DESKTOP, indirect=True)
