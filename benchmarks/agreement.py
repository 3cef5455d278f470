"""Real explanations: does screening find what the exhaustive search finds, and is our default better?

``python -m benchmarks.agreement REFERENCE [--cache DIR] [--queries 200]`` needs photographs and pretrained weights (see
`benchmarks.cub`); the first run computes features and trains heads, some 15 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
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
from partswap.search.find import AUTO_LEAST

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


def agreement(bench: Bench, objective: str) -> dict[str, Any]:
    """Screening against the exhaustive search.

    `screen` is fixed at the least that "auto" ever uses, which is what a full-size head gets.
    """
    every = bench.run(f"{objective}, exhaustive", objective=objective, beam=1, screen=None)
    some = bench.run(f"{objective}, screen {AUTO_LEAST}", objective=objective, beam=1, screen=AUTO_LEAST)
    return {
        "explanations": len(every),
        "same_edits": same(every, some),
        "exhaustive": bench.scores(every),
        "screened": bench.scores(some),
    }


def methods(bench: Bench) -> dict[str, Any]:
    """All methods, on a head of VGG-16's size."""
    return {
        "goyal, 1 distractor": bench.scores(bench.run("goyal", count=1, lam=0, objective="paper", beam=1), 1),
        "paper": bench.scores(bench.run("paper", objective="paper", beam=1)),
        "partswap, beam 1": bench.scores(bench.run("partswap, beam 1", beam=1)),
        "partswap": bench.scores(bench.run("partswap")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("out/cub-cache"))
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--only", choices=["paper", "set", "methods"], action="append")
    parser.add_argument("--hidden", type=int, default=512, help="width of the head for the exhaustive search")
    options = parser.parse_args()
    birds = load_birds(options.reference, options.cache)
    for part in options.only or ["paper", "set", "methods"]:
        # The exhaustive search is affordable on a narrow head only; methods are compared at VGG-16's 4096.
        hidden = 4096 if part == "methods" else options.hidden
        bench = Bench(birds, trained_head(birds, hidden, options.cache), options.queries)
        found = {"hidden": hidden, "accuracy": round(bench.accuracy, 4)}
        found |= methods(bench) if part == "methods" else agreement(bench, part)
        print(json.dumps(found, indent=1))
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"agreement_{part}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
