"""``partswap train classifier``: fine-tune a network on a data set, all of it or the part behind a frozen trunk."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn

from partswap.data.base import Dataset
from partswap.data.subset import held_out
from partswap.errors import SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.models.checkpoints import Classifier
from partswap.models.open import absolute_name
from partswap.models.outputs import outputs_of
from partswap.models.precision import device_of, training_device
from partswap.training.batches import Batch
from partswap.training.loop import Recipe, at_lr, search_lr
from partswap.training.plan import TrainingPlan
from partswap.training.session import TrainingTask, finish, finished, settings_of
from partswap.utils.files import read_json
from partswap.utils.progress import Track, no_progress

#: The rates that ``--lr auto`` tries, for one epoch each, on nine tenths of the training images.
LEARNING_RATES = {"sgd": (0.001, 0.003, 0.01, 0.03), "adamw": (3e-5, 1e-4, 3e-4, 1e-3)}


def train_classifier(
    train: Dataset,
    test: Dataset,
    plan: TrainingPlan,
    recipe: Recipe,
    out: Path,
    *,
    search: bool = False,
    cache: Path | None = None,
    track: Track = no_progress,
    console: Console | None = None,
    accelerator: Any = None,
    device: str | None = None,
) -> Classifier:
    """Train a classifier, save it to `out` and return it; a second call resumes, or returns the result.

    Parameters
    ----------
    train, test : Dataset
        Images to learn from, and to measure on once at the end.
    plan, recipe : Plan, Recipe
        What, and how.
    out : Path
        Folder for checkpoints and the result.
    search : bool
        Whether to search for a good learning rate first; a training that goes on keeps the one that was found.
    cache : Path, optional
        Folder of caches.
    accelerator : accelerate.Accelerator, optional
        Spreads every batch over several devices; see `partswap.training.devices`.
    device : str, optional
        ``"cpu"``, ``"cuda"``, ``"mps"``, or ``"auto"``, the fastest; a CUDA GPU if there is one by default.
    """
    console = console or Console(quiet=True)
    if list(train.classes) != list(test.classes):
        raise SettingError("the two splits have different classes.", "Use two splits of one data set.")
    settings = settings_of(plan, train)
    done = finished(Classifier, out, recipe, settings, searched=search)
    if done is not None:
        console.print(f"{out} is finished: {done.record['accuracy']:.1%} right", highlight=False)
        return done
    where = accelerator.device if accelerator is not None else training_device(device)
    session = _Session(train, plan, recipe, where, cache=cache, track=track)
    if search:
        recipe = at_lr(recipe, _found_lr(out) or _find_lr(session, train, settings, console))
    record = session.fit(train, recipe, settings, out, console=console, accelerator=accelerator)
    accuracy = session.accuracy(test)
    record |= {"train_images": len(train), "test_images": len(test), "accuracy": accuracy}
    made = Classifier(
        session.model, absolute_name(plan.architecture), list(train.classes), session.feed.preprocess, record=record
    )
    finish(made, out, accelerator)
    console.print(f"{plan.architecture}: {accuracy:.1%} of {len(test)} test images right, saved {out}", highlight=False)
    return made


def _check_classes(model: nn.Module, name: str, preprocess: Preprocess, classes: int) -> None:
    """Raise an error if a network has another number of classes than the data set."""
    rows = outputs_of(model, torch.zeros(2, 3, *preprocess.shape, device=device_of(model)))
    if rows is not None and rows.shape[1] != classes:
        raise SettingError(
            f"{name} has {rows.shape[1]} classes and the data set {classes}.",
            "Let the function take an argument classes, and return a model with so many.",
        )


class _Session(TrainingTask):
    """A classifier and the images it learns from."""

    def __init__(
        self,
        train: Dataset,
        plan: TrainingPlan,
        recipe: Recipe,
        device: torch.device,
        *,
        cache: Path | None,
        track: Track,
    ) -> None:
        torch.manual_seed(recipe.seed)
        self.model, random = plan.begin(device, classes=len(train.classes))
        preprocess = plan.preprocess(self.model)
        _check_classes(self.model, plan.architecture, preprocess, len(train.classes))
        if plan.pooled:
            start_pooled(self.model, random, preprocess.side)
        trunk = plan.trunk(self.model)
        part = self.model if trunk is None else trunk.head.body
        new = [parameter for name, parameter in self.model.named_parameters() if name in random]
        super().__init__(part, trunk, preprocess, new, plan, recipe, cache=cache, track=track)

    def targets(self, data: Dataset, meal: Batch) -> Tensor:
        """Return the classes' probabilities, ``(n, classes)``."""
        return F.one_hot(torch.tensor([data.label(i) for i in meal.images]), len(data.classes)).float()

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return F.cross_entropy(outputs, targets, label_smoothing=self.recipe.label_smoothing)

    def batches(self, data: Dataset, epoch: int, first: int) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Yield inputs and targets, pairs of images mixed if the recipe says so."""
        mixup = self.recipe.mixup
        for step, (inputs, targets) in enumerate(super().batches(data, epoch, first), first):
            if not mixup:
                yield inputs, targets
                continue
            rng = np.random.default_rng((self.recipe.seed, 4, epoch, step))
            share, other = float(rng.beta(mixup, mixup)), rng.permutation(len(targets))
            mixed = tuple(share * x + (1 - share) * x[other] for x in inputs)
            yield mixed, share * targets + (1 - share) * targets[other]

    def accuracy(self, data: Dataset) -> float:
        """Return the share of images that the network gets right, as they are at test time."""
        labels = torch.from_numpy(data.labels())
        right = sum(int((said.argmax(1) == labels[meal.images]).sum()) for meal, said in self.outputs(data))
        return right / len(data)


def _found_lr(out: Path) -> float | None:
    """Return the learning rate of a training that was begun, None if there is none."""
    begun = out / "training.json"
    return float(read_json(begun)["settings"]["recipe"]["lr"]) if begun.exists() else None


def _find_lr(session: _Session, train: Dataset, settings: Mapping[str, Any], console: Console) -> float:
    """Return the learning rate that learns most in one epoch, judged on training images it did not see."""
    recipe = session.recipe
    session.feed.prepare(train)  # all of it is needed later
    rest, judged = held_out(train, share=0.1, seed=recipe.seed)
    if not len(judged):
        raise SettingError(
            "no class has a second training image to judge learning rates by.", "Give a number instead of auto."
        )
    before = {k: v.clone() for k, v in session.part.state_dict().items()}

    def trial(candidate: Recipe) -> float:
        session.part.load_state_dict(before)
        with tempfile.TemporaryDirectory() as folder:
            short = replace(candidate, epochs=1, schedule="cosine")
            session.fit(rest, short, settings, Path(folder), console=Console(quiet=True))
        return session.accuracy(judged)

    def say(lr: float, score: float) -> None:
        console.print(f"learning rate {lr:g}: {score:.1%} after one epoch", highlight=False)

    best = search_lr(LEARNING_RATES[recipe.optimizer], recipe, trial, on_trial=say)
    session.part.load_state_dict(before)
    console.print(f"learning rate {best:g}", highlight=False)
    return best


def start_pooled(model: nn.Module, new: Sequence[str], size: int) -> None:
    """Let new linear layers that read a whole grid start with the same weights in every cell.

    With few images that is a better start than separate weights: what is learned about one cell holds for all at first.
    """
    grids: list[torch.Size] = []
    read: dict[nn.Linear, torch.Size] = {}

    def look(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, nn.Linear) and grids and inputs[0].ndim == 2 and grids[-1].numel() == inputs[0].shape[1]:
            read[module] = grids[-1]
        if isinstance(output, Tensor) and output.ndim == 4:
            grids.append(output.shape[1:])

    hooks = [module.register_forward_hook(look) for module in model.modules()]
    with torch.no_grad():
        model.eval()(torch.zeros(1, 3, size, size, device=device_of(model)))
    for hook in hooks:
        hook.remove()
    names = {module: name for name, module in model.named_modules()}
    found = {m: shape for m, shape in read.items() if f"{names[m]}.weight" in new and shape[1] * shape[2] > 1}
    if not found:
        raise SettingError("no new linear layer of this network reads a whole grid.", "Leave {pooled_start} out.")
    for module, (channels, *cells) in found.items():
        count = math.prod(cells)
        shared = nn.Linear(channels, module.out_features).weight.detach().to(module.weight) / count
        with torch.no_grad():
            module.weight.copy_(shared[:, :, None].expand(-1, -1, count).reshape_as(module.weight))
