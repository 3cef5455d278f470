"""The parts that an explanation swaps, for SCOUT's measures (Wang & Vasconcelos 2020)."""

from partswap.metrics.base import Evidence, Parts, all_known
from partswap.results.counterfactual import Counterfactual


def swapped_parts(cf: Counterfactual, evidence: Evidence) -> tuple[Parts, Parts] | None:
    """Return the parts with a keypoint in the swapped cells of the query, and of the distractors.

    None without edits, or if one of the images has no keypoints.
    """
    known = all_known(swap.keypoints for swap in evidence.swaps(cf))
    if not known:
        return None
    mine, theirs = (frozenset[str]().union(*side) for side in zip(*known, strict=True))
    return mine, theirs


def found_and_true(cf: Counterfactual, evidence: Evidence) -> tuple[Parts, Parts] | None:
    """Return the parts of the swapped query cells, and those that could have been found: they differ and can be seen.

    None where nothing could be found, so that precision and recall are over the same explanations.
    """
    swapped = swapped_parts(cf, evidence)
    if swapped is None or evidence.differing is None or evidence.query.keypoints is None:
        return None
    visible = frozenset().union(*evidence.query.keypoints)
    true = evidence.differing & visible
    return (swapped[0], true) if true else None
