"""What tests in a browser do with the pages of a study."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from partswap.apps.study.server import StudyState


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


def opens(site: StudyState, step: int) -> bool:
    """Tell whether a step is the first of a lesson or test, before which some words stand."""
    known = site.steps_of(0)[step]
    return known.item == 0 and known.phase in ("learn", "test")


def ready(page: Page, step: int, site: StudyState | None = None) -> None:
    """Wait until a step can be answered; reads what stands before a part, if the site is given."""
    if site is not None and opens(site, step):
        page.locator(f"#step[data-step='{step}'] .opening a").click()
    expect(page.locator(f"#step[data-step='{step}'] button[name=choice]").first).to_be_enabled(timeout=15_000)


def choice_for(site: StudyState, step: int) -> str:
    known = site.steps_of(0)[step]
    return known.truth or known.choices[0]


def findings(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]
