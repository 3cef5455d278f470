"""Tables on narrow terminals: nothing is cut, words stay whole."""

import io
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import trees
from partswap.analysis import demo
from partswap.analysis.compare import Comparison, Difference
from partswap.analysis.paper.context import Row, TableContext
from partswap.analysis.sanity import Randomised, sanity_table
from partswap.analysis.stability import Stability, stability_table
from partswap.analysis.tables import metrics_table
from partswap.analysis.tune import Point, Tuning
from partswap.cli.main import app
from partswap.metrics import METRICS, Score
from partswap.utils.estimates import Estimate
from partswap.utils.files import write_json
from partswap.utils.terminal import FittedTable

LONG = "stages.3.blocks.11.attn.projection.dropout"


def shown(table, width=80):
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    lines = file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "…" not in file.getvalue()
    return lines


def words(table):
    text_of = getattr(table, "show", str)  # a table of results holds numbers
    texts = [*table.columns, *(text_of(cell) for row in table.rows for cell in row)]
    return {word for text in texts for word in text.split()}


@given(
    st.lists(
        st.lists(st.text("abc. 1", max_size=30), min_size=6, max_size=6), min_size=1, max_size=4
    ),
    st.integers(80, 120),
)  # fmt: skip
def test_every_word_is_there_whatever_the_cells_are(rows, width):
    table = FittedTable([f"heading {k}" for k in range(6)], rows, right=(2, 3))
    text = " ".join(shown(table, width)).split()
    assert words(table) <= set(text)


def test_columns_that_do_not_fit_go_below_with_the_first_again():
    table = FittedTable(
        ["layer", *(f"column{k}" for k in range(9))], [[LONG, *("12.34 ±5.67",) * 9]], title="t", note="n"
    )
    lines = shown(table)
    assert sum(LONG in line for line in lines) > 1
    assert {f"column{k}" for k in range(9)} <= {word for line in lines for word in line.split()}
    assert len([line for line in shown(table, 300) if LONG in line]) == 1
    # What is longer than a line is broken, not cut.
    path = "/".join(["a-folder-with-a-name"] * 6)
    pieces = [line.strip() for line in shown(FittedTable(["path", "n"], [[path, "1"]]))]
    assert path in "".join(piece.removesuffix("1").strip() for piece in pieces)


def score(metric):
    return Score(0.123, 0.456, 20, (0.1, 0.2), (0.4, 0.5))


def tables(tmp_path):
    """Yield the tables that commands print, with long names in them."""
    scores = {name: score(name) for name in METRICS.names()}
    plain = {name: vars(found) for name, found in scores.items()}
    methods = ["goyal", "paper", "partswap", "hard", "scout"]
    write_json(tmp_path / "metrics.json", dict.fromkeys(methods, plain))
    skipped = {
        "misclassified_queries": 1000, "correct_queries": 0, "classes_without_distractors": [],
        "queries_without_distractors": 0, "not_drawn": 0,
    }  # fmt: skip
    settings = {"data": "cub", "split": "test", "model": LONG, "auxiliary": None}
    known = {method: {"lam": 0.4} for method in methods}
    record = {"settings": settings, "tasks": 5, "images": 5000, "skipped": skipped, "methods": known}
    run = SimpleNamespace(folder=tmp_path, record=record)
    yield metrics_table(run)
    change = Estimate(0.333, (-0.1, 0.2), 1000)
    differences = [Difference(("partswap", "paper"), name, "all", 0.123, 0.456, change) for name in METRICS]
    yield Comparison((run, run), differences, {}, None, (None, None)).table()
    some = Estimate(0.123, (0.101, 0.152), 1000)
    yield sanity_table([Randomised("head", some, some, some, 3)])
    yield stability_table([Stability(8, some, some, 3, 400)])
    point = Point(0.4, 0.1, 0.5, 0.6, 2.5, 0.99)
    yield Tuning("partswap", [point], point, "note").table()
    names = ["near_kp", "same_kp", "foreground", "edits", "flip_rate", "evaluations", "seconds"]
    row = Row(["a method with a long name", LONG], scores, "60.3 / 30.2 at 3.2")
    yield TableContext.result(SimpleNamespace(note=str), "title", ["method", "layer"], names, [row]).table
    yield demo.results_table(dict.fromkeys(["goyal", "paper", "partswap"], scores), title="birds")


def test_the_tables_of_commands_fit_eighty_columns(tmp_path):
    for table in tables(tmp_path):
        assert words(table) <= {word for line in shown(table) for word in line.split()}


@pytest.mark.parametrize("words", ["data list", "data check cub {}"])
def test_printed_tables_fit_eighty_columns(words, tmp_path):
    said = CliRunner().invoke(app, words.format(trees.cub(tmp_path)).split(), env={"COLUMNS": "80"}).output
    assert "…" not in said
    assert all(len(line) <= 80 for line in said.splitlines())
    for word in ("inaturalist", "train_mini") if "list" in words else ("keypoints", "median"):
        assert word in said
