"""A shadow copy of the user's model, the probe that is sent through it, and a record of that forward pass.

Hooks, tracing and eval mode are applied to a shadow copy: a second tree of module objects around the *same* parameters
and buffers. The user's model is never changed, and a later ``model.train()`` does not switch on dropout in parts that
were made from the copy.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from partswap.cut.logits import failure
from partswap.errors import CutError, LayerError, NondeterministicModelError, ShapeError, suggest

DEFAULT_SIZE = 224
#: How many numbers of every layer's output are recorded, to recognize it.
SAMPLE = 256
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class EvalModule(nn.Module):
    """A module that stays in eval mode."""

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode, whatever `mode` says."""
        return super().train(False)


def shadow_copy(model: nn.Module, *, in_place: bool = False) -> nn.Module:
    """Return `model` as new module objects, in eval mode, that share its parameters and buffers.

    Without `in_place`, no activation of the copy works in place; a model that relies on that then gives other logits.
    """
    model = getattr(model, "_orig_mod", model)  # hooks and tracers see nothing of what torch.compile made
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise CutError(
            f"{type(model).__name__} is TorchScript, which takes no hooks and cannot be traced.",
            "Pass the Python module it was made from.",
        )
    if any(tensor.is_meta for tensors in (model.parameters(), model.buffers()) for tensor in tensors):
        raise CutError(
            f"{type(model).__name__} is on the meta device: it has shapes and no weights.",
            "Load its weights first: model.to_empty(device='cpu'), then model.load_state_dict(...).",
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
        shadow = copy.deepcopy(model, memo).eval()
    except Exception as error:  # whatever an attribute's own copying raises
        raise CutError(
            f"{type(model).__name__} holds something that cannot be copied ({error}).",
            "Remove that attribute from the model before cutting it.",
        ) from error
    for module in shadow.modules() if not in_place else ():
        # An in-place activation at the start of the head would overwrite the grid that it is given.
        if getattr(module, "inplace", None) is True:
            setattr(module, "inplace", False)  # noqa: B010, modules declare no such attribute
    return shadow


def without_hooks(shadow: nn.Module, probe: Tensor) -> nn.Module:
    """Remove the user's forward hooks from a shadow copy, unless they change the model's output.

    Hooks that only record would otherwise record the proxies of a tracer. Those of torch (weight norm) stay.
    """
    kinds = ("_forward_hooks", "_forward_pre_hooks")
    registered = [vars(module)[kind] for module in shadow.modules() for kind in kinds if vars(module).get(kind)]
    if not registered:
        return shadow
    original = [dict(hooks) for hooks in registered]
    with no_side_effects(probe.device):
        before = run(shadow, probe)
        for hooks in registered:
            for key, hook in list(hooks.items()):
                if not type(hook).__module__.startswith("torch."):
                    del hooks[key]
        try:
            after = shadow(probe)
        except Exception:  # a model that needs its hooks may fail without them in any way
            after = None
    if not (isinstance(before, Tensor) and isinstance(after, Tensor) and equal_outputs(before, after)):
        for hooks, removed in zip(registered, original, strict=True):
            hooks.update(removed)
    return shadow


@contextlib.contextmanager
def no_side_effects(device: torch.device) -> Iterator[None]:
    """Run without gradients, and restore the global random state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.no_grad():
        yield


def advance_random_state(device: torch.device) -> None:
    """Advance the random state, so that this pass draws other numbers than the recorded one."""
    torch.rand(1, device=device)
    torch.rand(1)


class ForwardRecord(NamedTuple):
    """What is recorded of one forward pass of a probe."""

    probe: Tensor
    logits: Tensor
    shapes: dict[str, tuple[int, ...]]  #: output of every module that ran, in order of completion; () is no tensor
    convolved: dict[str, tuple[int, int]]  #: grid of every convolution
    calls: dict[str, int]  #: how often every module ran
    samples: dict[str, Tensor]  #: a few numbers of every output, in its dtype, to recognize it

    @property
    def image(self) -> tuple[int, int, int]:
        """Images, height and width of the probe."""
        return self.probe.shape[0], self.probe.shape[2], self.probe.shape[3]

    def hints(self, layer: str) -> list[tuple[int, int]]:
        """Return the grids that convolutions gave before `layer` was done, latest last."""
        done = list(self.shapes)
        earlier = set(done[: done.index(layer) + 1])
        return [grid for name, grid in self.convolved.items() if name in earlier]


def record_forward(shadow: nn.Module, probe: Tensor | None) -> ForwardRecord:
    """Send a probe through a shadow copy; its output may be anything (see `logits.check_logits`)."""
    probe = make_probe(shadow, probe)
    shadow = without_hooks(shadow, probe)
    with no_side_effects(probe.device):
        return record_pass(shadow, probe)


def check_repeatable(shadow: nn.Module, record: ForwardRecord) -> None:
    """Raise an error if the probe gives other logits the second time."""
    with no_side_effects(record.probe.device):
        advance_random_state(record.probe.device)
        again = shadow(record.probe.clone())
    if not equal_outputs(record.logits, again, 1e-5):
        raise NondeterministicModelError(
            "the model gives different logits for the same images in eval mode.",
            "Remove what is random in its forward pass (for example F.dropout without its training=).",
        )


def record_pass(shadow: nn.Module, probe: Tensor) -> ForwardRecord:
    """Send a probe through a shadow copy once; `logits` of the record is its output, whatever that is."""
    record = ForwardRecord(probe, torch.empty(0), {}, {}, {}, {})

    def watch(name: str, module: nn.Module) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = first_tensor(output)
            record.calls[name] = record.calls.get(name, 0) + 1
            record.shapes.pop(name, None)  # a module that runs several times counts where it runs last
            record.shapes[name] = () if tensor is None else tuple(tensor.shape)
            if tensor is not None:
                record.samples[name] = sample_values(tensor)
                if isinstance(module, nn.Conv2d) and tensor.ndim == 4:
                    record.convolved[name] = (tensor.shape[2], tensor.shape[3])

        return module.register_forward_hook(hook)

    handles = [watch(name, module) for name, module in shadow.named_modules() if name]
    try:
        output = run(shadow, probe.clone())  # a model may write into its input
    finally:
        for handle in handles:
            handle.remove()
    return record._replace(logits=output)


def sample_values(tensor: Tensor) -> Tensor:
    """Return a copy of a few numbers of a tensor, the same places for the same shape."""
    flat = tensor.detach().flatten()
    return flat[:: max(1, len(flat) // SAMPLE)].clone()


def run(shadow: nn.Module, probe: Tensor) -> Any:
    """Run the model on the probe; an error names the probe's shape and how to pass another."""
    try:
        return shadow(probe)
    except Exception as error:  # a network may fail in any way on images it was not made for
        raise failure(shadow, probe, error) from error


def make_probe(shadow: nn.Module, probe: Tensor | None, size: tuple[int, int] | None = None) -> Tensor:
    """Return two images of the size, device and dtype that a model takes: random (of `size`), or from `probe`."""
    device = next((p.device for p in shadow.parameters()), torch.device("cpu"))
    if probe is not None:
        if not isinstance(probe, Tensor) or probe.ndim != 4 or not probe.numel():
            shape = tuple(probe.shape) if isinstance(probe, Tensor) else type(probe).__name__
            raise ShapeError(f"probe is {shape}.", "Pass a tensor of shape (images, channels, height, width).")
        if len(probe) == 1:  # one image cannot show that a batch size was baked in
            probe = torch.cat([probe, probe.flip(-1)])
        return _in_dtype(shadow, probe.detach()[:2].to(device))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, input_channels(shadow, size), *(size or image_size(shadow)), generator=generator)
    return _in_dtype(shadow, images.to(device))


