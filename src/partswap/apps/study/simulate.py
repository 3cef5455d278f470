"""Simulated participants: they take the same study over HTTP and see what a person sees, the sharp regions only.

They are for load tests, for a dry run before people are recruited, and as a rough score of how much an explanation
teaches. What they do is marked as simulated wherever it shows.
"""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Protocol

import httpx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.errors import PartswapError
from partswap.progress import Track, no_progress


@dataclass
class Page:
    """What a page shows, read from its HTML as a browser reads it."""

    step: int | None = None
    phase: str = ""
    least_ms: float = 0.0
    images: list[dict[str, str]] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    heading: str = ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page, self._heading = Page(), False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        if known.get("id") == "step":
            self.page.step = int(known["data-step"]) if "data-step" in known else None
            self.page.phase, self.page.least_ms = known["data-phase"], float(known.get("data-least", 0))
        elif tag == "img":
            self.page.images.append(known)
        elif tag == "button" and known.get("name") == "choice":
            self.page.choices.append(known["value"])
        self._heading = tag == "h1" or (self._heading and tag == "span")

    def handle_endtag(self, tag: str) -> None:
        if tag == "h1":
            self._heading = False

    def handle_data(self, data: str) -> None:
        if self._heading:
            self.page.heading += data


def read_page(html: str) -> Page:
    """Return what a page, or the step in it, shows."""
    reader = _Reader()
    reader.feed(html)
    return reader.page


class Learner(Protocol):
    """Learns from pairs of regions and tells pictures apart."""

    looks: bool  #: whether it wants to see the pictures

    def begin(self) -> None:
        """Forget the pair before."""

    def learn(self, label: str, image: bytes, box: Sequence[float]) -> None:
        """See a region of a picture of A or B."""

    def tell(self, image: bytes) -> float:
        """Return how much a picture looks like B rather than A; above 0 is B."""


class Guesser:
    """Learns nothing: for load tests."""

    looks = False

    def begin(self) -> None:
        """Forget nothing."""

    def learn(self, label: str, image: bytes, box: Sequence[float]) -> None:
        """Learn nothing."""

    def tell(self, image: bytes) -> float:
        """Return that A and B look alike."""
        return 0.0


class Eye:
    """What a learner sees with: an auxiliary's cells, each picture looked at once."""

    def __init__(self, auxiliary: Any) -> None:
        self.auxiliary, self._seen = auxiliary, dict[bytes, NDArray[np.float32]]()

    def cells(self, image: bytes) -> NDArray[np.float32]:
        """Return the cells of a picture, ``(h, w, e)`` of length 1."""
        import hashlib

        import torch

        key = hashlib.sha256(image).digest()
        if key not in self._seen:
            with torch.no_grad():
                grid = self.auxiliary.grids([Image.open(io.BytesIO(image)).convert("RGB")])[0].float()
            rows = np.moveaxis(grid.cpu().numpy(), 0, -1)
            rows = rows / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-12)
            self._seen[key] = rows.astype(np.float16)
        return np.asarray(self._seen[key], np.float32)


class Nearest:
    """Compares a picture with the regions it was shown, the nearest cell for each.

    A region of A that looks like something in the picture speaks for A, one of B for B. Where the two regions of a pair
    show the same part, what they have in common cancels out; where they do not, it does not.
    """

    looks = True

    def __init__(self, eye: Eye) -> None:
        self.eye = eye
        self.begin()

    def begin(self) -> None:
        """Forget the pair before."""
        self._known: dict[str, list[NDArray[np.float32]]] = {"A": [], "B": []}

    def learn(self, label: str, image: bytes, box: Sequence[float]) -> None:
        """Remember what the sharp region looks like."""
        cells = self.eye.cells(image)
        left, top, right, bottom = box
        rows, columns = _within(top, bottom, cells.shape[0]), _within(left, right, cells.shape[1])
        region = cells[rows][:, columns].mean((0, 1))
        self._known[label].append(region / max(float(np.linalg.norm(region)), 1e-12))

    def tell(self, image: bytes) -> float:
        """Return how much nearer the regions of B are than those of A."""
        cells = self.eye.cells(image).reshape(-1, len(self._known["A"][0]))
        likeness = {label: (np.stack(known) @ cells.T).max(1).mean() for label, known in self._known.items()}
        return float(likeness["B"] - likeness["A"])


