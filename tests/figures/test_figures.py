"""Every kind of figure, over the registry: a new kind is tested the moment it exists."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from partswap.drawing.figures import FIGURES
from partswap.drawing.figures.failures import worst
from partswap.drawing.figures.lines import fitted, width_of
from partswap.errors import SettingError, ShapeError, UnknownNameError
from partswap.grid import HeatMap


@pytest.fixture(scope="module")
def found(explanations):
    return explanations


@pytest.mark.parametrize("kind", FIGURES.names())
def test_a_kind_is_drawn_and_nothing_leaves_the_page(kind, found, options, tmp_path):
    figure = found[0].plot(tmp_path / "made.png", kind=kind, **options.get(kind, {}))
    pixels = np.asarray(Image.open(tmp_path / "made.png").convert("RGB"))
    assert pixels.std() > 20
    rows = (pixels < 250).any((1, 2))
    blank = np.diff(np.flatnonzero(rows), prepend=-1, append=len(rows)).max()
    assert blank < 0.15 * len(rows)  # no half-white pages
    figure.draw_without_rendering()
    page = figure.bbox.padded(1)
    for text in [*figure.texts, *(t for axis in figure.axes for t in axis.texts)]:
        box = text.get_window_extent()
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1


@pytest.mark.parametrize("kind", FIGURES.names())
def test_long_names_are_shortened_and_not_cut_off(kind, found, options):
    names = {str(found[0].query_class): "a word " * 40, str(found[0].target): "x" * 90}
    long = [replace(cf, source={**cf.source.to_dict(), "class_names": names}) for cf in found]
    more = dict(options.get(kind, {}))
    if "others" in more:
        more["others"] = [replace(cf, source=long[0].source) for cf in more["others"]]
    figure = long[0].plot(kind=kind, **more)
    figure.draw_without_rendering()
    for text in figure.texts:
        assert text.get_window_extent().x1 <= figure.bbox.x1 + 1


@pytest.mark.parametrize("kind", FIGURES.names())
def test_a_kind_needs_images_and_known_options(kind, found, options):
    with pytest.raises(SettingError, match="with_images"):
        replace(found[0], pictures=None).plot(kind=kind, **options.get(kind, {}))
    with pytest.raises(SettingError, match="no option 'nonsense'"):
        found[0].plot(kind=kind, nonsense=1)


def test_what_is_wrong_is_said(found):
    cf = found[0]
    with pytest.raises(UnknownNameError, match="edits"):
        cf.plot(kind="edit")
    with pytest.raises(SettingError, match="explainer="):
        cf.plot(kind="heat")
    with pytest.raises(SettingError, match="explainer="):
        cf.plot(kind="clusters")
    with pytest.raises(ShapeError, match="one number per cell"):
        cf.plot(kind="heat", maps={"a": HeatMap(np.zeros((2, 2)))})
    with pytest.raises(ShapeError, match="one per cell"):
        cf.plot(kind="clusters", labels=np.zeros((2, 2, 2), int))
    with pytest.raises(ShapeError, match="30 parts for"):
        cf.plot(kind="edits", parts=[None] * 30)
    with pytest.raises(SettingError, match="one query"):
        cf.plot(kind="methods", others=[replace(cf, target=5)])
    with pytest.raises(SettingError, match="titles"):
        cf.plot(kind="methods", titles=["a", "b", "c"])
    with pytest.raises(SettingError, match="count"):
        cf.plot(kind="failures", count=0)


def test_failures_are_chosen_by_the_rule(found):
    cf = replace(found[0], pixel=replace(found[0].pixel, flipped=True))
    stuck = replace(cf, flipped=False)
    unheld = replace(cf, pixel=replace(cf.pixel, flipped=False, predicted=0))
    more = {"edits": (*cf.edits, cf.edits[0]), "trace": (*cf.trace, cf.trace[-1])}
    longer = [replace(one, **more) for one in (cf, unheld, stuck)]
    assert worst([cf, unheld, stuck, *longer]) == [longer[2], stuck, longer[1], unheld]
    assert worst([cf, longer[0], replace(cf, pixel=None)]) == []


def test_one_that_is_not_reached_is_drawn_too(found):
    empty = replace(found[0], edits=(), trace=(), flipped=False, pixel=None)
    for kind in ("edits", "trace", "sheet", "methods", "failures"):
        assert empty.plot(kind=kind)
    with pytest.raises(SettingError, match="no edits"):
        empty.plot(kind="best")


def test_maps_are_of_the_grid(explainer, found, options):
    cf = found[0]
    maps = options["heat"]["maps"]
    assert {values.shape for values, _ in maps.values()} == {tuple(cf.grid)}
    assert [of for _, of in maps.values()] == ["query", "query", "distractor"]
    # Whose cells a map shows is said by the map, not by what it is called.
    gain = next(iter(maps.values()))
    drawn = [cf.plot(kind="heat", maps={name: gain}) for name in ("gain", "gain over all distractors")]
    pictures = [figure.axes[1].images[0].get_array() for figure in drawn]
    assert np.array_equal(*pictures)
    labels = options["clusters"]["labels"]
    assert labels.shape == (1 + cf.distractors, *cf.grid)
    assert labels.max() < 5
    with pytest.raises(SettingError, match="clusters"):
        explainer.clusters(cf, 0)


@pytest.mark.parametrize("text", ["", "one", "several words that are long", "y" * 200, "a $ b $ c"])
@pytest.mark.parametrize("lines", [1, 2, 3])
def test_texts_fit(text, lines):
    made = fitted(text, 1.0, 8.0, lines)
    assert len(made) <= lines
    assert all(width_of(line, 8.0) <= 1.0 for line in made)
    if width_of(text, 8.0) <= 1.0:
        assert "".join(made) == text
