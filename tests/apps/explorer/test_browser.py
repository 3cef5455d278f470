"""The explorer in a real Chromium: choose, slide, point, click, drop, share, copy, download; desktop and phone."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect

from devices import DESKTOP, MOSTLY_IN_DESKTOP_BROWSER, PHONE
from partswap import Counterfactual, aviary
from partswap.apps.explorer import server
from partswap.apps.explorer.server import ExplorerState, make_app
from partswap.apps.explorer.view import View, read_view
from partswap.apps.security import served_app
from partswap.utils.cancel import CancelledError

#: Machines can be busy.
SLOW = 60_000


@pytest.fixture
def base(state: ExplorerState) -> Iterator[str]:
    with served_app(make_app(state)) as address:
        yield address


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def context(request: pytest.FixtureRequest, browser: Browser, base: str) -> Iterator[BrowserContext]:
    made = browser.new_context(**request.param, accept_downloads=True)
    made.grant_permissions(["clipboard-read", "clipboard-write"], origin=base)
    made.set_default_timeout(SLOW)
    outside: list[str] = []
    made.on("request", lambda asked: None if asked.url.startswith(base) else outside.append(asked.url))
    made.touch = request.param is PHONE
    yield made
    made.close()
    assert outside == []  # no request leaves the machine


@pytest.fixture
def page(context: BrowserContext, base: str) -> Iterator[Page]:
    errors: list[str] = []
    opened = context.new_page()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.goto(base)
    opened.expected = ()
    yield opened
    # A refused upload is told in the page, and by the browser in its console.
    assert [error for error in errors if "422" not in error or "refused" not in opened.expected] == []


def press(page: Page, where: str) -> None:
    place = page.locator(where).first
    place.tap() if page.context.touch else place.click()


def unfold(page: Page) -> None:
    """Show the sliders that are folded."""
    if page.locator("#more").get_attribute("open") is None:
        press(page, "#more summary")


def slide(page: Page, name: str, value: str) -> None:
    """Move a slider as a hand does: the value, then the event."""
    before = page.evaluate("document.querySelector('.verdict')")
    assert before is not None
    page.evaluate(
        """([name, value]) => new Promise((done) => {
            document.addEventListener('shown', done, { once: true });
            const slider = document.querySelector(`#s-${name}`);
            slider.value = value;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
        })""",
        [name, value],
    )


def view_of(page: Page) -> View:
    query = page.url.partition("?")[2]
    from urllib.parse import parse_qsl

    return read_view(dict(parse_qsl(query, keep_blank_values=True)))


def probability(page: Page) -> float:
    return float(page.locator("#probability").get_attribute("data-value"))


def result_text(page: Page) -> str:
    """Return what the page says once the pixel check is there, too."""
    expect(page.locator("#pasted figcaption")).to_be_visible()
    return page.locator("#result").inner_text()


def findings(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_slide_share_and_reload(page, state, base):
    assert findings(page) == []
    assert fits(page)
    slide(page, "lam", "1.5")
    slide(page, "beam", "2")
    view = view_of(page)
    assert (view.lam, view.beam) == (1.5, 2)
    cf = state.service.solve(view)
    assert page.locator("ol.swaps li").count() == len(cf)
    assert probability(page) == pytest.approx(cf.probability)
    assert page.locator("#query .mark").count() == len(cf)
    # The address is the whole state: opened again, and by someone else, it is the same view.
    text = result_text(page)
    page.reload()
    assert result_text(page) == text
    assert page.locator("#s-lam").input_value() == "1.5"
    press(page, "#share")
    expect(page.locator("#notice")).to_contain_text("Link copied")
    other = page.context.new_page()
    other.goto(page.evaluate("navigator.clipboard.readText()"))
    assert result_text(other) == text
    other.close()


@MOSTLY_IN_DESKTOP_BROWSER
def test_the_explorer_is_told_which_slider_the_hand_is_on(page):
    unfold(page)
    with page.expect_response(re.compile(r"/hint\?.*slider=lam$")) as told:
        page.focus("#s-lam")  # by keyboard, or touched; a mouse need not even press
    assert told.value.status == 204
    if not page.context.touch:
        with page.expect_response(re.compile(r"slider=beam$")):
            page.hover("#s-beam")
    with page.expect_response(re.compile(r"lam=1\.5&slider=")):  # and again from where it was moved to
        slide(page, "lam", "1.5")


@MOSTLY_IN_DESKTOP_BROWSER
def test_only_the_latest_position_is_shown(page, state):
    """Positions that were passed on the way are dropped, and the last one is what one sees."""
    page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener('shown', done, { once: true });
            const slider = document.querySelector('#s-lam');
            for (const value of [0.1, 0.5, 0.9, 1.3, 1.9]) {
                slider.value = value;
                slider.dispatchEvent(new Event('input', { bubbles: true }));
            }
        })"""
    )
    assert view_of(page).lam == 1.9
    assert probability(page) == pytest.approx(state.service.solve(view_of(page)).probability)


