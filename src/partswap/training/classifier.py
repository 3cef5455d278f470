"""``partswap train classifier``: fine-tune a network on a data set, all of it or what lies behind a frozen trunk."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn

from partswap.cut.network import Cut, cut_network
from partswap.data.base import Dataset
from partswap.data.subset import held_out
from partswap.errors import SettingError
from partswap.images import Preprocess
from partswap.models.checkpoints import Classifier, load_classifier, save_classifier
from partswap.models.precision import autocast, default_device, device_of
from partswap.models.preprocessing import preprocess_for
from partswap.models.weights import start_from
from partswap.models.zoo import load_model
from partswap.progress import Track, no_progress
from partswap.store import LOCK, read_json
from partswap.training.devices import main_first
from partswap.training.feed import Feed
from partswap.training.loop import Recipe, at_lr, fit, refuse_finished, search_lr

#: What ``--lr auto`` tries, for one epoch each, on nine tenths of the training images.
LEARNING_RATES = {"sgd": (0.001, 0.003, 0.01, 0.03), "adamw": (3e-5, 1e-4, 3e-4, 1e-3)}


@dataclass(frozen=True)
class Plan:
    """What to train.

    Attributes
    ----------
    architecture : str
        A name from the zoo.
    start : str or None
        A file, "default" for the official ImageNet weights, or None to start from random numbers.
    freeze : str or None
        The layer up to which nothing changes; its output is computed once. None trains everything, from the images.
    views : int
        How many views of each training image are kept behind the frozen layer.
    freeze_norm : bool
        Whether batch norm keeps the statistics it started with, as it should with small batches.
    resize : int or None
        Short side of the image before the centre is cropped; what the network usually has if None.
    pooled : bool
        Whether a new linear layer that reads a whole grid starts as if it read the grid's average.
    """

    architecture: str
    start: str | None = "default"
    freeze: str | None = None
    views: int = 4
    freeze_norm: bool = True
    resize: int | None = None
    pooled: bool = False

    def preprocess(self, model: nn.Module) -> Preprocess:
        """Return how images become inputs."""
        usual = preprocess_for(model)
        if self.resize is None:
            return usual
        if self.resize < usual.size:
            raise SettingError(f"resize is {self.resize}.", f"The network sees {usual.size} pixels: use at least that.")
        return replace(usual, resize=self.resize)


def train_classifier(
    train: Dataset,
    test: Dataset,
    plan: Plan,
    recipe: Recipe,
    out: Path,
    *,
    search: bool = False,
    cache: Path | None = None,
    track: Track = no_progress,
    console: Console | None = None,
    accelerator: Any = None,
) -> Classifier:
    """Train a classifier, save it to `out` and return it; a second call goes on, or returns what is there.

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
    """
    console = console or Console(quiet=True)
    if list(train.classes) != list(test.classes):
        raise SettingError("the two splits have different classes.", "Use two splits of one data set.")
    if (out / "model.json").exists():
        done = load_classifier(out)
        if search:
            recipe = at_lr(recipe, done.record["recipe"]["lr"])
        refuse_finished(out, "a classifier", done.record, plan=asdict(plan), recipe=asdict(recipe),
                        data=train.fingerprint())  # fmt: skip
        console.print(f"{out} is finished: {done.record['accuracy']:.1%} right", highlight=False)
        return done
    torch.manual_seed(recipe.seed)
    session = _Session(
        train, plan, cache, recipe, track, default_device() if accelerator is None else accelerator.device
    )
    if search:
        recipe = at_lr(recipe, _found_lr(out) or _find_lr(session, recipe, console))
    history = session.fit(recipe, out, console, accelerator)
    accuracy = session.accuracy(test)
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "recipe": asdict(recipe),
        "data": train.fingerprint(),
        "train_images": len(train),
        "test_images": len(test),
        "accuracy": accuracy,
        "history": history,
    }
    classifier = Classifier(session.model, plan.architecture, list(train.classes), session.preprocess, record)
    if accelerator is None or accelerator.is_main_process:
        save_classifier(classifier, out)
        clean_up(out)
    console.print(f"{plan.architecture}: {accuracy:.1%} of {len(test)} test images right, saved {out}", highlight=False)
    return classifier


def clean_up(out: Path) -> None:
    """Remove what only an unfinished training needs."""
    for leftover in (*out.glob("*checkpoint-*"), out / "training.json", out / LOCK):
        leftover.unlink(missing_ok=True)


class _Session:
    """A network with the data it learns from."""

    def __init__(
        self, train: Dataset, plan: Plan, cache: Path | None, recipe: Recipe, track: Track, device: torch.device
    ) -> None:
        self.train, self.plan, self.track, self.precision = train, plan, track, recipe.precision
        self.model = load_model(plan.architecture, classes=len(train.classes))
        self.random = begin(self.model, plan)
        self.model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.preprocess = plan.preprocess(self.model)
        if plan.pooled:
            start_pooled(self.model, self.random, self.preprocess.size)
        trunk = cut_for_training(self.model, plan.freeze, self.preprocess.size) if plan.freeze is not None else None
        self.part: nn.Module = self.model if trunk is None else trunk.head.body
        self.feed = Feed(
            self.preprocess, trunk, plan.views, cache=cache, precision=recipe.precision, seed=recipe.seed, track=track
        )

    def batches(self, data: Dataset, recipe: Recipe, epoch: int, first: int) -> Iterator[tuple[Any, Tensor]]:
        """Yield inputs with the classes' probabilities, pairs of images mixed if the recipe says so."""
        labels = torch.from_numpy(data.labels())
        for step, meal in enumerate(self.feed.epoch(data, recipe.batch, epoch, first), first):
            inputs, targets = meal.inputs, F.one_hot(labels[meal.images], len(data.classes)).float()
            if recipe.mixup:
                rng = np.random.default_rng((recipe.seed, 4, epoch, step))
                share, other = float(rng.beta(recipe.mixup, recipe.mixup)), rng.permutation(len(targets))
                inputs = tuple(share * x + (1 - share) * x[other] for x in inputs)
                targets = share * targets + (1 - share) * targets[other]
            yield inputs, targets

    def fit(
        self, recipe: Recipe, out: Path, console: Console, accelerator: Any = None, data: Dataset | None = None
    ) -> list[dict[str, float]]:
        data = data or self.train
        with main_first(accelerator):
            self.feed.prepare(data)
        names = dict(self.model.named_parameters())
        return fit(
            self.part,
            lambda epoch, first: self.batches(data, recipe, epoch, first),
            math.ceil(len(data) / recipe.batch),
            recipe,
            out,
            loss=lambda logits, targets: F.cross_entropy(logits, targets, label_smoothing=recipe.label_smoothing),
            new=[names[name] for name in self.random if name in names],
            key={"plan": asdict(self.plan), "data": data.fingerprint()},
            track=self.track,
            frozen=norms(self.part) if self.plan.freeze_norm else (),
            accelerator=accelerator,
            on_epoch=epoch_line(console),
        )

    @torch.no_grad()
    def accuracy(self, data: Dataset) -> float:
        """Return the share of images that the network gets right, as they are at test time."""
        self.part.eval()
        right = 0
        for meal in self.feed.test(data):
            device = device_of(self.part)
            with autocast(self.precision, device):
                said = self.part(*(x.to(device) for x in meal.inputs)).argmax(1)
            right += sum(int(s) == data.label(i) for s, i in zip(said, meal.images, strict=True))
        return right / len(data)


