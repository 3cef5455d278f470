"""Signed distance fields and other functions of position: the aviary's paint brushes.

Birds are drawn by evaluating smooth functions of position on the pixels they cover, with numpy alone. That gives
anti-aliasing and shading for free, and costs milliseconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Field = NDArray[np.floating]
Window = tuple[slice, slice]


def smoothstep(low: float, high: float, x: Field) -> Field:
    """Return 0 below `low`, 1 above `high` (or the reverse if low > high), smooth in between."""
    t = np.clip((x - np.float32(low)) / np.float32(high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), dtype=np.float32)


def ellipse(x: Field, y: Field, rx: float, ry: float) -> Field:
    """Return the (approximate) signed distance to an ellipse at the origin."""
    k0 = np.sqrt((x / rx) ** 2 + (y / ry) ** 2)
    k1 = np.sqrt((x / (rx * rx)) ** 2 + (y / (ry * ry)) ** 2) + np.float32(1e-6)
    return np.asarray(k0 * (k0 - 1) / k1, dtype=np.float32)


def capsule(x: Field, y: Field, start: tuple[float, float], end: tuple[float, float], r0: float, r1: float) -> Field:
    """Return the signed distance to a stroke from `start` to `end` whose radius goes from `r0` to `r1`."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    t = np.clip(((x - start[0]) * dx + (y - start[1]) * dy) / (dx * dx + dy * dy + 1e-9), 0, 1)
    px, py = x - start[0] - t * dx, y - start[1] - t * dy
    return np.asarray(np.sqrt(px * px + py * py) - (r0 + t * (r1 - r0)), dtype=np.float32)


def smooth_union(a: Field, b: Field, k: float) -> Field:
    """Return the union of two distance fields with a fillet of size `k`."""
    h = np.clip(0.5 + 0.5 * (b - a) / k, 0, 1)
    return np.asarray(b + (a - b) * h - k * h * (1 - h), dtype=np.float32)


def coverage(distance: Field, pixel: float) -> Field:
    """Return how much of each pixel lies inside a shape, 0 to 1."""
    return np.asarray(np.clip(0.5 - distance / pixel, 0, 1), dtype=np.float32)


def window(points: NDArray[np.floating], shape: tuple[int, int], margin: float = 1) -> Window:
    """Return the slices of a ``(h, w)`` canvas that hold all `points` ``(n, 2)`` of ``(x, y)``, possibly empty."""
    low = np.floor(points.min(axis=0) - margin).astype(int)
    high = np.ceil(points.max(axis=0) + margin).astype(int) + 1
    (left, top), (right, bottom) = low.tolist(), high.tolist()
    h, w = shape
    return slice(max(top, 0), max(min(bottom, h), 0)), slice(max(left, 0), max(min(right, w), 0))


def polygon(points: NDArray[np.floating], shape: tuple[int, int], *, oversample: int = 3) -> tuple[Window, Field]:
    """Return the anti-aliased coverage of a polygon given in pixel coordinates ``(n, 2)`` of a ``(h, w)`` canvas.

    Only the window the polygon lies in is rasterised and returned, so small shapes are cheap.
    """
    rows, cols = window(points, shape, margin=0)
    height, width = rows.stop - rows.start, cols.stop - cols.start
    if height <= 0 or width <= 0:
        return (slice(0, 0), slice(0, 0)), np.zeros((0, 0), np.float32)
    canvas = Image.new("L", (width * oversample, height * oversample), 0)
    corners = ((points - (cols.start, rows.start)) * oversample).ravel().tolist()
    ImageDraw.Draw(canvas).polygon(corners, fill=255)
    return (rows, cols), np.asarray(canvas.reduce(oversample), np.float32) * np.float32(1 / 255)


def spline(points: list[tuple[float, float]], *, closed: bool = True, steps: int = 8) -> NDArray[np.float64]:
    """Return a Catmull-Rom curve through `points`, as an ``(m, 2)`` array."""
    p = np.asarray(points, np.float64)
    p = np.concatenate([p[-1:], p, p[:2]] if closed else [p[:1], p, p[-1:]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    segments = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(p[:-3], p[1:-2], p[2:-1], p[3:], strict=True)
    ]
    curve = np.concatenate(segments)
    return curve if closed else np.concatenate([curve, p[-2:-1]])


def noise(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int]) -> Field:
    """Return smooth noise in [-1, 1]: random values on a coarse ``(rows, cols)`` lattice, enlarged."""
    coarse = Image.fromarray(rng.uniform(-1, 1, cells).astype(np.float32))
    return np.array(coarse.resize((shape[1], shape[0]), Image.Resampling.BICUBIC), np.float32)
