"""A token that stops long work."""

import pytest

from partswap.utils.cancel import CancelledError, CancelToken


def test_work_goes_on_until_a_condition_holds():
    stopped = []
    token = CancelToken(lambda: bool(stopped))
    token.check(3)
    assert (token.progress, token.cancelled) == (3, False)
    stopped.append(True)
    with pytest.raises(CancelledError):
        token.check()
    assert token.progress == 3


def test_conditions_hold_in_their_block_only():
    token = CancelToken()
    with token.when(lambda: False), token.when(lambda: True), pytest.raises(CancelledError):
        token.check()
    with token.within(60):
        token.check(1)
    with token.within(-1), pytest.raises(CancelledError):
        token.check(2)
    token.check()
    assert token.progress == 2
