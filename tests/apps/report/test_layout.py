"""How the report's page is laid out, in a real Chromium: nothing collapses, overlaps or is cut off, on paper either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from devices import PHONE
from partswap.apps.report import write_report
from partswap.apps.report.findings import findings
from partswap.results.counterfactual import PixelCheck
from report_files import explanation, make_report

WIDTHS = (390, 768, 1024, 1440, 1920)
#: A4 within the margins that the page sets for print, in CSS pixels.
A4 = 703
LONG = (
    "Golden-eyed Pied Flycatcher", "White-fronted Black-billed Tern", "Flame-fronted Azure Parakeet",
    "Patch-winged Rusty Jay", "Straight-billed Wader", "Mud Wader", "Plain Finch", "Ember-crowned Finch",
)  # fmt: skip
#: Several arrows into a class, out of a class, both ways, and within a column of the drawing.
PAIRS = ((0, 7), (1, 7), (7, 1), (2, 7), (3, 2), (2, 3), (4, 5), (5, 4), (6, 5), (0, 1), (1, 2), (6, 4), (0, 2))
THREE = ("goyal", "paper", "partswap")
NARROWEST = """() => Math.min(...[...document.querySelectorAll('.cards .what, .short .what, dialog[open] .what')]
  .filter((one) => one.textContent && one.getClientRects().length).map((one) => one.getBoundingClientRect().width))"""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of three methods, of images that are right and mistakes, with long names and with background."""
    report = make_report(52, methods=THREE, classes=LONG, pairs=PAIRS, mistakes=range(0, 52, 4), background=True)
    return write_report(report, tmp_path_factory.mktemp("three") / "page.html")


def opened(browser: Browser, path: Path, width: int = 1280, *, fragment: str = "") -> Page:
    """Return a page that has drawn everything."""
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    page.goto(path.as_uri() + fragment)
    expect(page.locator(".cards .card").first).to_be_visible()
    expect(page.locator(".map .pairs").first).to_be_attached()
    return page


def printed(page: Page) -> None:
    """Show a page as it is printed."""
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")


# -- text never breaks into letters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_the_text_of_a_swap_is_wide_enough_to_read(width, browser, three):
    page = opened(browser, three, width)
    assert page.evaluate(NARROWEST) >= 60
    page.locator(".cards h3 button").first.click()
    expect(page.locator("dialog .panel")).to_have_count(3)
    texts = page.locator("dialog .what").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    assert min(texts) >= 60
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()


def test_what_is_printed_is_wide_enough_to_read_and_fits_the_paper(browser, three):
    page = opened(browser, three, A4)
    printed(page)
    assert page.evaluate(NARROWEST) >= 60
    assert page.evaluate("document.documentElement.scrollWidth") == A4  # a wider page would be printed smaller
    cells = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"
    assert page.locator("table th, table td").evaluate_all(cells) == []
    tables = page.locator("table").evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")
    assert max(tables) <= A4
    words = page.locator(".pairs thead th:not(.part)").evaluate_all("all => all.map((one) => one.clientWidth)")
    assert min(words) >= 30
    page.close()


def test_names_under_pictures_and_in_tables_are_whole(browser, three):
    page = opened(browser, three, 390, fragment="#case=0")
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    expect(page.locator("dialog figcaption").first).to_be_visible()
    assert page.locator("figcaption").evaluate_all(cut) == []
    # A word is not broken in two: its letters stand in one line.
    broken = """(cells) => cells.flatMap((cell) => [...cell.querySelectorAll(':scope, a')].flatMap((one) =>
      [...one.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).flatMap((node) =>
        [...node.data.matchAll(/[A-Za-z]+/g)].filter((word) => {
          const range = document.createRange();
          range.setStart(node, word.index);
          range.setEnd(node, word.index + word[0].length);
          return new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 1;
        }).map((word) => word[0]))))"""
    assert page.locator(".mistakes th, .mistakes td").evaluate_all(broken) == []
    page.close()


