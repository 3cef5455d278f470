"""Shared by our web applications: checks of every request, headers of every response, running a server."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.responses import PlainTextResponse

from partswap.errors import PartswapError, SettingError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-robots-tag": "noindex, nofollow",
    "cache-control": "no-store",
}


class SecurityMiddleware:
    """Refuses requests that no page of ours sends, and adds our headers to every response.

    Parameters
    ----------
    app : App
        The application behind it.
    largest : int
        Bytes that a request may send, at most.
    what : str
        What refusals call the application, such as "this explorer".
    names : collection of str, optional
        Names this server goes by besides addresses in numbers and "localhost"; a request for another is refused, since
        a page elsewhere could have its own name point here. None: any name will do.
    """

    def __init__(self, app: App, largest: int, what: str, names: Collection[str] | None = None) -> None:
        self.app, self.largest, self.what, self.names = app, largest, what, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in present]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await PlainTextResponse(refusal[1], status_code=refusal[0])(scope, receive, send_with_headers)
            return
        await self.app(scope, _with_size_limit(receive, self.largest), send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason if a request is for another name, comes from elsewhere, or is too large."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self.names is not None and not is_own_host(headers.get("host", ""), self.names):
            what = self.what[0].upper() + self.what[1:]
            return 421, f"{what} does not go by that name. Use the address it was started with."
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            # A link elsewhere may lead here; a page elsewhere may not use what is served here.
            linked = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            foreign = self.names is not None and site in ("cross-site", "same-site") and not linked
            return (403, f"Only pages of {self.what} may do that.") if foreign else None
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return 411, "A length is needed."
        if int(length) > self.largest:
            return 413, "Too large."
        # Browsers send where a request comes from; older ones send the origin only.
        same_host = origin is None or urlsplit(origin).netloc == headers.get("host")
        own_page = site in ("same-origin", "none") if site else same_host
        return None if own_page else (403, f"Only pages of {self.what} may do that.")


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Return whether a Host header names this server: an address in numbers, localhost, or one of `names`."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if "@" not in host and (name == "localhost" or name in {own.lower() for own in names}):
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "@" not in host


def _with_size_limit(receive: Receive, largest: int) -> Receive:
    """Return `receive` with a limit on the bytes that really come, whatever length was declared."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > largest:
            return {"type": "http.disconnect"}
        return message

    return limited


def server_of(app: Any, host: str, port: int, **options: Any) -> uvicorn.Server:
    """Return a server without a log of requests, since addresses can hold private data."""
    config = uvicorn.Config(
        app, host=host, port=port, access_log=False, log_level="warning", server_header=False, date_header=False,
        timeout_keep_alive=30, **options,
    )  # fmt: skip
    return uvicorn.Server(config)


@contextmanager
def served_app(app: Any, port: int = 0) -> Iterator[str]:
    """Serve on this machine while the context lasts; yields the address."""
    listening = socket.create_server(("127.0.0.1", port))
    server = server_of(app, "127.0.0.1", port, proxy_headers=False, forwarded_allow_ips="")
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
