"""What people learned: test accuracy per method and setup, with intervals, tests, times and exclusions.

Answers of one person are alike, and so are answers about one pair of classes. Intervals draw people and pairs anew,
each on its own (the pigeonhole bootstrap); differences of methods are taken within pairs. The test that two methods
teach equally well shuffles the names of the methods among the blocks of one pair and setup, which is what was assigned
at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from partswap.errors import PartswapError, SettingError
from partswap.utils.estimates import TAILS, Estimate, Interval
from partswap.utils.files import make_private, write_errors, write_json, write_text, write_with

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How often people and pairs are drawn anew, and names of methods shuffled.
RESAMPLES, SHUFFLES = 2000, 5000


@dataclass(frozen=True)
class ExclusionRules:
    """Whose answers do not count; to be stated before people are recruited."""

    unfinished: bool = True  #: people who did not come to the end
    checks: int = 1  #: people who failed more attention checks than this
    seconds: float = 0.3  #: people whose usual test answer took less than this
    knew: float = 0.8  #: blocks in which more than this share was right before anything was learned


@dataclass(frozen=True)
class BlockScore:
    """How one participant did in one block."""

    participant: int
    pair: int
    method: str
    setup: str
    right: int
    asked: int
    before: float  #: share right before learning; "don't know" is not right
    learning_ms: float  #: usual time per learning pair
    answer_ms: float  #: usual time per test answer


@dataclass(frozen=True)
class Accuracy:
    """The test accuracy of a method in a setup."""

    share: Estimate  #: of right answers, over blocks
    people: int
    before: float
    learning_s: float
    answer_s: float


@dataclass(frozen=True)
class Difference:
    """How far one method is ahead of another in a setup, and how likely chance alone does that."""

    lead: Estimate
    p: float


@dataclass(frozen=True)
class Analysis:
    """Everything that is said about a study."""

    simulated: bool
    people: int
    pairs: int
    excluded: Mapping[str, int]
    accuracy: Mapping[tuple[str, str], Accuracy]  #: by setup and method
    differences: Mapping[tuple[str, str], Difference]  #: of the first method from each other one, by setup
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def setups(self) -> list[str]:
        """The setups, in order."""
        return list(dict.fromkeys(setup for setup, _ in self.accuracy))


def analyse(answers: pa.Table, methods: Mapping[str, str], rules: ExclusionRules, *, seed: int = 0) -> Analysis:
    """Analyse the answers of a study; `methods` are names and titles, the first is held against the others.

    Answers of simulated participants count only if there are no others, and never beside people's.
    """
    rows = answers.to_pylist()
    simulated = not any(not row["simulated"] for row in rows)
    rows = [row for row in rows if row["simulated"] == simulated]
    blocks, excluded = score_blocks(rows, rules)
    if not blocks:
        raise PartswapError(
            f"there is nothing to analyse: {_left_out(excluded) or 'nobody has answered'}.",
            "Wait for participants, or relax a rule.",
        )
    rng = np.random.default_rng(seed)
    accuracy: dict[tuple[str, str], Accuracy] = {}
    differences: dict[tuple[str, str], Difference] = {}
    setups = sorted({block.setup for block in blocks}, key=["random", "consistent"].index)
    first = next(iter(methods))
    for setup in setups:
        draws = _Draws([block for block in blocks if block.setup == setup], rng)
        for method in methods:
            if any(block.method == method for block in draws.blocks):
                accuracy[setup, method] = _accuracy(draws, method)
        for method in methods:
            if method != first and {(setup, first), (setup, method)} <= set(accuracy):
                gap = _difference(draws, first, method, rng)
                differences |= {} if gap is None else {(setup, method): gap}
    people, pairs = ({getattr(block, name) for block in blocks} for name in ("participant", "pair"))
    return Analysis(simulated, len(people), len(pairs), excluded, accuracy, differences, dict(methods))


def score_blocks(rows: Sequence[Mapping[str, Any]], rules: ExclusionRules) -> tuple[list[BlockScore], dict[str, int]]:
    """Return the finished blocks that count, and how many people and blocks do not, by reason."""
    people: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        people.setdefault(row["participant"], []).append(row)
    excluded = {"people unfinished": 0, "people inattentive": 0, "people too fast": 0, "blocks known before": 0}
    found: list[BlockScore] = []
    for participant, mine in people.items():
        tests = [row for row in mine if row["phase"] == "test"]
        times = [_time(row) for row in tests]
        failed = sum(row["phase"] == "attention" and not row["right"] for row in mine)
        if rules.unfinished and not mine[0]["finished"]:
            excluded["people unfinished"] += 1
        elif failed > rules.checks:
            excluded["people inattentive"] += 1
        elif times and np.median(times) < 1000 * rules.seconds and not mine[0]["simulated"]:
            excluded["people too fast"] += 1
        else:
            for block in sorted({row["block"] for row in tests}):
                scored = _block(participant, [row for row in mine if row["block"] == block])
                if scored is None:
                    continue  # not finished, of someone who counts all the same
                if scored.before > rules.knew:
                    excluded["blocks known before"] += 1
                else:
                    found.append(scored)
    return found, excluded


def _time(row: Mapping[str, Any]) -> float:
    """Return the milliseconds of an answer: the browser's, or the server's where that is unknown."""
    known = row["client_ms"] if row["client_ms"] is not None else row["server_ms"]
    return float(known or 0.0)


def _block(participant: int, rows: Sequence[Mapping[str, Any]]) -> BlockScore | None:
    phases = {phase: [row for row in rows if row["phase"] == phase] for phase in ("before", "learn", "test")}
    if len(phases["test"]) < len(phases["before"]):
        return None
    first = rows[0]
    return BlockScore(
        participant, first["pair"], first["method"], first["setup"],
        sum(bool(row["right"]) for row in phases["test"]), len(phases["test"]),
        float(np.mean([bool(row["right"]) for row in phases["before"]])),
        *(float(np.median([_time(row) for row in phases[phase]])) for phase in ("learn", "test")),
    )  # fmt: skip


class _Draws:
    """Blocks drawn anew many times: people and pairs of classes, each on its own."""

    def __init__(self, blocks: Sequence[BlockScore], rng: np.random.Generator) -> None:
        self.blocks = blocks
        self.right, self.asked = (np.array([getattr(b, name) for b in blocks], float) for name in ("right", "asked"))
        self.method = np.array([block.method for block in blocks])
        _, who = np.unique([block.participant for block in blocks], return_inverse=True)
        _, self.pair = np.unique([block.pair for block in blocks], return_inverse=True)
        self.people = _counts(int(who.max()) + 1, rng)[:, who]
        self.pairs = _counts(int(self.pair.max()) + 1, rng)

    def accuracy(self, method: str) -> NDArray[np.float64]:
        """Return the accuracy of a method in every draw; draws without it are nan."""
        weights = self.people * self.pairs[:, self.pair] * (self.method == method)
        with np.errstate(invalid="ignore"):
            return np.asarray((weights @ self.right) / (weights @ self.asked))

    def difference(self, first: str, other: str) -> NDArray[np.float64]:
        """Return how far one method is ahead of another within pairs, in every draw."""
        mine, theirs = (np.broadcast_to(self.method == name, self.people.shape) for name in (first, other))
        return within_pairs(mine, theirs, self.right, self.asked, self.pair, self.people, self.pairs)


def _counts(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)


def _interval(values: NDArray[np.float64]) -> Interval:
    low, high = np.nanquantile(values, TAILS)
    return float(low), float(high)


def within_pairs(
    first: NDArray[np.bool_],
    other: NDArray[np.bool_],
    right: NDArray[np.float64],
    asked: NDArray[np.float64],
    pair: NDArray[np.int64],
    people: NDArray[np.float64] | None = None,
    pairs: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the mean over pairs of the difference of two methods, for every row of names.

    Pairs without both do not count. `first` and `other` ``(rows, blocks)`` say which blocks are of which method;
    `people` ``(rows, blocks)`` and `pairs` ``(rows, pairs)`` how often a block's participant and a pair count, once by
    default. Some pairs are harder than others: within pairs, that is no matter.
    """
    of_pair = np.eye(int(pair.max()) + 1)[pair]
    shares = []
    for names in (first, other):
        weights = names if people is None else names * people
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(((weights * right) @ of_pair) / ((weights * asked) @ of_pair))
    gaps = shares[0] - shares[1]
    counts = np.where(np.isnan(gaps), 0.0, 1.0 if pairs is None else pairs)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.nan_to_num(gaps) * counts).sum(1) / counts.sum(1))


