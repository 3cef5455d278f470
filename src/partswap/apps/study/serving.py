"""Runs the server: in the foreground for people, beside something else for simulated participants and tests."""

from __future__ import annotations

from contextlib import AbstractContextManager

from partswap.apps.security import check_free as check_free
from partswap.apps.security import served_app, server_of
from partswap.apps.study.server import StudyState, make_app


def serve(site: StudyState, host: str, port: int, *, behind_proxy: bool = False) -> None:
    """Serve until interrupted."""
    trusted = "127.0.0.1" if behind_proxy else ""
    server_of(
        make_app(site), host, port, proxy_headers=behind_proxy, forwarded_allow_ips=trusted,
        timeout_graceful_shutdown=5,  # who waits to have a password looked at does not hold it up
    ).run()  # fmt: skip


def served(site: StudyState, port: int = 0) -> AbstractContextManager[str]:
    """Serve on this machine while the context lasts; gives the address."""
    return served_app(make_app(site), port)
