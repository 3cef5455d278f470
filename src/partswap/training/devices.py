"""Several devices, or several machines, for training: Accelerate does it, an extra installs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from partswap.errors import MissingDependencyError, SettingError


def check_processes(processes: int) -> None:
    """Raise an error if so many processes cannot be started here."""
    if processes > 1:
        _accelerate()


def launch(processes: int, function: Callable[[Any], None]) -> None:
    """Call ``function(accelerator)`` in every process: one per device here, or those of the launcher we run under.

    Under ``accelerate launch`` (several machines) the processes exist already; otherwise they are started here, one per
    GPU, or on the CPU where there are not so many. One process gets None and needs nothing installed.
    """
    if processes < 1:
        raise SettingError(f"processes is {processes}.", "Use at least 1.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        function(_accelerate().Accelerator())
    elif processes == 1:
        function(None)
    elif torch.cuda.device_count() >= processes:
        _accelerate().notebook_launcher(_run, (function, False), num_processes=processes)
    else:
        _accelerate().debug_launcher(_run, (function, True), num_processes=processes)


def _run(function: Callable[[Any], None], cpu: bool) -> None:
    """Call a function in one of several processes."""
    if cpu:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("WORLD_SIZE", "1"))))
    function(_accelerate().Accelerator(cpu=cpu))


def main_first(accelerator: Any) -> AbstractContextManager[Any]:
    """Let the first process do something (fill a cache) before the others do it."""
    if accelerator is None:
        return nullcontext()
    context: AbstractContextManager[Any] = accelerator.main_process_first()
    return context


def _accelerate() -> Any:
    try:
        import accelerate  # type: ignore[import-untyped, unused-ignore]
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "training on several devices needs Accelerate.", "Run: pip install 'partswap[train]'"
        ) from error
    return accelerate