def epoch_line(console: Console) -> Callable[[int, Mapping[str, float]], None]:
    """Return what prints one line per epoch."""

    def say(epoch: int, entry: Mapping[str, float]) -> None:
        console.print(f"epoch {epoch + 1:3d}: loss {entry['loss']:.3f}, {entry['seconds']:.0f} s", highlight=False)

    return say


def _found_lr(out: Path) -> float | None:
    """Return the learning rate of a training that was begun, None if there is none."""
    begun = out / "training.json"
    return float(read_json(begun)["settings"]["recipe"]["lr"]) if begun.exists() else None


def _find_lr(session: _Session, recipe: Recipe, console: Console) -> float:
    """Return the learning rate that learns most in one epoch, judged on training images it did not see."""
    session.feed.prepare(session.train)  # all of it is needed later
    rest, judged = held_out(session.train, share=0.1, seed=recipe.seed)
    if not len(judged):
        raise SettingError(
            "no class has a second training image to judge learning rates by.", "Give a number instead of auto."
        )
    before = {k: v.clone() for k, v in session.part.state_dict().items()}

    def trial(candidate: Recipe) -> float:
        session.part.load_state_dict(before)
        with tempfile.TemporaryDirectory() as folder:
            session.fit(replace(candidate, epochs=1, schedule="cosine"), Path(folder), Console(quiet=True), data=rest)
        return session.accuracy(judged)

    best = search_lr(
        LEARNING_RATES[recipe.optimizer],
        recipe,
        trial,
        on_trial=lambda lr, score: console.print(f"learning rate {lr:g}: {score:.1%} after one epoch", highlight=False),
    )
    session.part.load_state_dict(before)
    console.print(f"learning rate {best:g}", highlight=False)
    return best


def begin(model: nn.Module, plan: Plan) -> list[str]:
    """Give a network the weights it starts from; returns the names of what stays random."""
    if plan.start is None:
        return [name for name, _ in model.named_parameters()]
    if plan.start == "default":
        return start_from(model, load_model(plan.architecture, weights="default").state_dict())
    return start_from(model, plan.start)


def start_pooled(model: nn.Module, new: Sequence[str], size: int) -> None:
    """Let new linear layers that read a whole grid start with the same weights in every cell.

    With few images that is a better place to start from than a weight of its own for every channel of every cell: what
    is learned about a cell at first holds for all.
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
        raise SettingError("no new linear layer of this network reads a whole grid.", "Leave --pooled-start out.")
    for module, (channels, *cells) in found.items():
        count = math.prod(cells)
        shared = nn.Linear(channels, module.out_features).weight.detach().to(module.weight) / count
        with torch.no_grad():
            module.weight.copy_(shared[:, :, None].expand(-1, -1, count).reshape_as(module.weight))


def cut_for_training(model: nn.Module, layer: str, size: int) -> Cut:
    """Return a network cut where it is frozen; ``head.body`` is what can be trained."""
    cut = cut_network(model, layer, probe=torch.randn(2, 3, size, size, device=device_of(model)))
    if cut.route != "fx":
        raise SettingError(
            f"{type(model).__name__} cannot be trained behind {layer!r}: its graph cannot be read.",
            "Freeze up to another layer, or leave --freeze out and train all of it.",
        )
    return cut


def norms(model: nn.Module) -> list[nn.Module]:
    """Return the batch norms of a network."""
    return [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
