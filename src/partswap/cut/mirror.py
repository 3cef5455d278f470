"""A mirror of the user's model, the probe that is sent through it, and what the probe shows.

Everything partswap does to a network (hooks, tracing, eval mode) it does to a mirror: a second tree of module
objects around the *same* parameters and buffers. So the user's model is never touched, not even for a moment,
and a later ``model.train()`` does not switch dropout on in parts that were made from the mirror.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from partswap.errors import CutError, LayerError, NondeterministicModelError, NonFiniteError, ShapeError, suggest

DEFAULT_SIZE = 224


class EvalModule(nn.Module):
    """A module that stays in eval mode."""

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode, whatever `mode` says."""
        return super().train(False)


def mirror(model: nn.Module, *, in_place: bool = False) -> nn.Module:
    """Return `model` as new module objects, in eval mode, that share its parameters and buffers.

    Without `in_place`, no activation of the mirror works in place; a model that relies on it then gives other logits.
    """
    model = getattr(model, "_orig_mod", model)  # hooks and tracers see nothing of what torch.compile made
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise CutError(
            f"{type(model).__name__} is TorchScript, which takes no hooks and cannot be traced.",
            "Pass the Python module it was made from.",
        )
    memo: dict[int, Any] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            # The very same dictionaries, so that a parameter that is replaced later is replaced here too.
            if name in ("_parameters", "_buffers"):
                memo[id(value)] = value
            for leaf in pytree.tree_leaves(value):
                if isinstance(leaf, Tensor):
                    memo[id(leaf)] = leaf
    try:
        twin = copy.deepcopy(model, memo).eval()
    except Exception as error:  # whatever an attribute's own copying raises
        raise CutError(
            f"{type(model).__name__} holds something that cannot be copied ({error}).",
            "Remove that attribute from the model before cutting it.",
        ) from error
    for module in twin.modules() if not in_place else ():
        # An in-place activation at the start of the head would overwrite the grid that it is given.
        if getattr(module, "inplace", None) is True:
            setattr(module, "inplace", False)  # noqa: B010, modules declare no such attribute
    return twin


def without_hooks(twin: nn.Module, probe: Tensor) -> nn.Module:
    """Take the user's forward hooks off a mirror, unless they change what the model gives.

    Hooks that only record would otherwise record the proxies of a tracer. torch's own (weight norm) stay.
    """
    kinds = ("_forward_hooks", "_forward_pre_hooks")
    found = [vars(module)[kind] for module in twin.modules() for kind in kinds if vars(module).get(kind)]
    if not found:
        return twin
    hooked = [dict(hooks) for hooks in found]
    with quiet(probe.device):
        before = run(twin, probe)
        for hooks in found:
            for key, hook in list(hooks.items()):
                if not type(hook).__module__.startswith("torch."):
                    del hooks[key]
        try:
            after = twin(probe)
        except Exception:  # a model that needs its hooks may fail without them in any way
            after = None
    if not (isinstance(before, Tensor) and isinstance(after, Tensor) and same(before, after, 0.0)):
        for hooks, kept in zip(found, hooked, strict=True):
            hooks.update(kept)
    return twin


@contextlib.contextmanager
def quiet(device: torch.device) -> Iterator[None]:
    """Run without gradients and give the global random state back as it was."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.no_grad():
        yield


class Survey(NamedTuple):
    """What one pass of a probe shows."""

    probe: Tensor
    logits: Tensor
    shapes: dict[str, tuple[int, ...]]  #: output of every module that ran, in order of completion; () is no tensor
    convolved: dict[str, tuple[int, int]]  #: grid of every convolution
    calls: dict[str, int]  #: how often every module ran

    @property
    def image(self) -> tuple[int, int, int]:
        """Images, height and width of the probe."""
        return self.probe.shape[0], self.probe.shape[2], self.probe.shape[3]

    def hints(self, layer: str) -> list[tuple[int, int]]:
        """Return the grids that convolutions gave before `layer` was done, latest last."""
        done = list(self.shapes)
        earlier = set(done[: done.index(layer) + 1])
        return [grid for name, grid in self.convolved.items() if name in earlier]


def survey(twin: nn.Module, probe: Tensor | None) -> Survey:
    """Send a probe through a mirror twice; check that it gives the same finite logits both times."""
    probe = make_probe(twin, probe)
    twin = without_hooks(twin, probe)
    with quiet(probe.device):
        seen = observe(twin, probe)
        logits = check_logits(seen.logits, probe.shape[0])
        again = twin(probe)
    if not same(logits, again, 1e-5):
        raise NondeterministicModelError(
            "the model gives different logits for the same images in eval mode.",
            "Remove what is random in its forward pass (for example F.dropout without its training=).",
        )
    return seen


def observe(twin: nn.Module, probe: Tensor) -> Survey:
    """Send a probe through a mirror once; `logits` is whatever comes out."""
    shapes: dict[str, tuple[int, ...]] = {}
    convolved: dict[str, tuple[int, int]] = {}
    calls: dict[str, int] = {}

    def watch(name: str, module: nn.Module) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = first_tensor(output)
            calls[name] = calls.get(name, 0) + 1
            shapes.pop(name, None)  # a module that runs several times counts where it runs last
            shapes[name] = () if tensor is None else tuple(tensor.shape)
            if isinstance(module, nn.Conv2d) and tensor is not None and tensor.ndim == 4:
                convolved[name] = (tensor.shape[2], tensor.shape[3])

        return module.register_forward_hook(hook)

    handles = [watch(name, module) for name, module in twin.named_modules() if name]
    try:
        output = run(twin, probe)
    finally:
        for handle in handles:
            handle.remove()
    return Survey(probe, output, shapes, convolved, calls)


def run(twin: nn.Module, probe: Tensor) -> Any:
    """Run the model on the probe; an error names the probe's shape and how to pass another."""
    try:
        return twin(probe)
    except Exception as error:  # a network may fail in any way on images it was not made for
        raise CutError(
            f"the model fails on a batch of shape {tuple(probe.shape)}: {type(error).__name__}: {error}.",
            "Pass `probe`, a batch of at least two images of the size the model takes.",
        ) from error


