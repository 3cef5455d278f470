"""Half-width arithmetic where the processor has it."""

from __future__ import annotations

from typing import Literal

import torch

from partswap.errors import SettingError

Precision = Literal["float32", "bfloat16"]


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
