"""Runs the server: in the foreground for people, beside something else for simulated participants and tests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from partswap.apps.study.server import Site, make_app
from partswap.errors import PartswapError, SettingError


def serve(site: Site, host: str, port: int, *, behind_proxy: bool = False) -> None:
    """Serve until interrupted."""
    _server(site, host, port, behind_proxy=behind_proxy).run()


@contextmanager
def served(site: Site, port: int = 0) -> Iterator[str]:
    """Serve on this machine while the context lasts; yields the address."""
    listening = socket.create_server(("127.0.0.1", port))
    server = _server(site, "127.0.0.1", port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise PartswapError("the server did not start.", "Look at its messages.")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


def check_free(host: str, port: int) -> None:
    """Raise an error if something else listens there."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise SettingError(f"{host}:{port} cannot be used ({error.strerror}).", "Choose another (--port).") from error


def _server(site: Site, host: str, port: int, *, behind_proxy: bool = False) -> uvicorn.Server:
    known: dict[str, Any] = {"proxy_headers": behind_proxy, "forwarded_allow_ips": "127.0.0.1" if behind_proxy else ""}
    # Addresses of participants hold their tokens: no log keeps them.
    config = uvicorn.Config(
        make_app(site), host=host, port=port, access_log=False, log_level="warning", server_header=False,
        date_header=False, timeout_keep_alive=30, **known,
    )  # fmt: skip
    return uvicorn.Server(config)
