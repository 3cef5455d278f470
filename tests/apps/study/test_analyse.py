"""What is said about answers: known cases, intervals that hold, tests that are fair, exclusions by rule."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from partswap.apps.study import analyse as studied
from partswap.apps.study.analyse import (
    ExclusionRules,
    analyse,
    figure,
    paragraph,
    score_blocks,
    table_markdown,
    write_analysis,
)
from partswap.apps.study.export import COLUMNS
from partswap.errors import PartswapError

METHODS = {"partswap": "partswap", "goyal": "Goyal et al."}


def rows_of(
    accuracy: dict[str, float], *, people: int = 30, pairs: int = 20, blocks: int = 6, seed: int = 0,
    spread: float = 0.1, before: str = "unknown", **more,
) -> list[dict]:  # fmt: skip
    rng = np.random.default_rng(seed)
    ease, skill = rng.normal(0, spread, pairs), rng.normal(0, spread, people)
    rows = []
    for person in range(people):
        for block, pair in enumerate(rng.permutation(pairs)[:blocks].tolist()):
            method = list(accuracy)[int(rng.integers(len(accuracy)))]
            share = float(np.clip(accuracy[method] + ease[pair] + skill[person], 0, 1))
            about = {
                "participant": person, "simulated": False, "finished": True, "block": block, "pair": pair,
                "method": method, "setup": "random", "client_ms": 1500.0, "server_ms": 1600.0,
            }  # fmt: skip
            for phase in ("before", "learn", "test"):
                for item in range(10):
                    truth = None if phase == "learn" else "A"
                    right = rng.random() < share
                    choice = {"before": before, "learn": "next", "test": "A" if right else "B"}[phase]
                    rows.append(
                        {**about, "phase": phase, "item": item, "choice": choice, "truth": truth,
                         "right": None if truth is None else choice == truth, **more}
                    )  # fmt: skip
    return rows


def found_in(rows: list[dict], rules: ExclusionRules = ExclusionRules(), methods=METHODS):  # noqa: B008
    return analyse(pa.Table.from_pylist(rows, COLUMNS), methods, rules)


def test_a_difference_that_is_there_is_found():
    found = found_in(rows_of({"partswap": 0.85, "goyal": 0.7}, people=60))
    gap = found.differences["random", "goyal"]
    assert gap.lead.mean == pytest.approx(0.15, abs=0.04)
    assert gap.lead.low > 0
    assert gap.p < 0.01
    ours = found.accuracy["random", "partswap"]
    assert ours.share.low < ours.share.mean < ours.share.high
    assert found.people == 60
    assert (ours.learning_s, ours.answer_s, ours.before) == (1.5, 1.5, 0.0)


def test_no_difference_is_seldom_found_and_intervals_hold(monkeypatch):
    monkeypatch.setattr(studied, "RESAMPLES", 300)
    monkeypatch.setattr(studied, "SHUFFLES", 300)
    small, covered = 0, 0
    for seed in range(60):
        found = found_in(rows_of({"partswap": 0.75, "goyal": 0.75}, people=20, pairs=12, seed=seed))
        small += found.differences["random", "goyal"].p < 0.05
        gap = found.differences["random", "goyal"]
        covered += gap.lead.low <= 0 <= gap.lead.high
    assert small <= 8  # 3 are expected
    assert covered >= 52  # 57 are expected


def test_people_and_blocks_are_left_out_by_rule():
    rows = rows_of({"partswap": 0.8, "goyal": 0.8}, people=4, blocks=2)
    for row in rows:
        row["finished"] = row["participant"] != 0
        if row["participant"] == 1:
            row["client_ms"] = 90.0
        if (row["participant"], row["block"], row["phase"]) == (3, 0, "before"):
            row["choice"], row["right"] = "A", True
    failed = {**rows[-1], "phase": "attention", "participant": 2, "right": False}
    rows += [failed, failed]
    blocks, excluded = score_blocks(rows, ExclusionRules())
    assert excluded == {
        "people unfinished": 1, "people inattentive": 1, "people too fast": 1, "blocks known before": 1
    }  # fmt: skip
    assert {(block.participant) for block in blocks} == {3}
    assert len(blocks) == 1
    everyone, none = score_blocks(rows, ExclusionRules(unfinished=False, checks=9, seconds=0, knew=1.0))
    assert len(everyone) == 8
    assert not any(none.values())
    with pytest.raises(PartswapError, match=r"nothing to analyse: 4 people unfinished"):
        found_in([{**row, "finished": False} for row in rows])
    with pytest.raises(PartswapError, match=r"nothing to analyse: 1 person unfinished"):
        found_in([{**row, "finished": False} for row in rows if row["participant"] == 0])


def test_simulated_answers_never_count_beside_peoples():
    people = rows_of({"partswap": 0.9, "goyal": 0.9})
    simulated = rows_of({"partswap": 0.1, "goyal": 0.1}, simulated=True)
    for row in simulated:
        row["participant"] += 1000
    both = found_in(people + simulated)
    assert not both.simulated
    assert both.accuracy["random", "partswap"].share.mean > 0.8
    assert "imulated" not in paragraph(both)
    alone = found_in(simulated)
    assert alone.simulated
    assert paragraph(alone).startswith("Simulated:")


def test_everything_is_written_down(tmp_path):
    rows = rows_of({"partswap": 0.85, "goyal": 0.7})
    for row in rows_of({"partswap": 0.9, "goyal": 0.6}, seed=1):
        rows.append({**row, "setup": "consistent", "participant": 100 + row["participant"]})
    table = pa.Table.from_pylist(rows, COLUMNS)
    found = analyse(table, METHODS, ExclusionRules())
    assert found.setups == ["random", "consistent"]
    write_analysis(found, table, tmp_path / "out")
    text = (tmp_path / "out" / "analysis.md").read_text()
    assert "| Goyal et al. |" in table_markdown(found)
    assert "Left out by rule: nobody" in text
    assert "p = " in text
    numbers = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert {row["setup"] for row in numbers["accuracy"]} == {"random", "consistent"}
    assert (tmp_path / "out" / "accuracy.png").stat().st_size > 10_000
    assert len(figure(found).axes) == 2


def test_a_block_without_its_test_does_not_count():
    rows = [row for row in rows_of({"partswap": 0.8, "goyal": 0.8}, people=2) if row["participant"] or row["block"] < 3]
    rows = [row for row in rows if not (row["block"] == 2 and row["phase"] == "test" and row["item"] > 4)]
    blocks, _ = score_blocks(rows, ExclusionRules())
    assert not any(block.asked != 10 for block in blocks)
    assert len(blocks) == 2 + 5