def test_point_click_and_undo(page, state):
    cell = "#query .cell[data-cell='24']"
    expect(page.locator("#cell")).to_be_hidden()  # no empty box
    press(page, cell)
    expect(page.locator("#cell .choice").first).to_be_visible()
    assert page.locator("#cell .choice").count() >= 7
    assert findings(page) == []
    press(page, "[data-close]")
    expect(page.locator("#cell")).to_be_hidden()
    press(page, cell)
    press(page, "#cell .choice")
    expect(page.locator(".mode")).to_contain_text("Your own swaps")
    view = view_of(page)
    assert len(view.swaps) == 1
    assert probability(page) == pytest.approx(state.service.solve(view).probability)
    assert page.locator("#s-lam").is_disabled()
    page.locator("#query .cell[data-cell='10']").dispatch_event("click")
    expect(page.locator("#cell")).to_contain_text("Row 2, column 4")
    press(page, "#cell .choice")
    expect(page.locator("ol.swaps li")).to_have_count(2)
    assert findings(page) == []
    assert fits(page)
    press(page, "text=Undo")
    expect(page.locator("ol.swaps li")).to_have_count(1)
    assert view_of(page) == view
    press(page, "text=Back to what was found")
    expect(page.locator(".mode")).to_have_count(0)
    expect(page.locator("#s-lam")).to_be_enabled()


def test_choose_an_image_and_another_class(page, state):
    press(page, "#choose")
    expect(page.locator(".thumbs li").first).to_be_visible()
    assert findings(page) == []
    press(page, ".thumbs li:nth-child(3) a")
    page.wait_for_url(re.compile(r"i=2"))
    first = state.service.with_defaults(View(image=2))
    assert view_of(page).image == 2
    others = [
        k
        for k, _ in state.service.top_classes(first)
        if k not in (first.target, state.service.solve(first).query_class)
    ]
    wanted = next(k for k in others if state.service.correct_images.get(k))
    press(page, f".guesses a:has-text('{state.service.class_name(wanted)}')")
    page.wait_for_url(re.compile(rf"t={wanted}(&|$)"))
    assert state.service.class_name(wanted) in page.locator("h1").inner_text()
    page.select_option("select[name=m]", "goyal")
    page.wait_for_url(re.compile("m=goyal"))
    assert page.locator("#s-beam").is_disabled()


def test_drop_an_image(page, state):
    out = io.BytesIO()
    aviary.draw(5, 4321).image.save(out, "PNG")
    press(page, "#choose")
    page.set_input_files("#file", {"name": "bird.png", "mimeType": "image/png", "buffer": out.getvalue()})
    page.wait_for_url(re.compile("u=[0-9a-f]{24}"))
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("#query image")).to_have_attribute("href", re.compile("[0-9a-f]{24}.jpg$"))
    press(page, "#choose")
    page.expected = ("refused",)
    page.set_input_files("#file", {"name": "bird.png", "mimeType": "image/png", "buffer": b"not an image"})
    expect(page.locator("dialog #refused")).to_contain_text("cannot be read as an image")
    expect(page.locator("dialog #refused")).to_be_visible()
    assert findings(page) == []


