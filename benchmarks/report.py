"""How fast a report of 1,000 explanations opens and filters, in a real Chromium, from disk.

``python -m benchmarks.report`` makes explanations up on drawn birds, writes the report both ways and measures it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from partswap.apps.report import ReportData, write_report
from partswap.apps.report.model import PictureNumbers, ReportedMethod
from partswap.data.on_grid import CellFacts
from partswap.data.sets.aviary import Aviary
from partswap.grid import GridShape
from partswap.metrics import Evidence, score_all
from partswap.results.counterfactual import Counterfactual, Edit, Step

RESULTS = Path(__file__).parent / "results"
GRID = GridShape(7, 7)
PARTS = ("beak", "crest", "head", "wing", "belly", "tail", "legs")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
#: One change of each control, and back.
CHANGES = (
    ("from", 3), ("from", 0), ("to", 5), ("to", 0), ("edits", 2), ("edits", 0), ("part", 1), ("part", 0), ("flip", 2),
    ("flip", 0), ("sort", 1), ("sort", 4), ("sort", 0),
)  # fmt: skip
#: From a change of a control to the frame that shows it.
FILTER = """([name, index]) => new Promise((done) => {
  const field = document.querySelector(`.filters [name=${name}]`);
  field.selectedIndex = index;
  const start = performance.now();
  field.dispatchEvent(new Event("input", { bubbles: true }));
  const worked = performance.now() - start;
  requestAnimationFrame(() => setTimeout(() => done([worked, performance.now() - start]), 0));
})"""


def make_report(explanations: int = 1000, pictures: int = 1200) -> ReportData:
    """Return a report of made-up explanations of drawn birds; every picture is another one."""
    rng = np.random.default_rng(0)
    data = Aviary("test", per_class=3)
    birds = data.pixels(workers=2)
    names = {"class_names": {str(k): name for k, name in enumerate(data.classes)}}
    facts = CellFacts(None, tuple(frozenset({PARTS[k % 7]}) for k in range(GRID.cells)), None)
    evidence = Evidence(facts, [facts] * 4, frozenset({"tail"}))
    report, found, shown = ReportData("A thousand explanations", "Made up, to measure the page."), [], []
    for _ in range(explanations):
        own = int(rng.integers(len(data.classes)))
        target, count = (own + int(rng.integers(1, 3))) % len(data.classes), int(rng.integers(1, 7))
        edits, trace = [], []
        for k in range(count):
            image, cell = int(rng.integers(4)), int(rng.integers(GRID.cells))
            edits.append(Edit(int(rng.integers(GRID.cells)), image * GRID.cells + cell, image))
            p = 0.05 + 0.8 * (k + 1) / count * float(rng.random())
            trace.append(Step(p, target if k == count - 1 else own, -1.0, 1 - p))
        flipped = bool(rng.random() < 0.95)
        found.append(
            Counterfactual(
                own,
                target,
                GRID,
                4,
                tuple(edits),
                Step(0.04, own, original_class_probability=0.9),
                tuple(trace),
                flipped,
                source=names,
            )
        )
        shown.append(rng.integers(pictures, size=5).tolist())
    scores = score_all([(cf, evidence) for cf in found], resamples=100)
    report.sources.append(ReportedMethod("partswap", "", "partswap", GRID, scores))
    for number, (cf, images) in enumerate(zip(found, shown, strict=True)):
        used = {edit.distractor_image for edit in cf.edits}
        add = [
            report.thumbnails.add(k, Image.fromarray(np.roll(birds[k % len(birds)], 7 * (k // len(birds)), axis=1)))
            if place == 0 or place - 1 in used
            else None
            for place, k in enumerate(images)
        ]
        case = report.case(number, f"test/{number:05d}.jpg")
        report.add(0, case, cf, evidence, PictureNumbers(add[0] or 0, add[1:]))
    return report


def measure(kind: str, path: Path, open_page: Callable[[], Page], repeats: int = 5) -> dict[str, Any]:
    """Return how long the first paint and every filter take, in milliseconds."""
    paints, cards, worked, seen = [], [], [], []
    for _ in range(repeats):
        page = open_page()
        page.goto(path.as_uri())
        page.wait_for_selector(".cards .card")
        cards.append(page.evaluate("performance.now()"))
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        page.evaluate("document.querySelector('#gallery').scrollIntoView()")
        page.wait_for_timeout(500)
        for change in CHANGES:
            script, frame = page.evaluate(FILTER, list(change))
            worked.append(script)
            seen.append(frame)
            page.wait_for_timeout(150)
        page.context.close()
    size = sum(p.stat().st_size for p in ([path] if kind == "file" else path.parent.rglob("*")) if p.is_file())
    return {
        "report": kind,
        "megabytes": size / 1e6,
        "first_paint_ms": median(paints),
        "first_paint_worst_ms": max(paints),
        "first_cards_ms": median(cards),
        "filter_script_ms": median(worked),
        "filter_script_worst_ms": max(worked),
        "filter_to_frame_ms": median(seen),
        "filter_to_frame_worst_ms": max(seen),
    }


def main() -> None:
    from benchmarks.__main__ import write_tables

    report = make_report()
    rows = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        paths = {
            "folder": write_report(report, folder / "page"),
            "file": write_report(report, folder / "page.html"),
        }
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for kind, path in paths.items():
            rows.append(
                measure(kind, path, lambda: browser.new_context(viewport={"width": 1360, "height": 900}).new_page())
            )
            print(rows[-1])
        browser.close()
    (RESULTS / "report.json").write_text(json.dumps(rows, indent=1) + "\n")
    write_tables()


if __name__ == "__main__":
    main()
