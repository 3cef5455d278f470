"""The data of a report: plain records, added one explanation at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from partswap.apps.report.images import Thumbnails
from partswap.grid import GridShape
from partswap.metrics import Evidence, Score, score_all
from partswap.metrics.base import Swap
from partswap.metrics.clarity import Clarity, clarity
from partswap.results.counterfactual import Counterfactual
from partswap.runs.confusion import Confusion
from partswap.utils.estimates import RESAMPLES

#: Digits of probabilities: more than the page shows.
DIGITS = 5


class NameTable:
    """Names, numbered in the order in which they were added."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name."""
        return self._numbers.setdefault(name, len(self._numbers))

    def __iter__(self) -> Any:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True)
class ReportedMethod:
    """The source of explanations: a method of a run."""

    title: str
    run: str  #: name of the run, empty if there is only one
    method: str
    grid: GridShape
    scores: Mapping[str, Score] = field(repr=False)
    model: int | None = None  #: whose explanations these are: place in `ReportData.mistakes`


@dataclass(frozen=True)
class ModelMistakes:
    """The mistakes of one model."""

    title: str  #: of the model, empty if there is only one
    confusion: Confusion | None = None
    unknown: str = ""  #: why there are no counts


@dataclass(frozen=True)
class PictureNumbers:
    """The pictures of an explanation by their numbers, the distractors by their place; None for those not used."""

    query: int
    distractors: Sequence[int | None]


@dataclass
class ReportData:
    """Explanations of one or several runs, ready to be written."""

    title: str
    note: str = ""
    sources: list[ReportedMethod] = field(default_factory=list)
    classes: NameTable = field(default_factory=NameTable, repr=False)
    parts: NameTable = field(default_factory=NameTable, repr=False)
    thumbnails: Thumbnails = field(default_factory=Thumbnails, repr=False)
    #: Queries, each with its name and its class if that is known.
    cases: list[dict[str, Any]] = field(default_factory=list, repr=False)
    explanations: list[dict[str, Any]] = field(default_factory=list, repr=False)
    #: Parts in which two classes truly differ, by their numbers.
    truths: dict[tuple[int, int], list[str]] = field(default_factory=dict, repr=False)
    #: The mistakes of each of the models.
    mistakes: list[ModelMistakes] = field(default_factory=list, repr=False)
    #: How easy each explanation is to read.
    clarities: list[Clarity] = field(default_factory=list, repr=False)
    #: What a reader must know: that a run is unfinished, for instance.
    notices: list[str] = field(default_factory=list)
    #: What is scored, by source and by whether the model gets the image wrong.
    _scored: dict[tuple[int, bool], list[tuple[Counterfactual, Evidence]]] = field(default_factory=dict, repr=False)
    _cases: dict[Hashable, int] = field(default_factory=dict, repr=False)

    def case(self, key: Hashable, name: str, truth: str | None = None) -> int:
        """Return the number of a query; explanations of one query stand side by side."""
        if key not in self._cases:
            self._cases[key] = len(self.cases)
            label = {} if truth is None else {"truth": self.classes.number(truth)}
            self.cases.append({"name": name, **label})
        return self._cases[key]

    def add(
        self,
        source: int,
        case: int,
        cf: Counterfactual,
        evidence: Evidence,
        pictures: PictureNumbers,
        *,
        mistake: bool = False,
    ) -> None:
        """Add an explanation with the annotations of its images.

        `mistake` says that the model gets the query wrong: the target then is the true class, not a nearest class.
        """
        original, target = (self.classes.number(cf.class_name(k)) for k in (cf.query_class, cf.target))
        steps = (cf.before, *cf.trace)
        record: dict[str, Any] = {
            "case": case,
            "source": source,
            "from": original,
            "to": target,
            "flipped": cf.flipped,
            "image": pictures.query,
            "edits": [[e.query_cell, pictures.distractors[e.distractor_image], e.image_cell] for e in cf.edits],
            "p": [round(step.target_probability, DIGITS) for step in steps],
            "said": [self.classes.number(cf.class_name(step.predicted)) for step in steps],
        }
        if all(step.original_class_probability is not None for step in steps):
            record["own"] = [round(step.original_class_probability or 0.0, DIGITS) for step in steps]
        if mistake:
            record["mistake"] = True
        swaps = evidence.swaps(cf)
        if any(swap.object is not None and not all(swap.object) for swap in swaps):
            record["background"] = [[not on for on in swap.object or (True, True)] for swap in swaps]
        sides = [parts_of(swap) for swap in swaps]
        if all(side is not None for side in sides):
            record["parts"] = [[self._numbers(names) for names in side] for side in sides if side is not None]
        if evidence.differing is not None:
            self.truths[original, target] = sorted(evidence.differing)
        if cf.words is not None:
            record["words"] = {"text": cf.words.sentence, "stated": bool(cf.words.stated)}
        if (checked := self._checked(cf)) is not None:
            record["pixels"] = checked
        self.explanations.append(record)
        self.clarities.append(clarity(cf, evidence))
        self._scored.setdefault((source, mistake), []).append((cf, evidence))

    def scores_by_kind(self) -> dict[bool, list[dict[str, Score]]]:
        """Return the metrics of every source apart for images that the model gets right (False) and wrong (True)."""
        kinds = sorted({mistake for _, mistake in self._scored})
        if len(kinds) < 2:
            return {}
        return {
            kind: [score_all(self._scored.get((n, kind), []), resamples=RESAMPLES) for n in range(len(self.sources))]
            for kind in kinds
        }

    def clearest_first(self) -> list[int]:
        """Return the explanations by their numbers, the easiest to read first."""
        return sorted(range(len(self.clarities)), key=self.clarities.__getitem__, reverse=True)

    def _numbers(self, names: Sequence[str]) -> list[int]:
        return [self.parts.number(name) for name in names]

    def _checked(self, cf: Counterfactual) -> dict[str, Any] | None:
        """Return the pixel check of an explanation: what the whole network says of the pasted image."""
        check = cf.pixel
        if check is None:
            return None
        predicted = self.classes.number(cf.class_name(check.predicted))
        before, after = (round(p, DIGITS) for p in (check.before, check.after))
        return {"before": before, "after": after, "said": predicted, "flipped": bool(check.flipped)}

    def _mistakes(self, source: ReportedMethod) -> list[list[int]] | None:
        """Return the mistakes of a source's model: true class, predicted class, number of images."""
        confusion = None if source.model is None else self.mistakes[source.model].confusion
        if confusion is None:
            return None
        numbers = [self.classes.number(name) for name in confusion.classes]
        return [[numbers[true], numbers[predicted], images] for true, predicted, images in confusion.mistakes]

    def data(self) -> dict[str, Any]:
        """Return everything but the pictures as plain data, for the page's script."""
        mistakes = [self._mistakes(source) for source in self.sources]  # before the classes, of which it may name more
        return {
            "sources": [{"title": s.title, "run": s.run, "grid": list(s.grid)} for s in self.sources],
            "classes": list(self.classes),
            "parts": list(self.parts),
            "sizes": self.thumbnails.sizes,
            "cases": self.cases,
            "explanations": self.explanations,
            "clearest": self.clearest_first(),
            "mistakes": mistakes,
            "truths": [[*pair, parts] for pair, parts in self.truths.items()],
        }


def parts_of(swap: Swap) -> tuple[list[str], list[str]] | None:
    """Return the parts that both cells of an edit show, the query's first; None if nobody annotated them."""
    parts = swap.shows or swap.keypoints
    return None if parts is None else (sorted(parts[0]), sorted(parts[1]))
