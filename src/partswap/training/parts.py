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

from partswap.cut.network import Cut
from partswap.data.base import Dataset, Sample
from partswap.data.on_grid import cell_facts
from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.images import Preprocess
from partswap.models.parts import Detector, PartsDetector, load_detector, save_detector
from partswap.models.precision import autocast, default_device, device_of
from partswap.models.zoo import load_model
from partswap.progress import Track, no_progress
from partswap.sides import swap_sides
from partswap.training.classifier import Plan, begin, clean_up, cut_for_training, epoch_line, norms
from partswap.training.feed import Feed, Meal
from partswap.training.loop import Recipe, fit, refuse_finished


class _Flat(nn.Module):
    """A detector whose output is one row per image, as `cut_network` wants it."""

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
        refuse_finished(out, "a detector", {**done.record, "layer": done.layer, "parts": list(done.parts)},
                        plan=asdict(plan), recipe=asdict(recipe), data=train.fingerprint(), layer=layer,
                        parts=list(train.parts))  # fmt: skip
        console.print(f"{out} is finished: mean AP {100 * done.record['mean_ap']:.1f}", highlight=False)
        return done
    torch.manual_seed(recipe.seed)
    base = load_model(plan.architecture)
    begin(base, plan)
    base.to(default_device())
    preprocess = plan.preprocess(base)
    model = PartsDetector(base, layer, len(train.parts), size=preprocess.size)
    model.to(default_device(), memory_format=torch.channels_last)  # type: ignore[call-overload]
    trainer = _Session(model, base, preprocess, plan, cache, recipe, track)
    history = trainer.fit(train, out, console, layer)
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
    """A detector with the data it learns from."""

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
        self.model, self.plan, self.recipe, self.track, self.grid = model, plan, recipe, track, model.grid
        flat = _Flat(model)
        # The trunk as the classifier has it: what was computed for training one serves the other.
        trunk = cut_for_training(base, plan.freeze, preprocess.size) if plan.freeze is not None else None
        self.part: nn.Module = flat if trunk is None else _behind(flat, trunk, preprocess.size)
        self.feed = Feed(
            preprocess, trunk, plan.views, cache=cache, precision=recipe.precision, seed=recipe.seed, track=track
        )
        self._targets: dict[tuple[int, int, int], Tensor] = {}

    def fit(self, data: Dataset, out: Path, console: Console, layer: str) -> list[dict[str, float]]:
        self.feed.prepare(data)
        return fit(
            self.part,
            lambda epoch, first: self.batches(data, epoch, first),
            math.ceil(len(data) / self.recipe.batch),
            self.recipe,
            out,
            loss=lambda logits, targets: cell_loss(logits.unflatten(1, targets.shape[1:]), targets),
            new=list(self.model.classify.parameters()),
            key={"plan": asdict(self.plan), "data": data.fingerprint(), "layer": layer, "parts": list(data.parts)},
            track=self.track,
            frozen=norms(self.part) if self.plan.freeze_norm else (),
            on_epoch=epoch_line(console),
        )

    def batches(self, data: Dataset, epoch: int, first: int) -> Iterator[tuple[Any, Tensor]]:
        for meal in self.feed.epoch(data, self.recipe.batch, epoch, first):
            yield meal.inputs, self.targets(data, meal)

    def targets(self, data: Dataset, meal: Meal) -> Tensor:
        """Return which parts each cell of what is fed holds, ``(n, parts, h, w)``."""
        views = self.feed.views(data)
        found = []
        for index, view in zip(meal.images, meal.views, strict=True):
            at = (id(data), index, view)
            target = self._targets.get(at)
            if target is None:
                target = part_targets(views.sample(index, view), data.parts, self.grid)
            if self.feed.trunk is not None or view == 0:  # others are never seen again
                self._targets[at] = target
            found.append(target)
        targets = torch.stack(found)
        targets[meal.flipped] = mirrored_targets(targets[meal.flipped], data.parts)
        return targets

    @torch.no_grad()
    def average_precisions(self, data: Dataset) -> dict[str, float]:
        """Return the average precision of every part on the cells that hold a keypoint."""
        self.part.eval()
        scores, truth = [], []
        for meal in self.feed.test(data):
            device = device_of(self.part)
            with autocast(self.recipe.precision, device):
                logits = self.part(*(x.to(device) for x in meal.inputs)).float().cpu()
            targets = self.targets(data, meal)
            held = targets.any(1)
            scores.append(logits.unflatten(1, targets.shape[1:]).softmax(1).movedim(1, 3)[held].numpy())
            truth.append(targets.movedim(1, 3)[held].numpy())
        return average_precisions(np.concatenate(scores), np.concatenate(truth), data.parts)


def _behind(flat: _Flat, trunk: Cut, size: int) -> nn.Module:
    """Return what of a detector lies behind a classifier's frozen layer."""
    backbone = flat.detector.backbone
    # The backbone is a flat graph: the layer's output is that of the last module inside it.
    inside = [
        str(node.target)
        for node in (backbone.graph.nodes if isinstance(backbone, GraphModule) else ())
        if node.op == "call_module" and f"{node.target}.".startswith(f"{trunk.layer}.")
    ]
    probe = torch.randn(2, 3, size, size, device=device_of(flat))
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


def mirrored_targets(targets: Tensor, parts: Sequence[str]) -> Tensor:
    """Return the targets ``(n, parts, h, w)`` of mirrored grids: a left eye is a right eye there."""
    return targets[:, [list(parts).index(swap_sides(part)) for part in parts]].flip(3)


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
