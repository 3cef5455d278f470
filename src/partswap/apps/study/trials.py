"""Trials: whoever runs a study goes through it as a participant does, and nothing is stored."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

from partswap.apps.study.database import AnswerOutcome, Participant

#: Trials that are remembered; the oldest is forgotten first.
LARGEST = 100
#: What stands in the place of a completion code.
CODE = "TRIAL"


class Trials:
    """Stands in for the database: how far each trial is, in memory and nowhere else."""

    def __init__(self) -> None:
        self._people: dict[str, Participant] = {}

    def __contains__(self, token: str) -> bool:
        return token in self._people

    def add(self, slot: int) -> str:
        """Begin a trial of a slot; returns its token."""
        token = f"try-{secrets.token_urlsafe(12)}"
        self._people[token] = Participant(id=0, slot=slot, name=None, simulated=False, code=CODE, done=0, last=None)
        for old in list(self._people)[:-LARGEST]:
            self._people.pop(old, None)
        return token

    def find(self, token: str) -> Participant | None:
        """Return how far a trial is, None if there is none."""
        return self._people.get(token)

    def answer(
        self, token: str, step: int, choice: str, client_ms: float | None, *, least_ms: float = 0.0
    ) -> AnswerOutcome | None:
        """Go on to the next step, as `Database.answer` does; the answer is forgotten."""
        who = self._people.get(token)
        if who is None:
            return None
        if step != who.done:
            return AnswerOutcome(who, stored=False)
        now = time.time()
        if who.last is not None and 1000 * (now - who.last) < least_ms:
            return AnswerOutcome(who, stored=False, early=True)
        self._people[token] = who = replace(who, done=step + 1, last=now)
        return AnswerOutcome(who, stored=False)
