"""Runs the explorer: in the foreground for people, in a thread for tests and contextmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from partswap.apps.explorer.server import ExplorerState, make_app
from partswap.apps.security import served_app, server_of
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext


def serve(context: RunContext, config: RunConfig, host: str, port: int, memory_mb: float) -> None:
    """Serve until interrupted."""
    state = ExplorerState(context, config, memory_mb)
    _ = state.service.examples  # before anybody waits
    try:
        server_of(make_app(state, (host,)), host, port, proxy_headers=False).run()
    finally:
        state.close()


@contextmanager
def served(context: RunContext, config: RunConfig, port: int = 0) -> Iterator[str]:
    """Serve on this machine while the context lasts; yields the address."""
    state = ExplorerState(context, config)
    try:
        with served_app(make_app(state), port) as base:
            yield base
    finally:
        state.close()
