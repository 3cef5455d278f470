"""What the model takes for what, as a table of the page: its real mistakes, not the nearest classes of explanations."""

from __future__ import annotations

from collections import Counter
from typing import Any

from markupsafe import Markup, escape

from partswap.apps.report.links import link, listed, percent
from partswap.apps.report.model import ModelMistakes, ReportData
from partswap.runs.confusion import Confusion, Mistake

#: Rows before one asks for more, and in all.
FIRST, MOST = 8, 200
#: How many of them a sentence names.
NAMED = 3

Explained = Counter[tuple[str, str]]


def mistake_tables(report: ReportData) -> list[dict[str, Any]]:
    """Return what each model takes for what, as values of the template."""
    explained = explained_mistakes(report)
    return [_of_model(model, explained) for model in report.mistakes]


def explained_mistakes(report: ReportData) -> Explained:
    """Return how many misclassified images have an explanation, by true class and what the model says."""
    names = list(report.classes)
    cases = {(e["case"], names[e["to"]], names[e["from"]]) for e in report.explanations if e.get("mistake")}
    return Counter((true, predicted) for _, true, predicted in cases)


def mistakes_finding(report: ReportData) -> list[str]:
    """Return a sentence about what each model takes for what."""
    explained = explained_mistakes(report)
    lines = []
    for model in report.mistakes:
        confusion = model.confusion
        if confusion is None or not confusion.mistakes:
            continue
        of = f" of {escape(model.title)}" if model.title else ""
        named = listed(
            f"{_pair(confusion, mistake, explained)} ({mistake.images:,})" for mistake in confusion.mistakes[:NAMED]
        )
        lines.append(
            f"<b>Mistakes{of}:</b> {confusion.wrong:,} of {_count(confusion.total, 'image')}, first of all {named}."
        )
    return lines


def _of_model(model: ModelMistakes, explained: Explained) -> dict[str, Any]:
    confusion = model.confusion
    if confusion is None:
        return {"title": model.title, "unknown": model.unknown}
    mistakes, right = confusion.mistakes, confusion.total - confusion.wrong
    lead = f"The model gets {right:,} of {_count(confusion.total, 'image')} right ({percent(right / confusion.total)})."
    if mistakes:
        kinds = "all of one kind" if len(mistakes) == 1 else f"of {len(mistakes):,} kinds"
        lead += f" It makes {_count(confusion.wrong, 'mistake')}, {kinds}."
    left = max(0, len(mistakes) - MOST)
    return {
        "title": model.title,
        "unknown": "",
        "lead": lead,
        "explained": bool(explained),
        "rows": [_row(confusion, mistake, explained) for mistake in mistakes[:FIRST]],
        "rest": [_row(confusion, mistake, explained) for mistake in mistakes[FIRST:MOST]],
        "rarer": f"{len(mistakes) - FIRST:,}",
        "left": f"{left:,}" if left else "",
    }


def _row(confusion: Confusion, mistake: Mistake, explained: Explained) -> dict[str, Any]:
    true, predicted = (confusion.classes[k] for k in mistake[:2])
    count = explained[true, predicted]
    return {
        "true": true,
        "predicted": predicted,
        "images": f"{mistake.images:,}",
        "of": f"{confusion.images[mistake.true]:,}",
        "share": f"{mistake.images / confusion.mistakes[0].images:.3f}",
        "link": _linked(confusion, mistake, f"{count:,} explained") if count else "not explained",
    }


def _pair(confusion: Confusion, mistake: Mistake, explained: Explained) -> Markup:
    true, predicted = (confusion.classes[k] for k in mistake[:2])
    text = f"{true} taken for {predicted}"
    return _linked(confusion, mistake, text) if explained[true, predicted] else escape(text)


def _linked(confusion: Confusion, mistake: Mistake, text: str) -> Markup:
    true, predicted = (confusion.classes[k] for k in mistake[:2])
    return link(text, **{"from": predicted, "to": true, "is": "wrong"})


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