def make_probe(model: nn.Module, probe: Tensor | None) -> Tensor:
    """Return two images of the size, device and dtype that the model takes: random, or from `probe`."""
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    if probe is not None:
        if not isinstance(probe, Tensor) or probe.ndim != 4 or not len(probe):
            shape = tuple(probe.shape) if isinstance(probe, Tensor) else type(probe).__name__
            raise ShapeError(f"probe is {shape}.", "Pass a tensor of shape (images, channels, height, width).")
        if len(probe) == 1:  # one image cannot show that a batch size was baked in
            probe = torch.cat([probe, probe.flip(-1)])
        return probe.detach()[:2].to(like.device, like.dtype)
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    channels = 3 if first is None else first.in_channels
    images = torch.randn(2, channels, *image_size(model), generator=torch.Generator().manual_seed(0))
    return images.to(like.device, like.dtype)


def image_size(model: nn.Module) -> tuple[int, int]:
    """Return the image height and width that a model says it takes, 224 x 224 if it says nothing."""
    # A patch embedding was built for one size, whatever the weights' configuration says.
    for owner in (*model.modules(), getattr(model, "config", None)):
        for name in ("img_size", "image_size"):
            size = getattr(owner, name, None)
            if isinstance(size, int) and not isinstance(size, bool):
                return size, size
            if isinstance(size, Sequence) and len(size) == 2 and all(isinstance(s, int) for s in size):
                return size[0], size[1]
    for name in ("pretrained_cfg", "default_cfg"):
        config = getattr(model, name, None)
        size = config.get("input_size") if isinstance(config, dict) else None
        if size and len(size) == 3:
            return int(size[1]), int(size[2])
    return DEFAULT_SIZE, DEFAULT_SIZE


def first_tensor(output: Any) -> Tensor | None:
    """Return a module's output, or the first tensor in it if it is a tuple or the like; None without one.

    Cutting at the first of several is safe: the others then bypass the cut, which is refused if they matter.
    """
    return next((leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)), None)


def check_logits(output: Any, images: int) -> Tensor:
    """Return `output` if it is finite logits of shape ``(images, classes)``."""
    if not isinstance(output, Tensor):
        fix = "Wrap the model in a module that returns only the logits tensor."
        if getattr(output, "logits", None) is not None:
            fix = "Wrap it with partswap.models.huggingface.adapt(model)."
        raise CutError(f"the model returns a {type(output).__name__}, not a tensor of logits.", fix)
    if output.ndim != 2 or output.shape[0] != images or output.shape[1] < 2:
        raise CutError(
            f"the model returns a tensor of shape {tuple(output.shape)} for {images} images.",
            "partswap needs logits of shape (images, classes), with at least two classes.",
        )
    if not bool(torch.isfinite(output).all()):
        raise NonFiniteError(
            "the model's logits on a random image hold NaN or infinity.",
            "Check the model's weights (a diverged training gives these).",
        )
    return output


def same(a: Tensor, b: Tensor, atol: float) -> bool:
    """Tell whether tensors are equal up to `atol`, relative to large values and to the dtype's precision."""
    if a.shape != b.shape:
        return False
    scale = max(1.0, float(b.abs().max()))
    tolerance = max(atol, 16 * torch.finfo(b.dtype).eps) * scale
    return bool(((a - b).abs() <= tolerance).all())


def check_layer(model: nn.Module, layer: str, ran: Collection[str]) -> None:
    """Raise `LayerError` if `layer` is no module of the model, or is not among those that `ran`."""
    if layer not in dict(model.named_modules()) or not layer:
        raise LayerError(
            f"the model has no layer {layer!r}.", f"{suggest(layer, ran)} list_layers(model) shows them all."
        )
    if layer not in ran:
        raise LayerError(
            f"layer {layer!r} does not run by itself in the model's forward pass (a container, or unused).",
            "Choose one of its children or another layer; list_layers(model) shows them.",
        )
