"""Matrix products by the quicker of the two libraries that torch brings along.

Torch multiplies matrices with MKL, which is slow on processors that Intel did not make: a head takes twice as long
there as it need. oneDNN, which torch has for convolutions, multiplies as exactly (in float32), as fast on all of them.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partswap.cut.shadow_copy import shadow_copy
from partswap.errors import CutError

#: A product of fewer multiply-adds is over before the other library has begun.
WORTHWHILE = 2**19


def multiply(rows: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``rows @ matrix + bias``, ``(..., k)`` times ``(k, n)``."""
    if _worthwhile(rows, matrix, matrix.shape[1]):
        return _quick(rows, matrix.T, bias)
    return rows @ matrix if bias is None else rows @ matrix + bias


class OneDnnLinear(nn.Linear):
    """A linear layer that multiplies as `multiply` does."""

    def forward(self, input: Tensor) -> Tensor:
        """Run the layer."""
        if not _worthwhile(input, self.weight, self.out_features):
            return F.linear(input, self.weight, self.bias)
        return _quick(input, self.weight, self.bias)


def with_onednn_linears(module: nn.Module) -> nn.Module:
    """Return a module whose linear layers are quick, around the same weights; the module itself stays as it is."""
    if onednn_operation() is None or not any(type(layer) is nn.Linear for layer in module.modules()):
        return module
    try:
        twin = shadow_copy(module, in_place=True)
    except CutError:  # it cannot be copied, and gives the same numbers as it is
        return module
    for layer in twin.modules():
        if type(layer) is nn.Linear:  # a class of its own may do something else
            layer.__class__ = OneDnnLinear
    return twin


@cache
def onednn_operation() -> Any:
    """Return oneDNN's product (rows, matrix transposed, bias, and what may follow), None where MKL is as good."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()) or _is_intel():
        return None
    found = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    return None if found is None else found.default


def _quick(rows: Tensor, turned: Tensor, bias: Tensor | None) -> Tensor:
    # It takes rows and matrix in any layout, and misreads a bias whose numbers do not stand side by side.
    found: Tensor = onednn_operation()(rows, turned, None if bias is None else bias.contiguous(), "none", [], "")
    return found


def _worthwhile(rows: Tensor, matrix: Tensor, columns: int) -> bool:
    if rows.numel() * columns < WORTHWHILE or not (rows.device.type == matrix.device.type == "cpu"):
        return False
    # It knows no gradients.
    wanted = torch.is_grad_enabled() and (rows.requires_grad or matrix.requires_grad)
    return not wanted and rows.dtype == matrix.dtype == torch.float32 and onednn_operation() is not None


def _is_intel() -> bool:
    told = Path("/proc/cpuinfo")
    about = told.read_text(errors="replace") if told.exists() else platform.processor()
    return "GenuineIntel" in about
