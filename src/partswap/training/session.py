"""What every training shares: a network, its data set, and a folder to resume from and to save to."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from partswap.cut.network import Cut
from partswap.data.base import Dataset
from partswap.inputs.preprocess import Preprocess
from partswap.models.checkpoints import T, Trained, load_trained, save_trained
from partswap.models.precision import autocast, device_of
from partswap.training.batches import Batch, BatchSource
from partswap.training.devices import main_first
from partswap.training.loop import Recipe, at_lr, fit, plain, refuse
from partswap.training.plan import TrainingPlan
from partswap.utils.files import LOCK
from partswap.utils.progress import Track, tracked


class TrainingTask(ABC):
    """A network and its inputs; a subclass defines targets and loss.

    Parameters
    ----------
    part : nn.Module
        What is trained: a whole network, or the part of it behind `trunk`.
    trunk : Cut or None
        The network cut where it is frozen, None to train from images.
    preprocess : Preprocess
        How images become inputs.
    new : sequence of parameters
        Those that start from random numbers.
    plan, recipe : Plan, Recipe
        What, and how; other learning rates and numbers of epochs may be passed to `fit`.
    """

    def __init__(
        self,
        part: nn.Module,
        trunk: Cut | None,
        preprocess: Preprocess,
        new: Sequence[nn.Parameter],
        plan: TrainingPlan,
        recipe: Recipe,
        *,
        cache: Path | None,
        track: Track,
    ) -> None:
        self.part, self.new, self.plan, self.recipe, self.track = part, new, plan, recipe, track
        self.feed = BatchSource(
            preprocess, trunk, plan.views, cache=cache, precision=recipe.precision, seed=recipe.seed, track=track
        )

    @abstractmethod
    def targets(self, data: Dataset, meal: Batch) -> Tensor:
        """Return the targets of some inputs."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, a scalar."""

    def batches(self, data: Dataset, epoch: int, first: int) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Yield inputs and targets of an epoch, from step `first` on."""
        for meal in self.feed.epoch(data, self.recipe.batch, epoch, first):
            yield meal.inputs, self.targets(data, meal)

    def fit(
        self,
        data: Dataset,
        recipe: Recipe,
        settings: Mapping[str, Any],
        out: Path,
        *,
        console: Console,
        accelerator: Any = None,
    ) -> dict[str, Any]:
        """Train, resuming from the folder's checkpoint if there is one; return the record."""
        with main_first(accelerator):
            self.feed.prepare(data)
        norms = [m for m in self.part.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        history = fit(
            self.part,
            partial(self.batches, data),
            math.ceil(len(data) / recipe.batch),
            recipe,
            out,
            loss=self.loss,
            new=self.new,
            key=settings,
            track=self.track,
            frozen=norms if self.plan.freeze_norm else (),
            accelerator=accelerator,
            on_epoch=epoch_line(console),
        )
        return {"plan": settings["plan"], "data": settings["data"], "recipe": asdict(recipe), "history": history}

    @torch.no_grad()
    def outputs(self, data: Dataset) -> Iterator[tuple[Batch, Tensor]]:
        """Yield the network's outputs for every image, in order, as it is at test time."""
        self.part.eval()
        device = device_of(self.part)
        meals = self.feed.test(data)
        first = list(itertools.islice(meals, 1))  # cached features have a bar of their own
        every = itertools.chain(first, meals)
        for meal in tracked(every, "measuring", self.track, total=len(data), size=lambda meal: len(meal.images)):
            with autocast(self.recipe.precision, device):
                answers = self.part(*(x.to(device) for x in meal.inputs))
            yield meal, answers.float().cpu()


def epoch_line(console: Console) -> Callable[[int, Mapping[str, float]], None]:
    """Return a function that prints one line per epoch."""

    def say(epoch: int, entry: Mapping[str, float]) -> None:
        console.print(f"epoch {epoch + 1:3d}: loss {entry['loss']:.3f}, {entry['seconds']:.0f} s", highlight=False)

    return say


def settings_of(plan: TrainingPlan, data: Dataset, **more: Any) -> dict[str, Any]:
    """Return the settings that a result depends on, besides the recipe."""
    return {"plan": asdict(plan), "data": data.fingerprint(), **more}


def finished(
    kind: type[T], out: Path, recipe: Recipe, settings: Mapping[str, Any], *, searched: bool = False
) -> T | None:
    """Return the result of a finished training in a folder, None if there is none.

    It is an error if the training was another one: other settings, or another recipe (but for the learning rate if it
    was searched for).
    """
    if searched and (out / "model.json").exists():
        recipe = at_lr(recipe, load_trained(kind, out).record["recipe"]["lr"])
    return load_if_finished(kind, out, {"recipe": asdict(recipe), **settings})


def load_if_finished(kind: type[T], out: Path, settings: Mapping[str, Any]) -> T | None:
    """Return what a folder holds, None if nothing; it is an error if that was made with other settings."""
    if not (out / "model.json").exists():
        return None
    done, now = load_trained(kind, out), plain(dict(settings))
    # Some settings are fields: the layer of a detector, its parts.
    then = {name: done.record.get(name, getattr(done, name, None)) for name in now}
    if then != now:
        refuse(out, f"{'an' if kind.kind[0] in 'aeiou' else 'a'} {kind.kind} made otherwise", then, now)
    return done


def finish(made: Trained, out: Path, accelerator: Any = None) -> None:
    """Save the result, and remove the checkpoints."""
    if accelerator is not None and not accelerator.is_main_process:
        return
    save_trained(made, out)
    for leftover in (*out.glob("*checkpoint-*"), out / "training.json", out / LOCK):
        leftover.unlink(missing_ok=True)
