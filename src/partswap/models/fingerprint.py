"""What a network is, in a few characters: its structure, what its forward passes do, and every number in it."""

from __future__ import annotations

import hashlib
import inspect
from types import CodeType

import torch
from torch import nn

#: To be raised when what one of our own modules computes changes (`Features`, `Trunk`, `PartsDetector`, the small
#: networks): their code is no part of a fingerprint, so that it can be moved and reworded without making caches anew.
REVISION = 1


def model_fingerprint(model: nn.Module) -> str:
    """Return a key that changes with any weight or buffer, with settings that the model's text shows, and with code.

    Code is that of the ``forward`` methods, not of functions they call. Of partswap's own there is `REVISION` instead.
    """
    kind, summary = type(model), hashlib.blake2b(digest_size=12)
    name = kind.__name__ if _own(kind) else f"{kind.__module__}.{kind.__qualname__}"
    summary.update(f"{REVISION}\n{name}\n{model!r}".encode())
    forwards = [inspect.unwrap(module.forward) for module in model.modules()]
    summary.update("\n".join(sorted({_code(forward) for forward in forwards if not _own(forward)})).encode())
    _add_weights(summary, model)
    return summary.hexdigest()


def weights_digest(model: nn.Module) -> str:
    """Return a key of the numbers alone; unlike a fingerprint it outlives new versions of libraries."""
    summary = hashlib.blake2b(digest_size=12)
    _add_weights(summary, model)
    return summary.hexdigest()


def _add_weights(summary: hashlib.blake2b, model: nn.Module) -> None:
    # Buffers that are not saved count too: a mean that is subtracted, an order of tokens.
    tensors = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    for name, tensor in sorted(tensors.items()):
        summary.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        summary.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)


def _own(thing: object) -> bool:
    """Tell whether a class or function is partswap's."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "partswap"


def _code(function: object) -> str:
    """Return what a function does, as text that is the same in every process; nothing of one not written in Python."""
    code = function if isinstance(function, CodeType) else getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    constants = [_code(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _constant(value: object) -> str:
    # The order of a set's members differs from process to process.
    return str(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
