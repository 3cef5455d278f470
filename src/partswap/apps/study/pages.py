"""Pages: templates filled with what a step shows. The templates never get to see an answer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request

from partswap.apps.study.folder import Study
from partswap.apps.study.steps import StudyStep

HERE = Path(__file__).parent
#: Parts of a block, as participants count them.
PHASES = {"before": (1, "First look"), "learn": (2, "Learn"), "test": (3, "Test"), "attention": (3, "Test")}

#: Title and text of what is answered to a request that leads nowhere, by status.
REFUSALS = {
    400: ("This cannot be read", "Please use the link exactly as you were given it."),
    404: ("This page does not exist", "Please use the link exactly as you were given it."),
    405: ("This page cannot be opened like this", "Please use the link exactly as you were given it."),
    422: ("This cannot be read", "Something in the form is missing or cannot be read. Please go back and try again."),
}


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(HERE / "templates")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)


def wants_json(request: Request) -> bool:
    """Tell whether a program asks, rather than a person."""
    return "application/json" in request.headers.get("accept", "")


def part_of(step: StudyStep) -> tuple[Any, ...]:
    """Return which part of which block a step belongs to."""
    return step.block, PHASES.get(step.phase)


def page(name: str, **values: Any) -> str:
    """Return a page."""
    return _templates().get_template(f"{name}.html").render(**values)


def step_html(study: Study, step: StudyStep, total: int, token: str, upcoming: tuple[str, ...] = ()) -> str:
    """Return what a step shows, without the page around it; `upcoming` are pictures to be fetched ahead."""
    blocks = [step.block] if step.block is not None else []
    questions = len(study.pairs[0].questions)
    return page(
        f"step_{step.phase}",
        study=study,
        number=step.number,
        phase=step.phase,
        choices=step.choices,
        block=blocks[0] + 1 if blocks else None,
        blocks=len(study.slots[0]),
        item=None if step.item is None else step.item + 1,
        items=len(study.lessons[0].learning) if step.phase == "learn" else questions,
        part=PHASES.get(step.phase),
        # What is asked for is told; what is right is not.
        asked=step.truth if step.phase == "attention" else None,
        pictures=[
            {"src": picture_url(token, shown.image), "label": shown.label, "box": shown.region and shown.region.box}
            for shown in step.shown
        ],
        ahead=" ".join(picture_url(token, name) for name in upcoming),
        progress=round(100 * step.number / total),
        least_ms=round(1000 * study.least_seconds) if step.phase == "learn" else 0,
        # The first look begins with the step that announces a pair.
        opens=step.item == 0 and step.phase in ("learn", "test"),
    )


def thanks_html(study: Study, code: str, *, trial: bool = False) -> str:
    """Return the last page's content."""
    onward = None
    if study.return_url is not None:
        joint = "&" if "?" in study.return_url else "?"
        onward = study.return_url.replace("{code}", code)
        onward = onward if "{code}" in study.return_url else f"{onward}{joint}cc={code}"
    return page("step_thanks", study=study, code=code, onward=onward, trial=trial)


def picture_url(token: str, name: str) -> str:
    """Return where a picture is."""
    return f"/s/{token}/i/{name}.jpg"
