"""Real explanations: does screening find what the exhaustive search finds, and is our default better?

``python -m benchmarks.agreement REFERENCE [--cache DIR] [--queries 200]`` needs photographs and pretrained weights (see
`benchmarks.cub`); the first run computes features and trains heads, some 15 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from torch import nn

from benchmarks.cub import Birds, load_birds, trained_head
from partswap import Counterfactual, HeadPlan, find_counterfactual
from partswap.data.pairs import choose_distractors, confused_classes
from partswap.grid import GridShape
from partswap.metrics import Evidence, score_all

RESULTS = Path(__file__).parent / "results"


class Bench:
    """Queries of the test split with their targets and distractors."""

    def __init__(self, birds: Birds, head: nn.Module, queries: int, seed: int = 0) -> None:
        test = (~birds.train).nonzero().flatten()
        self.birds = birds
        self.grids, self.aux = birds.grids[test], birds.aux[test]
        self.labels = birds.labels[test]
        self.facts = [birds.facts[i] for i in test.tolist()]
        with torch.inference_mode():
            self.logits = torch.cat([head(x.float()) for x in self.grids.split(64)])
        self.accuracy = float((self.logits.argmax(1) == self.labels).float().mean())
        targets = confused_classes(self.logits, self.labels)
        self.plan = HeadPlan(head, GridShape(7, 7))
        self.tasks = []
        right = (self.logits.argmax(1) == self.labels).nonzero().flatten()
        order = right[torch.randperm(len(right), generator=torch.Generator().manual_seed(seed))]
        for query in order.tolist():
            target = targets[int(self.labels[query])]
            donors = choose_distractors(self.logits, self.labels, target, 20, seed=seed, query=query)
            if donors and len(self.tasks) < queries:
                self.tasks.append((query, target, donors))

    def run(self, name: str, *, count: int = 20, tasks: int | None = None, **settings: Any) -> list[Counterfactual]:
        out = []
        for query, target, donors in track(self.tasks[:tasks], description=name):
            chosen = donors[:count]
            out.append(
                find_counterfactual(
                    self.plan,
                    self.grids[query].float(),
                    self.grids[chosen].float(),
                    target,
                    query_aux=self.aux[query].float(),
                    distractor_aux=self.aux[chosen].float(),
                    **settings,
                )
            )
        return out

    def scores(self, found: list[Counterfactual], count: int = 20) -> dict[str, float | None]:
        explained = [
            (cf, Evidence(self.facts[query], [self.facts[k] for k in donors[:count]]))
            for cf, (query, _, donors) in zip(found, self.tasks, strict=False)
        ]
        scores = score_all(explained, ["near_kp", "same_kp", "edits", "flip_rate", "seconds"])
        flat: dict[str, float | None] = {}
        for name, score in scores.items():
            flat[name] = score.all
            if score.single is not None:
                flat[f"{name}_single"] = score.single
        return {k: None if v is None else round(v, 4) for k, v in flat.items()}


def same(first: list[Counterfactual], second: list[Counterfactual]) -> float:
    """Return the share of explanations with the same edits in the same order."""
    return sum(a.edits == b.edits for a, b in zip(first, second, strict=True)) / len(first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("out/cub-cache"))
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    birds = load_birds(options.reference, options.cache)
    rows: dict[str, Any] = {}

    # Screening against the exhaustive search, on a head small enough for the latter. `screen` is fixed at the least
    # that "auto" ever uses, which is what a full-size head gets.
    bench = Bench(birds, trained_head(birds, 512, options.cache), options.queries)
    rows["accuracy_512"] = bench.accuracy
    for objective in ("paper", "set"):
        every = bench.run(f"{objective}, exhaustive", objective=objective, beam=1, screen=None)
        some = bench.run(f"{objective}, screen 64", objective=objective, beam=1, screen=64)
        rows[f"same_edits_{objective}"] = same(every, some)
        rows[f"{objective}_exhaustive"] = bench.scores(every)
        rows[f"{objective}_screened"] = bench.scores(some)
        print(rows)

    # Methods, on a head of VGG-16's size.
    bench = Bench(birds, trained_head(birds, 4096, options.cache), options.queries)
    rows["accuracy_4096"] = bench.accuracy
    rows["goyal_4096"] = bench.scores(bench.run("goyal", count=1, lam=0, objective="paper", beam=1), 1)
    rows["paper_4096"] = bench.scores(bench.run("paper", objective="paper", beam=1))
    rows["partswap_beam1_4096"] = bench.scores(bench.run("partswap, beam 1", beam=1))
    start = time.perf_counter()
    rows["partswap_4096"] = bench.scores(bench.run("partswap"))
    rows["partswap_4096_seconds_each"] = (time.perf_counter() - start) / len(bench.tasks)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "agreement.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
