"""What every request passes: size, origin, pace. And what every response carries."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Bytes that a request may send; an answer has less than a hundred.
LARGEST = 8192
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


class Pace:
    """Lets so many things per second through for everyone, after a first burst."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}

    def passes(self, who: str) -> bool:
        """Count one more thing of someone; tell whether it is still within the pace."""
        now = self.clock()
        if len(self._left) > 10_000:  # whoever has been quiet for long begins anew
            self._left = {k: v for k, v in self._left.items() if (now - v[1]) * self.rate < self.burst}
        left, last = self._left.get(who, (float(self.burst), now))
        left = min(float(self.burst), left + (now - last) * self.rate)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class Guard:
    """Refuses what no page of ours sends, and adds our headers to whatever is answered."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in known]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        refusal = refused(scope)
        if refusal is not None:
            await PlainTextResponse(refusal[1], status_code=refusal[0])(scope, receive, dressed)
            return
        await self.app(scope, _limited(receive), dressed)


def refused(scope: Scope) -> tuple[int, str] | None:
    """Return status and reason if a request that changes something comes from elsewhere, or is too large."""
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return None
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    length = headers.get("content-length", "")
    if not length.isdecimal():
        return 411, "A length is needed."
    if int(length) > LARGEST:
        return 413, "Too large."
    # Browsers say where a request comes from; older ones say the origin only.
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    ours = site in ("same-origin", "none") if site else origin is None or urlsplit(origin).netloc == headers.get("host")
    return None if ours else (403, "Only pages of this study may do that.")


def _limited(receive: Receive) -> Receive:
    """Count what really comes, whatever its length was said to be."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST:
            return {"type": "http.disconnect"}
        return message

    return limited
