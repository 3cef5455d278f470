"""What a network is, in a few characters: its structure, what its forward passes do, and every number in it."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping
from types import CodeType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

#: To be raised when what one of our own modules computes changes (`Features`, `Trunk`, `PartsDetector`, the small
#: networks): their code is no part of a fingerprint, so that it can be moved and reworded without making caches anew.
REVISION = 1


#: Classes and attributes of ours that have another name now than when fingerprints were first stored. Without this,
#: cached features would be computed anew, and trained auxiliaries would not find their networks.
STORED_NAMES = {
    "LayerExtractor": "Trunk",
    "LayerExtractors": "Trunks",
    "MultiLayerFeatures": "Blend",
    "shadow": "twin",
}

#: Digests by the first tensor of a model, so that they go with the model; then by the text before it and all tensors.
_DIGESTS: WeakIdKeyDictionary = WeakIdKeyDictionary()


class _Cached(NamedTuple):
    """A digest, the tensors it is of, and the state they were in."""

    tensors: list[ref[Tensor]]
    state: list[tuple[object, ...]]
    digest: str


def model_fingerprint(model: nn.Module) -> str:
    """Return a digest that changes with any weight or buffer, with settings that the model's text shows, and with code.

    Code is that of the ``forward`` methods, not of functions they call. Of partswap's own there is `REVISION` instead.
    """
    kind = type(model)
    name = stored_name(kind.__name__) if _own(kind) else f"{kind.__module__}.{kind.__qualname__}"
    forwards = [inspect.unwrap(module.forward) for module in model.modules()]
    code = "\n".join(sorted({_code(forward) for forward in forwards if not _own(forward)}))
    return _weights_digest_after(f"{REVISION}\n{name}\n{stored_name(repr(model))}{code}", model)


def stored_name(text: str) -> str:
    """Return a name, or a text of names, with those that fingerprints were first stored with."""
    return re.sub(r"\b\w+\b", lambda match: STORED_NAMES.get(match[0], match[0]), text)


def weights_digest(model: nn.Module) -> str:
    """Return a digest of the numbers alone; unlike a fingerprint it outlives new versions of libraries."""
    return _weights_digest_after("", model)


def _weights_digest_after(prefix: str, model: nn.Module) -> str:
    """Return the digest of a text and of a model's weights, which are hashed once per process unless they change.

    Two modules that share their tensors, such as a network and its shadow copy, have them hashed once.
    """
    # Buffers that are not saved count too: a mean that is subtracted, an order of tokens.
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    tensors = {stored_name(name): tensor for name, tensor in named}
    if not tensors:
        return _hash(prefix, tensors)
    digests: dict[Any, _Cached] = _DIGESTS.setdefault(next(iter(tensors.values())), {})
    state = [(name, *_state(tensor)) for name, tensor in tensors.items()]
    key = prefix, tuple(map(id, tensors.values()))
    cached = digests.get(key)
    if cached is None or cached.state != state or any(tensor() is None for tensor in cached.tensors):
        cached = digests[key] = _Cached([ref(tensor) for tensor in tensors.values()], state, _hash(prefix, tensors))
    return cached.digest


def _state(tensor: Tensor) -> tuple[object, ...]:
    """Return what changes when a tensor does, at a small part of the cost of hashing it.

    Torch counts the changes it makes, but not those of ``tensor.data`` or of an array that shares the memory: the
    sum of all bytes, eight at a time, shows those.
    """
    values = _bytes(tensor)
    whole = len(values) - len(values) % 8
    sums = int(values[:whole].view(np.int64).sum()), int(values[whole:].sum())
    return tuple(tensor.shape), tensor.dtype, None if tensor.is_inference() else tensor._version, sums


def _hash(prefix: str, tensors: Mapping[str, Tensor]) -> str:
    summary = hashlib.blake2b(prefix.encode(), digest_size=12)
    for name, tensor in sorted(tensors.items()):
        summary.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        summary.update(_bytes(tensor).data)
    return summary.hexdigest()


def _bytes(tensor: Tensor) -> NDArray[np.uint8]:
    values: NDArray[np.uint8] = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return values


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
