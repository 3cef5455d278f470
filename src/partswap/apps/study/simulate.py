"""Simulated participants: they take the same study over HTTP and see what a person sees, the sharp regions only.

They are for load tests, for a dry run before people are recruited, and as a rough score of how much an explanation
teaches. What they do is marked as simulated wherever it shows.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import product
from typing import Protocol

import httpx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from partswap.errors import PartswapError
from partswap.utils.progress import Track, no_progress


@dataclass
class ParsedPage:
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
        self.page, self._heading = ParsedPage(), False

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


def read_page(html: str) -> ParsedPage:
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


class RandomLearner:
    """Learns nothing: for load tests."""

    looks = False

    def begin(self) -> None:
        """Forget nothing."""

    def learn(self, label: str, image: bytes, box: Sequence[float]) -> None:
        """Learn nothing."""

    def tell(self, image: bytes) -> float:
        """Return that A and B look alike."""
        return 0.0


class RegionFeatures:
    """What a learner sees of a picture: colours and edges of regions. Each picture is looked at once."""

    #: Pixels of a region's side, colours per channel, directions of edges.
    SIDE, COLOURS, EDGES = 16, 6, 4

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, float, float], NDArray[np.float32]] = {}

    def region(self, image: bytes, box: Sequence[float]) -> NDArray[np.float32]:
        """Return what a region looks like, ``(features,)`` of length 1."""
        picture = Image.open(io.BytesIO(image)).convert("RGB")
        (wide, high), (left, top, right, bottom) = picture.size, box
        sides = (left * wide, top * high, right * wide, bottom * high)
        patch = picture.resize((self.SIDE, self.SIDE), Image.Resampling.BOX, box=sides)
        return np.asarray(self._windows(np.asarray(patch, np.float32), 1, 1)[0])

    def regions(self, image: bytes, width: float, height: float) -> NDArray[np.float32]:
        """Return what all regions of a size (shares of the sides) look like, half a region apart: ``(m, features)``."""
        key = (hashlib.sha256(image).digest(), round(width, 4), round(height, 4))
        if key not in self._seen:
            across, down = max(1, round(1 / width)), max(1, round(1 / height))
            picture = Image.open(io.BytesIO(image)).convert("RGB")
            picture = picture.resize((across * self.SIDE, down * self.SIDE), Image.Resampling.BOX)
            self._seen[key] = self._windows(np.asarray(picture, np.float32), 2 * down - 1, 2 * across - 1)
        return self._seen[key]

    def _windows(self, pixels: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
        """Return histograms of windows half a side apart; the root of shares, so that a cosine compares them fairly."""
        grey = pixels.mean(2)
        down, across = np.gradient(grey)
        strength = np.hypot(across, down)
        turn = ((np.arctan2(down, across) % np.pi) / np.pi * self.EDGES).astype(int) % self.EDGES
        # A colour counts for the eight nearest of the histogram, as near as they are: a shade changes it by a shade.
        place = pixels / 255 * (self.COLOURS - 1)
        below = np.minimum(place.astype(int), self.COLOURS - 2)
        colours, shares = [], []
        for corner in product((0, 1), repeat=3):
            near = np.where(corner, place - below, 1 - (place - below))
            r, g, b = np.moveaxis(below + corner, 2, 0)
            colours.append((r * self.COLOURS + g) * self.COLOURS + b)
            shares.append(near.prod(2))
        colour, share = np.stack(colours), np.stack(shares)
        found = []
        for row in range(rows):
            for column in range(columns):
                at = tuple(slice(k * self.SIDE // 2, k * self.SIDE // 2 + self.SIDE) for k in (row, column))
                both = (slice(None), *at)
                seen = np.bincount(colour[both].ravel(), share[both].ravel(), minlength=self.COLOURS**3)
                edges = np.bincount(turn[at].ravel(), strength[at].ravel(), minlength=self.EDGES) / 64
                found.append(np.sqrt(np.concatenate([seen, edges]) / self.SIDE**2))
        rows_ = np.asarray(found, np.float32)
        return np.asarray(rows_ / np.linalg.norm(rows_, axis=1, keepdims=True))


class NearestExampleLearner:
    """Compares a picture with the regions it was shown: the place in it that looks most like each.

    A region of A that looks like something in the picture speaks for A, one of B for B. Where the two regions of a pair
    show the same part, what they have in common cancels out; where they do not, it does not.
    """

    looks = True

    def __init__(self, eye: RegionFeatures) -> None:
        self.eye = eye
        self.begin()

    def begin(self) -> None:
        """Forget the pair before."""
        self._known: dict[str, list[NDArray[np.float32]]] = {"A": [], "B": []}
        self._size = (1.0, 1.0)

    def learn(self, label: str, image: bytes, box: Sequence[float]) -> None:
        """Remember what the sharp region looks like."""
        self._known[label].append(self.eye.region(image, box))
        self._size = (box[2] - box[0], box[3] - box[1])

    def tell(self, image: bytes) -> float:
        """Return how much nearer the regions of B are than those of A."""
        places = self.eye.regions(image, *self._size)
        likeness = {label: (np.stack(known) @ places.T).max(1).mean() for label, known in self._known.items()}
        return float(likeness["B"] - likeness["A"])


@dataclass(frozen=True)
class SimulationSettings:
    """How simulated participants behave."""

    noise: float = 0.01  #: added to every comparison, in cosine
    lapse: float = 0.05  #: how often they answer without looking
    think: float = 0.0  #: seconds before an answer, on average
    seed: int = 0


@dataclass
class LoadStats:
    """What a crowd of participants saw of the server."""

    answers: list[float] = field(default_factory=list)  #: seconds of every answer's request
    pages: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    finished: int = 0

    def p95(self) -> float:
        """Return the time within which 95 % of the answers were taken, in milliseconds."""
        return 1000 * float(np.percentile(self.answers, 95)) if self.answers else float("nan")


async def take_part(
    client: httpx.AsyncClient, link: str, learner: Learner, manner: SimulationSettings, number: int, traffic: LoadStats
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


async def _choice(
    client: httpx.AsyncClient, page: ParsedPage, learner: Learner, manner: SimulationSettings, rng: random.Random
) -> str:
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


async def _get(client: httpx.AsyncClient, link: str, traffic: LoadStats) -> str:
    begun = time.perf_counter()
    response = (await client.get(link)).raise_for_status()
    traffic.pages.append(time.perf_counter() - begun)
    return response.text


async def _post(client: httpx.AsyncClient, link: str, known: dict[str, str], traffic: LoadStats) -> str:
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


async def run_simulated_participants(
    base: str,
    tokens: Sequence[str],
    learners: Sequence[Learner],
    settings: SimulationSettings,
    *,
    track: Track = no_progress,
    at_once: int | None = None,
) -> LoadStats:
    """Let participants take a study at the same time; returns what they saw of the server."""
    traffic = LoadStats()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    turn = asyncio.Semaphore(at_once or len(tokens))
    with track("simulated participants", len(tokens)) as advance:
        async with httpx.AsyncClient(base_url=base, limits=limits, timeout=30, follow_redirects=True) as client:

            async def one(number: int) -> None:
                async with turn:
                    await take_part(client, f"/s/{tokens[number]}", learners[number], settings, number, traffic)
                advance(1)

            await asyncio.gather(*(one(number) for number in range(len(tokens))))
    return traffic
