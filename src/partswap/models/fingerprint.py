"""What a network is, in a few characters: its structure and every weight."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def model_fingerprint(model: nn.Module) -> str:
    """Return a key that changes with any weight, buffer or setting that the model's text shows (strides, sizes)."""
    summary = hashlib.blake2b(digest_size=12)
    summary.update(f"{type(model).__module__}.{type(model).__qualname__}\n{model!r}".encode())
    for name, tensor in sorted(model.state_dict().items()):
        summary.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        summary.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return summary.hexdigest()
