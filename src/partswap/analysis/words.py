"""Are the words of explanations right? Each is held against the table of attributes of the two classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from partswap.data.base import Attributes
from partswap.features.encode import auxiliary_features
from partswap.results.counterfactual import Counterfactual
from partswap.results.words import AttributeChange, Words
from partswap.runs.context import RunContext
from partswap.runs.tasks import Task
from partswap.words.parts import Shown
from partswap.words.writer import CellParts, WordsWriter, annotated_parts, moved, shown_by


@dataclass(frozen=True)
class WordsScore:
    """How the words of one explanation stand."""

    words: Words
    paper: bool  #: the first attribute, found the paper's way, is had by exactly one of the two classes
    fair: bool  #: the same, and the two cells show a common part: otherwise words would mislead
    right: bool  #: something is stated, and its first attribute is had by exactly one of the two classes
    located: bool | None  #: and its part can be seen in both cells of an edit; None if nobody knows
    true: bool  #: something is stated, and all of it is true
    by_chance: float  #: a random attribute of the parts that were told is had by exactly one of the two classes
    by_any_chance: float  #: a random attribute is


class RunWords:
    """Puts the counterfactuals of a run into words."""

    def __init__(self, bench: RunContext, writer: WordsWriter) -> None:
        explainer = bench.explainer
        writer.check(explainer.cut, explainer.model, explainer.class_names)
        self.bench, self.writer = bench, writer
        self._parts = parts_of_images(bench, writer)

    def seen(self, task: Task, cf: Counterfactual) -> tuple[Tensor, CellParts]:
        """Return the grids of query and distractors, ``(1 + n, d, h, w)``, and what their cells show."""
        images = [task.query, *task.distractors[: cf.distractors]]
        query, *donors = (self._parts(image) for image in images)
        return self.bench.encodings.grids[images].float(), CellParts(query, donors, self.writer.reader is None)

    def words(self, task: Task, cf: Counterfactual) -> Words:
        """Return the words of a counterfactual."""
        grids, parts = self.seen(task, cf)
        return self.writer.write(cf, grids[0], grids[1:], parts)


class WordsEvaluation(RunWords):
    """Holds words against the attributes of a data set's classes."""

    def __init__(self, bench: RunContext, writer: WordsWriter) -> None:
        super().__init__(bench, writer)
        attributes = bench.data.attributes()
        assert attributes is not None  # the words were learned from it
        self.has = _presence(attributes, writer)

    def verdict(self, task: Task, cf: Counterfactual) -> WordsScore:
        """Return how the words of a counterfactual stand; cut it to its first edit to judge that alone."""
        bench, writer = self.bench, self.writer
        grids, parts = self.seen(task, cf)
        words = writer.write(cf, grids[0], grids[1:], parts)
        before = grids[0].double().mean((1, 2)).numpy()
        union = frozenset(p for edit in cf.edits for side in shown_by(edit, parts) for p in side)
        after = before + moved(cf.edits, grids[0], grids[1:])
        columns, changes = writer.paper_changes(cf.query_class, cf.target, before, after, union)
        differs = self.has[cf.query_class] != self.has[cf.target]
        first = words.stated[0] if words.stated else None
        right = first is not None and bool(differs[self._column(first)])
        paper = bool(columns) and bool(differs[columns[int(changes.argmax())]])
        return WordsScore(
            words,
            paper=paper,
            fair=paper and words.withheld != "parts",
            right=right,
            located=self._located(task, cf, first) and right if bench.facts[task.query].shows is not None else None,
            true=bool(words.stated) and all(self._is_true(change, cf) for change in words.stated),
            by_chance=float(differs[list(columns)].mean()) if columns else 0.0,
            by_any_chance=float(differs.mean()),
        )

    def first_edit(self, task: Task, cf: Counterfactual) -> WordsScore:
        """Return how the words of the first edit stand."""
        return self.verdict(task, replace(cf, edits=cf.edits[:1], trace=cf.trace[:1]))

    def _column(self, change: AttributeChange) -> int:
        return [attribute["name"] for attribute in self.writer.model.attributes].index(change.name)

    def _is_true(self, change: AttributeChange, cf: Counterfactual) -> bool:
        """Tell whether the class that an attribute is said of has it, and the other has not."""
        whose, other = (cf.target, cf.query_class) if change.change > 0 else (cf.query_class, cf.target)
        column = self._column(change)
        return bool(self.has[whose, column] and not self.has[other, column])

    def _located(self, task: Task, cf: Counterfactual, first: AttributeChange | None) -> bool:
        facts = self.bench.facts
        pairs = [
            (facts[task.query].shows or (), facts[task.distractors[e.distractor_image]].shows or (), e)
            for e in cf.edits
        ]
        return first is not None and any(
            first.part in of_query[e.query_cell] and first.part in of_distractor[e.image_cell]
            for of_query, of_distractor, e in pairs
        )


def _presence(attributes: Attributes, writer: WordsWriter) -> NDArray[np.bool_]:
    """Return which class has which of a writer's attributes, ``(classes, attributes)``."""
    at = {name: k for k, name in enumerate(attributes.names)}
    return attributes.present()[:, [at[attribute["name"]] for attribute in writer.model.attributes]]


def parts_of_images(bench: RunContext, writer: WordsWriter) -> Callable[[int], list[Shown]]:
    """Return a function from the number of an image to what its cells show: as a reader tells, or as annotated."""
    reader, cached = writer.reader, {}
    if reader is None:
        return lambda image: list(annotated_parts(bench.facts.parts(image), []).query)
    grid = bench.explainer.cut.grid
    grids = auxiliary_features(
        bench.data, reader.auxiliary, bench.classifier.preprocess, grid,
        cache=bench.cache, precision=bench.precision, track=bench.track,
    )  # fmt: skip

    def read(image: int) -> list[Shown]:
        if image not in cached:
            cached[image] = reader.read(torch.from_numpy(np.array(grids[image : image + 1])), grid)[0]
        return cached[image]

    return read
