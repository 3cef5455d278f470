"""A contact sheet of any data set, to check annotations by eye."""

from __future__ import annotations

import colorsys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from partswap.data.base import Dataset, Sample
from partswap.data.geometry import on_canvas
from partswap.errors import SettingError
from partswap.inputs.preprocess import Preprocess

MARGIN, GAP, CAPTION, DOT = 28, 14, 24, 4
INK, HAIRLINE, OUTLINE = (34, 34, 34), (214, 214, 214), (255, 255, 255)
SCALE = 4  # dots are drawn this much too large and shrunk: PIL draws circles without smoothing

Color = tuple[int, int, int]


def contact_sheet(
    dataset: Dataset, count: int = 40, columns: int = 8, seed: int = 0, preprocess: Preprocess | None = None
) -> Image.Image:
    """Return some images as the model would see them, with keypoints, masks and class names.

    Parameters
    ----------
    dataset : Dataset
        Where they are from.
    count, columns : int
        How many images at most, and how many side by side.
    seed : int
        Images are chosen at random, spread over the classes, and shown in the order of the classes.
    preprocess : Preprocess, optional
        How the model sees an image; 224 pixels, the short side filling the canvas, by default.
    """
    if count < 1 or columns < 1:
        raise SettingError(f"a sheet of {count} images in {columns} columns shows nothing.", "Use at least 1 of each.")
    preprocess = preprocess or Preprocess()
    samples = [on_canvas(dataset[i], preprocess) for i in choose(dataset, count, seed)]
    colors = part_colors(dataset.parts)
    side = preprocess.side
    columns = min(columns, len(samples))
    rows = -(-len(samples) // columns)
    width = 2 * MARGIN + columns * side + (columns - 1) * GAP
    legend = _legend(colors, width - 2 * MARGIN)
    height = 2 * MARGIN + rows * (side + CAPTION) + (rows - 1) * GAP + (legend.height + MARGIN if legend else 0)
    sheet = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(sheet)
    for index, sample in enumerate(samples):
        row, col = divmod(index, columns)
        left, top = MARGIN + col * (side + GAP), MARGIN + row * (side + CAPTION + GAP)
        sheet.paste(picture(sample, colors), (left, top))
        pen.rectangle((left - 1, top - 1, left + side, top + side), outline=HAIRLINE)  # a white photo ends somewhere
        pen.text((left, top + side + 6), shorten(dataset.classes[sample.label], side), INK, font(13))
    if legend:
        sheet.paste(legend, (MARGIN, height - MARGIN - legend.height))
    return sheet


def choose(dataset: Dataset, count: int, seed: int) -> list[int]:
    """Return `count` images in the order of their classes, as many classes as possible."""
    rng = np.random.default_rng(seed)
    labels = dataset.labels().tolist()
    shuffled = rng.permutation(len(labels)).tolist()
    rank: dict[int, int] = {}  # how many images of its class come before, in the shuffled order
    seen: Counter[int] = Counter()
    for index in shuffled:
        rank[index] = seen[labels[index]]
        seen[labels[index]] += 1
    chosen = sorted(shuffled, key=rank.__getitem__)[:count]
    return sorted(chosen, key=lambda index: (labels[index], index))


def picture(sample: Sample, colors: dict[str, Color]) -> Image.Image:
    """Return an image with its mask as an outline, the rest dimmed a little, and its keypoints as dots."""
    image = sample.image if sample.mask is None else _with_mask(sample.image, sample.mask)
    dots = Image.new("RGBA", (image.width * SCALE, image.height * SCALE))
    pen = ImageDraw.Draw(dots)
    for part, points in (sample.keypoints or {}).items():
        for x, y in points:
            for radius, color in ((DOT + 1.5, OUTLINE), (DOT - 0.5, colors[part])):
                box = (x - radius, y - radius, x + radius, y + radius)
                pen.ellipse([v * SCALE for v in box], (*color, 255))
    dots = dots.resize(image.size, Image.Resampling.BOX)
    return Image.alpha_composite(image.convert("RGBA"), dots).convert("RGB")


def _with_mask(image: Image.Image, mask: NDArray[np.bool_]) -> Image.Image:
    inside = Image.fromarray(mask.astype(np.uint8) * 255)
    soft = inside.filter(ImageFilter.GaussianBlur(1))
    dimmed = Image.blend(image, Image.new("RGB", image.size, "white"), 0.35)
    edge = Image.fromarray(np.asarray(inside.filter(ImageFilter.MaxFilter(3))) - np.asarray(inside))
    edge = edge.filter(ImageFilter.GaussianBlur(0.6))
    return Image.composite(Image.new("RGB", image.size, OUTLINE), Image.composite(image, dimmed, soft), edge)


def part_colors(parts: Sequence[str]) -> dict[str, Color]:
    """Return a colour for each part, as far apart as their number allows."""
    colors = {}
    for index, part in enumerate(parts):
        # Neighbouring hues differ in lightness too, which the eye tells apart better than hue alone.
        lightness, saturation = ((0.50, 0.85), (0.36, 0.80), (0.64, 0.90))[index % 3]
        red, green, blue = colorsys.hls_to_rgb(index / len(parts), lightness, saturation)
        colors[part] = (round(255 * red), round(255 * green), round(255 * blue))
    return colors


def _legend(colors: dict[str, Color], width: int) -> Image.Image | None:
    """Return the parts with their colours, in as many lines as they need."""
    if not colors:
        return None
    face, step, line = font(14), 26, 26
    places: list[tuple[str, int, int]] = []
    x = y = 0
    for part in colors:
        need = step + round(face.getlength(part))
        if x and x + need > width:
            x, y = 0, y + line
        places.append((part, x, y))
        x += need + 22
    legend = Image.new("RGB", (width, y + line), "white")
    dots = Image.new("RGB", (width * SCALE, (y + line) * SCALE), "white")
    pen = ImageDraw.Draw(dots)
    for part, left, top in places:
        pen.ellipse([v * SCALE for v in (left, top + 7, left + 12, top + 19)], colors[part])
    legend.paste(dots.resize(legend.size, Image.Resampling.BOX))
    pen = ImageDraw.Draw(legend)
    for part, left, top in places:
        pen.text((left + 19, top + 13), part, INK, face, anchor="lm")
    return legend


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """Return the sans serif that comes with matplotlib."""
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)


def shorten(text: str, width: int) -> str:
    """Return a caption that is at most `width` pixels wide, with an ellipsis if it is shortened."""
    face = font(13)
    if face.getlength(text) <= width:
        return text
    while text and face.getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"
