"""Says a counterfactual in words: which attributes of the swapped parts carry the change.

A swap of cells moves pooled features by ``delta`` and the margin between the two classes by ``m . delta``, with
``m = w_target - w_query``. Written with attributes of the parts that were swapped, ``m = sum_t beta_t q_t + r``, an
attribute carries ``beta_t q_t . delta`` of that change: it speaks for the target if ``beta_t > 0`` and for the query's
class if ``beta_t < 0``. Only parts that both cells of an edit show count, and an attribute is named only if its own
classifier sees it: in the query what speaks for the query's class, in the distractors what speaks for the target.

The paper decomposes the two classes one by one and compares whole images, ``s'_t - s_t`` with ``s_t = alpha_t q_t . a``
(`WordsWriter.paper_changes`). Two similar classes share most of their weights, so the difference of the two
decompositions is mostly noise; the decomposition of the difference is not. And only directions in which the mean images
of classes differ count here: in most directions of thousands of channels, weights are left over from training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from partswap.cut.network import Cut
from partswap.errors import SettingError
from partswap.features.encode import EncodedImages
from partswap.models.checkpoints import load_trained
from partswap.models.fingerprint import weights_digest
from partswap.models.names import normalize_name, placeholder_names
from partswap.results.counterfactual import Counterfactual, Edit
from partswap.results.words import AttributeChange, Words
from partswap.utils.sides import merge_sides
from partswap.words import sentences
from partswap.words.decompose import decompose
from partswap.words.linear import own_linear_head
from partswap.words.model import WordsModel
from partswap.words.parts import PartReader, Shown, open_parts

#: Attributes that the difference of two classes is made of, at most; more tell noise.
TERMS = 4
#: Attributes that one class is made of, at most, in the paper's way.
PAPER_TERMS = 10
#: A property that carries less of the change than this does not stand out.
STANDS_OUT = 0.2
#: More of the change than this that is nothing attributes tell, and words would mislead.
MOSTLY_RESIDUAL = 0.75
#: The other class's value of a property is named if it carries this much of what the first carries.
SECOND = 1 / 3
#: Attributes that a result keeps.
KEPT = 6


class CellParts(NamedTuple):
    """What the cells of images show."""

    query: Sequence[Shown]  #: every cell of the query
    distractors: Sequence[Sequence[Shown]]  #: every cell of every distractor
    annotated: bool = False  #: by people, who are sure, and in no order


@dataclass(frozen=True)
class Reading:
    """How a change is made of attributes."""

    columns: tuple[int, ...]  #: numbers of the attributes that came into question
    carried: NDArray[np.float64]  #: what each of them carries of the change
    toward: NDArray[np.float64]  #: above zero: it speaks for the target; below: for the query's class
    residual: float  #: what none of them carries

    @property
    def size(self) -> float:
        """Everything that moved, whatever its sign."""
        return float(np.abs(self.carried).sum() + abs(self.residual))


class WordsWriter:
    """Says counterfactuals of one classifier in words.

    Parameters
    ----------
    model : WordsModel
        Attributes, as ``partswap train words`` made them.
    reader : PartReader, optional
        What tells the parts of cells; without it, parts must be given with every counterfactual.
    """

    def __init__(self, model: WordsModel, reader: PartReader | None = None) -> None:
        self.model, self.reader = model, reader
        self.meanings = model.meanings
        self._basis = model.model.attributes.double().cpu().numpy()
        self._classes = model.model.classes.double().cpu().numpy()
        directions = span(model.model.means.double().cpu().numpy())
        self._basis_seen, self._classes_seen = self._basis @ directions.T, self._classes @ directions.T
        self._difference = lru_cache(maxsize=4096)(self._decomposed_difference)
        self._one = lru_cache(maxsize=4096)(self._decomposed_class)

    def check(self, cut: Cut, model: nn.Module, class_names: Sequence[str] | None) -> None:
        """Raise an error unless these attributes are of this classifier, cut there."""
        attribute_model = self.model
        if weights_digest(model) != attribute_model.weights:
            raise SettingError(
                "the attributes were learned from another classifier, or from other weights of it.",
                "Train them for this one: partswap train words.",
            )
        if cut.layer != attribute_model.layer and not self._same_place(cut):
            raise SettingError(
                f"the attributes were learned at layer {attribute_model.layer!r}, the model is cut at {cut.layer!r}.",
                f"Cut it there: {{layer}} {attribute_model.layer}.",
            )
        names = [normalize_name(name) for name in class_names or ()]
        if (
            names
            and attribute_model.classes != placeholder_names(len(attribute_model.classes))
            and names != [normalize_name(name) for name in attribute_model.classes]
        ):
            raise SettingError("the attributes were learned with other names of classes.", "Train them again.")

    def _same_place(self, cut: Cut) -> bool:
        """Tell whether a layer of another name is the same place (a stage and its last block): the same linear head."""
        classes = self.model.model.classes
        if self.model.agreement is not None or (cut.classes, cut.channels) != tuple(classes.shape):
            return False
        head = own_linear_head(cut)
        return head is not None and torch.allclose(head.weights, classes.cpu(), atol=1e-4)

    def add_words(
        self, cf: Counterfactual, query: EncodedImages, donors: EncodedImages, parts: CellParts | None = None
    ) -> Counterfactual:
        """Return a counterfactual with words; `query` and `donors` are the features it was found with.

        Parts are read from the pictures that came with the features, unless they are given.
        """
        if parts is None:
            if self.reader is None or not query.pictures or not donors.pictures:
                raise SettingError(
                    "nobody says which parts the cells show.",
                    "Pass query_parts and distractor_parts, or train words with a parts detector or named clusters.",
                )
            used = sorted({edit.distractor_image for edit in cf.edits})
            read = self.reader.of_images([query.pictures[0], *(donors.pictures[k] for k in used)], cf.grid)
            nothing: list[Shown] = [()] * cf.grid.cells
            cells_of = dict(zip(used, read[1:], strict=True))
            parts = CellParts(read[0], [cells_of.get(k, nothing) for k in range(len(donors))])
        return replace(cf, words=self.write(cf, query.grids[0], donors.grids, parts))

    def write(self, cf: Counterfactual, query: Tensor, donors: Tensor, parts: CellParts) -> Words:
        """Return the words of a counterfactual, from grids ``(d, h, w)`` and ``(n, d, h, w)``."""
        parts_shown = [shown_by(edit, parts) for edit in cf.edits]
        common = shared_parts(parts_shown, annotated=parts.annotated)
        every = [tuple(dict.fromkeys(part for pair in parts_shown for part in pair[side])) for side in (0, 1)]
        empty = Words("", None, every[0], every[1], (), (), 0.0, 1.0, self.model.agreement)
        if not common:
            return replace(empty, sentence=sentences.different_parts(*every), withheld="parts")
        reading = self.reading(cf.query_class, cf.target, moved(cf.edits, query, donors), frozenset(common))
        used = sorted({edit.distractor_image for edit in cf.edits})
        own, other = self.sees(query), self.sees(donors[used].mean(0))
        seen = [(own if reading.toward[k] < 0 else other)[column] for k, column in enumerate(reading.columns)]
        helping = [k for k in range(len(reading.columns)) if reading.carried[k] > 0 and seen[k]]
        size = reading.size or 1.0
        residual = abs(reading.residual) / size
        kinds: dict[str, list[int]] = {}
        for k in sorted(helping, key=lambda k: -reading.carried[k]):
            kinds.setdefault(self.meanings[reading.columns[k]].kind, []).append(k)
        shares = {kind: float(reading.carried[which].sum()) / size for kind, which in kinds.items()}
        best = max(shares, key=lambda kind: shares[kind], default=None)
        share = 0.0 if best is None else shares[best]
        measured = replace(empty, changes=self._changes(reading), share=share, residual=residual)
        if residual > MOSTLY_RESIDUAL:
            return replace(measured, sentence=sentences.residual(common), withheld="residual")
        if best is None or share < STANDS_OUT:
            return replace(measured, sentence=sentences.no_attributes(common), withheld="attributes")
        stated = self._stated(reading, kinds[best])
        query_value, target_value = (next((c.value for c in stated if sign * c.change > 0), None) for sign in (-1, 1))
        text = sentences.reason(
            cf.class_name(cf.query_class), cf.class_name(cf.target), best, query_value, target_value, share
        )
        text += "" if measured.agreement is None else sentences.stand_in(measured.agreement)
        return replace(measured, sentence=text, stated=stated)

    @torch.no_grad()
    def sees(self, grid: Tensor) -> list[bool]:
        """Tell which attributes a grid ``(d, h, w)`` shows, by their classifiers."""
        pooled = grid.float().mean((1, 2)).cpu()
        return [bool(score > 0) for score in self.model.model(pooled[None])[0].tolist()]

    def reading(self, query_class: int, target: int, delta: NDArray[np.float64], parts: frozenset[str]) -> Reading:
        """Return how the change of the margin that `delta` makes is made of attributes of some parts."""
        columns, beta, rest = self._difference(query_class, target, parts)
        carried = beta * (self._basis[list(columns)] @ delta) if columns else np.zeros(0)
        return Reading(columns, carried, beta, float(rest @ delta))

    def paper_changes(
        self, query_class: int, target: int, before: NDArray[np.float64], after: NDArray[np.float64],
        parts: frozenset[str],
    ) -> tuple[tuple[int, ...], NDArray[np.float64]]:  # fmt: skip
        """Return the attributes of some parts and ``s'_t - s_t`` of each, the paper's way.

        `before` and `after` are the pooled features ``(d,)`` of the query and of its edited grid.
        """
        columns, query_scores = self._one(query_class, parts)
        _, target_scores = self._one(target, parts)
        rows = self._basis[list(columns)]
        return columns, target_scores * (rows @ after) - query_scores * (rows @ before) if columns else np.zeros(0)

    def columns(self, parts: frozenset[str]) -> tuple[int, ...]:
        """Return the numbers of the attributes of some parts."""
        return tuple(t for t, meaning in enumerate(self.meanings) if meaning.part in parts)

    def _decomposed_difference(
        self, query_class: int, target: int, parts: frozenset[str]
    ) -> tuple[tuple[int, ...], NDArray[np.float64], NDArray[np.float64]]:
        columns, margin = self.columns(parts), self._classes[target] - self._classes[query_class]
        if not columns:
            return columns, np.zeros(0), margin
        rows, seen = self._basis[list(columns)], self._basis_seen[list(columns)]
        # An attribute may speak for either class: with its sign, or against it.
        wanted = self._classes_seen[target] - self._classes_seen[query_class]
        decomposition = decompose(wanted, np.concatenate([seen, -seen]), TERMS)
        beta = decomposition.alpha[: len(columns)] - decomposition.alpha[len(columns) :]
        return columns, beta, margin - beta @ rows

    def _decomposed_class(self, which: int, parts: frozenset[str]) -> tuple[tuple[int, ...], NDArray[np.float64]]:
        columns = self.columns(parts)
        if not columns:
            return columns, np.zeros(0)
        return columns, decompose(self._classes[which], self._basis[list(columns)], PAPER_TERMS).alpha

    def _changes(self, reading: Reading) -> tuple[AttributeChange, ...]:
        helping = [k for k in np.argsort(-reading.carried, kind="stable").tolist() if reading.carried[k] > 0]
        return tuple(self._change(reading, k) for k in helping[:KEPT])

    def _change(self, reading: Reading, k: int) -> AttributeChange:
        column = reading.columns[k]
        part, kind, value = self.meanings[column]
        change = float(reading.carried[k] * np.sign(reading.toward[k]))
        return AttributeChange(self.model.attributes[column]["name"], part or "", kind, value, change)

    def _stated(self, reading: Reading, which: Sequence[int]) -> tuple[AttributeChange, ...]:
        """Return what is said of a property: the value that carries most, and one of the other class that says much."""
        first, least = which[0], SECOND * reading.carried[which[0]]
        others = [k for k in which if reading.toward[k] * reading.toward[first] < 0 and reading.carried[k] >= least]
        return tuple(self._change(reading, k) for k in (first, *others[:1]))


def open_words_writer(folder: str | Path, parts: str | Path | None = None) -> WordsWriter:
    """Return what ``partswap train words`` saved; `parts` is what tells parts, if it is not where it was."""
    model = load_trained(WordsModel, folder)
    place = parts or model.parts
    return WordsWriter(model, None if place is None else open_parts(place))


def span(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return directions of length 1, at right angles, that span some rows."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[sizes > 1e-6 * max(float(sizes.max(initial=0.0)), 1e-12)], np.float64)


def annotated_parts(query: Sequence[Iterable[str]], distractors: Sequence[Sequence[Iterable[str]]]) -> CellParts:
    """Return what cells show by annotations, left and right as one."""
    merged = [[tuple(sorted({merge_sides(p) for p in cell})) for cell in image] for image in (query, *distractors)]
    return CellParts(merged[0], merged[1:], annotated=True)


def shown_by(edit: Edit, parts: CellParts) -> tuple[Shown, Shown]:
    """Return what the two cells of an edit show."""
    return parts.query[edit.query_cell], parts.distractors[edit.distractor_image][edit.image_cell]


def shared_parts(parts_shown: Sequence[tuple[Shown, Shown]], *, annotated: bool = False) -> tuple[str, ...]:
    """Return the parts that both cells of an edit show, of all edits, in order.

    Unless people annotated them, the surest part of one cell must be among those of the other: with three parts a cell,
    some overlap is chance.
    """
    shared: list[str] = []
    for of_query, of_distractor in parts_shown:
        if annotated or (of_query and of_distractor and (of_query[0] in of_distractor or of_distractor[0] in of_query)):
            shared += [part for part in of_query if part in of_distractor]
    return tuple(dict.fromkeys(shared))


def moved(edits: Sequence[Edit], query: Tensor, donors: Tensor) -> NDArray[np.float64]:
    """Return by how much edits move the pooled features of a grid, ``(d,)``."""
    query_cells, distractor_cells = query.cpu().double().flatten(1), donors.cpu().double().flatten(2)
    cells = query_cells.shape[1]
    delta = torch.zeros(len(query_cells), dtype=torch.float64)
    for edit in edits:
        delta += distractor_cells[edit.distractor_image, :, edit.image_cell] - query_cells[:, edit.query_cell]
    return np.asarray((delta / cells).numpy(), np.float64)
