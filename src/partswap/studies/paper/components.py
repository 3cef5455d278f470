"""Table 3: what each component of the paper's method brings, and ours below."""

from __future__ import annotations

from partswap.studies.paper.lab import PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable

#: Semantic loss, several distractors, prefilter; the method, its settings; the paper's Near-KP / Same-KP / s / #Edits.
ROWS: tuple[tuple[str, str, str, str, dict[str, float], str | None], ...] = (
    ("", "", "", "goyal", {}, "54.6 / 8.3 / 0.81 / 5.5"),
    ("yes", "", "", "paper", {}, "52.1 / 22.0 / 1.02 / 6.8"),
    ("", "yes", "", "paper", {"lam": 0.0}, "65.6 / 13.8 / 9.98 / 3.5"),
    ("yes", "yes", "", "paper", {}, "69.2 / 36.0 / 10.82 / 3.8"),
    ("yes", "yes", "yes", "paper", {"keep": 0.1}, "68.5 / 35.3 / 1.15 / 3.9"),
    ("yes", "yes", "set objective, beam", "partswap", {}, None),
)


@PAPER.register("components")
def components(lab: Lab) -> Result:
    """Return the ablation of components."""
    rows: list[list[Cell]] = []
    for number, (semantic, many, extra, method, settings, published) in enumerate(ROWS, 1):
        # Goyal et al. take the first distractor of however many are drawn, so this row is shared with other tables.
        scores = lab.scores(method, settings, **({} if many or method == "goyal" else {"distractors": 1}))
        numbers = [cell(scores, name) for name in ("near_kp", "same_kp", "seconds", "edits")]
        rows.append([str(number), semantic, many, extra, *numbers, published if lab.comparable else None])
    columns = [
        "row",
        "semantic loss",
        "distractors",
        "filter",
        "Near-KP",
        "Same-KP",
        "seconds",
        "#Edits",
        "paper (V-100)",
    ]
    return Result(ResultTable("Effect of the components, all edits", columns, rows, lab.note(), digits=2))
