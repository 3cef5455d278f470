"""Explains shards on a Ray cluster; the results are those of one machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from partswap.errors import MissingDependencyError, PartswapError
from partswap.results.counterfactual import Counterfactual
from partswap.runs.payload import Shard, WorkerPayload, WorkerState
from partswap.runs.workers import Found, cores

#: How often Ray tries a shard again when its process or machine is lost.
RETRIES = 5


def explain_on_ray(
    payload: WorkerPayload, shards: Sequence[Shard], *, address: str | None = None, workers: int | None = None
) -> Iterator[Found]:
    """Yield every shard with its counterfactuals, in any order.

    The payload goes to the object store once, and processes of a machine share it. `address` is that of a running
    cluster (``"auto"``, ``"host:6379"``); by default one is started here with `workers` cores, or all.
    """
    ray = import_ray()
    if not shards:
        return
    ours = not ray.is_initialized()  # an existing connection is used and kept
    if ours:
        _connect(ray, address, workers)
    try:
        # Arrays instead of files, which other machines do not have.
        where = ray.put(replace(payload, features=payload.features.in_memory()))
        explain = ray.remote(num_cpus=1, num_gpus=int(payload.device == "cuda"), max_retries=RETRIES)(_explain)
        waiting = {explain.remote(where, shard): shard for shard in shards}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                shard = waiting.pop(reference)
                yield shard, _answer(ray, reference, shard)
    finally:
        if ours:
            ray.shutdown()


#: The session of this process, by the payload it was made from: Ray uses a process for many shards.
_SESSIONS: dict[str, WorkerState] = {}


def _explain(payload: WorkerPayload, shard: Shard) -> list[Counterfactual] | PartswapError:
    """Explain one shard; this runs in a process of the cluster."""
    torch.set_num_threads(1)
    try:
        if payload.key not in _SESSIONS:
            _SESSIONS.clear()
            _SESSIONS[payload.key] = WorkerState(payload)
        return _SESSIONS[payload.key].explain(shard)
    except PartswapError as error:  # returned, since Ray wraps what is raised
        return error


def _answer(ray: Any, reference: Any, shard: Shard) -> list[Counterfactual]:
    try:
        outcome: list[Counterfactual] | PartswapError = ray.get(reference)
    except ray.exceptions.RayTaskError:
        raise  # a defect: it carries the traceback of the process
    except ray.exceptions.RayError as error:
        raise PartswapError(
            f"the cluster lost {shard} more than {RETRIES} times ({type(error).__name__}).",
            "If machines run out of memory, give each process more (fewer CPUs per node); run again: what is done is "
            "kept.",
        ) from error
    if isinstance(outcome, PartswapError):
        raise outcome
    return outcome


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    local = {"num_cpus": workers or cores(), "include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise PartswapError(
            f"there is no Ray cluster at {address or 'this machine'} ({' '.join(str(error).split())}).",
            "Check {address} ('ray start --head' prints it), or leave it out to start one here.",
        ) from error


def import_ray() -> Any:
    """Return Ray; that it is not installed is an error."""
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise MissingDependencyError("running on Ray needs Ray.", "Run: pip install 'partswap[ray]'") from error
    return ray
