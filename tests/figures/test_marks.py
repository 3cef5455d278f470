"""Outlines and badges lie in their own cells, distractors and edits have their numbers, what flips is drawn."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.transforms import Bbox

from partswap import Edit, GridShape
from partswap.drawing import palette
from partswap.drawing.figures import FIGURES
from partswap.drawing.html import first_edits

#: Kinds whose query or distractors are drawn with all marks, none of which needs options.
PLAIN = ("edits", "trace", "sheet", "methods")


def texts(figure):
    """Return every text that is seen, of the page and of its axes."""
    artists = [*figure.texts, *(text for axis in figure.axes for text in axis.texts)]
    return [artist for artist in artists if artist.get_text().strip()]


def written(figure):
    return " ".join(" ".join(artist.get_text() for artist in texts(figure)).split())


def cell_of(cf, axis, x, y):
    """Return the window box of the cell in which a point of the window lies."""
    left, right = axis.get_xlim()
    bottom, top = axis.get_ylim()
    at = axis.transData.inverted().transform((x, y))
    cell = cf.grid.cell_at(*at, (right - left, bottom - top))
    x1, y1, x2, y2 = cf.grid.box(cell, (right - left, bottom - top))
    return cell, Bbox(axis.transData.transform([(x1, y1), (x2, y2)]))


def inside(outer, inner, slack=0.6):
    return (
        min(outer.x0, outer.x1) - slack <= inner.x0
        and inner.x1 <= max(outer.x0, outer.x1) + slack
        and min(outer.y0, outer.y1) - slack <= inner.y0
        and inner.y1 <= max(outer.y0, outer.y1) + slack
    )


@pytest.mark.parametrize("width", [None, "column"])
@pytest.mark.parametrize("kind", PLAIN)
def test_outlines_and_badges_stay_in_their_own_cells(kind, width, adjacent):
    figure = adjacent.plot(kind=kind, width=width)
    figure.draw_without_rendering()
    point = figure.dpi / 72
    axis = figure.axes[0]
    outlined = set()
    for patch in axis.patches:
        rim = patch.get_linewidth() * point / 2
        box = patch.get_window_extent().padded(rim)
        cell, home = cell_of(adjacent, axis, (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        assert inside(home, box)
        outlined.add(cell)
    assert outlined == {edit.query_cell for edit in adjacent.edits}
    for text in axis.texts:
        box = text.get_bbox_patch().get_window_extent()
        cell, home = cell_of(adjacent, axis, (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        assert cell == adjacent.edits[int(text.get_text()) - 1].query_cell
        if kind != "sheet" or width is None:
            assert inside(home, box, 0.12 * 7 * point)


@pytest.mark.parametrize(("kind", "width"), [("trace", None), ("trace", "column"), ("sheet", "column")])
def test_badges_larger_than_their_cells_hide_no_other(kind, width, explanations):
    """Twelve neighbors in a row of a fine grid."""
    cf = explanations[0]
    grid = GridShape(14, 14)
    edits = tuple(Edit(71 + k, 71 + k, 0) for k in range(12))
    cf = replace(cf, grid=grid, edits=edits, trace=(cf.trace[-1],) * 12, source={})
    figure = cf.plot(kind=kind, width=width)
    figure.draw_without_rendering()
    axis = figure.axes[0]
    boxes = [text.get_window_extent() for text in axis.texts]
    assert len(boxes) == 12
    for number, box in enumerate(boxes):
        assert not any(box.shrunk(0.8, 0.7).overlaps(other.shrunk(0.8, 0.7)) for other in boxes[:number])
        left, top, right, bottom = grid.box(edits[number].query_cell, cf.pictures.query.size)
        home = Bbox(axis.transData.transform([(left, top), (right, bottom)]))
        assert box.padded(3 * figure.dpi / 72).overlaps(Bbox.from_extents(home.x0, home.y1, home.x1, home.y0))


@pytest.mark.parametrize("kind", [kind for kind in FIGURES.names() if kind not in ("failures", "methods")])
def test_distractors_are_numbered_in_the_order_of_edits(kind, adjacent, options):
    more = {k: v for k, v in options.get(kind, {}).items() if k != "parts"}
    numbers = re.findall(r"distractor (\d+)", written(adjacent.plot(kind=kind, **more)))
    assert numbers
    assert numbers == [f"{k + 1}" for k in range(len(numbers))]  # although edits use the fifth, then the second
    assert adjacent.distractor_number(4) == 1
    assert [adjacent.distractor_number(k) for k in range(6)] == [3, 2, 4, 5, 1, 6]


@pytest.mark.parametrize("width", [None, "page"])
@pytest.mark.parametrize("kind", ["edits", "methods", "trace"])
def test_the_edit_that_flips_is_always_drawn(kind, width, long):
    figure = long.plot(kind=kind, width=width)
    assert "flips" in written(figure)
    badges = [text.get_text() for axis in figure.axes[1:] for text in axis.texts]
    assert "30" in badges
    assert first_edits(long, 6) == [0, 1, 2, 3, 4, 29]


def test_all_distractors_that_edits_use_are_drawn(long, options):
    labels = np.repeat(options["clusters"]["labels"][:1], 7, 0)
    for kind, more in (("clusters", {"labels": labels}), ("edits", {}), ("failures", {})):
        cf = replace(long, flipped=kind != "failures")
        text = written(cf.plot(kind=kind, **more))
        assert all(f"distractor {k}" in text for k in range(1, 7)), kind


@pytest.mark.parametrize("kind", FIGURES.names())
def test_arrows_point_right_and_cells_count_from_1(kind, adjacent, options):
    more = {k: v for k, v in options.get(kind, {}).items() if k != "parts"}
    text = written(adjacent.plot(kind=kind, **more))
    assert "->" not in text
    assert "→" in text
    if kind in ("edits", "best"):
        assert "row 3, column 3" in text  # cell 16 of 7 x 7
        assert "row 4, column 4" in text


def test_green_is_for_the_target_only_and_colors_are_the_palette_s(adjacent):
    figure = adjacent.plot(kind="trace")
    faces = [to_hex(patch.get_facecolor()) for axis in figure.axes[3:] for patch in axis.patches]
    assert faces.count(palette.TARGET) == 1
    known = {palette.TARGET, palette.RISE, palette.OWN, palette.PALE}
    assert set(faces) <= known


#: From linear sRGB to cones, and from their cube roots to Oklab (Ottosson 2020).
CONES = [(0.41222147, 0.53633254, 0.05144599), (0.2119035, 0.68069955, 0.10739696), (0.08830246, 0.28171884, 0.6299787)]
OKLAB = [
    (0.21045426, 0.79361779, -0.00407205),
    (1.9779985, -2.42859221, 0.45059371),
    (0.02590404, 0.78277177, -0.80867577),
]


def oklab(color):
    linear = np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)])
    return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ linear)


@pytest.mark.parametrize("count", [1, 5, 8, 16, 50])
def test_clusters_have_colors_of_their_own(count):
    colors = palette.cluster_colors(count)
    assert len(set(colors)) == count
    places = np.array([oklab(color) for color in colors])
    taken = np.array([oklab(color) for color in (*palette.EDITS, palette.TARGET, palette.MISSED)])
    assert np.linalg.norm(places[:, None] - taken[None], axis=-1).min() > 0.045
    if count <= 16:
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + np.eye(count)
        assert apart.min() > 0.03
