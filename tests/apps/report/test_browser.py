"""The report's page in a real Chromium: desktop and phone, filters, address, dark mode, screen readers, no network."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from devices import DESKTOP, MOSTLY_DESKTOP, PHONE
from partswap.apps.report import write_report
from report_files import make_report

BOTH = pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
EVIL = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "a&b'\"", "${x}`")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of 60 queries by two methods, as a folder and as a file."""
    folder, report = tmp_path_factory.mktemp("pages"), make_report(60)
    return {"folder": write_report(report, folder / "page"), "file": write_report(report, folder / "page.html")}


class Visit:
    """A page, what it asked for and what went wrong on it."""

    def __init__(self, browser: Browser, path: Path, device: dict[str, object], fragment: str = "", **more: object):
        self.context = browser.new_context(**{**device, **more})
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        self.page.goto(path.as_uri() + fragment)
        expect(self.page.locator(".card").first).to_be_visible()

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def findings(self) -> list[str]:
        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]

    def count(self) -> str:
        return self.page.locator("#count").inner_text()

    def titles(self) -> list[str]:
        return self.page.locator(".cards .card h3").all_inner_texts()

    def open_filters(self) -> None:
        if self.page.locator("#more").is_visible():
            self.page.click("#more")


@BOTH
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_it_opens_from_a_disk_and_asks_for_nothing_else(kind, device, browser, pages):
    with Visit(browser, pages[kind], device) as visit:
        page = visit.page
        page.locator("#gallery").scroll_into_view_if_needed()
        expect(page.locator(".cards img").first).to_be_visible()
        page.wait_for_function("[...document.querySelectorAll('#example img')].every((i) => i.naturalWidth > 0)")
        assert all(url.startswith(("file:", "blob:", "data:")) for url in visit.asked)
        assert sum(url.startswith("file:") for url in visit.asked) == 1 or kind == "folder"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert visit.errors == []
        assert visit.count() == "60 images"


@BOTH
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screen_readers_and_weak_eyes(device, scheme, browser, pages):
    with Visit(browser, pages["file"], device, color_scheme=scheme) as visit:
        assert visit.findings() == []
        visit.open_filters()
        visit.page.select_option("[name=from]", "tern")
        visit.page.locator(".cards h3 button").first.click()
        expect(visit.page.locator("#detail .card")).to_be_visible()
        assert visit.findings() == []


@BOTH
def test_filters(device, browser, pages):
    with Visit(browser, pages["folder"], device) as visit:
        page = visit.page
        visit.open_filters()
        page.select_option("[name=from]", "tern")
        assert visit.count() == "15 of 60 images"
        assert set(visit.titles()) == {"tern → gull"}
        page.select_option("[name=edits]", "1")
        assert visit.count() == "5 of 60 images"  # of the second method: the first needs one more
        page.select_option("[name=flip]", "no")
        assert visit.count() == "0 of 60 images" or "not reached" in page.locator(".cards").inner_text()
        page.click(".chips >> text=Clear all")
        assert visit.count() == "60 images"
        page.select_option("[name=flip]", "no")
        assert visit.count() == "8 of 60 images"
        page.select_option("[name=flip]", "")
        page.fill("[name=q]", "0017")
        assert visit.count() == "1 of 60 images"
        page.fill("[name=q]", "red tail")  # words that belong to the first one only
        assert visit.count() == "1 of 60 images"
        page.fill("[name=q]", "no such bird")
        assert "Nothing matches" in page.locator(".cards").inner_text()
        page.fill("[name=q]", "")
        page.select_option("[name=part]", "tail")
        number = int(visit.count().split()[0])
        assert 0 < number < 60
        assert visit.errors == []


def test_methods_are_shown_side_by_side_or_alone(browser, pages):
    with Visit(browser, pages["folder"], DESKTOP) as visit:
        first = visit.page.locator(".cards .card").first
        expect(first.locator(".panel")).to_have_count(2)
        boxes = [first.locator(".panel").nth(k).bounding_box() for k in range(2)]
        assert boxes[0]["y"] == boxes[1]["y"]
        visit.page.uncheck("[name=shown][value='0']")
        expect(first.locator(".panel")).to_have_count(1)
        expect(first.locator(".head")).to_contain_text("partswap")
        assert "src=1" in visit.page.url


def test_sorting(browser, pages):
    with Visit(browser, pages["folder"], DESKTOP) as visit:
        page = visit.page
        page.uncheck("[name=shown][value='0']")
        seen = {}
        for sort in ("best", "worst", "most", "fewest"):
            page.select_option("[name=sort]", sort)
            seen[sort] = page.locator(".cards .card").first.locator(".head").inner_text()
        assert "not reached" in seen["worst"]
        assert "3 edits" in seen["most"]
        assert "1 edit" in seen["fewest"]
        assert "flips" in seen["best"]
        page.select_option("[name=sort]", "pair")
        assert visit.titles() == sorted(visit.titles())
        page.select_option("[name=sort]", "order")
        assert page.locator(".cards .card").first.get_attribute("data-case") == "0"