def _accuracy(draws: _Draws, method: str) -> Accuracy:
    mine = [block for block in draws.blocks if block.method == method]
    share = sum(block.right for block in mine) / sum(block.asked for block in mine)
    return Accuracy(
        Estimate(share, _interval(draws.accuracy(method)), len(mine)),
        len({block.participant for block in mine}), float(np.mean([block.before for block in mine])),
        *(float(np.median([getattr(block, name) for block in mine])) / 1000 for name in ("learning_ms", "answer_ms")),
    )  # fmt: skip


def _difference(draws: _Draws, first: str, other: str, rng: np.random.Generator) -> Difference | None:
    """Return how far a method is ahead, None if no pair of classes was taught with both."""
    both = np.isin(draws.method, (first, other))
    is_first, right, asked = draws.method[both] == first, draws.right[both], draws.asked[both]
    _, pair = np.unique(draws.pair[both], return_inverse=True)
    ahead = float(within_pairs(is_first[None], ~is_first[None], right, asked, pair)[0])
    if np.isnan(ahead):
        return None
    names = np.empty((SHUFFLES, len(right)), bool)
    for number in range(int(pair.max()) + 1):
        at = np.flatnonzero(pair == number)
        names[:, at] = is_first[at][rng.random((SHUFFLES, len(at))).argsort(1)]
    # The assignment that was made counts as one of them.
    as_far = np.abs(within_pairs(names, ~names, right, asked, pair)) >= abs(ahead) - 1e-12
    return Difference(
        Estimate(ahead, _interval(draws.difference(first, other))), float((1 + as_far.sum()) / (1 + SHUFFLES))
    )


