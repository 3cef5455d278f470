"""One small model of each of timm's families, cut and asked: ``python -m benchmarks.zoo [--only FAMILY ...]``.

Random weights, one thread, each model in a process of its own. Results go to ``benchmarks/results/zoo.json`` and, as a
table, to ``docs/zoo.md``; with ``--only`` the rows of other families stay as they are. Which model is a family's
smallest is looked up there, too, unless ``--choose`` says otherwise.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from partswap._vision import timm
from partswap.cut.network import cut_network
from partswap.cut.shadow_copy import image_size
from partswap.errors import PartswapError
from partswap.evaluators import HeadPlan

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "zoo.json"
TABLE = ROOT / "docs" / "zoo.md"
#: A model is stopped after so many seconds of computing, or, if that is longer, after so many of its passes.
LIMIT = 120
PASSES = 30
LARGE_GB = 3
#: Bytes for one swap; what it is said to need is the sum of all that it computes, not what it holds at a time.
MEMORY = 2**34
#: Seconds of a pass beside which tracing, whatever the size of the model, does not count.
LONG = 1.0
#: Names of what is never a family's smallest classifier: toys, larger ones, and encoders without a classifier.
NOT_SMALLEST = ("test_", "large", "huge", "giant", "gigantic", "so400m", "_enc", "_align", "_merge")
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="FAMILY", help="only these families (modules of timm.models)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--choose", action="store_true", help="look for the smallest models again, which takes long")
    limit = f"seconds of computing a model may take; {PASSES} of its passes if those take longer"
    parser.add_argument("--limit", type=int, default=LIMIT, help=limit)
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = {row["family"]: row for row in json.loads(given.out.read_text())} if given.out.exists() else {}
    rows = dict(known) if given.only else {}
    for family in given.only or timm().list_modules():
        model = None if given.choose else known.get(family, {}).get("model")
        rows[family] = row = in_its_own_process(family, model, given.limit)
        console.print(row)
        given.out.write_text(json.dumps([rows[name] for name in sorted(rows)], indent=1) + "\n")
        table = TABLE if given.out == RESULTS else given.out.with_suffix(".md")
        table.write_text("\n".join(page([rows[name] for name in sorted(rows)], given.limit)))


def in_its_own_process(family: str, model: str | None, limit: int) -> dict[str, Any]:
    """Return a family's row; a process that is stopped gives one that says so."""
    context = multiprocessing.get_context("fork")  # what was imported need not be imported again
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=tell, args=(family, model, limit, there))
    process.start()
    there.close()
    told: dict[str, Any] = {"family": family, "model": "?", "refused": f"stopped after {limit} s or {PASSES} passes"}
    try:
        while True:
            told |= here.recv()
    except EOFError:
        process.join()
    if "layer" in told:
        del told["refused"]
    if process.exitcode and process.exitcode > 0:
        raise SystemExit(f"{family} failed; what it raised stands above.")
    return told


def tell(family: str, model: str | None, limit: int, to: Connection) -> None:
    """Send what is found out about a family, the model's name first."""
    name = model or smallest(family)
    to.send({"model": name})
    to.send(measure(name, limit))


def smallest(family: str) -> str:
    """Return the family's model with the fewest parameters."""
    names = timm().list_models(module=family)
    sizes = {}
    for name in [n for n in names if not any(word in n for word in NOT_SMALLEST)] or names:
        try:
            with torch.device("meta"):
                model = timm().create_model(name, num_classes=10)
        except Exception:  # some read numbers while they are built, which meta tensors have none of
            model = timm().create_model(name, num_classes=10)
        sizes[name] = sum(p.numel() for p in model.parameters())
    return min(sizes, key=lambda name: (sizes[name], name))