def _within(low: float, high: float, count: int) -> slice:
    """Return the cells of a row that a stretch from `low` to `high` (shares) covers, at least one."""
    first = min(int(low * count + 0.5), count - 1)
    return slice(first, max(first + 1, int(high * count + 0.5)))


@dataclass(frozen=True)
class Manner:
    """How simulated participants behave."""

    noise: float = 0.01  #: added to every comparison, in cosine
    lapse: float = 0.05  #: how often they answer without looking
    think: float = 0.0  #: seconds before an answer, on average
    seed: int = 0


@dataclass
class Traffic:
    """What a crowd of participants saw of the server."""

    answers: list[float] = field(default_factory=list)  #: seconds of every answer's request
    pages: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    finished: int = 0

    def p95(self) -> float:
        """Return the time within which 95 % of the answers were taken, in milliseconds."""
        return 1000 * float(np.percentile(self.answers, 95)) if self.answers else float("nan")


async def take_part(
    client: httpx.AsyncClient, link: str, learner: Learner, manner: Manner, number: int, traffic: Traffic
) -> str:
    """Take a whole study; returns the completion code."""
    rng = random.Random(f"{manner.seed}/{number}")
    page = read_page(await _get(client, link, traffic))
    while page.phase != "thanks":
        choice = await _choice(client, page, learner, manner, rng)
        if manner.think or page.least_ms:
            await asyncio.sleep(max(rng.expovariate(1 / manner.think) if manner.think else 0.0, page.least_ms / 1000))
        known = {"step": str(page.step), "choice": choice, "client_ms": f"{1000 * manner.think:.0f}"}
        page = read_page(await _post(client, link, known, traffic))
        if page.phase == "pair":
            learner.begin()
    traffic.finished += 1
    return page.heading


async def _choice(client: httpx.AsyncClient, page: Page, learner: Learner, manner: Manner, rng: random.Random) -> str:
    if page.phase == "attention":
        return "A" if " A " in page.heading else "B"
    if len(page.choices) == 1:
        if page.phase == "learn" and learner.looks:
            for image in page.images:
                box = [float(v) for v in image["data-box"].split()]
                seen = (await client.get(image["src"])).raise_for_status().content
                await asyncio.to_thread(learner.learn, image["data-label"], seen, box)
        return page.choices[0]
    if page.phase == "before":
        return "unknown"
    ahead = 0.0
    if learner.looks and rng.random() >= manner.lapse:
        seen = (await client.get(page.images[0]["src"])).raise_for_status().content
        ahead = await asyncio.to_thread(learner.tell, seen) + rng.gauss(0, manner.noise)
    return ("B" if ahead > 0 else "A") if ahead else rng.choice("AB")


async def _get(client: httpx.AsyncClient, link: str, traffic: Traffic) -> str:
    begun = time.perf_counter()
    response = (await client.get(link)).raise_for_status()
    traffic.pages.append(time.perf_counter() - begun)
    return response.text


async def _post(client: httpx.AsyncClient, link: str, known: dict[str, str], traffic: Traffic) -> str:
    """Send an answer until it is taken, as the page does."""
    for tries in range(60):
        begun = time.perf_counter()
        try:
            response = await client.post(link, data=known, headers={"accept": "application/json"})
        except httpx.TransportError as error:
            traffic.errors.append(type(error).__name__)
        else:
            traffic.answers.append(time.perf_counter() - begun)
            if response.status_code == 200:
                return str(response.json()["html"])
            if response.status_code not in (425, 429, 503):
                raise PartswapError(f"the server answered {response.status_code}: {response.text[:200]}")
            if response.status_code != 425:
                traffic.errors.append(str(response.status_code))
        await asyncio.sleep(min(2.0, 0.1 * 1.5**tries))
    raise PartswapError("the server does not take answers.", "Look at its messages.")


async def crowd(
    base: str, tokens: Sequence[str], learners: Sequence[Learner], manner: Manner, *, track: Track = no_progress,
    at_once: int | None = None,
) -> Traffic:  # fmt: skip
    """Let participants take a study at the same time; returns what they saw of the server."""
    traffic = Traffic()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    turn = asyncio.Semaphore(at_once or len(tokens))
    with track("simulated participants", len(tokens)) as advance:
        async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30, follow_redirects=True) as client:

            async def one(number: int) -> None:
                async with turn:
                    await take_part(client, f"/s/{tokens[number]}", learners[number], manner, number, traffic)
                advance(1)

            await asyncio.gather(*(one(number) for number in range(len(tokens))))
    return traffic
