"""Colors that mean the same on every surface: figures, report, explorer, notebooks and studies.

A color of `EDITS` stands for one edit, in the order of edits; green stands for the target class only.
"""

from __future__ import annotations

import math

#: One color per edit, readable on photographs, with dark text on it, and for color-blind eyes; they repeat after the
#: last. No green: that is the target's.
EDITS = ("#ffb000", "#f0529c", "#00b4d8", "#fe6100", "#b388ff", "#f5e663", "#6d9bff", "#ff9ecb")
#: Text on a color of `EDITS`.
EDIT_INK = "#14181f"
#: The target class is reached, or not: on white, and on dark grounds. Apart for color-blind eyes.
TARGET, TARGET_DARK = "#007a59", "#4fd1a5"
MISSED, MISSED_DARK = "#b3541e", "#f0966f"
#: The target's probability while the model does not say it, on white and on dark grounds; the class it said before.
RISE, RISE_DARK = "#8fb7d3", "#4c7796"
OWN = "#98a2b3"
#: Text, notes, empty bars, lines; of figures and cards, on white and on dark grounds.
INK, NOTE, PALE, LINE = "#1d2430", "#5b6472", "#eef0f4", "#cfd4dd"
INK_DARK, NOTE_DARK, PALE_DARK, LINE_DARK = "#e8eaf0", "#a6aebb", "#2c323d", "#414957"


def css_variables() -> str:
    """Return the colors of the target as a style sheet for light and dark pages, for the report and the explorer."""
    pairs = {"target": (TARGET, TARGET_DARK), "missed": (MISSED, MISSED_DARK), "rise": (RISE, RISE_DARK)}
    variables = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in pairs.items())
    return f":root{{{variables}--edit-ink:{EDIT_INK}}}"


def cluster_colors(count: int) -> list[str]:
    """Return a color for each of so many clusters: all different, and too dull to be an edit's or the target's.

    Examples
    --------
    >>> len(set(cluster_colors(50)))
    50
    """
    rings = (0.78, 0.56) if count <= 16 else (0.82, 0.68, 0.54)
    colors = []
    for number in range(count):
        hue = number / count * math.tau
        light, chroma = rings[number % len(rings)], 0.055
        colors.append(_oklab(light, chroma * math.cos(hue), chroma * math.sin(hue)))
    return colors


def _oklab(light: float, a: float, b: float) -> str:
    """Return a color of the Oklab space (Ottosson 2020), in which equal steps look equally large, as sRGB."""
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    encoded = (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in linear)
    return "#" + "".join(f"{round(255 * min(max(v, 0.0), 1.0)):02x}" for v in encoded)


def edit_color(number: int) -> str:
    """Return the color of the edit with this number (from 0).

    Examples
    --------
    >>> edit_color(0), edit_color(8)
    ('#ffb000', '#ffb000')
    """
    return EDITS[number % len(EDITS)]
