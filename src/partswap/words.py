"""What a counterfactual says in words: plain data, which files hold and pictures show.

`partswap.language` makes it.
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
