"""The settings of a search: one frozen object, checked where it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from partswap.errors import SettingError, suggest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: How a list of edits is ranked (see `beam`).
Objective = Literal["set", "paper"]
#: Of the semantic term; "auto" suits the auxiliary.
Temperature = float | Literal["auto"]
#: How similar two cells are (see `semantic`).
Matching = Literal["auto", "recurring", "softmax"]
#: How many candidates are evaluated exactly per list of edits; None is all of them.
Screen = int | Literal["auto"] | None


@dataclass(frozen=True)
class SearchSettings:
    """How to search.

    Attributes
    ----------
    lam : float
        Weight of the semantic term.
    tau : float or "auto"
        Its temperature. "auto": with the paper's objective the auxiliary's own (0.1, as published, if it has none),
        else it follows the spread of the auxiliary's cosines (see `semantic.resolve_tau`).
    matching : {"auto", "recurring", "softmax"}
        What the term is (see `semantic`): ours, or the paper's. "auto": ours, unless the objective is the paper's.
    objective : {"set", "paper"}
        How edits are ranked (see `partswap.search.beam`).
    keep : float or None
        The paper's prefilter: the fraction of all pairs, by cosine, that is considered. None or 1.0: all.
    screen : int, "auto" or None
        How many candidates are evaluated exactly per list of edits, best first-order estimate first. None: all.
    beam : int
        How many lists of edits are followed at once; 1 is greedy.
    max_edits : int or None
        Give up after so many; by default ``h*w``.
    patience : int or None
        Give up earlier where it looks hopeless: after so many edits it is asked, after every edit, whether the target
        seems out of reach (see `beam`). None: never. An `Explainer` has patience, runs and tables have none.
    memory_mb : float
        Memory the evaluation of candidates may use.
    """

    lam: float = 0.4
    tau: Temperature = "auto"
    matching: Matching = "auto"
    objective: Objective = "set"
    keep: float | None = None
    screen: Screen = "auto"
    beam: int = 8
    max_edits: int | None = None
    patience: int | None = None
    memory_mb: float = 1024

    def __post_init__(self) -> None:
        numbers = ["lam", "memory_mb"]
        numbers += [] if self.tau == "auto" else ["tau"]
        numbers += [] if self.keep is None else ["keep"]
        for name in numbers:
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, float(value))
            except (TypeError, ValueError) as error:
                raise SettingError(f"{name} is {value!r}.", "Give a number.") from error
        checks = {
            "lam": (self.lam >= 0 and isfinite(self.lam), "Use 0 (no semantic term) or more."),
            "tau": (
                self.tau == "auto" or (self.tau > 0 and isfinite(self.tau)),
                "Use 'auto', or a temperature above 0, such as 0.1.",
            ),
            "matching": (self.matching in get_args(Matching), f"Use one of {', '.join(get_args(Matching))}."),
            "objective": (self.objective in ("paper", "set"), "Use 'set' or 'paper'."),
            "keep": (self.keep is None or 0 < self.keep <= 1, "Use a fraction above 0 and at most 1, or None."),
            "screen": (
                self.screen in (None, "auto") or _is_count(self.screen),
                "Use 'auto', a number of candidates, or None for all.",
            ),
            "beam": (_is_count(self.beam), "Use 1 (greedy) or more."),
            "max_edits": (self.max_edits is None or _is_count(self.max_edits), "Use 1 or more, or None."),
            "patience": (self.patience is None or _is_count(self.patience), "Use 1 or more, or None."),
            "memory_mb": (self.memory_mb > 0 and isfinite(self.memory_mb), "Use a number of megabytes above 0."),
        }
        for name, (valid, fix) in checks.items():
            if not valid:
                raise SettingError(f"{name} is {getattr(self, name)!r}.", fix)

    @property
    def softmax(self) -> bool:
        """Whether the semantic term is the paper's softmax."""
        return self.matching == "softmax" or (self.matching == "auto" and self.objective == "paper")

    def record(self) -> dict[str, Any]:
        """Return the settings that decide the result, as plain values."""
        left_out = {"memory_mb"} | ({"patience"} if self.patience is None else set())
        return {f.name: getattr(self, f.name) for f in fields(SearchSettings) if f.name not in left_out}


S = TypeVar("S", bound="DataclassInstance")


def changed(settings: S, **changes: Any) -> S:
    """Return settings with some of them changed; an unknown name raises an error that suggests the nearest."""
    names = [f.name for f in fields(settings) if f.init]
    for name in changes:
        if name not in names:
            raise SettingError(
                f"there is no setting {name!r}.", f"{suggest(name, names)} Settings: {', '.join(names)}.".strip()
            )
    return replace(settings, **changes)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
