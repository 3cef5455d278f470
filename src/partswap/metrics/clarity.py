"""Which explanations to show first: one rule for the report, the explorer, the figures' gallery and the README.

An explanation that a reader understands at a glance flips the decision in few swaps, each of them a part for the same
part and none of them background, holds in pixels, and ends well above where it began. That is easier to read than the
average explanation, so a page that shows examples chosen in this way says so (`RULE`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from partswap.metrics import Evidence
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import percent

#: An explanation with more edits takes effort to read.
FEW_EDITS = 4
#: How many criteria `clarity` counts.
CRITERIA = 6
#: The target's probability after the last edit at which the outcome is plain.
PLAIN_OUTCOME = 0.6
#: Below it the target comes first, if at all, only because the other classes share the rest.
LIKELY = 0.5
#: How many criteria `clarity` counts.
CRITERIA = 6
#: What a page with examples tells its readers.
RULE = (
    f"Chosen to be easy to read: at most {FEW_EDITS} swaps, each a part for the same part, no background, the flip "
    "holds in pixels, and the probability rises most."
)


@dataclass(frozen=True, order=True)
class Clarity:
    """How easy an explanation is to read; of two, the greater one is the clearer."""

    flipped: bool  #: the model says the target after the last edit
    criteria: int  #: how many of the six criteria hold; what is not known does not count as held
    gain: float  #: rise of the target's probability


def clarity(cf: Counterfactual, evidence: Evidence | None = None) -> Clarity:
    """Return how easy an explanation is to read.

    The criteria: between one and `FEW_EDITS` edits; the pixel check holds; every edit swaps cells that show a common
    part; no edit has a cell off the object; the last probability is at least `PLAIN_OUTCOME`; every edit raises it.

    Parameters
    ----------
    cf : Counterfactual
        The explanation, with its pixel check if there was one.
    evidence : Evidence, optional
        What the cells of its images hold, where the data set is annotated.
    """
    swaps = evidence.swaps(cf) if evidence is not None else []
    parts = [swap.shows or swap.keypoints for swap in swaps]
    probabilities = [step.target_probability for step in (cf.before, *cf.trace)]
    criteria = (
        1 <= len(cf) <= FEW_EDITS,
        cf.pixel is not None and cf.pixel.flipped,
        bool(parts) and all(pair is not None and bool(pair[0] & pair[1]) for pair in parts),
        bool(swaps) and all(swap.object is not None and all(swap.object) for swap in swaps),
        cf.probability >= PLAIN_OUTCOME,
        all(after > before for before, after in pairwise(probabilities)),
    )
    return Clarity(cf.flipped, sum(criteria), cf.probability - cf.before.target_probability)


def clearest_first(
    explanations: Sequence[Counterfactual], evidence: Sequence[Evidence | None] | None = None
) -> list[int]:
    """Return the indices of explanations, the clearest first; equally clear ones keep their order."""
    facts = [None] * len(explanations) if evidence is None else evidence
    ranks = [clarity(cf, facts[index]) for index, cf in enumerate(explanations)]
    return sorted(range(len(ranks)), key=lambda index: ranks[index], reverse=True)


def turns_into(cf: Counterfactual) -> bool:
    """Tell whether the edits turn the query's class into the target: it is said in the end, and likely."""
    return cf.flipped and cf.probability >= LIKELY


def weaknesses(cf: Counterfactual, evidence: Evidence | None = None) -> list[str]:
    """Return what makes an explanation a weak one, a sentence each; none is a good sign, not a proof.

    Parameters as in `clarity`: background is seen only where the data set is annotated.
    """
    sentences, end = [], percent(cf.probability)
    if not cf.flipped:
        sentences.append(f"The swaps do not reach the other class: its probability ends at {end}.")
    elif cf.probability < LIKELY:
        sentences.append(f"A low probability: the other class ends at {end}, the first guess but not a likely one.")
    if len(cf) > FEW_EDITS:
        sentences.append(f"{len(cf)} swaps are many: no few regions decide between the two classes here.")
    sides = [swap.object for swap in evidence.swaps(cf)] if evidence is not None else []
    numbers = [number for number, on_object in enumerate(sides, 1) if on_object is not None and not all(on_object)]
    if numbers:
        which = f"Swap {numbers[0]} has" if len(numbers) == 1 else f"{len(numbers)} of {len(cf)} swaps have"
        sentences.append(f"{which} background in place of a part: the model may look at the surroundings.")
    return sentences