def test_a_step_that_changes_something_reads_as_a_change(browser, tmp_path):
    cf = explanation(0, edits=1)
    close = replace(
        cf,
        before=replace(cf.before, target_probability=0.4691, original_class_probability=0.4726),
        trace=(replace(cf.trace[0], target_probability=0.4714),),
        pixel=PixelCheck(before=0.4691, after=0.4731, predicted=1, flipped=True),
    )
    page = opened(browser, write_report(make_report(1, methods=("partswap",), first=close), tmp_path / "page.html"))
    panel = page.locator(".cards .panel").first
    expect(panel.locator(".says")).to_have_text("before: says finch (47.3 %)")
    assert panel.locator(".p").all_inner_texts() == ["46.9 %", "47.1 %"]
    expect(panel.locator(".pixels")).to_contain_text("(tern 46.9 % → 47.3 %)")
    page.goto(write_report(make_report(1), tmp_path / "other.html").as_uri())  # no more digits than it takes
    assert page.locator(".cards .panel").first.locator(".p").all_inner_texts() == ["5 %", "45 %", "85 %"]
    page.close()


def test_what_is_printed_has_all_its_pictures_the_first_time(browser, three):
    page = opened(browser, three)
    seen = """() => {
      window.dispatchEvent(new Event("beforeprint"));
      const all = [...document.querySelectorAll(".cards img")];
      const loaded = all.filter((one) => one.complete && one.naturalWidth > 0).length;
      window.dispatchEvent(new Event("afterprint"));
      return [loaded, all.length];
    }"""
    page.wait_for_timeout(500)  # pictures are loaded ahead while nothing else is to be done
    loaded, pictures = page.evaluate(seen)
    assert loaded == pictures > 200
    page.close()


def test_edits_of_what_never_flips_are_no_average(browser, tmp_path):
    report = make_report(30, methods=("partswap",))
    page = opened(browser, write_report(report, tmp_path / "page.html"))
    row = page.locator("#map .pairs tbody tr", has_text="gull → jay")
    # Seven explanations, of 3, 1, 2, 3, 1, 2 and 3 edits; the second one was given up.
    assert row.locator("td.n").all_inner_texts()[1:3] == ["2.3", "86 %"]
    expect(page.locator("#map .pairs")).to_contain_text("Mean edits: of the explanations that flip.")
    for one in report.explanations:
        one["flipped"] = one["flipped"] and one["case"] % 4 == 1
    page.goto(write_report(report, tmp_path / "few.html").as_uri())
    expect(row.locator("td.n").nth(1)).to_have_text("\N{EN DASH}")
    assert page.locator(".findings li").first.inner_text().startswith("23 of 30 did not get there. The others take")
    assert page.locator("#map .flow svg text", has_text="\N{EN DASH}").count() == 3
    page.close()


def test_pairs_that_take_as_many_edits_are_not_ranked():
    report = make_report(60, methods=("partswap",), classes=LONG, pairs=PAIRS[:6])
    assert any("Furthest apart" in line for line in findings(report))
    for one in report.explanations:
        one["edits"] = one["edits"][:1]
    assert not any("Furthest apart" in line for line in findings(report))


# -- order ------------------------------------------------------------------------------------------------------------


def test_what_matters_comes_first(browser, three):
    page = opened(browser, three)
    sections = page.locator("main section[id]").evaluate_all("all => all.map((one) => one.id)")
    assert sections == ["short", "mistakes", "map", "gallery", "metrics", "charts"]
    links = page.locator(".bar [data-to]").evaluate_all("all => all.map((one) => one.dataset.to)")
    assert links == sections
    expect(page.locator(".cards .card")).to_have_count(12)  # the metrics are not far
    page.click("#all")
    expect(page.locator("#all")).to_be_hidden()
    assert page.locator(".cards .chunk").count() == 5
    page.close()


def test_five_metrics_are_shown_and_the_others_folded_in(browser, tmp_path):
    page = opened(browser, write_report(make_report(12), tmp_path / "page.html"))
    rows = page.locator("#metrics tbody tr:visible")
    expect(rows).to_have_count(5)
    assert rows.first.inner_text().startswith("Flip rate")
    page.click("#metrics summary")
    assert rows.count() > 8
    page.click("#metrics summary")
    printed(page)  # a fold cannot be opened on paper
    assert rows.count() > 8
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    expect(rows).to_have_count(5)
    page.close()


