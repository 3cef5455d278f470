"""Links of the page that choose what the gallery shows, and how sentences list things."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from markupsafe import Markup


def link(text: str, **filters: str | None) -> Markup:
    """Return a link that shows what it names in the gallery; the text and the filters may hold anything."""
    fragment = "&".join(f"{name}={quote(value, safe='')}" for name, value in filters.items() if value is not None)
    return Markup('<a href="#{}">{}</a>').format(fragment, text)


def percent(share: float) -> str:
    r"""Return a share as text; only all is 100 %, and only none is 0 %.

    Examples
    --------
    >>> percent(0.9996)
    '99.96\xa0%'
    """
    for digits in range(3):
        text = f"{100 * share:.{digits}f}"
        if 0 < float(text) < 100 or share in (0, 1):
            break
    return f"{text}\u00a0%"


def listed(items: Iterable[str]) -> str:
    """Return items as a sentence lists them."""
    texts = list(items)
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
