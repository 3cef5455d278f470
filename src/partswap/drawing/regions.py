"""The image of a counterfactual with its swapped regions outlined."""

from __future__ import annotations

from PIL import Image

from partswap.drawing.palette import edit_color
from partswap.pixels.composite import outlined
from partswap.results.counterfactual import Counterfactual


def outline_edits(cf: Counterfactual, *, blur: bool = False) -> Image.Image:
    """Return the query with the swapped regions outlined, everything else blurred if that is asked for."""
    boxes = [cf.grid.box(edit.query_cell, (1, 1)) for edit in cf.edits]
    colors = [edit_color(number) for number in range(len(boxes))]
    return outlined(cf.drawn().query, boxes, colors, blur=blur, inset=True)
