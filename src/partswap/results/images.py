"""The images of a counterfactual: where they are, and which part of each the model saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from partswap.errors import ImageError, ShapeError
from partswap.grid import GridShape
from partswap.inputs.frame import Frame
from partswap.results.edits import Edit

if TYPE_CHECKING:
    from PIL.Image import Image

    from partswap.inputs.images import ImageLike
    from partswap.results.counterfactual import Counterfactual


def image_files(cf: Counterfactual, near: str | Path | None = None) -> list[Path]:
    """Return the files of the query and the distractors; one that is gone is also looked for in the folder `near`."""
    return [_file(name, near) for name in (cf.source.query or "", *cf.source.distractors)]


def _file(name: str, near: str | Path | None) -> Path:
    places = [Path(name), *([Path(near) / Path(name).name] if near is not None else [])] if name else []
    for place in places:
        if place.is_file():
            return place
    raise ImageError(
        f"the image {name or 'of this counterfactual'} is not there any more.",
        "Pass the images: with_images(query, distractors).",
    )


def frame_of(cf: Counterfactual, image: int) -> Frame | None:
    """Return which part of the query (-1) or of a distractor the model saw, None if that is not known."""
    from partswap.inputs.images import is_prepared

    if cf.source.frames is not None and (frame := cf.source.frames.of(image)) is not None:
        return frame
    if cf.pictures is None or not cf.pictures.sources:
        return None
    # An image without a record of what was cut out of it is the picture itself; others were warped on the way.
    if cf.source.frames is not None and not is_prepared(cf.pictures.sources[1 + image]):
        return None
    return Frame.whole((cf.pictures.query if image < 0 else cf.pictures.distractors[image]).size)


def located_edit(edit: Edit, grid: GridShape, frames: Sequence[Frame | None]) -> Edit:
    """Return an edit with its boxes, as far as the frames (the query's, then the distractors') are known."""
    query, distractor = frames[0], frames[1 + edit.distractor_image]
    edit = replace(edit, cells=grid.cells)
    return replace(
        edit,
        query_box=None if query is None else query.cell_box(grid, edit.query_cell),
        distractor_box=None if distractor is None else distractor.cell_box(grid, edit.image_cell),
    )


def picture_of_image(image: ImageLike, frame: Frame | None, grid: GridShape, size: tuple[int, int] | None) -> Image:
    """Return the part of an image that the model saw.

    `size` is what went into the network, if that is known; an image of that size is the picture itself. An image that
    is neither that nor as large as its frame says is an error.
    """
    from partswap.inputs.images import read_image

    picture = read_image(image)
    if frame is not None and size is not None and picture.size == frame.size:
        left, top, right, bottom = (round(edge) for edge in frame.box)
        return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1))).resize(size)
    oblong = abs(math.log(picture.width * grid.h / (picture.height * grid.w)))
    if picture.size == size or (size is None and oblong < 0.02):
        return picture
    expected = f"{size[0]} x {size[1]}" if size else f"a grid of {grid} cells"
    original = f", nor the image it is from ({frame.size[0]} x {frame.size[1]})" if frame else ""
    raise ShapeError(
        f"an image of {picture.width} x {picture.height} pixels is not what the model saw ({expected}){original}.",
        "Pass the image itself, or what Preprocess.crop(image) returns.",
    )
