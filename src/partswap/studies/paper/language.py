"""Table 6: how often the words of first edits are right, for SCOUT, Goyal et al., the paper's method and ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partswap.errors import SettingError
from partswap.language.speaker import open_speaker
from partswap.metrics.bootstrap import Estimate
from partswap.studies.naming import Judge, Verdict
from partswap.studies.paper.lab import TABLES, Lab, Result
from partswap.studies.tables import Cell, Measured, ResultTable

METHODS: tuple[tuple[str, str, dict[str, float], str | None], ...] = (
    ("scout", "SCOUT", {}, "46.7"),
    ("goyal", "Goyal et al., one distractor", {}, "67.0"),
    ("paper", "Vandenhende et al., k = 10 %", {"keep": 0.1}, "74.5"),
    # Edits of a set are not in the order of how much they matter: the best single edit is what one edit may be.
    ("partswap", "partswap (ours)", {"max_edits": 1}, None),
)


@TABLES.register("language")
def language(lab: Lab) -> Result:
    """Return how often words are right, by the attributes of the two classes."""
    if lab.words is None:
        raise SettingError("the table of words needs attribute classifiers.", "Name their folder with {words}.")
    bench, speaker = lab.bench, open_speaker(lab.words)
    speaker.check(bench.explainer.cut, bench.explainer.model, bench.explainer.class_names)
    judge = Judge(bench, speaker)
    rows: list[list[Cell]] = []
    found: dict[str, list[Verdict]] = {}
    comparable = lab.config.data == "cub" and lab.family == "resnet"
    for method, title, settings, published in METHODS:
        explained = list(lab.run(method, settings).explained(method).values())
        with lab.track(f"words of {title}", len(explained)) as advance:
            for task, cf in explained:
                found.setdefault(method, []).append(judge.first_edit(task, cf))
                advance(1)
        rows.append([title, *_cells(found[method]), published if comparable else None])
    ours = found["partswap"]
    whole = [judge.verdict(*both) for both in lab.run("partswap").explained("partswap").values()]
    rows.append(["partswap (ours), all edits", *_cells(whole), None])
    rows.append(["chance: an attribute of the parts", _mean([v.by_chance for v in ours]), *[None] * 6])
    rows.append(["chance: any attribute", _mean([v.by_any_chance for v in ours]), *[None] * 6])
    columns = ["best single edits", "paper's way: right", "right", "withheld", "right if stated", "sentence true"]
    columns += ["and seen there", "paper"]
    seen = any(v.located is not None for v in ours)
    shown = [k for k in range(len(columns)) if (columns[k] != "and seen there" or seen) and (k < 7 or comparable)]
    rows = [[row[k] for k in shown] for row in rows]
    return Result(
        ResultTable("Words", [columns[k] for k in shown], rows, f"{lab.note()} {_note(ours, found)}", digits=1)
    )


def _cells(found: Sequence[Verdict]) -> list[Cell]:
    stated = [v for v in found if v.words.stated]
    located = [v.located for v in found]
    return [
        _mean([v.paper for v in found]),
        _mean([v.right for v in found]),
        _mean([not v.words.stated for v in found]),
        _mean([v.right for v in stated]),
        _mean([v.true for v in stated]),
        None if any(where is None for where in located) else _mean([bool(where) for where in located]),
    ]


def _mean(values: Sequence[float]) -> Cell:
    known = Estimate.of([100.0 * value for value in values])
    if known.mean is None:
        return None
    return Measured(known.mean, *(known.interval or (known.mean, known.mean)))


def _note(ours: Sequence[Verdict], found: dict[str, list[Verdict]]) -> str:
    """Return what the columns are, and how far ours is ahead, with intervals over the same images."""
    chance = Estimate.of([100 * (float(v.paper) - v.by_chance) for v in ours])
    ahead = [f"{chance.show()} points above an attribute of the parts by chance (the paper's way)"]
    for method in ("scout", "goyal"):
        pairs = zip(ours, found[method], strict=True)
        gains = [(float(a.paper) - float(b.paper), float(a.right) - float(b.right)) for a, b in pairs]
        told = [Estimate.of((100 * np.array(one)).tolist()).show() for one in zip(*gains, strict=True)]
        ahead.append(f"{told[0]} (the paper's way) and {told[1]} above {method}")
    return (
        "Right: the first attribute is had by exactly one of the two classes, of all explanations; the paper's way "
        "takes the attributes of all parts that either cell shows, ours of those that both show, and withholds the "
        f"rest, which does not count as right. Ours is {'; '.join(ahead)}."
    )
