"""The section "In short": what stands out in a report, in sentences that link to the explanations they count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any

from markupsafe import escape

from partswap.apps.report.links import link, listed, percent
from partswap.apps.report.mistakes import mistakes_finding
from partswap.apps.report.model import ReportData

#: Class pairs with fewer explanations are not called easy or hard.
ENOUGH = 3
#: How many of a kind a sentence names.
NAMED = 3

Pair = tuple[int, int]


def findings(report: ReportData) -> list[str]:
    """Return sentences as HTML, the most general first."""
    main = main_source(report)
    explained = [e for e in report.explanations if e["source"] == main]
    right, wrong = ([e for e in explained if bool(e.get("mistake")) == mistake] for mistake in (False, True))
    names = list(report.classes)
    nearest, explained_pairs = _by_pair(right), _by_pair(right or wrong)
    lines = [_outcome(report, each, main, both=bool(right and wrong)) for each in (right, wrong) if each]
    lines += mistakes_finding(report)
    lines += _both_ways(nearest, names)
    lines += _attractors(nearest, names)
    lines += _extremes(explained_pairs, names)
    lines += _parts(explained, list(report.parts))
    return lines


def _by_pair(explanations: Iterable[dict[str, Any]]) -> dict[Pair, list[dict[str, Any]]]:
    pairs: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    for explanation in explanations:
        pairs[explanation["from"], explanation["to"]].append(explanation)
    return pairs


def main_source(report: ReportData) -> int:
    """Return which source sentences speak of: partswap's own method if it is there, else the first."""
    return next((n for n, source in enumerate(report.sources) if source.method == "partswap"), 0)


def pair_link(pair: Pair, names: Sequence[str]) -> str:
    """Return a link to the explanations of a class pair."""
    first, second = (names[k] for k in pair)
    return link(f"{first} → {second}", **{"from": first, "to": second})


def _outcome(report: ReportData, explained: Sequence[dict[str, Any]], main: int, *, both: bool) -> str:
    """Return how many swaps it takes; `both`: there are images that the model gets right and others it gets wrong."""
    mistake = bool(explained[0].get("mistake"))
    which = ("wrong" if mistake else "right") if both else None
    of = f" that the model gets {which}" if both else ""
    reached = [e for e in explained if e["flipped"]]
    by = f" by {escape(report.sources[main].title)}" if len(report.sources) > 1 else ""
    if not reached:
        return f"None of {len(explained):,} explanations{by}{of} reaches its target: use more edits or distractors."
    edits = [len(e["edits"]) for e in reached]
    share_of_single = sum(n == 1 for n in edits) / len(explained)
    goal = f"for the model to say the {'true' if mistake else 'other'} class{f' of an image{of}' if both else ''}"
    single = link("single one", edits="1", **{"is": which})
    by = by and f" (explanations{by})"
    if max(edits) == 1 and len(reached) == len(explained):
        return f"<b>{link('A single swapped region', **{'is': which})}</b> is always enough {goal}{by}."
    missed = len(explained) - len(reached)
    lost = f"{missed:,} of {len(explained):,} {link('did not get there', flip='no', **{'is': which})}"
    if missed > len(reached):  # the average of the few that do says little about the others
        return f"<b>{lost}</b>{by}. The others take {mean(edits):.1f} swapped regions, on average, {goal}."
    text = (
        f"<b>{mean(edits):.1f} swapped regions</b> are enough, on average, {goal}, and a {single} is enough in "
        f"{percent(share_of_single)} of the cases{by}."
    )
    return f"{text} {lost}." if missed else text


def _both_ways(pairs: dict[Pair, list[Any]], names: Sequence[str]) -> list[str]:
    mutual = [pair for pair in pairs if pair[0] < pair[1] and pair[::-1] in pairs]
    if not mutual:
        return []
    mutual.sort(key=lambda pair: -len(pairs[pair]) - len(pairs[pair[::-1]]))
    named = listed(link(f"{names[a]} and {names[b]}", **{"from": names[a], "to": names[b]}) for a, b in mutual[:NAMED])
    count = f"{len(mutual)} pairs of classes are" if len(mutual) > 1 else "one pair of classes is"
    more = f", {'first of all' if len(mutual) > NAMED else 'namely'} {named}"
    return [f"<b>Nearest to each other:</b> {count} each other's nearest class{more}."]


def _attractors(pairs: dict[Pair, list[Any]], names: Sequence[str]) -> list[str]:
    towards = Counter(to for _, to in pairs)
    most = [(k, n) for k, n in towards.most_common(NAMED) if n >= 3]
    if not most:
        return []
    named = listed(f"{link(names[k], to=names[k])} (of {n} classes)" for k, n in most)
    return [f"<b>Nearest to several:</b> {named}."]


def _extremes(pairs: dict[Pair, list[dict[str, Any]]], names: Sequence[str]) -> list[str]:
    reached = {p: [len(e["edits"]) for e in explained if e["flipped"]] for p, explained in pairs.items()}
    enough = {p: mean(edits) for p, edits in reached.items() if len(edits) >= ENOUGH}
    if len(enough) < 2 * NAMED or len(set(enough.values())) == 1:
        return []
    order = sorted(enough, key=lambda pair: enough[pair])
    near = listed(f"{pair_link(p, names)} ({enough[p]:.1f})" for p in order[:NAMED])
    far = listed(f"{pair_link(p, names)} ({enough[p]:.1f})" for p in order[: -NAMED - 1 : -1])
    return [
        f"<b>Closest to each other</b> (fewest edits on average): {near}.",
        f"<b>Furthest apart:</b> {far}.",
    ]


def _parts(explained: Sequence[dict[str, Any]], parts: Sequence[str]) -> list[str]:
    edits = [edit for e in explained for edit in e.get("parts", ())]
    touched = Counter(part for query, _ in edits for part in query)
    if not touched:
        return []
    most_touched = listed(
        f"{link(parts[k], part=parts[k])} ({percent(n / len(edits))} of the edits)"
        for k, n in touched.most_common(NAMED)
    )
    both = [edit for edit in edits if edit[0] and edit[1]]
    same = sum(bool(set(a) & set(b)) for a, b in both)
    share = f" Where both regions show a part, it is the same one in {percent(same / len(both))}." if both else ""
    return [f"<b>What gives them away:</b> {most_touched}.{share}"]
