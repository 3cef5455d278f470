"""Figures of a run: a few examples per method, and its metrics as bars."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from partswap.data.base import Dataset
from partswap.drawing.html import used_distractors
from partswap.drawing.palette import EDITS
from partswap.inputs.images import save_image
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import METRICS, Score
from partswap.results.counterfactual import Counterfactual, Pictures
from partswap.runs.context import RunContext
from partswap.runs.tasks import Task
from partswap.utils.files import write_with

EXAMPLES = 4


def with_pictures(cf: Counterfactual, task: Task, data: Dataset, preprocess: Preprocess) -> Counterfactual:
    """Return a counterfactual with its images; only those that are drawn are read."""
    used = set(used_distractors(cf))
    blank = Image.new("RGB", preprocess.shape[::-1])
    donors = [
        preprocess.crop(data.image(index)) if position in used else blank
        for position, index in enumerate(task.distractors[: cf.distractors])
    ]
    return replace(cf, pictures=Pictures(preprocess.crop(data.image(task.query)), donors))


def draw_examples(explained: Sequence[tuple[Task, Counterfactual]], bench: RunContext, path: Path) -> Path:
    """Draw some explanations, evenly spaced over the run, one below the other."""
    step = max(1, len(explained) // EXAMPLES)
    preprocess = bench.classifier.preprocess
    chosen = [with_pictures(cf, task, bench.data, preprocess) for task, cf in explained[::step][:EXAMPLES]]
    return save_stack([picture_of(cf) for cf in chosen], path)


def picture_of(cf: Counterfactual) -> Image.Image:
    """Return the figure of a counterfactual as an image."""
    file = io.BytesIO()
    cf.plot().savefig(file, dpi=100)
    file.seek(0)
    return Image.open(file).convert("RGB")


def save_stack(pictures: Sequence[Image.Image], path: Path) -> Path:
    """Write pictures one below the other."""
    sheet = Image.new("RGB", (max(p.width for p in pictures), sum(p.height for p in pictures)), "white")
    top = 0
    for picture in pictures:
        sheet.paste(picture, (0, top))
        top += picture.height
    save_image(sheet, path, place="out", resumes=True)
    return path


def draw_metrics(scores: Mapping[str, Mapping[str, Score]], path: Path) -> Path:
    """Draw every metric that could be computed as a group of bars, one bar per method."""
    from matplotlib.figure import Figure

    names = [
        n
        for n in METRICS.names()
        if any(n in of_method and of_method[n].all is not None for of_method in scores.values())
    ]
    figure = Figure(figsize=(2.0 * len(names) + 1, 2.8), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        metric = METRICS.get(name)()
        values = [of_method[name].all for of_method in scores.values()]
        heights = [0.0 if value is None else value * (100 if metric.percent else 1) for value in values]
        axis.bar(list(scores), heights, color=[EDITS[k % len(EDITS)] for k in range(len(scores))])
        for k, value in enumerate(values):
            axis.text(k, heights[k], metric.show(value), ha="center", va="bottom", fontsize=8)
        axis.set_title(f"{metric.title}{', %' if metric.percent else ''}", fontsize=10)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.set_yticks([])
        axis.margins(y=0.15)
        axis.tick_params(axis="x", labelsize=8, length=0, rotation=30)
    write_with(path, lambda file: figure.savefig(file, format="png", dpi=120), place="out", resumes=True)
    return path
