"""Table 3: what each component of the paper's method brings, and ours below."""

from __future__ import annotations

from partswap.analysis.paper.context import TABLES, Result, Row, TableContext

#: Semantic loss, several distractors, prefilter; the method, its settings; the paper's Near-KP / Same-KP / s / #Edits.
ROWS: tuple[tuple[str, str, str, str, dict[str, float], str | None], ...] = (
    ("", "", "", "goyal", {}, "54.6 / 8.3 / 0.81 / 5.5"),
    ("yes", "", "", "paper", {}, "52.1 / 22.0 / 1.02 / 6.8"),
    ("", "yes", "", "paper", {"lam": 0.0}, "65.6 / 13.8 / 9.98 / 3.5"),
    ("yes", "yes", "", "paper", {}, "69.2 / 36.0 / 10.82 / 3.8"),
    ("yes", "yes", "yes", "paper", {"keep": 0.1}, "68.5 / 35.3 / 1.15 / 3.9"),
    ("yes", "yes", "set objective, beam", "partswap", {}, None),
)


@TABLES.register("components")
def components(lab: TableContext) -> Result:
    """Return the ablation of components."""
    rows = []
    for number, (semantic, many, extra, method, settings, numbers) in enumerate(ROWS, 1):
        # Goyal et al. take the first distractor of however many are drawn, so this row is shared with other tables.
        scores = lab.scores(method, settings, **({} if many or method == "goyal" else {"distractors": 1}))
        rows.append(Row([str(number), semantic, many, extra], scores, lab.published(numbers)))
    first = ["row", "semantic loss", "distractors", "filter"]
    metrics = ["near_kp", "same_kp", "seconds", "edits"]
    return lab.result("Effect of the components, all edits", first, metrics, rows, paper="paper (V-100)")