# -- saying it ---------------------------------------------------------------------------------------------------------


def table_markdown(found: Analysis) -> str:
    """Return the table of accuracies."""
    lines = [
        "| method | " + " | ".join(f"{setup} image pairs" for setup in found.setups) + " |",
        "|---|" + "---:|" * len(found.setups),
    ]
    for method, title in found.titles.items():
        cells = []
        for setup in found.setups:
            known = found.accuracy.get((setup, method))
            cells.append("-" if known is None else known.share.show(factor=100))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def paragraph(found: Analysis) -> str:
    """Return what was found, to paste."""
    who = f"{found.people} simulated participants" if found.simulated else f"{found.people} people"
    told = [f"{who} took part, with {found.pairs} pairs of classes."]
    if found.simulated:
        told.insert(0, "Simulated: a program that sees the highlighted regions only took the place of people.")
    told.append(f"Left out by rule: {_left_out(found.excluded) or 'nobody'}.")
    for setup in found.setups:
        shares = [
            f"{100 * share.mean:.1f} % with {found.titles[method]} ({_ends(share)}, {share.count} blocks)"
            for (where, method), accuracy in found.accuracy.items()
            if where == setup and (share := accuracy.share).mean is not None
        ]
        told.append(f"Test accuracy with {setup} image pairs: {'; '.join(shares)}.")
        first = next(iter(found.titles.values()))
        gaps = [
            f"{100 * lead.mean:+.1f} points from {found.titles[method]} ({_ends(lead)}, p = {gap.p:.3f})"
            for (where, method), gap in found.differences.items()
            if where == setup and (lead := gap.lead).mean is not None
        ]
        if gaps:
            told.append(f"Within pairs of classes {first} differs by {'; '.join(gaps)}.")
    times = list(found.accuracy.values())
    if not found.simulated:
        learning, answering = (np.median([getattr(t, name) for t in times]) for name in ("learning_s", "answer_s"))
        told.append(
            f"A learning pair was looked at for {learning:.1f} s, a test answer took {answering:.1f} s (medians)."
        )
    told.append(
        "Brackets are 95 % intervals (people and pairs of classes drawn anew, each on its own), for others like "
        "these; p is of a permutation of methods within pairs, and about these people and pairs only: it can be small "
        "where a bracket holds 0."
    )
    return " ".join(told)


