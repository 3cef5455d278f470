"""Everything around the bird: habitat, perch, leaves in front of it, the light of the day."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from partswap.aviary.fields import Field, capsule, coverage, noise, polygon, smoothstep, spline
from partswap.aviary.pose import SIZE

Rgb = NDArray[np.float32]
Put = Callable[[NDArray[np.floating], NDArray[np.floating]], None]

#: Habitat -> colours of the top, the middle and the bottom of the picture.
HABITATS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "sky": ((122, 170, 214), (170, 203, 226), (214, 226, 228)),
    "forest": ((58, 84, 54), (84, 108, 66), (58, 66, 44)),
    "meadow": ((176, 200, 196), (146, 168, 104), (96, 122, 62)),
    "shore": ((186, 200, 206), (142, 164, 172), (176, 160, 128)),
    "autumn": ((206, 178, 132), (176, 124, 70), (116, 82, 54)),
    "dusk": ((92, 88, 122), (180, 136, 134), (120, 92, 86)),
    "reed": ((196, 196, 160), (164, 158, 108), (118, 110, 74)),
}
_LEAVES = ((64, 98, 48), (92, 124, 58), (120, 132, 62), (150, 112, 52), (74, 84, 60))


def background(rng: np.random.Generator) -> Rgb:
    """Return a soft, out-of-focus habitat, ``(SIZE, SIZE, 3)`` in 0-1."""
    name = list(HABITATS)[rng.integers(len(HABITATS))]
    top, middle, bottom = (np.asarray(c, np.float32) / 255 for c in HABITATS[name])
    y = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
    horizon = rng.uniform(0.35, 0.7)
    rgb = np.where(
        y < horizon,
        top + (middle - top) * (y / horizon),
        middle + (bottom - middle) * ((y - horizon) / (1 - horizon)),
    )
    rgb = np.broadcast_to(rgb, (SIZE, SIZE, 3)).astype(np.float32)
    # Out-of-focus clutter: coarse blobs drawn small and enlarged.
    step = 4
    small = SIZE // step
    blobs = Image.new("RGB", (small, small))
    blobs.paste(Image.fromarray((rgb[::step, ::step] * 255).astype(np.uint8)))
    draw = ImageDraw.Draw(blobs, "RGBA")
    for _ in range(rng.integers(8, 26)):
        cx, cy, r = rng.uniform(0, small), rng.uniform(0, small), rng.uniform(1.5, 9)
        base = rgb[int(cy) * step, int(cx) * step] * 255
        shift = rng.normal(0, 22) + rng.normal(0, 12, 3)
        color = tuple(int(c) for c in np.clip(base + shift, 0, 255))
        draw.ellipse((cx - r, cy - r, cx + r, cy + r), fill=(*color, int(rng.uniform(60, 170))))
    blobs = blobs.filter(ImageFilter.GaussianBlur(rng.uniform(0.7, 2.2)))
    rgb = np.array(blobs.resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.float32) * np.float32(1 / 255)
    rgb += (noise(rng, (SIZE, SIZE), (6, 6)) * 0.05)[..., None]
    tone = middle
    for _ in range(rng.integers(0, 4)):  # stems and twigs far behind
        x0, x1 = rng.uniform(-20, SIZE + 20, 2)
        stem = np.array([(x0, -10.0), (x1, SIZE + 10.0)])
        width = rng.uniform(1.5, 7)
        across = np.array([(width, 0.0)])
        where, cover = polygon(np.concatenate([stem - across, (stem + across)[::-1]]), (SIZE, SIZE), oversample=1)
        behind = rgb[where]
        behind += (cover * rng.uniform(0.15, 0.4))[..., None] * (tone * rng.uniform(0.4, 1.3) - behind)
    return np.asarray(np.clip(rgb, 0, 1), np.float32)


def perch(rgb: Rgb, rng: np.random.Generator, feet: tuple[float, float], scale: float) -> None:
    """Draw what the bird stands on, in place: a branch, or the ground. `feet` is in pixels."""
    x, y = np.meshgrid(np.arange(SIZE, dtype=np.float32), np.arange(SIZE, dtype=np.float32))
    fx, fy = feet
    tone = np.asarray(_tone(rng, ((96, 78, 62), (120, 104, 86), (82, 74, 68), (134, 112, 82))), np.float32)
    if rng.random() < 0.68:
        slope = rng.normal(0, 0.16)
        half = rng.uniform(0.07, 0.16) * scale
        start = (-20.0, fy + half * 0.8 + slope * (-20 - fx))
        end = (SIZE + 20.0, fy + half * 0.8 + slope * (SIZE + 20 - fx))
        distance = capsule(x, y, start, end, half * rng.uniform(0.75, 1.2), half * rng.uniform(0.75, 1.2))
        bark = noise(rng, (SIZE, SIZE), (40, 16)) * 0.16
        across = (y - (start[1] + slope * (x - start[0]))) / half
        shade = np.clip(1.08 - 0.38 * across, 0.35, 1.35) + bark
        rgb += coverage(distance, 1.0)[..., None] * (np.clip(tone * shade[..., None], 0, 1) - rgb)
        return
    edge = fy + 2 + noise(rng, (1, SIZE), (1, 7)) * 3
    cover = np.clip(y - edge, 0, 1)
    grain = 1 + noise(rng, (SIZE, SIZE), (56, 28)) * 0.14 - 0.25 * smoothstep(0, 90, y - edge)
    rgb += cover[..., None] * (np.clip(tone * 1.25 * grain[..., None], 0, 1) - rgb)
    spot = ((x - fx) / (0.9 * scale)) ** 2 + ((y - fy - 4) / (0.16 * scale)) ** 2
    rgb *= (1 - 0.35 * cover * smoothstep(1.4, 0.2, spot))[..., None]


def foreground(rng: np.random.Generator, around: tuple[float, float]) -> tuple[Rgb, Field]:
    """Return leaves, twigs or grass in front of the bird: colour and coverage (often nothing)."""
    rgb = np.zeros((SIZE, SIZE, 3), np.float32)
    alpha = np.zeros((SIZE, SIZE), np.float32)

    def put(points: NDArray[np.floating], color: NDArray[np.floating]) -> None:
        where, cover = polygon(points, (SIZE, SIZE))
        under = rgb[where]
        under += cover[..., None] * (color - under)
        np.maximum(alpha[where], cover, out=alpha[where])

    kind = rng.random()
    if kind < 0.26:
        for _ in range(rng.integers(1, 4)):
            cx, cy = around[0] + rng.normal(0, 62), around[1] + rng.normal(0, 52)
            length, angle = rng.uniform(22, 42), rng.uniform(0, 2 * math.pi)
            _leaf(put, (cx, cy), length, angle, _tone(rng, _LEAVES))
    elif kind < 0.40:
        for _ in range(rng.integers(3, 9)):
            x0 = rng.uniform(0, SIZE)
            height, lean = rng.uniform(40, 120), rng.normal(0, 22)
            blade = [(x0 - 3, SIZE + 4.0), (x0 + lean * 0.4, SIZE - height * 0.6), (x0 + lean, SIZE - height)]
            back = [(x0 + lean * 0.4 + 4, SIZE - height * 0.6), (x0 + 4, SIZE + 4.0)]
            put(np.array(blade + back), _tone(rng, _LEAVES) * rng.uniform(0.8, 1.1))
    return rgb, alpha


def daylight(rgb: Rgb, rng: np.random.Generator) -> Rgb:
    """Apply exposure, colour temperature, a slight vignette and sensor noise."""
    warmth = rng.normal(0, 0.04)
    gain = np.asarray([1 + warmth, 1.0, 1 - warmth], np.float32) * np.float32(rng.uniform(0.84, 1.14))
    axis = np.linspace(-1, 1, SIZE, dtype=np.float32)
    vignette = 1 - rng.uniform(0, 0.14) * (axis[:, None] ** 2 + axis[None, :] ** 2)
    contrast = np.float32(rng.uniform(0.92, 1.10))
    grain = rng.standard_normal((SIZE, SIZE), dtype=np.float32) * np.float32(rng.uniform(0.004, 0.014))
    grain += 0.5 * (1 - contrast)
    rgb = rgb * (gain * contrast)
    rgb *= vignette[..., None].astype(np.float32)
    rgb += grain[..., None]
    return np.clip(rgb, 0, 1, out=rgb)


def _tone(rng: np.random.Generator, colors: tuple[tuple[int, int, int], ...]) -> NDArray[np.float32]:
    color = np.asarray(colors[rng.integers(len(colors))], np.float32) / 255
    return np.asarray(np.clip(color * rng.uniform(0.85, 1.15), 0, 1), np.float32)


def _leaf(put: Put, at: tuple[float, float], length: float, angle: float, color: NDArray[np.floating]) -> None:
    outline = [(-1.0, 0.0), (-0.45, 0.30), (0.2, 0.30), (1.0, 0.0), (0.2, -0.30), (-0.45, -0.30)]
    curve = spline(outline, steps=5) * length
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    half = curve[curve[:, 1] >= -1e-6]
    put(curve @ turn + at, color)
    put(half @ turn + at, np.clip(color * 1.16, 0, 1))
