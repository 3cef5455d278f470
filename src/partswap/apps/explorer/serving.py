"""Runs the explorer: in the foreground for people, beside something else for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from partswap.apps.explorer.server import ExplorerState, make_app
from partswap.apps.security import served_app, server_of
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext


def serve(bench: RunContext, config: RunConfig, host: str, port: int, memory_mb: float) -> None:
    """Serve until interrupted."""
    site = ExplorerState(bench, config, memory_mb)
    _ = site.room.examples  # before anybody waits
    try:
        server_of(make_app(site, (host,)), host, port, proxy_headers=False).run()
    finally:
        site.close()


@contextmanager
def served(bench: RunContext, config: RunConfig, port: int = 0) -> Iterator[str]:
    """Serve on this machine while the context lasts; yields the address."""
    site = ExplorerState(bench, config)
    try:
        with served_app(make_app(site), port) as base:
            yield base
    finally:
        site.close()
