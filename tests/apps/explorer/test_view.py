"""The address holds the whole state, and nothing that is not one."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partswap.apps.explorer.view import View, read_view
from partswap.errors import PartswapError

NAMES = ("i", "u", "t", "m", "lam", "tau", "n", "edits", "beam", "s", "compare", "pixel")
views = st.builds(
    View,
    image=st.integers(0, 9999),
    target=st.none() | st.integers(0, 999),
    method=st.sampled_from(["partswap", "goyal", "paper"]),
    lam=st.integers(0, 100).map(lambda k: k / 20),
    tau=st.none() | st.integers(1, 30).map(lambda k: k / 100),
    distractors=st.integers(1, 20),
    edits=st.none() | st.integers(1, 15),
    beam=st.integers(1, 16),
    swaps=st.none() | st.lists(st.tuples(st.integers(0, 48), st.integers(0, 979)), max_size=5).map(tuple),
    compare=st.booleans(),
)


@given(views)
def test_a_view_is_read_back_from_its_address(view):
    assert read_view(dict(parse_qsl(view.query(), keep_blank_values=True))) == view


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=60)))
def test_any_address_is_read_or_refused_with_a_reason(told):
    reason = "fine"
    try:
        read_view(told)
    except PartswapError as error:
        reason = error.fix
    assert reason


@pytest.mark.parametrize(
    "told",
    [
        {"i": "-1"}, {"i": "1e3"}, {"i": "٣"}, {"u": "../../etc/passwd"}, {"u": "A" * 24}, {"m": "__class__"},
        {"lam": "nan"}, {"lam": "inf"}, {"lam": "-1"}, {"tau": "1e99"}, {"n": "0"}, {"n": "21"}, {"beam": "17"},
        {"s": "1.2-"}, {"s": "1,2"}, {"s": "-".join(["1.2"] * 65)}, {"edits": "0"},
    ],
)  # fmt: skip
def test_what_is_no_state_is_refused(told):
    with pytest.raises(PartswapError):
        read_view(told)
