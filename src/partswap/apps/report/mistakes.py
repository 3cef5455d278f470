"""What the model takes for what, as a table of the page: its real mistakes, not the nearest classes of explanations."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence

from partswap.apps.report.links import link, listed, percent
from partswap.apps.report.model import ModelMistakes, ReportData
from partswap.runs.confusion import Confusion, Mistake

#: Rows before one asks for more, and in all.
FIRST, MOST = 8, 200
#: How many of them a sentence names.
NAMED = 3

Explained = Counter[tuple[str, str]]


def mistakes_section(report: ReportData) -> str:
    """Return what each model takes for what as HTML."""
    if not report.mistakes:
        return '<p class="unknown">What the model takes for what was not counted.</p>'
    explained = explained_mistakes(report)
    return "".join(_of_model(one, explained) for one in report.mistakes)


def explained_mistakes(report: ReportData) -> Explained:
    """Return how many misclassified images have an explanation, by true class and what the model says."""
    names = list(report.classes)
    cases = {(e["case"], names[e["to"]], names[e["from"]]) for e in report.explanations if e.get("mistake")}
    return Counter((true, predicted) for _, true, predicted in cases)


def mistakes_finding(report: ReportData) -> list[str]:
    """Return a sentence about what each model takes for what."""
    explained = explained_mistakes(report)
    lines = []
    for one in report.mistakes:
        if one.confusion is None or not one.confusion.mistakes:
            continue
        confusion, of = one.confusion, f" of {html.escape(one.title)}" if one.title else ""
        named = listed(
            f"{_pair(confusion, mistake, explained)} ({mistake.images:,})" for mistake in confusion.mistakes[:NAMED]
        )
        lines.append(f"<b>Mistakes{of}:</b> {confusion.wrong:,} of {_images(confusion.total)}, first of all {named}.")
    return lines


def _of_model(one: ModelMistakes, explained: Explained) -> str:
    title = f"<h3>{html.escape(one.title)}</h3>" if one.title else ""
    if one.confusion is None:
        return f'{title}<p class="unknown">{html.escape(one.unknown)}</p>'
    confusion, mistakes = one.confusion, one.confusion.mistakes
    right = confusion.total - confusion.wrong
    lead = f"The model gets {right:,} of {_images(confusion.total)} right ({percent(right / confusion.total)})."
    if not mistakes:
        return f"{title}<p>{lead}</p>"
    kinds = "all of one kind" if len(mistakes) == 1 else f"of {len(mistakes):,} kinds"
    lead += f" It makes {_count(confusion.wrong, 'mistake')}, {kinds}."
    if not explained:
        lead += " None of them is explained in this report (<code>partswap run --only wrong</code>, or all, does that)."
    few, rest = mistakes[:FIRST], mistakes[FIRST:MOST]
    more = ""
    if rest:
        left = len(mistakes) - FIRST - len(rest)
        end = f"<p>{left:,} more kinds are in the run&rsquo;s confusion.json.</p>" if left else ""
        table = _table(confusion, rest, explained)
        more = f"<details><summary>{len(mistakes) - FIRST:,} rarer kinds</summary>{table}{end}</details>"
    return f"{title}<p>{lead}</p>{_table(confusion, few, explained)}{more}"


def _table(confusion: Confusion, mistakes: Sequence[Mistake], explained: Explained) -> str:
    most = confusion.mistakes[0].images
    rows = []
    for mistake in mistakes:
        true, predicted = (html.escape(confusion.classes[k]) for k in mistake[:2])
        count = explained[confusion.classes[mistake.true], confusion.classes[mistake.predicted]]
        about = _linked(confusion, mistake, f"{count:,} explained") if count else "not explained"
        rows.append(
            f'<tr><th scope="row">{true}</th><td>{predicted}</td><td class="count">'
            f'<b>{mistake.images:,}</b> of {confusion.images[mistake.true]:,}<i style="--share:'
            f'{mistake.images / most:.3f}"></i></td>{f"<td>{about}</td>" if explained else ""}</tr>'
        )
    heads = ["true class", "the model says", "images of the class", *(["here"] if explained else [])]
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Mistakes of the model"><table class="mistakes">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _pair(confusion: Confusion, mistake: Mistake, explained: Explained) -> str:
    true, predicted = (confusion.classes[k] for k in mistake[:2])
    text = f"{true} taken for {predicted}"
    return _linked(confusion, mistake, text) if explained[true, predicted] else html.escape(text)


def _linked(confusion: Confusion, mistake: Mistake, text: str) -> str:
    true, predicted = (confusion.classes[k] for k in mistake[:2])
    return link(text, **{"from": predicted, "to": true, "is": "wrong"})


def _images(count: int) -> str:
    return _count(count, "image")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
