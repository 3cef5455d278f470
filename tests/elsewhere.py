"""Requests that pages of other sites make a browser send."""

import pytest


def from_elsewhere(own: str) -> pytest.MarkDecorator:
    """Return the mark of a test that takes the `headers` of such requests; `own` is the address of the server."""
    return pytest.mark.parametrize(
        "headers",
        [
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site", "origin": own},
        ],
    )
