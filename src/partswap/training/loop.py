"""The training loop: the paper's recipe, and checkpoints that survive a kill.

Every random number of a step is drawn from (seed, epoch, step), and the learning rate is a function of the step, so a
training that goes on from a checkpoint gives the weights of one that was never stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from math import cos, pi
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from partswap.errors import FileFormatError, NonFiniteError, PartswapError, SettingError
from partswap.models.precision import Precision, autocast, device_of
from partswap.models.weights import write_tensors
from partswap.utils.files import locked, make_folder, read_json, remove_leftovers, write_json
from partswap.utils.progress import Track, no_progress

#: Inputs and targets of one step.
Batch = tuple[Any, Tensor]
#: (epoch, first step) -> the batches of an epoch from that step on.
Batches = Callable[[int, int], Iterable[Batch]]


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults are the paper's."""

    epochs: int = 100  #: Passes over the data.
    batch: int = 32  #: Images per step.
    lr: float = 0.01  #: Learning rate.
    new_lr: float | None = None  #: That of layers which start from random numbers; the same if None.
    momentum: float = 0.9  #: Of stochastic gradient descent.
    weight_decay: float = 1e-4
    optimizer: Literal["sgd", "adamw"] = "sgd"
    schedule: Literal["steps", "cosine"] = "steps"  #: A tenth after each milestone, or warm-up and half a cosine.
    milestones: tuple[float, float] = (0.7, 0.9)  #: Shares of all steps.
    label_smoothing: float = 0.0  #: Share of the target's probability that is spread over all classes.
    mixup: float = 0.0  #: Parameter of the Beta distribution by which pairs of images are mixed; 0 mixes none.
    precision: Precision = "float32"  #: Of forward and backward passes; weights stay in float32.
    seed: int = 0  #: For order, augmentation, dropout and new layers.

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or self.lr <= 0 or self.seed < 0:
            raise SettingError(
                f"epochs={self.epochs}, batch={self.batch}, lr={self.lr}, seed={self.seed}.",
                "Use at least one epoch and one image per batch, a positive learning rate, a seed from 0.",
            )
        if self.optimizer not in ("sgd", "adamw") or self.schedule not in ("steps", "cosine"):
            raise SettingError(
                f"optimizer={self.optimizer!r}, schedule={self.schedule!r}.", "Use sgd or adamw, steps or cosine."
            )

    def scale(self, step: int, steps: int) -> float:
        """Return what the learning rate is multiplied with at a step."""
        if self.schedule == "steps":
            return 0.1 ** sum(step >= share * steps for share in self.milestones)
        warm = max(1, round(0.1 * steps))
        if step < warm:
            return 0.05 + 0.95 * step / warm
        return 0.5 * (1 + cos(pi * (step - warm) / max(1, steps - warm)))


@dataclass
class Progress:
    """How far a training is."""

    epoch: int = 0  #: Finished epochs.
    step: int = 0  #: Finished steps of the epoch under way.
    history: list[dict[str, float]] = field(default_factory=list)  #: Loss and seconds of each finished epoch.


def step_seed(seed: int, *where: int) -> int:
    """Return the seed of one step (or image, or view), far from those of its neighbours."""
    return int(np.random.SeedSequence((seed, *where)).generate_state(1)[0])


