"""Table 6: how often the words of first edits are right, for SCOUT, Goyal et al., the paper's method and ours."""

from __future__ import annotations

from collections.abc import Sequence

from partswap.analysis.paper.context import TABLES, Result, TableContext
from partswap.analysis.words import WordsEvaluation, WordsScore
from partswap.errors import SettingError
from partswap.utils.estimates import Estimate
from partswap.utils.progress import tracked
from partswap.utils.tables import Cell, ResultTable
from partswap.words.writer import open_words_writer

METHODS: tuple[tuple[str, str, dict[str, float], str | None], ...] = (
    ("scout", "SCOUT", {}, "46.7"),
    ("goyal", "Goyal et al., one distractor", {}, "67.0"),
    ("paper", "Vandenhende et al., k = 10 %", {"keep": 0.1}, "74.5"),
    # Edits of a set are not in the order of how much they matter: the best single edit is what one edit may be.
    ("partswap", "partswap (ours)", {"max_edits": 1}, None),
)


@TABLES.register("language")
def language(lab: TableContext) -> Result:
    """Return how often words are right, by the attributes of the two classes."""
    if lab.words is None:
        raise SettingError("the table of words needs attribute classifiers.", "Name their folder with {words}.")
    bench, writer = lab.bench, open_words_writer(lab.words)
    judge = WordsEvaluation(bench, writer)
    rows: list[list[Cell]] = []
    scored: dict[str, list[WordsScore]] = {}
    comparable = lab.config.data == "cub" and lab.family == "resnet"
    for method, title, settings, published in METHODS:
        explained = list(lab.run(method, settings).explained(method).values())
        for task, cf in tracked(explained, f"words of {title}", lab.track):
            scored.setdefault(method, []).append(judge.first_edit(task, cf))
        rows.append([title, *_cells(scored[method]), published if comparable else None])
    ours = scored["partswap"]
    whole = [judge.verdict(*both) for both in lab.run("partswap").explained("partswap").values()]
    rows.append(["partswap (ours), all edits", *_cells(whole), None])
    shared = [v.words.withheld != "parts" for v in ours]
    for title, chances in (
        ("chance: an attribute of the parts", [v.by_chance for v in ours]),
        ("chance: any attribute", [v.by_any_chance for v in ours]),
    ):
        fair = [chance * common for chance, common in zip(chances, shared, strict=True)]
        rows.append([title, _mean(chances), _mean(fair), *[None] * 6])
    columns = ["best single edits", "paper's way: right", "and a common part", "right", "withheld", "right if stated"]
    columns += ["sentence true", "and seen there", "paper"]
    seen = any(v.located is not None for v in ours)
    visible = [k for k in range(len(columns)) if (columns[k] != "and seen there" or seen) and (k < 8 or comparable)]
    rows = [[row[k] for k in visible] for row in rows]
    return Result(
        ResultTable("Words", [columns[k] for k in visible], rows, f"{lab.note()} {_note(ours, scored)}", digits=1)
    )


def _cells(scored: Sequence[WordsScore]) -> list[Cell]:
    stated = [v for v in scored if v.words.stated]
    located = [v.located for v in scored]
    return [
        _mean([v.paper for v in scored]),
        _mean([v.fair for v in scored]),
        _mean([v.right for v in scored]),
        _mean([not v.words.stated for v in scored]),
        _mean([v.right for v in stated]),
        _mean([v.true for v in stated]),
        None if any(where is None for where in located) else _mean([bool(where) for where in located]),
    ]


def _mean(values: Sequence[float]) -> Cell:
    return Estimate.of([100.0 * value for value in values])


def _note(ours: Sequence[WordsScore], scored: dict[str, list[WordsScore]]) -> str:
    """Return what the columns are, and how far ours is ahead, with intervals over the same images."""
    ways = ("paper", "fair", "right")
    chance = [Estimate.of([100 * (float(getattr(v, way)) - v.by_chance) for v in ours]).show() for way in ways]
    ahead = [f"{', '.join(chance)} points above an attribute of the parts by chance"]
    for method in ("scout", "goyal"):
        pairs = list(zip(ours, scored[method], strict=True))
        gains = [[100 * (float(getattr(a, way)) - float(getattr(b, way))) for a, b in pairs] for way in ways]
        ahead.append(f"{', '.join(Estimate.of(values).show() for values in gains)} above {method}")
    return (
        "Right: the first attribute is had by exactly one of the two classes, of all explanations. The paper's way "
        "takes the attributes of all parts that either cell shows and always says something; a common part: the same, "
        "but where the two cells show none nothing is said, which does not count as right; ours takes the attributes "
        "of the parts that both show, and withholds where nothing stands out, too. "
        f"In these three ways ours is {'; '.join(ahead)}."
    )
