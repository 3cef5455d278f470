"""Everything that is said to people, in one place."""

from __future__ import annotations

from collections.abc import Sequence

#: A share from which an attribute is the main reason.
MAIN = 0.5

REASON = "The model says {query} rather than {target} {how} because of the {kind}: {values} ({share} of the change)."
BOTH = "{own} rather than {other}"
OWN = "{own}"
OTHER = "not {other}"
MAINLY, PARTLY = "mainly", "among other things"
OTHER_PARTS = "The swapped regions show different parts ({mine} and {theirs}); words would mislead."
NO_PARTS = "The swapped regions show no part that has a name; words would mislead."
NO_ATTRIBUTES = "No attribute of the {parts} stands out; look at the regions themselves."
RESIDUAL = "Most of what the swap of the {parts} changes is nothing that attributes tell; words would mislead."
STAND_IN = " This reads a linear stand-in, which says what the model says for {agreement} of images."


def reason(query: str, target: str, kind: str, own: str | None, other: str | None, share: float) -> str:
    """Return why the model says one class and not the other: its own value of a property, the other's, or both."""
    template = BOTH if own and other else OWN if own else OTHER
    return REASON.format(
        query=query,
        target=target,
        how=MAINLY if share >= MAIN else PARTLY,
        kind=kind,
        values=template.format(own=own, other=other),
        share=_percent(share),
    )


def different_parts(query_parts: Sequence[str], distractor_parts: Sequence[str]) -> str:
    """Return that the two regions show different parts, or none with a name."""
    if not query_parts or not distractor_parts:
        return NO_PARTS
    return OTHER_PARTS.format(mine=query_parts[0], theirs=distractor_parts[0])


def no_attributes(parts: Sequence[str]) -> str:
    """Return that no attribute of some parts stands out."""
    return NO_ATTRIBUTES.format(parts=listed(parts))


def residual(parts: Sequence[str]) -> str:
    """Return that attributes of some parts do not tell what changes."""
    return RESIDUAL.format(parts=listed(parts))


def stand_in(agreement: float) -> str:
    """Return the warning that not the model itself is read."""
    return STAND_IN.format(agreement=_percent(agreement))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def listed(words: Sequence[str]) -> str:
    """Return words as people list them.

    Examples
    --------
    >>> listed(["wing"]), listed(["back", "nape", "wing"])
    ('wing', 'back, nape and wing')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
