"""From slider to picture, in the browser: ``python -m benchmarks.explorer --data cub --path FOLDER MODEL...``.

Chromium opens the explorer on a classifier, moves its sliders and waits each time until the new picture is painted. The
features are in the cache before; an image is looked at for a first time before its sliders are moved, as people do.
Before each move somebody looks for half of `--pause` milliseconds, then puts the hand on a slider; in that time the
explorer finds what it can of the next positions. With 0 it has no such time. Beside the wall time stands the time the
server computed (processor seconds of its process): on a machine that does other things too, that is what says more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

from benchmarks.__main__ import RESULTS, write_tables
from partswap.apps.explorer.serving import served
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.runs.tasks import plan_tasks

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
MOVES = {
    "lam": [k / 20 for k in range(41)],
    "tau": [k / 100 for k in range(2, 31)],
    "n": list(range(1, 21)),
    "edits": list(range(1, 17)),
    "beam": list(range(1, 17)),
}
MOVE = """([name, value]) => new Promise((done) => {
  document.addEventListener('shown', (event) => done(event.detail), { once: true });
  const slider = document.querySelector(`#s-${name}`);
  slider.value = value;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
})"""
RESET = """() => new Promise((done) => {
  document.addEventListener('shown', done, { once: true });
  document.querySelector('#reset').click();
})"""
console = Console()


def measure(config: RunConfig, images: int, moves: int, pause: float, seed: int = 0) -> dict[str, Any]:
    """Return the times of one classifier: of all moves, and of each slider's."""
    bench = open_run_context(config)
    tasks = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=20).first(images, seed=seed).tasks
    rng, rows = random.Random(seed), []
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with served(bench, config) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        for task in tasks:
            page.goto(f"{base}/?i={task.query}&t={task.target}", wait_until="networkidle")
            for _ in range(moves):
                name = rng.choice(list(MOVES))
                # From the usual settings: one slider is moved at a time, as far as one likes.
                page.evaluate(RESET)
                page.wait_for_timeout(pause / 2)
                page.hover(f"#s-{name}")
                page.wait_for_timeout(pause / 2)
                rows.append({"slider": name, **_move(page, name, rng.choice(MOVES[name]))})
        browser.close()
    return {"model": Path(config.model).name, "images": len(tasks), **_summary(rows, pause)}


def _move(page: Page, name: str, value: float) -> dict[str, float]:
    busy, wall = time.process_time(), time.perf_counter()
    shown = float(page.evaluate(MOVE, [name, str(value)]))
    return {"ms": shown, "round_ms": 1000 * (time.perf_counter() - wall), "cpu_ms": 1000 * (time.process_time() - busy)}


def _summary(rows: list[dict[str, Any]], pause: float) -> dict[str, Any]:
    def of(some: list[dict[str, Any]], key: str) -> dict[str, float]:
        times = sorted(row[key] for row in some)
        return {"median": median(times), "p95": times[min(len(times) - 1, int(0.95 * len(times)))]}

    sliders = {name: [row for row in rows if row["slider"] == name] for name in MOVES}
    return {
        "moves": len(rows),
        "shown_ms": of(rows, "ms"),
        "server_cpu_ms": of(rows, "cpu_ms"),
        "sliders": {name: {"moves": len(some), **of(some, "ms")} for name, some in sliders.items() if some},
        "pause_ms": pause,
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", help="folders of classifiers")
    parser.add_argument("--data", default="cub")
    parser.add_argument("--path", type=Path)
    parser.add_argument("--auxiliary", default="auto")
    parser.add_argument("--images", type=int, default=6)
    parser.add_argument("--moves", type=int, default=20, help="of sliders, per image")
    parser.add_argument("--pause", type=float, default=1000, help="milliseconds before the next move")
    given = parser.parse_args()
    rows = []
    for model in given.models:
        config = RunConfig(data=given.data, path=given.path, model=model, auxiliary=given.auxiliary)
        rows.append(measure(config, given.images, given.moves, given.pause))
        console.print(rows[-1])
    (RESULTS / "explorer.json").write_text(json.dumps(rows, indent=1) + "\n")
    write_tables()


if __name__ == "__main__":
    main()
