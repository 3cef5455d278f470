"""``partswap train parts``: teach a network which part each cell shows, from keypoints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn
from torch.fx import GraphModule

from partswap.data.base import Dataset, Sample
from partswap.data.features import prefetch
from partswap.data.on_grid import cell_facts
from partswap.errors import SettingError
from partswap.experiments.train_classifier import Plan, begin, clean_up, cut_for_training, norms
from partswap.experiments.views import FrozenViews, Views
from partswap.grid import GridShape
from partswap.images import Preprocess
from partswap.models.parts import Detector, PartsDetector, load_detector, save_detector
from partswap.models.precision import autocast
from partswap.models.preprocessing import preprocess_for
from partswap.models.training import Recipe, fit, shuffled
from partswap.models.zoo import load_model
from partswap.progress import Track, no_progress
from partswap.splitting import Split


class _Flat(nn.Module):
    """A detector whose output is one row per image, as `split` wants it."""

    def __init__(self, detector: PartsDetector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: Tensor) -> Tensor:
        return self.detector(images).flatten(1)  # type: ignore[no-any-return]


def train_parts(
    train: Dataset,
    test: Dataset,
    plan: Plan,
    recipe: Recipe,
    out: Path,
    *,
    layer: str,
    cache: Path | None = None,
    track: Track = no_progress,
    console: Console | None = None,
) -> Detector:
    """Train a parts detector, save it to `out` and return it; a second call goes on, or returns what is there.

    The loss is the cross-entropy on cells that hold a keypoint; where a cell holds several parts they share the
    target. The score is the mean average precision over parts, on such cells of the test images.
    """
    console = console or Console(quiet=True)
    if not train.parts:
        raise SettingError("this data set has no keypoints.", "Use one that has: cub, dogs, aviary, inaturalist.")
    if (out / "model.json").exists():
        done = load_detector(out)
        console.print(f"{out} is finished: mean AP {100 * done.record['mean_ap']:.1f}", highlight=False)
        return done
    torch.manual_seed(recipe.seed)
    base = load_model(plan.architecture)
    begin(base, plan)
    preprocess = preprocess_for(base)
    model = PartsDetector(base, layer, len(train.parts), size=preprocess.size)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    trainer = _Session(model, base, preprocess, plan, cache, recipe, track)
    history = trainer.fit(train, recipe, out, console)
    precisions = trainer.average_precisions(test)
    mean = float(np.mean(list(precisions.values())))
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "recipe": asdict(recipe),
        "data": train.fingerprint(),
        "mean_ap": mean,
        "average_precision": precisions,
        "history": history,
    }
    detector = Detector(model.eval(), plan.architecture, layer, list(train.parts), preprocess, record)
    save_detector(detector, out)
    clean_up(out)
    console.print(f"parts detector: mean AP {100 * mean:.1f} on {len(test)} test images, saved {out}", highlight=False)
    return detector


class _Session:
    def __init__(
        self,
        model: PartsDetector,
        base: nn.Module,
        preprocess: Preprocess,
        plan: Plan,
        cache: Path | None,
        recipe: Recipe,
        track: Track,
    ) -> None:
        self.model, self.preprocess, self.plan, self.cache, self.track = model, preprocess, plan, cache, track
        self.recipe = recipe
        self.grid = model.grid
        self.split: Split | None = None
        flat = _Flat(model)
        self.part: nn.Module = flat
        if plan.freeze is not None:
            # The trunk as the classifier has it: what was computed for training one serves the other.
            self.split = cut_for_training(base, plan.freeze, preprocess.size)
            self.part = _behind(flat, self.split, preprocess.size)
        self._targets: dict[tuple[int, int, int], Tensor] = {}
        self._frozen: dict[tuple[int, int], FrozenViews] = {}

    def fit(self, data: Dataset, recipe: Recipe, out: Path, console: Console) -> list[dict[str, float]]:
        if self.split is not None:
            self.frozen(data, self.plan.views)

        def said(epoch: int, entry: Any) -> None:
            console.print(f"epoch {epoch + 1:3d}: loss {entry['loss']:.3f}, {entry['seconds']:.0f} s", highlight=False)

        return fit(
            self.part,
            lambda epoch, first: self.batches(data, recipe, epoch, first),
            math.ceil(len(data) / recipe.batch),
            recipe,
            out,
            loss=lambda logits, targets: cell_loss(logits.unflatten(1, targets.shape[1:]), targets),
            new=list(self.model.classify.parameters()),
            key={"plan": asdict(self.plan), "data": data.fingerprint()},
            track=self.track,
            frozen=norms(self.part) if self.plan.freeze_norm else (),
            on_epoch=said,
        )

    def frozen(self, data: Dataset, count: int) -> FrozenViews:
        assert self.split is not None
        at = (id(data), count)
        if at not in self._frozen:
            views = Views(data, self.preprocess, seed=self.recipe.seed)
            self._frozen[at] = FrozenViews(
                views, self.split, count, cache=self.cache, precision=self.recipe.precision, track=self.track
            )
        return self._frozen[at]

    def target(self, views: Views, index: int, view: int) -> Tensor:
        """Return which parts each cell of a view holds, ``(parts, h, w)``."""
        at = (id(views.data), index, view)
        if at not in self._targets:
            self._targets[at] = part_targets(views.sample(index, view), views.data.parts, self.grid)
        return self._targets[at]

    def batches(self, data: Dataset, recipe: Recipe, epoch: int, first: int) -> Iterator[tuple[Any, Tensor]]:
        if self.split is not None:
            frozen = self.frozen(data, self.plan.views)
            for inputs, rows, flipped in frozen.epoch(epoch, first, recipe.batch, recipe.seed):
                places = [divmod(int(row), len(data)) for row in rows]
                targets = torch.stack([self.target(frozen.views, i, view) for view, i in places])
                targets[flipped] = targets[flipped].flip(3)
                yield inputs, targets
            return
        views = Views(data, self.preprocess, seed=recipe.seed)
        order = shuffled(len(data), recipe.seed, epoch)
        chunks = [order[s : s + recipe.batch] for s in range(first * recipe.batch, len(order), recipe.batch)]
        for chosen, images in zip(chunks, prefetch(chunks, lambda i: views.tensor(i, 1 + epoch)), strict=True):
            samples = [views.sample(i, 1 + epoch) for i in chosen]
            yield images, torch.stack([part_targets(s, data.parts, self.grid) for s in samples])

    @torch.no_grad()
    def average_precisions(self, data: Dataset) -> dict[str, float]:
        """Return the average precision of every part on the cells that hold a keypoint."""
        self.part.eval()
        views = Views(data, self.preprocess, seed=self.recipe.seed)
        chunks = [range(start, min(start + 32, len(data))) for start in range(0, len(data), 32)]
        scores, truth = [], []
        if self.split is not None:
            frozen = self.frozen(data, 1)
            batches: Iterator[tuple[Tensor, ...]] = (frozen.rows(chunk) for chunk in chunks)
        else:
            batches = ((inputs,) for inputs in prefetch(chunks, lambda i: views.tensor(i, 0)))
        for chunk, inputs in zip(chunks, batches, strict=True):
            with autocast(self.recipe.precision):
                logits = self.part(*inputs).float()
            targets = torch.stack([part_targets(views.sample(i, 0), data.parts, self.grid) for i in chunk])
            held = targets.any(1)
            shown = logits.unflatten(1, targets.shape[1:]).softmax(1)
            scores.append(shown.movedim(1, 3)[held].numpy())
            truth.append(targets.movedim(1, 3)[held].numpy())
        return average_precisions(np.concatenate(scores), np.concatenate(truth), data.parts)


def _behind(flat: _Flat, trunk: Split, size: int) -> nn.Module:
    """Return what of a detector lies behind a classifier's frozen layer."""
    backbone = flat.detector.backbone
    # The backbone is a flat graph: the layer's output is that of the last module inside it.
    inside = [
        str(node.target)
        for node in (backbone.graph.nodes if isinstance(backbone, GraphModule) else ())
        if node.op == "call_module" and f"{node.target}.".startswith(f"{trunk.layer}.")
    ]
    probe = torch.randn(2, 3, size, size)
    if inside:
        cut = cut_for_training(flat, f"detector.backbone.{inside[-1]}", size)
        with torch.no_grad():
            if torch.allclose(cut.features(probe), trunk.features(probe), atol=1e-4):
                return cut.head.body
    raise SettingError(
        f"the detector cannot be frozen up to {trunk.layer!r}: nothing in its backbone gives that layer's output.",
        "Freeze up to another layer, or leave --freeze out.",
    )


def part_targets(sample: Sample, parts: Sequence[str], grid: GridShape) -> Tensor:
    """Return which parts have a keypoint in each cell, ``(parts, h, w)`` bool; none at all without annotations."""
    found = cell_facts(sample, grid).keypoints
    targets = torch.zeros(len(parts), grid.cells, dtype=torch.bool)
    for cell, held in enumerate(found or ()):
        for part in held:
            targets[list(parts).index(part), cell] = True
    return targets.reshape(len(parts), grid.h, grid.w)


def cell_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy over cells that hold a keypoint; a cell with several parts wants all of them equally."""
    held = targets.any(1)
    wanted = targets.movedim(1, 3)[held].float()
    if not len(wanted):
        return logits.sum() * 0  # no keypoint in the whole batch
    return F.cross_entropy(logits.movedim(1, 3)[held], wanted / wanted.sum(1, keepdim=True))


def average_precisions(scores: NDArray[Any], truth: NDArray[Any], parts: Sequence[str]) -> dict[str, float]:
    """Return each part's average precision; parts that no cell holds are left out."""
    from sklearn.metrics import average_precision_score

    return {
        part: float(average_precision_score(truth[:, k], scores[:, k]))
        for k, part in enumerate(parts)
        if truth[:, k].any()
    }