def test_an_image_is_dropped_onto_the_page(page):
    page.evaluate(
        """async () => {
            const canvas = new OffscreenCanvas(120, 120);
            canvas.getContext('2d').fillRect(20, 20, 60, 60);
            const file = new File([await canvas.convertToBlob()], 'a.png', { type: 'image/png' });
            const data = new DataTransfer();
            data.items.add(file);
            document.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.wait_for_url(re.compile("u=[0-9a-f]{24}"))


@MOSTLY_IN_DESKTOP_BROWSER
def test_python_is_copied(page):
    press(page, "#python")
    expect(page.locator("#notice")).to_contain_text("Python copied")
    assert "explainer.explain(" in page.evaluate("navigator.clipboard.readText()")


@MOSTLY_IN_DESKTOP_BROWSER
def test_download(page, state, tmp_path: Path):
    slide(page, "lam", "0.8")
    with page.expect_download() as download:
        press(page, "#json")
    download.value.save_as(tmp_path / "cf.json")
    assert Counterfactual.from_dict(json.loads((tmp_path / "cf.json").read_text())).edits
    assert Counterfactual.load(tmp_path / "cf.json").edits == state.service.solve(view_of(page)).edits
    with page.expect_download() as download:
        press(page, "#png")
    download.value.save_as(tmp_path / "cf.png")
    assert min(Image.open(tmp_path / "cf.png").size) > 200


def test_methods_side_by_side(page):
    press(page, "text=Methods side by side")
    expect(page.locator(".methods article").first).to_be_visible(timeout=SLOW)
    assert "compare=1" in page.url
    expect(page.locator("#compare-title")).to_be_in_viewport()
    assert findings(page) == []
    assert fits(page)


@MOSTLY_IN_DESKTOP_BROWSER
def test_the_keyboard_alone_is_enough(page):
    unfold(page)
    page.locator("#s-beam").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("beam=7"))
    page.locator("#query .cell").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name=re.compile("^Row 2, column 2"))).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cell")).to_contain_text("Row 2, column 2")
    expect(page.locator("#cell .choice").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".mode")).to_contain_text("Your own swaps")
    expect(page.locator("#s-beam")).to_be_disabled()


@MOSTLY_IN_DESKTOP_BROWSER
def test_arrow_keys_stay_in_the_row(page):
    cells = page.locator("#query .cell")
    cells.nth(6).focus()  # the last of the first row
    page.keyboard.press("ArrowRight")
    expect(cells.nth(6)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(cells.nth(13)).to_be_focused()
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    expect(cells.nth(7)).to_be_focused()


def test_a_cell_says_its_swap_and_the_verdict_is_announced(page, state):
    cf = state.service.solve(state.service.with_defaults(View()))
    name, example = cf.grid.place(cf.edits[0].query_cell).capitalize(), cf.edits[0].distractor_image + 1
    cell = page.locator(f"#query .cell[data-cell='{cf.edits[0].query_cell}']")
    expect(cell).to_have_accessible_name(re.compile(rf"^{name}: swap 1, for example {example} of .*, row \d"))
    announcer = page.locator("#announcer")
    assert announcer.get_attribute("role") == "status"
    slide(page, "edits", "1")
    expect(announcer).to_contain_text(" ".join(page.locator("h1").inner_text().split()))
    # Nothing else speaks at the same time.
    assert page.locator("output, #result [aria-live], #gallery[aria-live]").count() == 0
    for label in page.locator(".slider").all():
        assert label.locator("input").get_attribute("aria-valuetext")
        assert label.locator(".value").get_attribute("aria-hidden") == "true"


def test_before_and_after(page):
    picture = page.locator("#query image")
    before = picture.get_attribute("href")
    expect(page.locator("#pasted img")).to_be_visible()
    press(page, "[data-after='1']")
    expect(picture).to_have_attribute("href", re.compile("^/composite.png"))
    expect(page.get_by_role("button", name="After")).to_have_attribute("aria-pressed", "true")
    slide(page, "edits", "1")  # it stays what it is while sliders move
    expect(picture).to_have_attribute("href", re.compile("^/composite.png.*edits=1"))
    press(page, "[data-after='0']")
    expect(picture).to_have_attribute("href", before)


SIZES = [(320, 640), (390, 780), (768, 1024), (844, 390), (1024, 768), (1440, 900), (1920, 1080)]


@pytest.mark.parametrize("page_path", ["", "?n=2&m=scout"], ids=["clear", "hard"])
def test_swaps_and_composite_stand_beside_the_image_or_right_under_it(browser, base, page_path):
    page = browser.new_page()
    page.goto(f"{base}/{page_path}")
    expect(page.locator("#pasted img")).to_be_visible()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert fits(page), width
        query, swaps, pasted, controls = (
            page.locator(where).first.bounding_box() for where in ("#query", ".swaps", "#pasted", "#controls")
        )
        if width < 640:
            assert swaps["y"] > query["y"] + query["height"]
            assert swaps["y"] - (query["y"] + query["height"]) < 150
            assert pasted["y"] < controls["y"]
        else:
            assert swaps["x"] >= query["x"] + query["width"]
            assert swaps["y"] < query["y"] + query["height"] / 2
            assert pasted["x"] >= query["x"] + query["width"]
        narrow = page.locator(".swaps .after").evaluate_all("all => Math.min(...all.map(e => e.clientWidth))")
        assert narrow >= 60, (width, narrow)
        over = page.locator(".swaps .after").evaluate_all(
            "all => Math.max(...all.map(e => e.scrollWidth - e.clientWidth))"
        )
        assert over <= 1, (width, over)  # and none runs out of its card
    page.close()


def test_header_and_examples_take_one_row_each(browser, base, state):
    page = browser.new_page()
    page.goto(f"{base}/?{state.service.examples[-1].view.query()}")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert page.locator("header").bounding_box()["height"] < 60, width
        tops = page.locator(".intro nav > *").evaluate_all("all => all.map(e => e.offsetTop)")
        assert len(tops) == 4
        assert len(set(tops)) == 1, width
    page.close()


def test_a_long_list_of_swaps_is_folded(browser, base, state):
    long = next(
        one
        for k in range(len(state.service.labels))
        if len(
            state.service.solve(
                one := state.service.with_defaults(View(image=k, method="goyal", lam=0.0, distractors=1))
            )
        )
        > 4
    )
    page = browser.new_page()
    page.goto(f"{base}/?{long.query()}")
    assert page.locator("ol.swaps li").count() == len(state.service.solve(long))
    assert page.locator("ol.swaps li:visible").count() == 4
    page.click("details.rest summary")
    assert page.locator("ol.swaps li:visible").count() == len(state.service.solve(long))
    page.close()


@MOSTLY_IN_DESKTOP_BROWSER
def test_a_long_search_shows_progress_and_can_be_stopped(page, state, monkeypatch):
    solve, ended = state.service.solve, []

    def long(view: View) -> Counterfactual:
        if view.edits != 2:
            return solve(view)
        try:
            for k in range(3000):
                state.service.cancel.check(k // 50)
                time.sleep(0.01)
        except CancelledError:
            ended.append(view)
            raise
        return solve(view)

    monkeypatch.setattr(state.service, "solve", long)
    heading = page.locator("h1").inner_text()
    page.evaluate(
        """() => {
            const slider = document.querySelector('#s-edits');
            slider.value = 2;
            slider.dispatchEvent(new Event('input', { bubbles: true }));
        }"""
    )
    expect(page.locator("#progress")).to_contain_text(re.compile(r"Searching: \d+ s, sets of \d+ swaps"))
    assert findings(page) == []
    press(page, "#stop")
    expect(page.locator("#progress")).to_be_hidden()
    expect(page.locator("#result")).to_have_attribute("aria-busy", "false")
    assert page.locator("h1").inner_text() == heading
    assert page.locator("#s-edits").input_value() == "16"
    slide(page, "edits", "1")  # and the explorer goes on
    assert len(ended) == 1


@MOSTLY_IN_DESKTOP_BROWSER
def test_a_page_does_not_wait_for_a_long_search(page, state, base, monkeypatch):
    monkeypatch.setattr(server, "PAGE_SECONDS", -1)
    view = state.service.with_defaults(View(image=3))
    page.goto(f"{base}/?{view.query()}")
    expect(page.locator("#query")).to_be_visible()
    assert page.locator("ol.swaps li").count() == len(state.service.solve(view))
