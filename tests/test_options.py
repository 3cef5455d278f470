"""Options that users give."""

import pickle
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from partswap import errors
from partswap.errors import SettingError
from partswap.search.methods.hard import Hard
from partswap.utils.options import check_options, parse_options


def test_options_are_read_as_what_they_are():
    texts = ["a=0.2", "b=1e-3", "c=-3", "d=Yes", "e=no", "f=none", "g=x=y", "h=1.2.3", "i=nan", "j=", "k=.5"]
    assert parse_options(texts) == {
        "a": 0.2, "b": 0.001, "c": -3, "d": True, "e": False, "f": None, "g": "x=y", "h": "1.2.3", "i": "nan",
        "j": "", "k": 0.5,
    }  # fmt: skip
    assert isinstance(parse_options(texts)["c"], int)
    assert parse_options(None) == {}
    for text in ("a", "=1"):
        with pytest.raises(SettingError, match="NAME=VALUE"):
            parse_options([text])


@dataclass
class Cook:
    by: Literal["fire", "ice"] = "fire"
    heat: float | None = None
    times: int | Literal["auto"] = "auto"
    at: Path | None = None
    notes: list[str] = field(default_factory=list)


def test_options_are_checked_by_annotations():
    check = partial(check_options, Cook, what="the cook", word="setting", label="cook.{name}")
    assert check({}) == {}
    assert check({"heat": "1e-3", "times": np.int64(3), "at": "here"}) == {"heat": 1e-3, "times": 3, "at": Path("here")}
    assert isinstance(check({"heat": 2})["heat"], int)
    notes = []
    assert check({"notes": notes})["notes"] is notes
    for given, complaint in (
        ({"hat": 1}, r"^the cook has no setting 'hat'\. Did you mean 'heat'.* It has: by, heat, times, at, notes\.$"),
        ({"heat": "hot"}, r"^cook\.heat is 'hot'\. Give a number\.$"),
        ({"by": "air"}, "Give 'fire' or 'ice'"),
        ({"times": True}, "Give a whole number or 'auto'"),
        ({"at": 7}, "Give a path"),
    ):
        with pytest.raises(SettingError, match=complaint):
            check(given)

    @dataclass(frozen=True)
    class Chef(Hard):  # whose fields are annotated with names that are not known here
        """Cooks within clusters."""

    assert check_options(Chef, {"clusters": 3}, what="the chef") == {"clusters": 3}

    def anything(first, **rest: int):
        pass

    assert check_options(anything, {"first": object, "other": 1}, what="it") == {"first": object, "other": 1}


def test_a_fix_speaks_of_arguments_in_python_and_of_flags_on_the_command_line():
    error = errors.SettingError("there is {no} weight.", "Give {weights} or {class_names}, not {x}.")
    assert str(error) == "there is {no} weight. Give weights or class_names, not {x}."
    assert error.in_flags() == "there is {no} weight. Give --weights or --classes, not {x}."
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.in_flags()) == (str(error), error.in_flags())
