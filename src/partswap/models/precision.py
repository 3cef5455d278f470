"""Where and how precisely networks compute: on a GPU if there is one, half-width where the processor has it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from partswap.errors import SettingError

Precision = Literal["float32", "bfloat16"]


def default_device() -> torch.device:
    """Return where networks are trained unless one says otherwise."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_of(model: nn.Module) -> torch.device:
    """Return where a network is; one without weights is on the CPU."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def autocast(precision: str, device: torch.device | None = None) -> torch.autocast:
    """Return the context in which convolutions and products run at a precision."""
    if precision not in ("float32", "bfloat16"):
        raise SettingError(f"precision is {precision!r}.", "Use float32 or bfloat16.")
    kind = device.type if device is not None else "cpu"
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16")


def fast_precision() -> Precision:
    """Return bfloat16 where this machine computes it natively, else float32."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    # Older versions of torch do not tell.
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"
