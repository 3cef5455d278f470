import io
import math

import pytest
from rich.console import Console

from partswap.metrics import Score
from partswap.utils.estimates import Estimate
from partswap.utils.tables import ResultTable


def printed(table):
    console = Console(file=io.StringIO(), width=60)
    console.print(table)
    return console.file.getvalue()


def test_an_estimate_says_its_interval_in_brackets_or_as_plus_minus():
    share = Estimate(0.2, (0.125, 0.375), 8)
    assert share.show(factor=100) == "20.0 [12.5, 37.5]"
    assert share.scaled(100).plus_minus(1) == "20.0 ±12.5"
    assert share.scaled(100, digits=0).plus_minus(2) == "20 ±12"  # its own decimals, not the table's
    assert (share.low, share.high, share.count) == (0.125, 0.375, 8)
    alone, nothing = Estimate.of([0.5]), Estimate.of([])
    assert (alone.show(), alone.plus_minus(2), alone.low) == ("0.5", "0.50", 0.5)
    assert (nothing.show(), nothing.plus_minus(1), nothing.scaled(100)) == ("-", "-", nothing)
    assert math.isnan(nothing.high)


@pytest.mark.parametrize(
    ("interval", "clear"), [((0.1, 0.3), True), ((-0.3, -0.1), True), ((-0.1, 0.3), False), (None, False)]
)
def test_a_difference_is_clear_if_its_interval_leaves_out_zero(interval, clear):
    assert Estimate(0.2, interval).excludes_zero == clear


def test_a_score_holds_two_estimates():
    score = Score(0.5, 0.25, 4, (0.4, 0.6), None)
    assert score.estimate("single") == Estimate(0.5, (0.4, 0.6), 4)
    assert score.estimate("all") == Estimate(0.25, None, 4)


def test_a_table_of_results_is_printed_with_numbers_to_the_right():
    rows = [["first", 3, Estimate(20.0, (18.0, 24.0))], ["second", 12, None], ["third", None, Estimate(5.0)]]
    table = ResultTable("Title", ["method", "edits", "share"], rows, "A note.", digits=2)
    lines = [line.rstrip() for line in printed(table).splitlines() if line.strip()]
    assert [lines[0], lines[-1]] == ["Title", "A note."]
    assert "first        3   20.00 ±3.00" in printed(table)
    assert "| --- | ---: | ---: |" in table.markdown()
    assert table.csv() == "method,edits,share\nfirst,3,20.0\nsecond,12,\nthird,,5.0\n"