def test_what_is_wider_than_a_phone_says_so(browser, three):
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto(three.as_uri())
    for region in ("#metrics .scroll", "#map .pairs .scroll"):
        table = page.locator(region).first
        expect(table).to_have_attribute("data-more", "right")
        expect(page.locator(f".swipe:has(+ {region.split()[-1]})").first).to_be_visible()
        assert "gradient" in table.evaluate("(one) => getComputedStyle(one).maskImage")
        table.evaluate("(one) => { one.scrollLeft = one.scrollWidth; }")
        expect(table).to_have_attribute("data-more", "left")
    context.close()
    page = opened(browser, three, 1440)
    expect(page.locator("#metrics .scroll").first).to_have_attribute("data-more", "")
    expect(page.locator("#metrics .swipe").first).to_be_hidden()
    page.close()


# -- the drawing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [768, 1440])
def test_names_in_the_drawing_are_whole_and_numbers_stand_free(width, browser, three):
    page = opened(browser, three, width)
    drawing = page.locator("#map .flow")
    names = drawing.locator(".class text").evaluate_all(
        "all => all.map((one) => [...one.children].map((line) => line.textContent).join(' '))"
    )
    assert {name.replace("- ", "-") for name in names} == set(LONG)
    boxes = "all => all.map((one) => { const { x, y, width, height } = one.getBBox(); return [x, y, width, height]; })"
    for svg in drawing.locator("svg").all():
        labels, rects = svg.locator(".class text").evaluate_all(boxes), svg.locator(".class rect").evaluate_all(boxes)
        for label, rect in zip(labels, rects, strict=True):
            assert rect[0] <= label[0]
            assert label[0] + label[2] <= rect[0] + rect[2]
        numbers = svg.locator(".arrow text").evaluate_all(boxes)
        others = [*rects, *numbers]
        assert not [(a, b) for k, a in enumerate(numbers) for b in others[: len(rects) + k] if overlap(a, b)]
        width_of = svg.evaluate("(one) => one.viewBox.baseVal.width")
        ends = svg.locator("path.line").evaluate_all(boxes)
        assert all(x >= 0 and x + wide <= width_of for x, _, wide, _ in [*ends, *rects])
    total = drawing.locator(".arrow").count()
    assert drawing.locator(".arrow text").count() >= 0.9 * total  # in a tangle a number may have no room
    page.close()


def overlap(a: list[float], b: list[float]) -> bool:
    """Tell whether two boxes overlap by more than the air around letters."""
    air = 2
    return all(a[k] + air < b[k] + b[k + 2] and b[k] + air < a[k] + a[k + 2] for k in (0, 1))


# -- the large view ---------------------------------------------------------------------------------------------------


