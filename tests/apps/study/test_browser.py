"""A whole study in a real Chromium: desktop and phone, reloads, no connection, the keyboard alone, screen readers."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from devices import DESKTOP, PHONE
from partswap.apps.study.admin import set_password
from study_pages import choice_for, findings, opened, opens, phase, ready


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