def input_channels(model: nn.Module, size: tuple[int, int] | None = None) -> int:
    """Return how many channels the images of a model have, as far as it shows.

    Those of its first convolution, unless it runs on images of three, which something before it may bring to that.
    """
    first = next((module for module in model.modules() if isinstance(module, nn.Conv2d)), None)
    channels = 3 if first is None else first.in_channels
    if channels == 3 or any(parameter.is_meta for parameter in model.parameters()):
        return channels
    shadow = shadow_copy(model)
    images = torch.zeros(2, 3, *(size or image_size(shadow)), device=next(shadow.parameters()).device)
    return 3 if can_run(shadow, _in_dtype(shadow, images)) else channels


def _in_dtype(shadow: nn.Module, images: Tensor) -> Tensor:
    """Return images in the dtype of the weights; if they have several, the first that the network runs with."""
    dtypes = [d for d in dict.fromkeys(p.dtype for p in shadow.parameters()) if d in _FLOATS] or [torch.float32]
    fitting = (images.to(dtype) for dtype in dtypes if len(dtypes) == 1 or can_run(shadow, images.to(dtype)))
    return next(fitting, images.to(dtypes[0]))


def can_run(shadow: nn.Module, images: Tensor) -> bool:
    """Return whether a model runs on images without an error."""
    try:
        with no_side_effects(images.device), torch.no_grad():
            shadow(images)
    except Exception:  # whatever a layer of another dtype or width raises
        return False
    return True


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


def equal_outputs(a: Tensor, b: Tensor, atol: float = 0.0) -> bool:
    """Return whether tensors are equal up to `atol`, relative to large values and to the dtypes' precision."""
    if a.shape != b.shape:
        return False
    precision = max(torch.finfo(t.dtype).eps for t in (a, b))
    b = b.to(torch.promote_types(b.dtype, torch.float32))
    scale = max(1.0, float(b.abs().max()))
    return bool(((a.to(b.dtype) - b).abs() <= max(atol, 16 * precision) * scale).all())


def layer_name(model: nn.Module, layer: str | nn.Module) -> str:
    """Return the name of a layer that is given by its name or as the module itself."""
    if isinstance(layer, nn.Module):
        kind = type(layer).__name__
        names = [name for name, module in model.named_modules(remove_duplicate=False) if module is layer and name]
        if not names:
            raise LayerError(
                f"the {kind} given as layer is no part of the model.", "Pass one of its modules, or a name."
            )
        if len(names) > 1:
            raise LayerError(
                f"the {kind} given as layer is in the model under {len(names)} names.",
                f"Pass the one you mean: {', '.join(map(repr, names))}.",
            )
        layer = names[0]
    if not isinstance(layer, str):
        raise LayerError(f"layer is a {type(layer).__name__}.", "Pass a name or a module; {list_layers} shows them.")
    return layer.removeprefix("_orig_mod.")  # the names of a compiled model are those of the model inside it


def check_layer(model: nn.Module, layer: str, ran: Collection[str]) -> None:
    """Raise `LayerError` if `layer` is no module of the model, or is not among those that `ran`."""
    if layer not in dict(model.named_modules()) or not layer:
        raise LayerError(f"the model has no layer {layer!r}.", f"{suggest(layer, ran)} {{list_layers}} shows them all.")
    if layer not in ran:
        raise LayerError(
            f"layer {layer!r} does not run by itself in the model's forward pass (a container, or unused).",
            "Choose one of its children or another layer; {list_layers} shows them.",
        )
