"""Real explanations: does screening find what the exhaustive search finds?

``python -m benchmarks.agreement CUB_FOLDER WEIGHTS_FOLDER [--cache DIR]`` needs photographs and pretrained weights (see
`benchmarks.cub`); the first run computes features and trains heads, some 10 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest import mock

from rich.progress import track
from torch import nn

from benchmarks.cub import Birds, load_birds, logits_of, trained_head
from partswap import Counterfactual, HeadPlan, find_counterfactual
from partswap.grid import GridShape
from partswap.metrics import score_all
from partswap.runs.tasks import plan_tasks
from partswap.search import screening

RESULTS = Path(__file__).parent / "results"


class Case(NamedTuple):
    """What is compared; the head is narrow, since the exhaustive search must be affordable."""

    settings: dict[str, Any]
    head: str
    width: int
    explanations: int
    distractors: int = 20


CASES = {
    "paper": Case({"objective": "paper", "beam": 1}, "flattened", 128, 200),
    "set": Case({"objective": "set", "beam": 1}, "flattened", 512, 200),
    "beam": Case({"objective": "set", "beam": 8}, "flattened", 128, 100),
    # Few donors make long explanations.
    "flattened": Case({"objective": "set", "beam": 8}, "flattened", 128, 60, 2),
    "convolutional": Case({"objective": "set", "beam": 8}, "convolutional", 64, 60, 2),
}


class Bench:
    """Queries of the test split with their targets and distractors."""

    def __init__(self, birds: Birds, head: nn.Module, queries: int, distractors: int) -> None:
        self.birds = birds
        logits, labels = logits_of(head, birds.test), birds.facts.data.labels()
        self.accuracy = float((logits.argmax(1).numpy() == labels).mean())
        self.plan = HeadPlan(head, GridShape(7, 7))
        self.tasks = plan_tasks(logits, labels, distractors=distractors).first(queries).tasks

    def run(self, name: str, screen: Literal["auto"] | None, **settings: Any) -> list[Counterfactual]:
        """Explain all tasks."""
        found = []
        for task in track(self.tasks, description=name):
            query, donors = self.birds.test.select([task.query]), self.birds.test.select(task.distractors)
            found.append(
                find_counterfactual(
                    self.plan,
                    query.grids[0],
                    donors.grids,
                    task.target,
                    query_aux=query.aux[0],
                    distractor_aux=donors.aux,
                    screen=screen,
                    **settings,
                )
            )
        return found

    def scores(self, found: list[Counterfactual]) -> dict[str, float | None]:
        """Return the metrics over all edits."""
        explained = [(cf, self.birds.facts.evidence(task)) for cf, task in zip(found, self.tasks, strict=True)]
        scores = score_all(explained, ["near_kp", "same_kp", "edits", "flip_rate", "seconds"])
        return {name: None if score.all is None else round(score.all, 4) for name, score in scores.items()}


def agreement(bench: Bench, **settings: Any) -> dict[str, Any]:
    """Screening against the exhaustive search."""
    every = bench.run("exhaustive", None, **settings)
    # As if candidates were dear: a narrow head then gets as few as a full-size one.
    with mock.patch.object(screening, "AUTO_MACS", 0):
        some = bench.run("screened", "auto", **settings)
    pairs = list(zip(every, some, strict=True))
    return {
        "explanations": len(pairs),
        "same_edits": sum(a.edits == b.edits for a, b in pairs) / len(pairs),
        "same_number": sum(len(a) == len(b) for a, b in pairs) / len(pairs),
        "exhaustive": bench.scores(every),
        "screened": bench.scores(some),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cub", type=Path, help="folder in the layout of CUB-200-2011")
    parser.add_argument("weights", type=Path, help="folder of ImageNet weights")
    parser.add_argument("--cache", type=Path, default=Path("out/cub-cache"))
    parser.add_argument("--only", choices=list(CASES), action="append")
    options = parser.parse_args()
    birds = load_birds(options.cub, options.weights, options.cache)
    for name in options.only or CASES:
        case = CASES[name]
        head = trained_head(birds, case.width, options.cache, kind=case.head)
        bench = Bench(birds, head, case.explanations, case.distractors)
        told = {"head": case.head, "hidden": case.width, "distractors": case.distractors}
        found = {**told, "accuracy": round(bench.accuracy, 4), **agreement(bench, **case.settings)}
        print(json.dumps(found, indent=1))
        (RESULTS / f"agreement_{name}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
