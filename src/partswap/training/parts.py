"""``partswap train parts``: teach a network which part each cell shows, from keypoints."""

from __future__ import annotations

from collections.abc import Sequence
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
from partswap.models.parts import Detector, PartsDetector
from partswap.models.precision import device_of, training_device
from partswap.training.batches import Batch
from partswap.training.loop import Recipe
from partswap.training.plan import TrainingPlan, cut_for_training
from partswap.training.session import TrainingTask, finish, finished, settings_of
from partswap.utils.progress import Track, no_progress
from partswap.utils.sides import swap_sides


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
    plan: TrainingPlan,
    recipe: Recipe,
    out: Path,
    *,
    layer: str,
    cache: Path | None = None,
    track: Track = no_progress,
    console: Console | None = None,
    device: str | None = None,
) -> Detector:
    """Train a parts detector, save it to `out` and return it; a second call resumes, or returns the result.

    The loss is the cross-entropy on cells that hold a keypoint; where a cell holds several parts they share the
    target. The score is the mean average precision over parts, on such cells of the test images. `device` is that of
    `train_classifier`.
    """
    console = console or Console(quiet=True)
    if not train.parts:
        raise SettingError("this data set has no keypoints.", "Use one that has: cub, dogs, aviary, inaturalist.")
    settings = settings_of(plan, train, layer=layer, parts=list(train.parts))
    done = finished(Detector, out, recipe, settings)
    if done is not None:
        console.print(f"{out} is finished: mean AP {100 * done.record['mean_ap']:.1f}", highlight=False)
        return done
    session = _Session(train, plan, recipe, layer, training_device(device), cache=cache, track=track)
    record = session.fit(train, recipe, settings, out, console=console)
    precisions = session.average_precisions(test)
    mean = float(np.mean(list(precisions.values())))
    record |= {"mean_ap": mean, "average_precision": precisions}
    preprocess, parts = session.feed.preprocess, list(train.parts)
    made = Detector(session.model.eval(), plan.architecture, layer, parts, preprocess, record=record)
    finish(made, out)
    console.print(f"parts detector: mean AP {100 * mean:.1f} on {len(test)} test images, saved {out}", highlight=False)
    return made


class _Session(TrainingTask):
    """A detector and the images it learns from."""

    def __init__(
        self,
        train: Dataset,
        plan: TrainingPlan,
        recipe: Recipe,
        layer: str,
        device: torch.device,
        *,
        cache: Path | None,
        track: Track,
    ) -> None:
        torch.manual_seed(recipe.seed)
        base, _ = plan.begin(device)
        preprocess = plan.preprocess(base)
        self.model = PartsDetector(base, layer, len(train.parts), size=preprocess.side)
        self.model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        flat = _Flat(self.model)
        # The same trunk as the classifier's, so that they share cached features.
        trunk = plan.trunk(base)
        part = flat if trunk is None else _behind(flat, trunk, preprocess.side)
        new = list(self.model.classify.parameters())
        super().__init__(part, trunk, preprocess, new, plan, recipe, cache=cache, track=track)
        self._targets: dict[tuple[int, int, int], Tensor] = {}

    def targets(self, data: Dataset, meal: Batch) -> Tensor:
        """Return which parts each cell of the inputs holds, ``(n, parts, h, w)``."""
        views = self.feed.views(data)
        found = []
        for index, view in zip(meal.images, meal.views, strict=True):
            at = (id(data), index, view)
            target = self._targets.get(at)
            if target is None:
                target = part_targets(views.sample(index, view), data.parts, self.model.grid)
            if self.feed.trunk is not None or view == 0:  # others are never seen again
                self._targets[at] = target
            found.append(target)
        targets = torch.stack(found)
        targets[meal.flipped] = mirrored_targets(targets[meal.flipped], data.parts)
        return targets

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy on cells that hold a keypoint."""
        return cell_loss(outputs.unflatten(1, targets.shape[1:]), targets)

    def average_precisions(self, data: Dataset) -> dict[str, float]:
        """Return the average precision of every part on the cells that hold a keypoint."""
        scores, truth = [], []
        for meal, logits in self.outputs(data):
            targets = self.targets(data, meal)
            held = targets.any(1)
            scores.append(logits.unflatten(1, targets.shape[1:]).softmax(1).movedim(1, 3)[held].numpy())
            truth.append(targets.movedim(1, 3)[held].numpy())
        return average_precisions(np.concatenate(scores), np.concatenate(truth), data.parts)


def _behind(flat: _Flat, trunk: Cut, size: int) -> nn.Module:
    """Return the part of a detector behind a classifier's frozen layer."""
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
            if torch.allclose(cut.features(probe).values, trunk.features(probe).values, atol=1e-4):
                return cut.head.body
    raise SettingError(
        f"the detector cannot be frozen up to {trunk.layer!r}: nothing in its backbone gives that layer's output.",
        "Freeze up to another layer, or leave {freeze} out.",
    )


def part_targets(sample: Sample, parts: Sequence[str], grid: GridShape) -> Tensor:
    """Return which parts have a keypoint in each cell, ``(parts, h, w)`` bool; none at all without annotations."""
    targets = torch.zeros(len(parts), grid.cells, dtype=torch.bool)
    for cell, held in enumerate(cell_facts(sample, grid).keypoints or ()):
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
