"""Where and how precisely networks compute: on a GPU if there is one, half-width where the processor has it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from partswap.errors import SettingError

Precision = Literal["float32", "bfloat16"]


def training_device(name: str | None = None) -> torch.device:
    """Return where networks are trained: on a CUDA GPU if there is one, unless a kind of device is named."""
    default = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(default if name is None else check_device(name))


def devices() -> list[str]:
    """Return the kinds of devices there are here, the fastest first."""
    usable_here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [kind for kind, usable in usable_here.items() if usable]


def check_device(name: str) -> str:
    """Return a kind of device if there is one here; "auto" is the fastest."""
    if name == "auto":
        return devices()[0]
    if name not in devices():
        raise SettingError(f"there is no {name} device here.", f"Use auto, or one of: {', '.join(devices())}.")
    return name


def find_device(device: str | torch.device) -> torch.device:
    """Return a device by its name ("auto", "cuda:1") or as torch has it; one that is not here is an error."""
    if device == "auto":
        return torch.device(devices()[0])
    try:
        wanted = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise SettingError(f"device is {device!r}.", f"Use auto, or one of: {', '.join(devices())}.") from error
    if wanted.type in ("cpu", "cuda", "mps"):
        check_device(wanted.type)
    if wanted.type == "cuda" and (wanted.index or 0) >= torch.cuda.device_count():
        fix = f"Use one of: {', '.join(f'cuda:{k}' for k in range(torch.cuda.device_count()))}."
        raise SettingError(f"there is no {wanted} here.", fix)
    return wanted


def device_of(model: nn.Module) -> torch.device:
    """Return where a network is; one without weights is on the CPU."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def dtype_of(model: nn.Module) -> torch.dtype:
    """Return the type a network computes in; one without weights computes in single precision."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def check_precision(precision: str) -> None:
    """Raise an error if networks cannot compute in a precision of this name."""
    if precision not in ("float32", "bfloat16"):
        raise SettingError(f"precision is {precision!r}.", "Use float32 or bfloat16.")


def autocast(precision: str, device: torch.device | None = None) -> torch.autocast:
    """Return the context in which convolutions and products run at a precision."""
    check_precision(precision)
    kind = device.type if device is not None else "cpu"
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16")


def fast_precision() -> Precision:
    """Return bfloat16 where this machine computes it natively, else float32."""
    if torch.cuda.is_available():
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    # Older versions of torch do not tell.
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return "bfloat16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "float32"
