"""Known answers: cases of our own that are always here, and the authors' where there is reference data.

`golden/cases.json` says what each case asks and which edits it must give; `golden/cases.safetensors` has its grids and
head. The edits come from `brute.py`, never from the engine. To write both files anew (after adding a case to `CASES`):
``python -c "from search.test_golden import rewrite; rewrite()"`` in the folder `tests`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from partswap import METHODS, find_counterfactual
from search.brute import Problem, beam_over_sets, greedy
from small_heads import make_head

GOLDEN = Path(__file__).parent / "golden"
CHANNELS, CLASSES, SIDE, HIDDEN, AUX = 6, 4, 3, 8, 5

#: What is asked: head, distractors, settings of the search; `copies` repeats every distractor, so that candidates tie.
CASES: dict[str, dict[str, Any]] = {
    "paper": {"head": "flattened", "distractors": 1, "objective": "paper", "beam": 1},
    "paper-prefilter": {"head": "convolutional", "distractors": 2, "objective": "paper", "beam": 1, "keep": 0.1},
    "paper-prefilter-runs-out": {"head": "pooled", "distractors": 1, "objective": "paper", "beam": 1, "keep": 0.01},
    "goyal": {"head": "pooled", "distractors": 1, "objective": "paper", "beam": 1, "lam": 0.0},
    "set-greedy": {"head": "flattened", "distractors": 2, "objective": "set", "beam": 1},
    "set-mean": {"head": "flattened", "distractors": 2, "objective": "set", "beam": 8},
    "set-beam": {"head": "convolutional", "distractors": 1, "objective": "set", "beam": 8},
    "hard": {"head": "pooled", "distractors": 2, "objective": "paper", "beam": 1, "lam": 0.0, "allowed": 0.2},
    "several-distractors": {"head": "flattened", "distractors": 4, "objective": "set", "beam": 8},
    "ties": {"head": "pooled", "distractors": 2, "copies": 2, "objective": "paper", "beam": 1, "lam": 0.0},
}
SEARCH = ("objective", "beam", "lam", "keep")
#: What each case is there for: with this changed, the edits must be others.
MATTERS: dict[str, dict[str, Any]] = {
    "paper": {"lam": 0.0},
    "paper-prefilter": {"keep": None},
    "paper-prefilter-runs-out": {"keep": None},
    "set-greedy": {"objective": "paper"},
    "set-mean": {"mean": False},
    "set-beam": {"beam": 1},
    "hard": {"allowed": None},
    "several-distractors": {"recurring": False},
}


def edits(cf):
    return [(e.query_cell, e.distractor_cell) for e in cf.edits]


def read_cases() -> dict[str, dict[str, Any]]:
    return json.loads((GOLDEN / "cases.json").read_text())


def problem_of(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the head, grids, target and mask of a stored case."""
    tensors = {k.removeprefix(f"{name}/"): v for k, v in load_file(GOLDEN / "cases.safetensors").items()
               if k.startswith(f"{name}/")}  # fmt: skip
    head = make_head(case["head"], CHANNELS, CLASSES, cells=SIDE**2, hidden=HIDDEN)
    head.load_state_dict({k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")})
    grids = {k: v for k, v in tensors.items() if not k.startswith("head.")}
    if "allowed" in grids:
        grids["allowed"] = grids["allowed"].bool()
    return {"head": head, "target": case["target"], **grids}


def by_brute_force(case: dict[str, Any], told: dict[str, Any]) -> tuple[list[tuple[int, int]], float]:
    """Return the edits of a case and how clear the closest choice was."""
    ours = case["objective"] == "set"
    given = {k: case[k] for k in ("lam", "keep", "mean", "recurring") if k in case}
    problem = Problem(**told, **{"recurring": ours, **given})
    found = beam_over_sets(problem, case["beam"]) if ours else greedy(problem)
    return found, problem.gap


@pytest.mark.parametrize("screen", [None, "auto"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_our_cases_give_the_stored_edits(name, screen):
    case = read_cases()[name]
    cf = find_counterfactual(**problem_of(name, case), **{k: case[k] for k in SEARCH if k in case}, screen=screen)
    assert edits(cf) == [tuple(edit) for edit in case["edits"]]
    assert cf.flipped == case["flipped"]


@pytest.mark.parametrize("name", sorted(CASES))
def test_brute_force_gives_the_stored_edits(name):
    case = read_cases()[name]
    found, gap = by_brute_force(case, problem_of(name, case))
    assert found == [tuple(edit) for edit in case["edits"]]
    assert gap > 1e-3  # rounding decides nothing


@pytest.mark.parametrize("name", sorted(MATTERS))
def test_what_a_case_is_there_for_decides_its_edits(name):
    case = read_cases()[name]
    assert unlike(name, case, problem_of(name, case), [tuple(edit) for edit in case["edits"]])


def unlike(name: str, case: dict[str, Any], told: dict[str, Any], found: list[tuple[int, int]]) -> bool:
    """Tell whether brute force gives other edits with the setting changed that the case is there for."""
    change = MATTERS.get(name, {})
    grids = {k: v for k, v in told.items() if k not in change}
    return not change or by_brute_force({**case, **change}, grids)[0] != found


def test_what_is_asked_is_what_is_stored():
    cases = read_cases()
    answers = ("target", "edits", "flipped")
    assert {n: {k: v for k, v in case.items() if k not in answers} for n, case in cases.items()} == CASES
    assert all(len(case["edits"]) > 1 for case in cases.values())
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < 100_000


def test_goyal_is_the_search_of_its_case():
    case = read_cases()["goyal"]
    told = problem_of("goyal", case)
    assert edits(METHODS.get("goyal")(screen=None).explain(**told)) == [tuple(edit) for edit in case["edits"]]


def rewrite() -> None:
    """Draw every case until it is clear and has a few edits, and store it with what brute force gives."""
    GOLDEN.mkdir(exist_ok=True)
    stored: dict[str, dict[str, Any]] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name, case in CASES.items():
        for seed in range(10_000):
            told = draw(case, seed)
            if told is None:
                continue
            found, gap = by_brute_force(case, told)
            if 2 <= len(found) <= 6 and gap > 5e-3 and unlike(name, case, told, found):
                break
        else:
            raise RuntimeError(f"no clear case for {name}")
        problem = Problem(**told)
        stored[name] = {**case, "target": told["target"], "edits": found, "flipped": problem.flips(found)}
        tensors |= {f"{name}/head.{k}": v for k, v in told["head"].state_dict().items()}
        tensors |= {f"{name}/{k}": v.to(torch.uint8) if v.dtype == torch.bool else v
                    for k, v in told.items() if isinstance(v, torch.Tensor)}  # fmt: skip
        print(name, "seed", seed, found, f"gap {gap:.3f}", "flipped" if stored[name]["flipped"] else "")
    save_file({k: v.contiguous() for k, v in tensors.items()}, GOLDEN / "cases.safetensors")
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in stored.items()]
    (GOLDEN / "cases.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def draw(case: dict[str, Any], seed: int) -> dict[str, Any] | None:
    """Return a random problem, None if no distractor is taken for another class than the query."""
    torch.manual_seed(seed)
    head = make_head(case["head"], CHANNELS, CLASSES, cells=SIDE**2, hidden=HIDDEN)
    query = torch.randn(CHANNELS, SIDE, SIDE)
    distractors = torch.randn(case["distractors"], CHANNELS, SIDE, SIDE).repeat(case.get("copies", 1), 1, 1, 1)
    with torch.no_grad():
        said, target = int(head(query[None]).argmax()), int(head(distractors[:1]).argmax())
    if said == target:
        return None
    told: dict[str, Any] = {"head": head, "query": query, "distractors": distractors, "target": target}
    if case.get("lam") != 0.0:
        told["query_aux"] = torch.randn(AUX, SIDE, SIDE)
        told["distractor_aux"] = torch.randn(len(distractors), AUX, SIDE, SIDE)
    if "allowed" in case:
        told["allowed"] = torch.rand(SIDE**2, SIDE**2 * len(distractors)) < case["allowed"]
    return told


# -- the authors' ---------------------------------------------------------------------------------------------------


def golden_cases(reference):
    tensors = load_file(reference / "golden" / "cases.safetensors")
    for case in json.loads((reference / "golden" / "cases.json").read_text()):
        name = case["name"]
        head = make_head(case["head"], case["channels"], case["classes"])
        prefix = f"{name}.head."
        head.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        grids = {k: tensors[f"{name}.{k}"] for k in ("query", "distractors", "query_aux", "distractor_aux")}
        yield case, {"head": head, "target": case["target"], **grids}


@pytest.mark.parametrize(("screen", "needed"), [(None, 36), ("auto", 35)])
def test_golden_cases_give_the_authors_edits(reference, screen, needed):
    right = 0
    for case, told in golden_cases(reference):
        cf = find_counterfactual(
            **told, lam=case["lam"], tau=case["tau"], keep=case["k"], objective="paper", beam=1, screen=screen
        )
        right += edits(cf) == [tuple(e) for e in case["edits"]]
    assert right >= needed
