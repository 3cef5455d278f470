"""Every table and figure of the paper, on a few drawn birds."""

import csv

import pytest
from typer.testing import CliRunner

from partswap.cli import app
from partswap.cli_paper import TABLES
from partswap.experiments.paper import temperature
from partswap.experiments.paper.lab import PAPER
from partswap.experiments.tables import Measured, ResultTable
from partswap.experiments.tune import Point

#: How many rows each table has on the aviary (no attributes, two places to cut).
ROWS = {
    "sota": 7,
    "components": 6,
    "auxiliary": 2,
    "temperature": 4,
    "selection": 3,
    "foreground": 3,
    "hard-soft": 4,
    "prefilter": 6,
    "layers": 2,
    "distractors": 4,
    "cost": 10,
}
FIGURES = {"temperature": ["pareto", "temperature"], "distractors": ["distractors"], "auxiliary": ["clusters-aviary"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


def test_there_is_a_command_for_every_table():
    assert set(TABLES) == set(PAPER.names()) == set(ROWS)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_printed_and_saved(name, folder, monkeypatch):
    monkeypatch.setattr(temperature, "LAMBDAS", (0.0, 0.4))
    monkeypatch.setattr(temperature, "TAUS", (0.1,))
    command = ["paper", name, "--data", "aviary", "--model", "aviary:vgg", "--option", "per_class=3", "--workers", "1"]
    command += ["--auxiliary", "aviary", "--auxiliary", "classifier", "--queries", "2", "--distractors", "2"]
    command += [
        "--precision",
        "float32",
        "--cache",
        str(folder / "cache"),
        "--out",
        str(folder),
        "--runs",
        str(folder / "r"),
    ]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = list(csv.reader((folder / f"{name}.csv").read_text().splitlines()))
    assert len(rows) == 1 + ROWS[name]
    assert (folder / f"{name}.md").read_text().count("\n| ") >= ROWS[name] + 1
    for figure in FIGURES.get(name, ()):
        assert (folder / f"{figure}.png").stat().st_size > 5_000
        assert (folder / f"{figure}.svg").read_text().startswith("<?xml")
    if name == "auxiliary":
        assert "10.1 / 18.0 19.3 21.6" in (folder / "auxiliary.md").read_text()  # the paper's number beside ours


def test_a_point_is_dominated_by_one_that_is_no_worse():
    def point(same, edits):
        return Point(0, 0, same, 0, edits, 1)

    theirs = [point(0.2, 4), point(0.4, 8)]
    assert temperature.dominated(theirs, [point(0.3, 4)]) == (1, 2)
    assert temperature.dominated(theirs, [point(0.4, 4)]) == (2, 2)


def test_intervals_are_shown_and_kept_out_of_csv():
    table = ResultTable("t", ["a", "b"], [["x", Measured(20.0, 18.0, 24.0)], ["y", None]])
    assert "20.0 ±3.0" in table.markdown()
    assert table.csv() == "a,b\nx,20.0\ny,\n"