def _left_out(excluded: Mapping[str, int]) -> str:
    """Return how many of whom are left out, and why; nothing if nobody is."""
    single = {why: why.replace("people", "person").replace("blocks", "block") for why in excluded}
    return ", ".join(f"{count} {single[why] if count == 1 else why}" for why, count in excluded.items() if count)


def _ends(estimate: Estimate) -> str:
    return f"[{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def figure(found: Analysis) -> Figure:
    """Draw accuracies with their intervals, one panel per setup."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(1.6 + 3.1 * len(found.setups), 3.4), layout="constrained")
    axes = drawn.subplots(1, len(found.setups), sharey=True, squeeze=False)[0]
    colors = ("#1b4965", "#c77700", "#8c8c8c", "#5b8e7d", "#9b5094")
    for axis, setup in zip(axes, found.setups, strict=True):
        for k, method in enumerate(found.titles):
            known = found.accuracy.get((setup, method))
            if known is None:
                continue
            share = known.share.scaled(100)
            mean, low, high = share.mean or 0.0, share.low, share.high
            axis.bar(k, mean, width=0.66, color=colors[k % len(colors)])
            axis.errorbar(k, mean, [[mean - low], [high - mean]], color="#1d2430", capsize=4, lw=1.4)
            axis.text(k, 3, f"{mean:.1f}", ha="center", va="bottom", color="white", fontweight="bold", fontsize=10)
        axis.axhline(50, color="#667085", lw=1, ls=":")
        axis.set_xticks(range(len(found.titles)), [_short(title) for title in found.titles.values()], fontsize=9)
        axis.set_title(f"{setup} image pairs", fontsize=10)
        axis.set_ylim(0, 100)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("test accuracy, %")
    if found.simulated:
        drawn.suptitle("simulated participants", fontsize=9, color="#667085")
    return drawn


def _short(title: str) -> str:
    name = title.partition(" (")[0]
    return name.replace(" et al.", "\net al.")


def _numbers(estimate: Estimate, entry: Accuracy | Difference) -> dict[str, Any]:
    """Return an entry of the analysis for JSON, its estimate as three numbers."""
    others = {name: value for name, value in vars(entry).items() if value is not estimate}
    blocks = {"blocks": estimate.count} if isinstance(entry, Accuracy) else {}
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, **blocks, **others}


def write_analysis(found: Analysis, answers: pa.Table, folder: Path) -> None:
    """Write a text, a table, a figure and the numbers."""
    import pyarrow.csv

    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file, where a folder is to be.", "Choose another ({out}).")
    private: dict[str, Any] = {"private": True, "place": "out"}
    with write_errors(folder, place="out"):
        if not folder.exists():
            make_private(folder, folder=True)
    write_text(folder / "analysis.md", f"{table_markdown(found)}\n\n{paragraph(found)}\n", **private)
    write_with(folder / "accuracy.png", partial(figure(found).savefig, format="png", dpi=160), **private)
    write_with(folder / "answers.csv", partial(pyarrow.csv.write_csv, answers), **private)
    numbers = {
        "simulated": found.simulated, "people": found.people, "pairs": found.pairs, "excluded": dict(found.excluded),
        "accuracy": [{"setup": s, "method": m, **_numbers(v.share, v)} for (s, m), v in found.accuracy.items()],
        "differences": [{"setup": s, "from": m, **_numbers(v.lead, v)} for (s, m), v in found.differences.items()],
    }  # fmt: skip
    write_json(folder / "analysis.json", numbers, **private)
