"""The pages on screens of every size, in the light and in the dark, on paper, without JavaScript, and as a trial."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from devices import DESKTOP, MOSTLY_DESKTOP, PHONE
from partswap.apps.study.admin import set_password
from partswap.apps.study.server import open_site
from partswap.apps.study.serving import served
from study_files import make_study
from study_pages import choice_for, findings, number, opened, opens, phase, ready

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


@MOSTLY_DESKTOP
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
