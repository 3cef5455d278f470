"""The outcome of a verification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """Outcome of applying the edits once more and running the whole head."""

    holds: bool  #: the head says what the counterfactual claims
    predicted: int  #: what the head says after all edits
    probability: float  #: of the target class, after all edits
    deviation: float  #: largest difference to a probability of the trace

    def __bool__(self) -> bool:
        return self.holds
