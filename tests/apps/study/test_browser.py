"""A whole study in a real Chromium: desktop and phone, reloads, no connection, the keyboard alone, screen readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from devices import DESKTOP, PHONE
from partswap.apps.study.admin import set_password
from partswap.apps.study.server import Site, open_site
from partswap.apps.study.serving import served
from study_files import make_study


@pytest.fixture
def site(tmp_path: Path) -> Site:
    make_study(tmp_path, side=224, learning=2, questions=2, attention=1, least_seconds=0.3)
    return open_site(tmp_path, open_places=4)


@pytest.fixture
def base(site: Site) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.fixture
def errors() -> list[str]:
    return []


def opened(context: BrowserContext, link: str, errors: list[str]) -> Page:
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(link)
    return page


def number(page: Page) -> int:
    return int(page.locator("#step").get_attribute("data-step"))


def phase(page: Page) -> str:
    return str(page.locator("#step").get_attribute("data-phase"))


def opens(site: Site, step: int) -> bool:
    """Tell whether a step is the first of a lesson or test, before which some words stand."""
    known = site.steps_of(0)[step]
    return known.item == 0 and known.phase in ("learn", "test")


def ready(page: Page, step: int, site: Site | None = None) -> None:
    """Wait until a step can be answered; reads what stands before a part, if the site is given."""
    if site is not None and opens(site, step):
        page.locator(f"#step[data-step='{step}'] .opening a").click()
    expect(page.locator(f"#step[data-step='{step}'] button[name=choice]").first).to_be_enabled(timeout=15_000)


def choice_for(site: Site, step: int) -> str:
    known = site.steps_of(0)[step]
    return known.truth or known.choices[0]


def findings(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_whole_study_is_taken(device, browser, site, base, errors):
    context = browser.new_context(**device)
    outside: list[str] = []
    context.on("request", lambda request: None if request.url.startswith(base) else outside.append(request.url))
    page = opened(context, f"{base}/s/{site.database.add()}", errors)
    steps, looked = site.steps_of(0), set()
    for step in steps:
        if opens(site, step.number):
            expect(page.locator(f"#step[data-step='{step.number}'] .opening h1")).to_be_visible()
            assert findings(page) == []
        ready(page, step.number, site)
        assert phase(page) == step.phase
        if step.phase not in looked:
            looked.add(step.phase)
            assert findings(page) == []
            # Nothing sticks out to the side, and the answers can be seen without scrolling.
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            button = page.locator("button[name=choice]").last
            if step.shown:
                assert button.bounding_box()["y"] + button.bounding_box()["height"] <= device["viewport"]["height"]
                assert page.evaluate("[...document.images].every((i) => i.naturalWidth > 0)")
        button = page.locator(f"button[value='{choice_for(site, step.number)}']")
        button.tap() if device is PHONE else button.click()
    expect(page.locator("output")).to_be_visible(timeout=15_000)
    assert page.locator("output").inner_text() == site.database.everyone()[0]["code"]
    assert findings(page) == []
    assert outside == errors == []
    stored = site.database.all_answers()
    assert [row["choice"] for row in stored] == [choice_for(site, step.number) for step in steps]
    assert all(row["client_ms"] is not None and row["client_ms"] >= 0 for row in stored)
    learned = [row["client_ms"] for row, step in zip(stored, steps, strict=True) if step.phase == "learn"]
    assert all(ms >= 300 for ms in learned)
    context.close()


def test_the_keyboard_alone_is_enough(browser, site, base, errors):
    page = opened(browser.new_context(**DESKTOP), f"{base}/s/{site.database.add()}", errors)
    keys = {"A": "a", "B": "b", "unknown": "d", "next": "Enter"}
    for step in site.steps_of(0):
        if opens(site, step.number):
            expect(page.locator(f"#step[data-step='{step.number}'] .opening h1")).to_be_focused()
            page.keyboard.press("Enter")
        ready(page, step.number)
        if step.phase in ("consent", "test"):  # by the way a screen reader goes: to the button, and press it
            wanted = page.locator(f"button[value='{choice_for(site, step.number)}']")
            for _ in range(10):
                if wanted.evaluate("(b) => b === document.activeElement"):
                    break
                page.keyboard.press("Tab")
            assert wanted.evaluate("(b) => getComputedStyle(b).outlineStyle") == "solid"  # one sees where one is
            page.keyboard.press("Enter")
        else:
            page.keyboard.press(keys[choice_for(site, step.number)])
    expect(page.locator("output")).to_be_visible(timeout=15_000)
    assert len(site.database.all_answers()) == len(site.steps_of(0))
    assert errors == []


def test_a_new_step_is_announced(browser, site, base, errors):
    """The focus is on the heading of the new step, which a screen reader then reads."""
    page = opened(browser.new_context(**DESKTOP), f"{base}/s/{site.database.add()}", errors)
    ready(page, 0)
    page.click("button[value=agree]")
    ready(page, 1)
    assert page.evaluate("document.activeElement.tagName") == "H1"
    tree = page.locator("main").aria_snapshot()
    assert 'heading "How it works"' in tree
    assert 'button "Begin"' in tree


def test_a_reload_and_a_second_tab_go_on_where_it_was(browser, site, base, errors):
    context = browser.new_context(**DESKTOP)
    link = f"{base}/s/{site.database.add()}"
    page = opened(context, link, errors)
    for step in range(4):
        ready(page, step)
        page.click(f"button[value='{choice_for(site, step)}']")
    ready(page, 4)
    page.reload()
    ready(page, 4)
    second = opened(context, link, errors)
    ready(second, 4)
    second.click(f"button[value='{choice_for(site, 4)}']")
    ready(second, 5, site)
    # The first tab is behind: its answer is not stored again, and it catches up.
    page.click("button[name=choice] >> nth=-1")
    ready(page, 5, site)
    assert len(site.database.all_answers()) == 5
    assert site.database.all_answers()[4]["choice"] == choice_for(site, 4)
    assert errors == []


def test_an_answer_outlives_a_lost_connection_and_a_reload(browser, site, base, errors):
    context = browser.new_context(**DESKTOP)
    link = f"{base}/s/{site.database.add()}"
    page = opened(context, link, errors)
    for step in range(3):
        ready(page, step)
        page.click(f"button[value='{choice_for(site, step)}']")
    ready(page, 3)
    context.set_offline(True)
    page.click(f"button[value='{choice_for(site, 3)}']")
    expect(page.locator("#notice")).to_contain_text("No connection")
    assert findings(page) == []
    assert len(site.database.all_answers()) == 3
    context.set_offline(False)
    ready(page, 4)
    expect(page.locator("#notice")).to_be_hidden()
    # And with a reload in between: the answer waits in the browser.
    context.set_offline(True)
    page.click(f"button[value='{choice_for(site, 4)}']")
    expect(page.locator("#notice")).to_contain_text("No connection")
    page.close()
    context.set_offline(False)
    again = opened(context, link, errors)
    ready(again, 5, site)
    stored = site.database.all_answers()
    assert [row["choice"] for row in stored] == [choice_for(site, step) for step in range(5)]
    context.close()


def test_people_join_by_the_open_link(browser, site, base, errors):
    context = browser.new_context(**PHONE)
    page = opened(context, f"{base}/join?PROLIFIC_PID=p1&SESSION_ID=s1", errors)
    assert findings(page) == []
    page.click("button.main")
    ready(page, 0)
    assert site.database.everyone()[0]["name"] == "p1"
    page.goto(f"{base}/join")
    ready(page, 0)
    assert len(site.database.everyone()) == 1
    assert errors == []
    context.close()


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_administrators_page(device, browser, site, base, errors):
    password = set_password(site.database, None)
    context = browser.new_context(**device)
    page = opened(context, f"{base}/admin", errors)
    assert findings(page) == []
    page.fill("#password", password)
    page.click("button.main")
    page.fill("#count", "2")
    page.click("text=Make links")
    links = page.locator("textarea").input_value().split("\n")
    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.reload()  # which makes no new ones
    assert page.locator("textarea").input_value().split("\n") == links
    assert len(site.database.everyone()) == 2
    page.click("text=Administration")
    taker = opened(
        browser.new_context(**DESKTOP), links[0].replace("http://127.0.0.1", base.rpartition(":")[0]), errors
    )
    ready(taker, 0)
    taker.click("button[value=agree]")
    ready(taker, 1)
    # Progress is live: nobody reloads the page.
    expect(page.locator(".tiles li").nth(1)).to_have_text("1 under way", timeout=15_000)
    page.click("text=Pause recruiting")
    expect(page.locator("text=nobody new can join")).to_be_visible()
    page.locator("tbody tr").first.get_by_role("link", name="Delete participant").click()
    expect(page.locator("h1")).to_contain_text("Delete participant")
    assert findings(page) == []
    page.click("button.danger")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("status")).to_contain_text("are deleted")
    assert len(site.database.everyone()) == 1
    assert errors == []
    context.close()


SIDEWAYS = [{**PHONE, "viewport": {"width": width, "height": height}} for width, height in ((844, 390), (667, 375))]
SCREENS = [DESKTOP, PHONE, *SIDEWAYS, {**DESKTOP, "viewport": {"width": 1024, "height": 600}}]


def names_of(device: dict) -> str:
    return "{width}x{height}".format(**device["viewport"])


@pytest.mark.parametrize("device", SCREENS, ids=names_of)
def test_pictures_and_answers_are_whole_and_beside_each_other(device, browser, site, base, errors):
    """Nothing to scroll for; no name of a picture, and no button, lies on a picture."""
    context = browser.new_context(**device)
    site.answering = 1000.0
    page = opened(context, f"{base}/s/{site.database.add()}", errors)
    wide, high = page.evaluate("[window.innerWidth, window.innerHeight]")
    assert (wide, high) == tuple(device["viewport"].values())
    for step in site.steps_of(0)[:10]:
        ready(page, step.number, site)
        if step.shown:
            images = [one.bounding_box() for one in page.locator("main img").all()]
            others = [one.bounding_box() for one in page.locator("button[name=choice], figcaption, h1:visible").all()]
            for box in images + others:
                assert box["x"] >= 0
                assert box["y"] >= 0
                assert box["x"] + box["width"] <= wide
                assert box["y"] + box["height"] <= high
            assert min(box["width"] for box in images) >= min(wide, high) / 2
            assert not any(overlap(image, other) for image in images for other in others)
        page.click(f"button[value='{choice_for(site, step.number)}']")
    assert errors == []
    context.close()


def overlap(one: dict, other: dict) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


def test_the_seconds_before_going_on_are_counted_down(browser, tmp_path, errors):
    make_study(tmp_path, learning=2, questions=2, least_seconds=2.0)
    site = open_site(tmp_path)
    with served(site) as base:
        # The clock of the page stands still but for what the test lets pass.
        context = browser.new_context(**DESKTOP)
        page = context.new_page()
        page.clock.install()
        page.goto(f"{base}/s/{site.database.add()}")
        for step in range(5):
            ready(page, step)
            page.click(f"button[value='{choice_for(site, step)}']")
        button, status = page.locator("button[value=next]"), page.locator("[role=status]")
        expect(page.locator(".opening h1")).to_be_visible()
        page.clock.pause_at(page.evaluate("Date.now() + 1000"))
        # What is read before the pictures are shown does not count.
        page.clock.run_for(5000)
        page.locator(".opening a").click()
        expect(button).to_have_text("Go on 2")
        expect(status).to_have_text("You can go on in 2 s.")
        assert button.is_disabled()
        shape = button.bounding_box()
        page.clock.run_for(1100)
        expect(button).to_have_text("Go on 1")
        assert button.is_disabled()
        assert button.bounding_box() == shape
        page.clock.run_for(1000)
        expect(button).to_have_text("Go on")
        expect(button).to_be_enabled()
        expect(status).to_have_text("You can go on.")
        assert button.bounding_box() == shape
        context.close()


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_everything_works_without_javascript(device, browser, site, base):
    context = browser.new_context(**device, java_script_enabled=False)
    site.answering = 1000.0
    page = context.new_page()
    page.goto(f"{base}/join?PROLIFIC_PID=p1")
    page.click("button.main")
    for step in site.steps_of(0):
        page.wait_for_load_state()  # with its style
        assert (number(page), phase(page)) == (step.number, step.phase)
        if opens(site, step.number):
            expect(page.locator("#step button").first).to_be_hidden()
            page.click(".opening a")
        expect(page.locator(".opening:visible")).to_have_count(0)
        assert all(image.is_visible() for image in page.locator("main img").all())
        page.wait_for_timeout(200)  # half of what a lesson's pictures are looked at, which the server waits for
        page.click(f"button[value='{choice_for(site, step.number)}']")
    assert page.locator("output").inner_text() == site.database.everyone()[0]["code"]
    password = set_password(site.database, None)
    page.goto(f"{base}/admin")
    page.fill("#password", password)
    page.click("button.main")
    page.fill("#count", "2")
    page.click("text=Make links")
    assert len(page.locator("textarea").input_value().split("\n")) == 2
    page.reload()
    page.click("a:text('Administration')")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.click("text=Pause recruiting")
    expect(page.locator("text=nobody new can join")).to_be_visible()
    page.locator("tbody tr").first.get_by_role("link", name="Delete participant").click()
    expect(page.locator("h1")).to_contain_text("Delete participant")
    assert len(site.database.everyone()) == 3
    page.click("button.danger")
    expect(page.locator("tbody tr")).to_have_count(2)
    assert len(site.database.everyone()) == 2
    context.close()


def test_whoever_runs_a_study_tries_it_in_the_browser(browser, site, base, errors):
    password = set_password(site.database, None)
    context = browser.new_context(**PHONE)
    page = opened(context, f"{base}/admin", errors)
    page.fill("#password", password)
    page.click("button.main")
    with context.expect_page() as tab:
        page.click("button:text('Try it')")
    trial = tab.value
    site.answering = 1000.0
    for step in site.steps_of(0):
        ready(trial, step.number, site)
        expect(trial.locator(".banner")).to_have_text("Trial: nothing that you answer is stored.")
        button = trial.locator(f"button[value='{choice_for(site, step.number)}']")
        box = button.bounding_box()
        assert not step.shown or box["y"] + box["height"] <= PHONE["viewport"]["height"]
        button.click()
    expect(trial.locator("output")).to_have_text("TRIAL")
    assert findings(trial) == []
    assert site.database.everyone() == site.database.all_answers() == []
    assert errors == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_readable_in_the_light_and_in_the_dark(scheme, browser, site, base, errors):
    """Participants see the same colours whatever their system prefers; who runs the study sees the preferred ones."""
    context = browser.new_context(**DESKTOP, color_scheme=scheme)
    page = opened(context, f"{base}/s/{site.database.add()}", errors)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(244, 245, 248)"
    page.goto(f"{base}/admin")
    assert (page.evaluate(ground) == "rgb(244, 245, 248)") == (scheme == "light")
    assert findings(page) == []
    page.fill("#password", set_password(site.database, None))
    page.click("button.main")
    for way in ("a.danger", "text=Keep them", "text=Make links", "text=Administration"):
        page.click(way)
        page.wait_for_load_state()
        assert findings(page) == []
    assert errors == []
    context.close()


def test_new_links_are_printed_whole(browser, site, base, errors):
    context = browser.new_context(**DESKTOP)
    page = opened(context, f"{base}/admin", errors)
    page.fill("#password", set_password(site.database, None))
    page.click("button.main")
    page.fill("#count", "3")
    page.click("text=Make links")
    links = page.locator("textarea").input_value().split("\n")
    page.wait_for_load_state()
    page.emulate_media(media="print")
    slips = page.locator(".slips li:visible")
    assert [slip.locator("span").inner_text() for slip in slips.all()] == links
    expect(page.locator("button:visible, textarea:visible, a:visible")).to_have_count(0)
    context.close()
