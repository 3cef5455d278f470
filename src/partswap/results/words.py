"""What a counterfactual says in words: plain data, which files hold and pictures show; and probabilities as text.

`partswap.words` makes the words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Why nothing is stated: the two regions show different parts, no attribute stands out, or most of the change is
#: nothing that attributes tell.
Withheld = Literal["parts", "attributes", "residual"]


@dataclass(frozen=True)
class AttributeChange:
    """How much more an attribute speaks for the target after the edits than for the query's class before."""

    name: str  #: as the data set calls it, "has_wing_color::black"
    part: str  #: "wing"
    kind: str  #: "wing colour"
    value: str  #: "black"
    change: float  #: ``s'_t - s_t``; negative: what the query would have to lose


@dataclass(frozen=True)
class Words:
    """What a counterfactual says in words, and what that rests on."""

    sentence: str  #: for people; where nothing can be stated it says why
    withheld: Withheld | None  #: why nothing is stated, None if something is
    query_parts: tuple[str, ...]  #: parts the query's swapped cells show, the surest first
    distractor_parts: tuple[str, ...]  #: likewise of the cells they look like
    stated: tuple[AttributeChange, ...]  #: what the sentence names; nothing if it is withheld
    changes: tuple[AttributeChange, ...]  #: the strongest, whatever their sign, strongest first
    share: float  #: how much of the change the named attributes carry, 0 to 1
    residual: float  #: how much of the change is nothing that attributes tell, 0 to 1
    agreement: float | None = (
        None  #: how often the linear stand-in says what the model says; None: it is the model's own
    )


def decimal(probability: float) -> str:
    """Return a probability in as few digits as tell it from 0 and from 1.

    Examples
    --------
    >>> decimal(0.8), decimal(0.0004), decimal(3e-9), decimal(0.9996)
    ('0.80', '0.0004', '3e-09', '0.9996')
    """
    for digits in range(2, 7):
        text = f"{probability:.{digits}f}"
        if 0 < float(text) < 1 or probability in (0, 1):
            return text
    return f"{probability:.0e}" if probability < 0.5 else "1.00"


def percent(probability: float) -> str:
    """Return a probability in percent, likewise.

    Examples
    --------
    >>> percent(0.8), percent(0.0004), percent(3e-9), percent(1.0)
    ('80 %', '0.04 %', '< 0.01 %', '100 %')
    """
    for digits in range(3):
        text = f"{100 * probability:.{digits}f}"
        if 0 < float(text) < 100 or probability in (0, 1):
            return f"{text} %"
    return "< 0.01 %" if probability < 0.5 else "> 99.99 %"
