"""The card that notebooks show: dark where they are, folded after some edits, in the words and colors of figures."""

import re
from html.parser import HTMLParser

import pytest

from partswap.drawing import palette
from partswap.drawing.html import DARK_PLACES, FOLDED_AFTER, page

#: How notebooks and pages say whether they are dark, as attributes of what is around a card.
DARK = {
    "JupyterLab": 'data-jp-theme-light="false"',
    "VS Code": 'class="vscode-dark"',
    "Colab": 'theme="dark"',
    "documentation": 'data-theme="dark"',
}
LIGHT = {"JupyterLab, light": 'data-jp-theme-light="true"', "anything else": ""}


class Folds(HTMLParser):
    """Reads which edits of a card are in sight, and which are folded away."""

    def __init__(self, text):
        super().__init__()
        self.depth, self.dot, self.open, self.folded = 0, False, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.depth += tag == "details"
        self.dot = dict(attrs).get("class") == "ps-dot"

    def handle_endtag(self, tag):
        self.depth -= tag == "details"

    def handle_data(self, data):
        if self.dot:
            (self.folded if self.depth else self.open).append(int(data))
        self.dot = False


def test_edits_after_the_sixth_are_folded_but_for_the_one_that_flips(long, adjacent):
    assert FOLDED_AFTER == 6
    folds = Folds(long._repr_html_())
    assert folds.open == [1, 2, 3, 4, 5, 6, 30]
    assert folds.folded == [*range(7, 30), 31, 32, 33]
    assert "23 more edits" in long._repr_html_()
    assert "<details" not in adjacent._repr_html_()


def test_it_speaks_as_figures_do(adjacent):
    card = adjacent._repr_html_()
    assert "->" not in card.replace("-->", "")
    assert "row 3, column 3 → row 4, column 4 of distractor 1" in card
    assert "row 4, column 3 → row 5, column 4 of distractor 2" in card
    assert "row 4, column 4 → row 1, column 1 of distractor 1" in card
    assert palette.TARGET in card
    assert palette.TARGET_DARK in card
    known = {value.lower() for value in vars(palette).values() if isinstance(value, str) and value.startswith("#")}
    grounds = {"#fff", "#181b21", "#f6f7f9", "#101216"}
    assert set(re.findall(r"#[0-9a-f]{3,6}\b", card)) - grounds <= known | set(palette.EDITS)


def test_outlines_and_badges_lie_in_their_cells(adjacent):
    width, height = adjacent.pictures.query.size
    svg = re.search(r"<svg.*?</svg>", adjacent._repr_html_())[0]
    cells = [adjacent.grid.box(edit.query_cell, (width, height)) for edit in adjacent.edits]
    rects = [
        {name: float(value) for name, value in re.findall(r' (x|y|width|height|stroke-width)="([\d.]+)"', rect)}
        for rect in re.findall(r"<rect [^>]*>", svg)
    ]
    assert len(rects) == 3 * len(cells)
    for number, rect in enumerate(rects):
        left, top, right, bottom = cells[number // 3]
        rim = rect.get("stroke-width", 0) / 2
        assert left - 0.1 <= rect["x"] - rim
        assert top - 0.1 <= rect["y"] - rim
        assert rect["x"] + rect["width"] + rim <= right + 0.15
        assert rect["y"] + rect["height"] + rim <= bottom + 0.15


@pytest.fixture(scope="module")
def grounds(chromium, adjacent):
    """Return background and texts' colors of a card in every place, as a browser computes them."""
    from playwright.sync_api import sync_playwright

    places = {**DARK, **LIGHT}
    body = "".join(f"<div {attribute}>{adjacent._repr_html_()}</div>" for attribute in places.values())
    read = """card => [getComputedStyle(card).backgroundColor,
        [...card.querySelectorAll("h4, small, b, figcaption, .ps-says")].map(e => getComputedStyle(e).color)]"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(color_scheme="dark")  # of the computer; a light notebook stays light on it
        tab.set_content(body)
        colors = [card.evaluate(read) for card in tab.query_selector_all(".ps-card")]
        tab.set_content(page(adjacent))
        colors.append(tab.query_selector(".ps-card").evaluate(read))
        browser.close()
    return dict(zip([*places, "a page of its own"], colors, strict=True))


def brightness(color):
    """Return the relative luminance of a color (WCAG 2)."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_it_is_dark_where_the_notebook_is_and_legible_on_both_grounds(grounds):
    assert len(DARK) == len(DARK_PLACES) - 1  # VS Code has two
    for name, (ground, texts) in grounds.items():
        dark = name in DARK or name == "a page of its own"
        assert (brightness(ground) < 0.1) == dark, name
        for text in texts:
            low, high = sorted((brightness(ground), brightness(text)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, text)
