"""What single kinds of figures say, and what they leave out."""

from dataclasses import replace

import numpy as np
import pytest

from partswap.grid import HeatMap


def written(figure):
    artists = [*figure.texts, *(text for axis in figure.axes for text in axis.texts)]
    return " ".join(" ".join(artist.get_text() for artist in artists).split())


def test_the_first_edit_is_not_captioned_with_what_is_known_of_all(adjacent):
    assert "whole network" in written(adjacent.plot())
    text = written(adjacent.plot(kind="best"))
    assert "ixels" not in text
    assert "First of 4 edits" in text
    assert "still says Plain Finch" in text
    alone = replace(adjacent, edits=adjacent.edits[:1], trace=adjacent.trace[-1:])
    assert "In pixels the whole network" in written(alone.plot(kind="best"))


def test_failures_are_failures_only(explanations, stuck, long):
    fine = replace(explanations[0], pixel=replace(explanations[0].pixel, flipped=True))
    text = written(fine.plot(kind="failures", others=[stuck, long]))
    assert "1 of 3 explanations fails" in text
    assert "1. " in text
    assert "2. " not in text
    assert "no flip after" in text
    assert "0 of 1 explanations fail" in written(fine.plot(kind="failures"))
    many = fine.plot(kind="failures", others=[stuck] * 3, count=2)
    assert "3 of 4 explanations fail; the worst 2" in written(many)


@pytest.mark.parametrize("width", [None, "column"])
def test_every_map_has_a_legend_with_its_ends(width, explanations):
    rise, fall = np.linspace(0.25, 1.5, 49).reshape(7, 7), np.linspace(-3, 0, 49).reshape(7, 7)
    maps = {"one that has a name of more than a line": HeatMap(rise), "two": HeatMap(fall, "distractor")}
    figure = explanations[0].plot(kind="heat", maps=maps, width=width)
    drawn = [text.get_text() for text in figure.texts]
    assert {"0.25", "1.5", "-3", "0"} <= set(drawn)
    scales = [axis for axis in figure.axes if axis.images and axis.images[0].get_array().shape[:2] == (1, 128)]
    assert len(scales) == len(maps)
    if width is None:  # in one row, and there at one height
        assert len({scale.get_position().y0 for scale in scales}) == 1


def test_figures_speak_of_one_kind_of_thing_in_one_style(adjacent):
    """The trace has the heading of the others, its texts are as large, its pictures as wide."""
    edits, trace = adjacent.plot(kind="edits"), adjacent.plot(kind="trace")
    assert edits.texts[0].get_text() == trace.texts[0].get_text()
    assert edits.texts[0].get_fontsize() == trace.texts[0].get_fontsize()
    wide = [figure.axes[0].get_position().width * figure.get_size_inches()[0] for figure in (edits, trace)]
    assert wide[0] == pytest.approx(wide[1])