def shuffled(count: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the images in an epoch."""
    return [int(i) for i in np.random.default_rng((seed, epoch)).permutation(count)]


def fit(
    model: nn.Module,
    batches: Batches,
    steps: int,
    recipe: Recipe,
    folder: Path,
    *,
    loss: Callable[[Tensor, Tensor], Tensor],
    new: Sequence[nn.Parameter] = (),
    key: Mapping[str, Any] | None = None,
    track: Track = no_progress,
    checkpoint_minutes: float = 10,
    frozen: Sequence[nn.Module] = (),
    accelerator: Any = None,
    on_epoch: Callable[[int, Mapping[str, float]], None] | None = None,
) -> list[dict[str, float]]:
    """Train `model` in place, going on from the folder's checkpoint if there is one.

    Parameters
    ----------
    model : nn.Module
        What is trained; parameters that do not require gradients stay as they are.
    batches : callable
        ``batches(epoch, first_step)`` yields (inputs, targets); a tuple of inputs is unpacked.
    steps : int
        Batches per epoch.
    recipe : Recipe
        How.
    folder : Path
        Where checkpoints go.
    loss : callable
        From outputs and targets to a scalar.
    new : sequence of parameters
        Those that start from random numbers and take `recipe.new_lr`.
    key : Mapping, optional
        What else the result depends on; a checkpoint with another key is refused.
    frozen : sequence of modules
        Those that stay in eval mode, such as batch norm that keeps its statistics.
    accelerator : accelerate.Accelerator, optional
        Spreads every batch over several devices.

    Returns
    -------
    list of dict
        One entry per epoch.
    """
    make_folder(folder, place="out")
    main = accelerator is None or accelerator.is_main_process
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise SettingError("there is nothing to train: every layer is frozen.", "Freeze up to an earlier layer.")
    optimiser = _optimiser(trained, new, recipe)
    with locked(folder, wait=False) if main else nullcontext() as ours:
        if ours is False:
            fix = "Wait for it, or choose another folder ({out})."
            raise PartswapError(f"another process is training in {folder}.", fix)
        if main:
            remove_leftovers(folder)
        settings = plain({"recipe": asdict(recipe), "steps": steps, **(key or {})})
        progress = _resume(model, optimiser, folder, settings)
        runner = model
        if accelerator is not None:
            runner, optimiser = accelerator.prepare(model, optimiser)
        bases = [group["lr"] for group in optimiser.param_groups]
        last = time.monotonic()
        for epoch in range(progress.epoch, recipe.epochs):
            for module in model.modules():
                module.training = True  # model.train() leaves what was cut from a network in eval mode
            for module in frozen:
                module.eval()
            total, seen, begun = 0.0, 0, time.monotonic()
            first = progress.step
            with track(f"epoch {epoch + 1}/{recipe.epochs}", steps, first) as advance:
                for step, (inputs, targets) in enumerate(batches(epoch, first), first):
                    torch.manual_seed(step_seed(recipe.seed, 1, epoch, step))
                    scale = recipe.scale(epoch * steps + step, recipe.epochs * steps)
                    for group, base in zip(optimiser.param_groups, bases, strict=True):
                        group["lr"] = base * scale
                    images = len(targets)
                    inputs, targets = _share(inputs, targets, model, accelerator)
                    with autocast(recipe.precision, targets.device):
                        outputs = runner(*inputs).float()
                    value = loss(outputs, targets) if len(targets) else outputs.sum() * 0
                    if not bool(torch.isfinite(value)):
                        raise NonFiniteError(
                            f"the loss is {value.item()} in epoch {epoch + 1}, step {step + 1}.",
                            f"Lower the learning rate (it is {recipe.lr:g}); the last checkpoint in {folder} is kept.",
                        )
                    optimiser.zero_grad(set_to_none=True)
                    if accelerator is not None:
                        # Gradients are averaged over processes, whose shares of the last batch may differ in size.
                        accelerator.backward(value * len(targets) * accelerator.num_processes / images)
                    else:
                        value.backward()
                    optimiser.step()
                    total, seen = total + float(value.detach()) * len(targets), seen + len(targets)
                    progress.step = step + 1
                    if main and time.monotonic() - last > 60 * checkpoint_minutes:
                        _save(model, optimiser, folder, settings, progress)
                        last = time.monotonic()
                    advance(1)
            entry = {"loss": total / max(1, seen), "seconds": time.monotonic() - begun}
            progress = Progress(epoch + 1, 0, [*progress.history, entry])
            if main:
                _save(model, optimiser, folder, settings, progress)
                last = time.monotonic()
                if on_epoch is not None:
                    on_epoch(epoch, entry)
        model.eval()
        return progress.history


def at_lr(recipe: Recipe, lr: float) -> Recipe:
    """Return a recipe at another learning rate; that of new layers changes in proportion."""
    return replace(recipe, lr=lr, new_lr=None if recipe.new_lr is None else lr * recipe.new_lr / recipe.lr)


def search_lr(
    candidates: Sequence[float],
    recipe: Recipe,
    trial: Callable[[Recipe], float],
    *,
    on_trial: Callable[[float, float], None] | None = None,
) -> float:
    """Return the learning rate whose short trial scores best (the lower one of equals)."""
    if not candidates:
        raise SettingError("there is no learning rate to try.", "Give at least one.")
    scores = {}
    for lr in sorted(candidates):
        try:
            scores[lr] = trial(at_lr(recipe, lr))
        except NonFiniteError:
            scores[lr] = 0.0  # diverged
        if on_trial is not None:
            on_trial(lr, scores[lr])
    return max(scores, key=scores.__getitem__)


def _optimiser(trained: list[nn.Parameter], new: Sequence[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    fresh = {id(p) for p in new}
    old, young = ([p for p in trained if (id(p) in fresh) == is_new] for is_new in (False, True))
    groups = [{"params": old, "lr": recipe.lr}, {"params": young, "lr": recipe.new_lr or recipe.lr}]
    groups = [group for group in groups if group["params"]]
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    return torch.optim.AdamW(groups, weight_decay=recipe.weight_decay)


def _share(inputs: Any, targets: Tensor, model: nn.Module, accelerator: Any) -> tuple[tuple[Any, ...], Tensor]:
    """Return this process's share of a batch, on its device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    first, every = (accelerator.process_index, accelerator.num_processes) if accelerator is not None else (0, 1)
    mine, device = slice(first, None, every), device_of(model)
    return tuple(x[mine].to(device) for x in inputs), targets[mine].to(device)


def plain(value: Any) -> Any:
    """Return settings as JSON would give them back, to compare with."""
    return json.loads(json.dumps(value))


def _tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in model.state_dict().items():
        yield f"model/{name}", tensor
    for index, state in optimiser.state_dict()["state"].items():
        for name, value in state.items():
            if isinstance(value, Tensor):
                yield f"optimizer/{index}/{name}", value


def _save(model: nn.Module, optimiser: Any, folder: Path, settings: Mapping[str, Any], progress: Progress) -> None:
    """Write a checkpoint beside the last one, then point to it: a kill at any moment leaves a whole one."""
    optimiser = getattr(optimiser, "optimizer", optimiser)  # accelerate wraps it
    name = f"checkpoint-{progress.epoch:04d}-{progress.step:06d}.safetensors"
    tensors = {key: value.detach() for key, value in _tensors(model, optimiser)}
    write_tensors(folder / name, tensors, place="out", resumes=True)
    record = {"checkpoint": name, "settings": settings, **asdict(progress)}
    write_json(folder / "training.json", record, place="out", resumes=True)
    for old in folder.glob("*checkpoint-*"):
        if old.name != name:
            old.unlink(missing_ok=True)


def _resume(model: nn.Module, optimiser: torch.optim.Optimizer, folder: Path, settings: Mapping[str, Any]) -> Progress:
    path = folder / "training.json"
    if not path.exists():
        return Progress()
    saved = read_json(path)
    if saved.get("settings") != settings:
        refuse(folder, "a training with other settings", saved.get("settings") or {}, settings)
    checkpoint = folder / saved["checkpoint"]
    if not checkpoint.exists():
        raise FileFormatError(f"{checkpoint} is gone.", f"Delete {folder} to begin again.")
    model_state: dict[str, Tensor] = {}
    optimiser_state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in load_file(checkpoint).items():
        kind, _, rest = key.partition("/")
        if kind == "model":
            model_state[rest] = tensor
        else:
            index, _, name = rest.partition("/")
            optimiser_state.setdefault(int(index), {})[name] = tensor
    model.load_state_dict(model_state)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": optimiser_state})
    return Progress(saved["epoch"], saved["step"], saved["history"])


def refuse(folder: Path, what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> NoReturn:
    """Raise an error that says what a folder holds and which settings differ."""
    raise SettingError(
        f"{folder} holds {what} ({'; '.join(_changes(then, now)[:4])}).",
        "Choose another folder ({out}), delete this one, or use its settings again.",
    )


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += _changes(a, b, f"{prefix}{name}.")
        elif a != b:
            found.append(f"{prefix}{name} was {a!r} and is {b!r}")
    return found