@MOSTLY_DESKTOP
def test_the_address_holds_the_state(device, browser, pages):
    with Visit(browser, pages["folder"], device) as visit:
        visit.open_filters()
        visit.page.select_option("[name=to]", "jay")
        visit.page.select_option("[name=sort]", "worst")
        visit.page.locator(".cards h3 button").first.click()
        number = visit.page.locator("#detail .card").get_attribute("data-case")
        fragment = "#" + visit.page.url.partition("#")[2]
    with Visit(browser, pages["folder"], device, fragment) as again:
        assert again.count() == "15 of 60 images"
        assert again.page.locator("[name=sort]").input_value() == "worst"
        assert again.page.locator("#detail .card").get_attribute("data-case") == number
        again.page.keyboard.press("Escape")
        again.page.wait_for_function("!location.hash.includes('case=')")  # a dialog tells a little later that it closed
        again.page.evaluate("location.hash = '#from=finch'")
        expect(again.page.locator("#count")).to_have_text("15 of 60 images")
        assert again.page.locator("[name=from]").input_value() == "finch"
        again.page.evaluate("location.hash = '#sort=nonsense&edits=%%%&src=77&from=nobody'")
        expect(again.page.locator("#count")).to_have_text("0 of 60 images")
        assert again.errors == []


def test_the_map_and_the_charts_filter(browser, pages):
    with Visit(browser, pages["folder"], DESKTOP) as visit:
        page = visit.page
        page.locator(".pairs tbody th button").first.click()
        assert visit.count() == "15 of 60 images"
        page.locator(".pairs tbody tr[data-on] th button").click()  # again: lets go
        assert visit.count() == "60 images"
        page.wait_for_timeout(300)  # the map is drawn anew a moment after the gallery
        page.locator(".flow .arrow .reach").first.dispatch_event("click")
        assert visit.count() == "15 of 60 images"
        page.click(".chips >> text=Clear all")
        page.locator(".chart .hit").first.click()
        assert "edits=1" in page.url
        page.locator(".chip").click()
        page.locator(".bars button").first.click()
        assert "part=" in page.url
        page.locator(".findings a").first.click()
        assert visit.errors == []


def test_dark_mode_follows_the_system_and_the_button(browser, pages):
    paper = "getComputedStyle(document.body).backgroundColor"
    with Visit(browser, pages["file"], DESKTOP, color_scheme="light") as light:
        bright = light.page.evaluate(paper)
        light.page.click("#theme")
        dark = light.page.evaluate(paper)
        assert dark != bright
        light.page.reload()
        assert light.page.evaluate(paper) == dark
    with Visit(browser, pages["file"], DESKTOP, color_scheme="dark") as night:
        assert night.page.evaluate(paper) == dark


def test_the_keyboard_alone_is_enough(browser, pages):
    with Visit(browser, pages["folder"], DESKTOP) as visit:
        page = visit.page
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "q"
        page.keyboard.type("gull")
        expect(page.locator("#count")).to_have_text("30 of 60 images")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.cards h3 button')"):
                break
        page.keyboard.press("Enter")
        expect(page.locator("#detail .place")).to_have_text("1 of 30")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#detail .place")).to_have_text("2 of 30")
        page.keyboard.press("Escape")
        expect(page.locator("#detail")).to_be_hidden()
        assert visit.errors == []


def test_words_and_the_pixel_check_are_shown(browser, pages):
    with Visit(browser, pages["file"], DESKTOP, "#sort=order&src=0") as visit:
        first = visit.page.locator(".cards .card").first
        expect(first.locator(".words")).to_have_text("Its tail would have to be <b>red</b>.")
        expect(first.locator(".pixels")).to_contain_text("Holds in pixels")
        expect(first.locator(".pixels")).to_contain_text("5 % → 61 %")
        expect(visit.page.locator("[name=pix]")).to_be_visible()


def test_only_what_is_near_the_screen_is_in_the_page(browser, tmp_path):
    page = write_report(make_report(400, methods=("partswap",)), tmp_path / "page.html")
    with Visit(browser, page, DESKTOP) as visit:
        assert visit.page.locator(".cards .card").count() < 100
        visit.page.click("#all")
        assert visit.page.locator(".cards .card").count() < 100
        middle = visit.page.locator(".cards .chunk").nth(15)
        middle.scroll_into_view_if_needed()
        expect(middle.locator(".card")).to_have_count(12)
        visit.page.locator("#metrics").scroll_into_view_if_needed()
        last = visit.page.locator(".cards .chunk").last.locator(".card").first
        expect(last).to_be_attached()
        expect(middle.locator(".card")).to_have_count(0)
        assert visit.page.locator(".cards .card").count() < 100


def test_names_that_hold_html_are_harmless(browser, tmp_path):
    for kind in ("page.html", "folder"):
        path = write_report(make_report(12, classes=EVIL), tmp_path / kind)
        with Visit(browser, path, DESKTOP, "#sort=order") as visit:
            assert visit.titles()[0] == f"{EVIL[0]} → {EVIL[1]}"
            visit.page.select_option("[name=from]", EVIL[1])
            assert visit.count() == "3 of 12 images"
            visit.page.reload()
            assert visit.count() == "3 of 12 images"
            visit.page.locator(".findings a").last.click()
            assert visit.page.locator("img[src=x]").count() == 0
            assert visit.errors == []


def test_it_prints(browser, pages, tmp_path):
    with Visit(browser, pages["file"], DESKTOP) as visit:
        visit.page.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
        assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") > 1
        visit.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert visit.page.locator(".cards .card").count() == 36
        assert "first 36 of 60" in visit.page.locator(".printed").text_content()
        visit.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        expect(visit.page.locator(".cards .chunk").first.locator(".card")).to_have_count(12)