def measure(name: str, limit: int) -> dict[str, Any]:
    """Return where a model is cut, how exactly, and how long that takes."""
    torch.manual_seed(0)
    model = timm().create_model(name, num_classes=10).eval()
    for module in model.modules():  # a layer of zeros would hide what comes before it
        if isinstance(module, nn.Linear | nn.Conv2d) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.05)
    size = image_size(model)
    one = seconds_of_a_pass(model, size)
    row = {"parameters": sum(p.numel() for p in model.parameters()), "image": list(size), "pass_seconds": one}
    begun = time.process_time()
    end = int(begun + max(limit, PASSES * one))
    resource.setrlimit(resource.RLIMIT_CPU, (end, end + 5))
    try:
        cut = cut_network(model)
    except PartswapError as error:
        return row | {"refused": error.problem, "seconds": time.process_time() - begun, "memory_gb": memory_gb()}
    with torch.no_grad():
        studied = time.process_time() - begun
        images = torch.randn(2, 3, *size)
        grids = cut.features(images)
        difference = float((cut.head(grids) - model(images)).abs().max())
        plan = HeadPlan(cut.head, cut.grid)
        context = None if grids.context is None else grids.context[:1]
        evaluator = plan.evaluator(grids.values[0], grids.values[1:], MEMORY, context)
        one = torch.zeros(1, dtype=torch.long)
        score, _ = evaluator.evaluate(evaluator.start, one, one, one, 0)
        assert bool(torch.isfinite(score).all())
    return row | {
        "layer": cut.layer,
        "grid": list(cut.grid),
        "channels": cut.channels,
        "prefix": cut.head.layout.prefix,
        "route": cut.route,
        "evaluator": plan.kind,
        "difference": difference,
        "seconds": studied,
        "memory_gb": memory_gb(),
    }


@torch.no_grad()
def seconds_of_a_pass(model: nn.Module, size: tuple[int, int]) -> float:
    """Return the seconds of computing that one image takes; of a short pass, not the first."""
    for _ in range(2):
        begun = time.process_time()
        model(torch.randn(1, 3, *size))
        taken = time.process_time() - begun
        if taken > LONG:
            break
    return taken


def memory_gb() -> float:
    """Return the most memory this process ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def passes(rows: list[dict[str, Any]]) -> str:
    """Return how many passes of one image cutting took, of models whose passes are long."""
    ratios = sorted(row["seconds"] / row["pass_seconds"] for row in rows if row["pass_seconds"] > LONG)
    ends = dict.fromkeys(f"{ratio:.1f}" for ratio in (*ratios[:1], *ratios[-1:]))
    return " to ".join(ends) or "an unknown number"


def page(rows: list[dict[str, Any]], limit: int) -> list[str]:
    """Return the table as lines of Markdown."""
    cut = [row for row in rows if "layer" in row]
    exact = max((row["difference"] for row in cut), default=0.0)
    traced = passes([row for row in cut if row["route"] != "replay"])
    replayed = passes([row for row in cut if row["route"] == "replay"])
    lines = [
        "# The zoo",
        "",
        "The smallest model of each of timm's families (random weights; timm's toys for tests left out) cut at its",
        "default layer by `cut_network`, and one swap evaluated. Made by `python -m benchmarks.zoo`.",
        "",
        f"{len(cut)} of {len(rows)} families are cut; on other images than the probe the logits of features and head",
        f"together differ from the model's by {exact:.0e} at most. *Route*: how the cut was made, fx (torch.fx),",
        "export (torch.export) or replay (every call of the head runs the whole network). *Head*: how swaps are",
        "evaluated. *Seconds*: of computing on one core, for inspecting and cutting. *One pass*: the same, for one",
        "image through the model. Cutting sends two images through it and checks the cut on the same two; the rest is",
        f"tracing. Where one pass takes more than {LONG:.0f} s, cutting takes as long as {traced} of them; by replay,",
        f"where the head that is checked is the whole network, {replayed}.",
        "",
        "| family | model | default layer | grid | image | route | head | difference | seconds | one pass |",
        "|---|---|---|---|---|---|---|---:|---:|---:|",
    ]
    for row in rows:
        start = f"| {row['family']} | {row['model']} |"
        if "layer" not in row:
            lines.append(f"{start} {row['refused']} | | | | | | | |")
            continue
        grid = " x ".join(map(str, row["grid"])) + (f" + {row['prefix']}" if row["prefix"] else "")
        image = " x ".join(map(str, row["image"]))
        large = f", {row['memory_gb']:.0f} GB of memory" if row["memory_gb"] > LARGE_GB else ""
        how = f"{row['route']} | {row['evaluator']} | {row['difference']:.0e} | {row['seconds']:.1f}{large}"
        how += f" | {row['pass_seconds']:.2g}"
        lines.append(f"{start} `{row['layer']}` | {grid} | {image} | {how} |")
    large = f"Models that held more than {LARGE_GB} GB of memory say so. "
    prefix = "A grid with `+ n` has n prefix tokens (class token, registers), which stay with the query. "
    stopped = f"A model is stopped after {limit} s of computing, or {PASSES} of its passes if those take longer."
    return [*lines, "", f"{prefix}{large}{stopped}", ""]


if __name__ == "__main__":
    main()
