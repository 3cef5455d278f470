"""Figures for print: as wide as asked for, text legible there, fonts that journals take."""

import pytest
from matplotlib import rc_context
from matplotlib.text import Text

from partswap.drawing.figures import FIGURES
from partswap.errors import SettingError

#: Points in print below which text is hard to read.
LEAST = 7.0


def seen(figure):
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("kind", FIGURES.names())
def test_a_figure_is_as_wide_as_asked_for_and_its_text_is_legible_there(kind, width, explanations, options):
    figure = explanations[0].plot(kind=kind, width=width, **options.get(kind, {}))
    assert figure.get_size_inches()[0] == {"column": 3.25, "page": 6.875}[width]
    assert min(text.get_fontsize() for text in seen(figure)) >= LEAST
    figure.draw_without_rendering()
    page = figure.bbox.padded(1)
    boxes = [text.get_window_extent() for text in figure.texts if text.get_text().strip()]
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)
    letters = [box.shrunk(0.98, 0.7) for box in boxes]  # boxes of lines are higher than their letters
    for number, box in enumerate(letters):
        assert not any(box.overlaps(other) for other in letters[:number])


@pytest.mark.parametrize("width", [None, "column", "page"])
def test_a_trace_of_33_edits_is_legible(width, long):
    figure = long.plot(kind="trace", width=width)
    figure.draw_without_rendering()
    rows = [axis for axis in figure.axes if axis.patches and not axis.images]
    assert [axis.texts[0].get_text() for axis in rows] == [f"{k}" for k in range(34)]
    boxes = [axis.texts[0].get_window_extent() for axis in rows]
    boxes += [text.get_window_extent() for text in figure.texts if "%" in text.get_text()]
    for number, box in enumerate(boxes):
        assert not any(box.shrunk(1, 0.8).overlaps(other.shrunk(1, 0.8)) for other in boxes[:number])
    assert min(text.get_fontsize() for text in seen(figure)) >= LEAST


@pytest.mark.parametrize("width", ["colum", 0, 200, True, None])
def test_a_width_is_checked(width, explanations):
    if width is None:
        assert explanations[0].plot(width=width).get_size_inches()[0] > 6
        assert explanations[0].plot(width=4.8).get_size_inches()[0] == 4.8
        return
    with pytest.raises(SettingError, match="width is"):
        explanations[0].plot(width=width)


@pytest.mark.parametrize("kind", ["best", "trace"])
def test_fonts_are_type_42_in_pdf_and_text_in_svg_whatever_the_user_s_settings(kind, explanations, tmp_path):
    cf = explanations[0]
    with rc_context({"pdf.fonttype": 3, "svg.fonttype": "path"}):
        figure = cf.plot(tmp_path / "a.pdf", kind=kind, width="column")
        figure.savefig(tmp_path / "b.pdf")
        cf.plot(tmp_path / "a.svg", kind=kind, width="column")
        figure.savefig(tmp_path / "b.svg")
    for name in "ab":
        pdf = (tmp_path / f"{name}.pdf").read_bytes()
        assert b"/FontFile2" in pdf
        assert b"/Type3" not in pdf
        svg = (tmp_path / f"{name}.svg").read_text()
        assert f">{cf.class_name(cf.query_class)}" in svg
        assert "<text" in svg
