"""Two hundred participants at once: how long the server takes to store an answer.

    python -m benchmarks.study [--database postgresql://user@host/name]

They think for two seconds, on average, before each answer; the server runs in a process of its own, on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from partswap.apps.study.assign import assign
from partswap.apps.study.folder import ClassPair, LearningPair, Lesson, Method, Question, Region, Study, write_study
from partswap.apps.study.render import SIDE, ImageStore
from partswap.apps.study.secret import new_secret, random_from
from partswap.apps.study.server import open_site
from partswap.apps.study.simulate import RandomLearner, SimulationSettings, run_simulated_participants
from partswap.pixels.composite import highlighted

PEOPLE, THINK, PORT = 200, 2.0, 8765
RESULTS = Path(__file__).with_name("results")
BOX = (3 / 7, 3 / 7, 4 / 7, 4 / 7)


def small_study(folder: Path) -> None:
    """Write a study with noise for pictures; everyone takes one pair of classes."""
    album, rng = ImageStore(folder), np.random.default_rng(0)

    def noise() -> Image.Image:
        coarse = Image.fromarray(rng.integers(0, 255, (24, 24, 3), dtype=np.uint8))
        return coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC)

    def region() -> Region:
        return Region(image=album.add(highlighted(noise(), BOX), "learning"), box=BOX)

    pairs, lessons = [], []
    for number in range(4):
        questions = [Question(image=album.add(noise(), "question"), second=k % 2 == 0) for k in range(10)]
        pairs.append(ClassPair(first="a", second="b", questions=tuple(questions)))
        learning = tuple(LearningPair(query=region(), distractor=region()) for _ in range(10))
        lessons.append(Lesson(pair=number, method="ours", setup="random", learning=learning))
    album.close()
    secret = new_secret()
    study = Study(
        title="Load", noun="bird", consent="", contact="", return_url=None, seed=0, setups=("random",),
        methods=(Method(name="ours", title="ours"),), pairs=tuple(pairs), lessons=tuple(lessons),
        slots=assign(lessons, PEOPLE, 1, random_from(secret, "assignment")),
        secret=secret, least_seconds=0.0, attention=0, source={},
    )  # fmt: skip
    write_study(folder, study)


def measure(database: str | None) -> dict[str, object]:
    """Return what participants saw of the server."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        small_study(folder)
        url = database or f"sqlite:///{folder / 'answers.db'}"
        site = open_site(folder, url)
        tokens = [site.database.add(simulated=True) for _ in range(PEOPLE)]
        site.database.close()
        command = [sys.executable, "-m", "partswap", "study", "serve", str(folder), "--database", url]
        server = subprocess.Popen([*command, "--port", str(PORT), "--admin-password", "x"], stdout=subprocess.DEVNULL)
        base = f"http://127.0.0.1:{PORT}"
        try:
            for _ in range(200):
                try:
                    httpx.get(f"{base}/robots.txt", timeout=2)
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            begun = time.perf_counter()
            traffic = asyncio.run(
                run_simulated_participants(
                    base, tokens, [RandomLearner() for _ in tokens], SimulationSettings(think=THINK)
                )
            )
            seconds = time.perf_counter() - begun
        finally:
            server.terminate()
            server.wait(20)
    answers = 1000 * np.array(traffic.answers)
    return {
        "database": "PostgreSQL" if database else "SQLite",
        "participants": PEOPLE,
        "finished": traffic.finished,
        "errors": len(traffic.errors),
        "answers": len(answers),
        "answers_per_second": round(len(answers) / seconds, 1),
        **{f"p{p}_ms": round(float(np.percentile(answers, p)), 1) for p in (50, 95, 99)},
    }


def main() -> None:
    """Measure, print, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="postgresql://...; SQLite by default")
    found = measure(parser.parse_args().database)
    print(json.dumps(found, indent=1))
    (RESULTS / f"study_{str(found['database']).lower()}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