def test_back_closes_the_large_view_and_stays_on_the_page(browser, three):
    page = opened(browser, three)
    page.goto("about:blank")
    page.goto(three.as_uri() + "#flip=yes")
    page.locator(".cards h3 button").nth(1).click()
    expect(page.locator("dialog .card")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.go_back()
    expect(page.locator("dialog")).to_be_hidden()
    assert page.url == three.as_uri() + "#flip=yes"
    page.go_forward()
    expect(page.locator("dialog .place")).to_contain_text("3 of")
    page.click("[data-close]")
    expect(page.locator("dialog")).to_be_hidden()
    page.wait_for_function("!location.hash.includes('case=')")
    # Closing by button leaves nothing behind that Back would only seem to do.
    page.go_back()
    assert page.url == "about:blank"
    page.close()


def test_an_address_with_a_card_can_be_left_by_back(browser, three):
    page = browser.new_page()
    page.goto(three.as_uri() + "#case=3")
    expect(page.locator("dialog .card")).to_be_visible()
    page.go_back()
    expect(page.locator("dialog")).to_be_hidden()
    assert page.url.startswith(three.as_uri())
    page.close()


# -- what it says -----------------------------------------------------------------------------------------------------


def test_mistakes_and_nearest_classes_are_kept_apart(browser, three):
    page = opened(browser, three)
    rows = page.locator("#mistakes .lead-in tbody tr")
    assert rows.nth(0).locator("th, td").all_inner_texts()[:3] == [LONG[2], LONG[0], "21 of 30"]
    assert rows.count() == 2
    # The drawings: explained mistakes lead to the true class, images that are right to a nearest class.
    count = page.locator("#count")
    page.locator("#mistakes .map .pairs tbody th button").first.click()
    assert "is=wrong" in page.url
    cards = page.locator(".cards .card")
    expect(cards.first.locator(".kind")).to_contain_text("Mistake the model says")
    assert all("Mistake" in text for text in cards.all_inner_texts())
    page.locator("#map .map .pairs tbody th button").first.click()
    assert "is=right" in page.url
    assert page.locator(".cards .kind").count() == 0
    page.click(".chips >> text=Clear all")
    page.select_option("[name=is]", "wrong")
    expect(count).to_have_text("13 of 52 images")
    assert "mistakes" in page.locator(".chips").inner_text()
    titles = page.locator("#metrics h3").all_inner_texts()
    assert titles == ["Images the model gets right", "Images the model gets wrong, towards the true class"]
    assert page.locator(".facts").inner_text().split("\n")[:2] == ["39 images that are right", "13 mistakes"]
    page.close()


def test_only_mistakes_that_are_made_are_called_so(browser, tmp_path):
    page = opened(browser, write_report(make_report(12), tmp_path / "page.html"))
    takes = page.locator("#map .pairs tbody tr").evaluate_all(
        "all => all.map((one) => [...one.cells].map((c) => c.innerText))"
    )
    mistaken = {row[0]: row[4] for row in takes}
    assert mistaken == {
        "tern → gull": "never", "gull → jay": "never", "jay → finch": "never", "finch → tern": "never"
    }  # fmt: skip
    assert page.locator("#map .arrow.never").count() == 4
    expect(page.locator("#never")).to_contain_text("of these 4 pairs, the model ever takes the one for the other in 0")
    expect(page.locator("#mistakes [data-of=wrong]")).to_be_hidden()
    assert "onfusion" not in page.locator("body").inner_text()
    page.close()


def test_the_probability_is_counted_back_from_the_flip(browser, tmp_path):
    page = opened(browser, write_report(make_report(30), tmp_path / "page.html"))
    figure = page.locator(".chartbox", has_text="How the probability rises")
    points = figure.locator("circle title").evaluate_all("all => all.map((one) => one.textContent)")
    # Both methods end at 85 %, whether that takes them two edits or three; 4 of 30 are not reached.
    assert {"Goyal et al., at the flip: 85 %", "partswap, at the flip: 85 %"} <= set(points)
    assert figure.locator("svg text", has_text="flip").first.text_content() == "flip"
    expect(figure).to_contain_text("8 that do not flip are left out")
    page.close()


def test_swaps_are_told_in_the_words_of_a_reader(browser, three):
    page = opened(browser, three, fragment="#sort=order")
    texts = page.locator(".cards .part").all_inner_texts()
    assert "background" in texts
    assert any(text.startswith("background → ") for text in texts)
    assert not [text for text in texts if "\N{EN DASH}" in text or "←" in text]
    assert set(page.locator(".cards .swap .arrow").all_inner_texts()) == {"→"}
    page.goto(three.as_uri() + "#sort=order&src=2")
    # The first explanation swaps cell 0 of the query for cell 0 of a distractor on a grid of 4 x 4.
    expect(page.locator(".cards .swap").first).to_have_attribute("title", "row 1, column 1 → row 1, column 1")
    assert "←" not in page.locator("body").inner_text()
    page.close()


def test_examples_are_the_clearest_and_the_page_says_how_they_were_chosen(browser, three, tmp_path):
    report = make_report(30)
    page = opened(browser, write_report(report, tmp_path / "page.html"))
    best = next(k for k in report.clearest_first() if report.explanations[k]["source"] == 1)
    case = str(report.explanations[best]["case"])
    assert page.locator("#example .card").get_attribute("data-case") == case
    assert page.locator(".cards .card").first.get_attribute("data-case") == case
    expect(page.locator(".chosen-by")).to_contain_text("Chosen to be easy to read: at most 4 swaps")
    expect(page.locator("[name=sort] option").first).to_have_text("clearest first")
    page.close()
    page = opened(browser, three)  # one of each kind
    assert page.locator("#example .kind").count() == 1
    assert page.locator("#example .card").count() == 2
    page.close()
