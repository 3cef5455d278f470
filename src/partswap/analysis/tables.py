"""A finished run as a table, with what it explains and leaves out in words."""

from __future__ import annotations

from partswap.metrics import METRICS
from partswap.runs.folder import Run
from partswap.utils.files import read_json
from partswap.utils.tables import ResultTable


def metrics_table(run: Run) -> ResultTable:
    """Return the metrics of a finished run, one column per method."""
    content = read_json(run.folder / "metrics.json")
    rows = []
    for name in METRICS.names():
        metric = METRICS.get(name)()
        for which in metric.ways:
            scores = [of_method.get(name, {}) for of_method in content.values()]  # a metric may be newer than the run
            values = [(score.get(which), score.get(f"{which}_interval")) for score in scores]
            if any(value is not None for value, _ in values):
                rows.append([metric.heading(which), *(metric.show(*value) for value in values)])
    words = (explained_text(run), skipped_text(run), missing_text(run), *run.record.get("notes", ()))
    note = " ".join(filter(None, words))
    return ResultTable(f"Run {run.folder}", ["metric", *content], rows, note)


def missing_text(run: Run) -> str:
    """Return in words which methods of a run went without their semantic term, for want of an auxiliary."""
    if run.record["settings"]["auxiliary"] is not None:
        return ""
    without = [name for name, settings in run.record["methods"].items() if float(settings.get("lam") or 0) > 0]
    return f"No auxiliary: {', '.join(without)} without the semantic term." if without else ""


def explained_text(run: Run) -> str:
    """Return in words which images a run explains: those the model gets right, those it gets wrong, or both."""
    settings, count = run.record["settings"], run.record["tasks"]
    wrong = run.record.get("explained", {}).get("wrong", 0)  # earlier versions explained no mistakes
    where = f"of {settings['data']} {settings['split']}"
    if not wrong:
        return f"{count} images {where}, {settings['model']}."
    if wrong == count:
        return f"{wrong} misclassified images {where}, towards their true class; {settings['model']}."
    both = f"{count - wrong} images that are right and {wrong} misclassified ones, these towards their true class"
    return f"{count} images {where}: {both}; {settings['model']}."


def skipped_text(run: Run) -> str:
    """Return in words what a run left out."""
    skipped = run.record["skipped"]
    empty = skipped["classes_without_distractors"]
    words = []
    if run.record.get("settings", {}).get("only", "right") == "right":
        words.append(f"{skipped['misclassified_queries']} of {run.record['images']} images are misclassified")
    elif skipped["correct_queries"]:
        words.append(f"{skipped['correct_queries']} of {run.record['images']} images are right")
    if skipped.get("unreadable_images"):
        words.append(f"{skipped['unreadable_images']} more cannot be read")
    if empty:
        words.append(
            f"{skipped['queries_without_distractors']} have no distractor (no image of {len(empty)} classes is right)"
        )
    if skipped["not_drawn"]:
        words.append(f"{skipped['not_drawn']} were not drawn")
    return f"Left out: {', '.join(words)}." if words else "Nothing is left out."
