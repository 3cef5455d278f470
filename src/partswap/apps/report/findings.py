"""In short: what stands out in a report, in sentences whose names are links to what they speak of."""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any
from urllib.parse import quote

from partswap.apps.report.model import Report

#: Class pairs with fewer explanations are not called easy or hard.
ENOUGH = 3
#: How many of a kind a sentence names.
NAMED = 3

Pair = tuple[int, int]


def findings(report: Report) -> list[str]:
    """Return sentences as HTML, the most general first."""
    main = main_source(report)
    mine = [e for e in report.explanations if e["source"] == main]
    names = list(report.classes)
    pairs: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    for one in mine:
        pairs[one["from"], one["to"]].append(one)
    lines = [_outcome(report, mine, main)]
    lines += _both_ways(pairs, names)
    lines += _attractors(pairs, names)
    lines += _extremes(pairs, names)
    lines += _parts(mine, list(report.parts))
    return lines


def main_source(report: Report) -> int:
    """Return which source sentences speak of: partswap's own method if it is there, else the first."""
    return next((n for n, source in enumerate(report.sources) if source.method == "partswap"), 0)


def link(text: str, **filters: str | None) -> str:
    """Return a link that shows what it names in the gallery; the text and the filters may hold anything."""
    told = "&".join(f"{name}={quote(value, safe='')}" for name, value in filters.items() if value is not None)
    return f'<a href="#{html.escape(told)}">{html.escape(text)}</a>'


def pair_link(pair: Pair, names: Sequence[str]) -> str:
    """Return a link to the explanations of a class pair."""
    first, second = (names[k] for k in pair)
    return link(f"{first} → {second}", **{"from": first, "to": second})


def _outcome(report: Report, mine: Sequence[dict[str, Any]], main: int) -> str:
    reached = [e for e in mine if e["flipped"]]
    by = f" by {html.escape(report.sources[main].title)}" if len(report.sources) > 1 else ""
    if not reached:
        return f"None of {len(mine):,} explanations{by} reaches its target: use more edits or distractors."
    edits = [len(e["edits"]) for e in reached]
    one = sum(n == 1 for n in edits) / len(mine)
    text = (
        f"<b>{mean(edits):.1f} swapped regions</b> are enough, on average, for the model to say the other class, and a "
        f"{link('single one', edits='1')} is in {_percent(one)} of the cases{by and f' (explanations{by})'}."
    )
    if missed := len(mine) - len(reached):
        text += f" {missed:,} of {len(mine):,} {link('did not get there', flip='no')}."
    return text


def _both_ways(pairs: dict[Pair, list[Any]], names: Sequence[str]) -> list[str]:
    mutual = [pair for pair in pairs if pair[0] < pair[1] and pair[::-1] in pairs]
    if not mutual:
        return []
    mutual.sort(key=lambda pair: -len(pairs[pair]) - len(pairs[pair[::-1]]))
    told = _listed(link(f"{names[a]} ↔ {names[b]}", **{"from": names[a], "to": names[b]}) for a, b in mutual[:NAMED])
    count = f"{len(mutual)} pairs of classes are" if len(mutual) > 1 else "One pair of classes is"
    more = f", {'first of all' if len(mutual) > NAMED else 'namely'} {told}"
    return [f"<b>Confused both ways:</b> {count} each other's nearest{more}."]


def _attractors(pairs: dict[Pair, list[Any]], names: Sequence[str]) -> list[str]:
    towards = Counter(to for _, to in pairs)
    most = [(k, n) for k, n in towards.most_common(NAMED) if n >= 3]
    if not most:
        return []
    told = _listed(f"{link(names[k], to=names[k])} (of {n} classes)" for k, n in most)
    return [f"<b>What others are taken for:</b> {told}."]


def _extremes(pairs: dict[Pair, list[dict[str, Any]]], names: Sequence[str]) -> list[str]:
    enough = {p: mean(len(e["edits"]) for e in found) for p, found in pairs.items() if len(found) >= ENOUGH}
    if len(enough) < 2 * NAMED:
        return []
    order = sorted(enough, key=lambda pair: enough[pair])
    near = _listed(f"{pair_link(p, names)} ({enough[p]:.1f})" for p in order[:NAMED])
    far = _listed(f"{pair_link(p, names)} ({enough[p]:.1f})" for p in order[: -NAMED - 1 : -1])
    return [
        f"<b>Closest to each other</b> (fewest edits on average): {near}.",
        f"<b>Furthest apart:</b> {far}.",
    ]


def _parts(mine: Sequence[dict[str, Any]], parts: Sequence[str]) -> list[str]:
    edits = [edit for e in mine for edit in e.get("parts", ())]
    touched = Counter(part for query, _ in edits for part in query)
    if not touched:
        return []
    told = _listed(
        f"{link(parts[k], part=parts[k])} ({_percent(n / len(edits))} of the edits)"
        for k, n in touched.most_common(NAMED)
    )
    known = [edit for edit in edits if edit[0] and edit[1]]
    same = sum(bool(set(a) & set(b)) for a, b in known)
    share = f" Where both regions show a part, it is the same one in {_percent(same / len(known))}." if known else ""
    return [f"<b>What gives them away:</b> {told}.{share}"]


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def _listed(items: Iterable[str]) -> str:
    found = list(items)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"
