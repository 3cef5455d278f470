"""What one explanation is asked: features of the query and of the distractors that can be used, and the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from partswap.data.base import Dataset
from partswap.errors import ClassIndexError, NoDistractorsError, ShapeError
from partswap.explainer.target import choose_target, find_distractors, predicted_as, suspicion, true_class
from partswap.features.encode import EncodedImages
from partswap.inputs.images import list_images
from partswap.models.names import find_class
from partswap.results.counterfactual import Counterfactual, Pictures
from partswap.results.provenance import PictureFrames, Provenance, ResultContext
from partswap.search.problem import CellParts, Problem, parts_of
from partswap.utils.notes import Note
from partswap.words.writer import annotated_parts

if TYPE_CHECKING:
    from partswap.explainer.explainer import Explainer


@dataclass(frozen=True)
class Question:
    """One explanation to be made."""

    query: EncodedImages  #: one image
    distractors: EncodedImages  #: those that can be used
    indices: list[int]  #: of the distractors, among those that were passed
    target: int
    target_note: Note  #: where the target comes from (see `choose_target`)
    true_class: int | None  #: of the query, if it is known

    def problem(
        self, explainer: Explainer, query_parts: CellParts | None, distractor_parts: Sequence[CellParts] | None
    ) -> Problem:
        """Return it as a problem for a search."""
        return Problem.of(
            self.query.cut_grids,
            self.distractors.grids,
            self.target,
            query_aux=None if self.query.aux is None else self.query.aux[0],
            distractor_aux=self.distractors.aux,
            aux_widths=self.distractors.widths,
            auxiliary_tau=None if explainer.auxiliary is None else explainer.auxiliary.tau,
            query_parts=query_parts,
            distractor_parts=parts_of(distractor_parts, self.indices),
            about=self._result_context(explainer),
        )

    def annotated_parts(self, query_parts: CellParts | None, distractor_parts: Sequence[CellParts] | None) -> Any:
        """Return the parts that people annotated, as a writer of words takes them; None where they are unknown."""
        if query_parts is None or distractor_parts is None:
            return None
        return annotated_parts(query_parts, [distractor_parts[k] for k in self.indices])

    def _result_context(self, explainer: Explainer) -> ResultContext:
        query, distractors, preprocess = self.query, self.distractors, explainer.preprocess
        frames = (*query.frames, *distractors.frames) if query.frames and distractors.frames else ()
        predicted = distractors.logits.argmax(1).tolist()
        provenance = Provenance(
            query=query.names[0],
            distractors=list(distractors.names),
            distractor_indices=self.indices,
            distractor_classes=predicted if any(k != self.target for k in predicted) else [],
            model=explainer.model_name,
            layer=explainer.cut.layer,
            auxiliary=query.auxiliary,
            activation=explainer.activation,
            frames=PictureFrames(preprocess.shape[::-1], frames[0], list(frames[1:])) if frames else None,
            preprocess=preprocess.record() if frames else None,
            target_from=self.target_note if frames else None,
            label=self.true_class if frames else None,
        )
        pictures = None
        if query.pictures and distractors.pictures:
            sources = (*query.sources, *distractors.sources) if query.sources and distractors.sources else ()
            pictures = Pictures(query.pictures[0], tuple(distractors.pictures), sources, preprocess)
        return ResultContext(provenance, explainer.class_names or (), pictures)


def pose_question(
    explainer: Explainer,
    query: Any,
    distractors: Any,
    target: int | str | None,
    label: int | str | None,
    *,
    keep_misclassified: bool,
    most: int | None,
) -> Question:
    """Encode the images, choose the target, and select at most `most` distractors that the model predicts as it."""
    names, classes = explainer.class_names, explainer.cut.classes
    if target is not None:
        find_class(target, names, classes)  # before images are read
    queries = query if isinstance(query, EncodedImages) else list_images(query)
    if len(queries) != 1:
        raise ShapeError(f"there are {len(queries)} queries.", "Use explain_many, or pass one image.")
    item = queries if isinstance(queries, EncodedImages) else queries[0]
    truth = true_class(item, label, distractors, names, classes)
    encoded = explainer.encode(queries)
    logits = encoded.logits[0]
    if isinstance(distractors, Dataset):
        target_class, note = choose_target(logits, target, truth, None, names)
        images = find_distractors(distractors, target_class, encoded.names[0], explainer.encode, names, classes)
    else:
        images = explainer.encode(distractors)
        doubt = suspicion(images, names, classes)
        explainer.notes.add(Note("suspect", doubt) if doubt else None)
        target_class, note = choose_target(logits, target, truth, images.logits, names)
    if int(logits.argmax()) == target_class:
        raise ClassIndexError(
            f"the model already says {explainer.class_name(target_class)} of the query: there is nothing to change.",
            "Choose another target, or another query.",
        )
    explainer.note_familiarity(images.aux)
    indices = list(range(len(images)))
    if not keep_misclassified:
        reason = "" if target is not None else f" ({note})"
        indices = _predicted_as_target(explainer, images, target_class, reason)
    indices = indices[:most]
    images = images.select(indices).to(explainer.device)
    return Question(encoded.to(explainer.device), images, indices, target_class, note, truth)


def problem_of(explainer: Explainer, cf: Counterfactual) -> Problem:
    """Return the problem that a counterfactual solves, from its images."""
    pictures, preprocess = cf.pictures, explainer.preprocess
    if pictures is None or not preprocess.pictured:
        images = list(cf.images())
    else:
        images = [preprocess.tensor(picture) for picture in (pictures.query, *pictures.distractors)]
    encoded = explainer.encode(images).to(explainer.device)
    query, distractors = encoded.select([0]), encoded.select(range(1, len(encoded)))
    return _problem(query, distractors, cf.target)


def _problem(query: EncodedImages, distractors: EncodedImages, target: int, **details: Any) -> Problem:
    aux: dict[str, Any] = {
        "query_aux": None if query.aux is None else query.aux[0],
        "distractor_aux": distractors.aux,
        "aux_widths": distractors.widths,
    }
    return Problem.of(query.cut_grids, distractors.grids, target, **aux, **details)


def _predicted_as_target(explainer: Explainer, images: EncodedImages, target: int, reason: str) -> list[int]:
    """Return the indices of the images that the model predicts as the target; that there is none is an error."""
    indices = [k for k, predicted in enumerate(images.logits.argmax(1).tolist()) if predicted == target]
    if not indices:
        raise NoDistractorsError(
            f"none of the {len(images)} distractors is predicted as the target {explainer.class_name(target)}{reason}; "
            f"they are predicted as {predicted_as(images.logits, explainer.class_name)}.",
            "Pass images of that class which the model gets right, choose another {target}, or use these: "
            "{keep_misclassified}.",
        )
    return indices
