"""Weights in files: reading them without running code, loading them whole or as a start for training."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partswap.errors import FileFormatError
from partswap.utils.files import writing

# How training frameworks wrap the state dict in a checkpoint (a student's teacher is the better of the two), and
# prefix its keys.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "state_dict_ema", "model_ema", "teacher")
_PREFIXES = ("module.", "_orig_mod.", "model.")


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the state dict of a ``.safetensors``, ``.pt``, ``.pth`` or ``.pth.tar`` file, unwrapped."""
    if not isinstance(path, str | PathLike) or "\0" in str(path):
        raise FileFormatError(f"{path!r} is no weights file.", "Give the path of a file.")
    path = Path(path)
    if not path.is_file():
        raise FileFormatError(f"there is no weights file {str(path)!r}.", 'Check the path, or use "default".')
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            # A checkpoint may hold the trainer's command line: a plain record, which torch refuses unless told.
            with torch.serialization.safe_globals([argparse.Namespace]):
                state = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # bytes that are no weights make a reader fail in any way
        # Of torch's long text only what was found counts: the rest is advice to load the file in an unsafe way.
        text = str(error).partition("WeightsUnpickler error: ")[2] or str(error)
        reason = next(iter(text.strip().splitlines()), type(error).__name__)  # some have no message
        raise FileFormatError(
            f"{path.name} cannot be read as weights ({reason[:200]}).",
            "Save a plain state dict: torch.save(model.state_dict(), path).",
        ) from error
    return _unwrapped(state, path.name)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], **how: Any) -> None:
    """Write a safetensors file that is whole or absent; see `partswap.utils.files.writing`."""
    from safetensors.torch import save_file

    with writing(path, **how) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary)


def _unwrapped(state: Any, name: str) -> dict[str, Tensor]:
    for wrapper in _WRAPPERS:
        if isinstance(state, Mapping) and isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    if not isinstance(state, Mapping) or not state or not all(isinstance(v, Tensor) for v in state.values()):
        raise FileFormatError(f"{name} holds no state dict.", "Save one: torch.save(model.state_dict(), path).")
    tensors: dict[str, Tensor] = dict(state)
    for prefix in _PREFIXES:
        if all(key.startswith(prefix) for key in tensors):
            tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
    return tensors


def load_strictly(model: nn.Module, state: Mapping[str, Tensor], source: str, *, fix: str = "") -> None:
    """Load a state dict that must have every tensor of the model, in its shape, and no other."""
    model_state = model.state_dict()
    state = _prefixed(state, model_state)
    # A counter that PyTorch versions before 0.4 did not have; nothing depends on it in eval mode.
    missing = [key for key in model_state if key not in state and not key.endswith("num_batches_tracked")]
    unknown = [key for key in state if key not in model_state]
    shapes = [
        _misfit(key, state, model_state)
        for key in model_state
        if key in state and model_state[key].shape != state[key].shape
    ]
    if not (missing or unknown or shapes):
        model.load_state_dict(state, strict=False)
        return
    problems = [f"missing: {', '.join(missing[:3])}"] if missing else []
    problems += [f"not in the model: {', '.join(unknown[:3])}"] if unknown else []
    problems += shapes[:3]
    if not fix and shapes and not missing and not unknown:
        fix = "Pass classes=, the number of classes the weights were trained with."
    raise FileFormatError(
        f"{source} does not fit {type(model).__name__} ({'; '.join(problems)}).",
        fix or "Name the architecture the weights were trained with.",
    )


def start_from(model: nn.Module, source: str | Path | Mapping[str, Tensor]) -> list[str]:
    """Load what fits of a checkpoint, as a start for training; return the names of what stayed random.

    The source is a file or the state dict of one; half precision in it becomes the model's own. Everything but the
    classifier (the last layers) must be there: the features of a VGG without its classifier, or ImageNet weights for
    another number of classes.
    """
    state, model_state = source if isinstance(source, Mapping) else read_weights(source), model.state_dict()
    state = _prefixed(state, model_state)
    name = "the state dict" if isinstance(source, Mapping) else source
    fits = {key: value for key, value in state.items() if key in model_state and model_state[key].shape == value.shape}
    random = [key for key in model_state if key not in fits and not key.endswith("num_batches_tracked")]
    classifier = _classifier(model)
    trunk = [key for key in model_state if not key.startswith(classifier)]
    lost = [key for key in random if not key.startswith(classifier)]
    if lost or 2 * len(fits) < len(trunk):
        problems = [_misfit(key, state, model_state) for key in (lost or random)[:3]]
        raise FileFormatError(
            f"{name} is no start for {type(model).__name__} ({'; '.join(problems)}; "
            f"{len(fits)} of {len(model_state)} fit).",
            "Only the last layers may be missing: name the architecture the weights were trained with.",
        )
    model.load_state_dict(fits, strict=False)
    return random


def _prefixed(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return a state dict with the prefix that reading took off its keys, if the model's own keys have it."""
    for prefix in _PREFIXES:
        if not any(key in own for key in state) and all(key.startswith(prefix) for key in own):
            return {f"{prefix}{key}": value for key, value in state.items()}
    return state


def _misfit(key: str, state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    if key not in state:
        return f"missing: {key}"
    return f"{key} is {tuple(state[key].shape)} in the file and {tuple(own[key].shape)} in the model"


def _classifier(model: nn.Module) -> tuple[str, ...]:
    """Return how the names of tensors begin that belong to the last layers, or to a classifier on the side."""
    prefix = ""
    while True:
        parts = [(n, m) for n, m in model.named_children() if next(m.parameters(), None) is not None]
        if len(parts) != 1 or next(model.parameters(recurse=False), None) is not None:
            break
        prefix, model = f"{prefix}{parts[0][0]}.", parts[0][1]  # a wrapper around the network
    last = {name for name, _ in parts[-1:]} | {name for name, _ in parts if name.lower().startswith("aux")}
    for (name, module), (_, after) in zip(parts[-2::-1], parts[:0:-1], strict=True):
        if not (isinstance(module, nn.Linear) and isinstance(after, nn.Linear)):  # a distilled model has two heads
            break
        last.add(name)
    return tuple(f"{prefix}{name}." for name in last)
