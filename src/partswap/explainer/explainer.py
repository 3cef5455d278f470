"""Explain images, not grids: the way in for one's own model."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from partswap._vision import Unpickler
from partswap.data.base import Dataset
from partswap.errors import (
    ClassIndexError,
    CutError,
    InputError,
    NoDistractorsError,
    PartswapError,
    SettingError,
    ShapeError,
)
from partswap.evaluators import Activation, HeadPlan, log_probabilities
from partswap.explainer.target import (
    Targets,
    choose_target,
    each_target,
    find_distractors,
    predicted_as,
    suspicion,
    true_class,
)
from partswap.explainer.verification import verify_inputs
from partswap.features.encode import EncodedImages, PreparedImage
from partswap.features.own_images import encode_images, read_images
from partswap.grid import HeatMap
from partswap.inputs.images import ON_WHITE, ImageLike, list_images, unread_text
from partswap.inputs.preprocess import Tensors, stacked
from partswap.models.auxiliaries import Auxiliary, AuxiliaryChoice, ClassifierContext, build_auxiliary
from partswap.models.checkpoints import Classifier
from partswap.models.huggingface import adapt, is_classifier
from partswap.models.names import class_names as names_of
from partswap.models.names import find_class, placeholder_names
from partswap.models.open import is_architecture, open_classifier
from partswap.models.outputs import cut_as_logits, many_labels
from partswap.models.precision import device_of, find_device
from partswap.models.preprocessing import as_preprocess, assumption, misfit
from partswap.pixels.check import PixelChecker, pairs_of, with_check
from partswap.results.counterfactual import Counterfactual, Pictures, Provenance
from partswap.results.verification import Verification
from partswap.search import METHODS, Method
from partswap.search.maps import cluster_labels, heat_maps
from partswap.search.problem import CellParts, Problem, parts_of
from partswap.search.settings import changed
from partswap.utils.failures import Failures, OnError
from partswap.utils.notes import Note
from partswap.utils.progress import Track, no_progress
from partswap.words.writer import WordsWriter, annotated_parts, open_words_writer

#: What may be given as an auxiliary.
AuxiliaryLike = str | AuxiliaryChoice | Auxiliary | nn.Module | None
#: Several images, encoded or still to be read.
ImagesLike = Sequence[ImageLike] | Tensor | EncodedImages | str | Path
#: Cells that are less alike to what an auxiliary learned from, relative to that itself, are strange to it.
FAMILIAR = 0.8
#: After so many edits it is asked whether the target seems out of reach; runs and tables go on to the end.
PATIENCE = 8

_LABELS = (
    "several logits are above 0 at once and most are far below, as of a network of several labels per image; its "
    'probabilities are a softmax here. If each class has its own sigmoid: activation="sigmoid" (--activation sigmoid).'
)
_NO_GRADIENTS = (
    "no gradients pass through the head (it is quantised, or leaves torch): nothing says which swaps are worth a "
    "look, so every one is evaluated exactly, which is slow. In floating point, or cut at a later layer, it is faster."
)


class PartswapWarning(UserWarning):
    """Something was assumed or adapted that the user should know of."""


class Explainer:
    """Explains a classifier by counterfactual.

    It looks at the model once; if the model is trained on, or moved, make another.

    Parameters
    ----------
    model : torch.nn.Module, Classifier or str
        Images ``(n, channels, H, W)`` to logits ``(n, classes)``. It is left as it is. Or what names one:
        ``"resnet50"`` (with official weights), ``"hf:FOLDER"``, ``"file.py:function"``, the folder of a trained
        classifier.
    layer : str or torch.nn.Module, optional
        Where to cut it; by default after the last down-sampling (``partswap layers`` lists the choices).
    auxiliary : str, AuxiliaryChoice, Auxiliary, torch.nn.Module or None
        What says which cells show the same part: a name (see `partswap.load_auxiliary`), or a module from the
        classifier's own inputs to a grid. "auto": one trained for these images, else a self-supervised network whose
        weights are at hand, else the classifier's own features (`notes` says which). None or "none": the semantic term
        is left out.
    method : str or Method
        A registered name or a method with its settings.
    preprocess : Preprocess, dict, image processor or callable, optional
        How images become inputs: a `Preprocess`, a timm configuration, an image processor of Hugging Face, a
        torchvision transform, or any function from a PIL image to a tensor. By default what the model itself says,
        else ImageNet's, which `notes` then says.
    tensors : {"unit", "standardised"}, optional
        What float tensors hold that are passed as images, all of the model's size: pixels of 0 to 1 (as of ToTensor),
        or what the model gets. Where it matters and is not said, they are refused.
    class_names : sequence of str, mapping or path, optional
        Names of the classes, a file of them, or ``"imagenet"``; by default what the model itself says.
    activation : {"softmax", "sigmoid"}
        What makes probabilities of the logits; "sigmoid" for a network of several labels per image. Either way the
        class with the highest one is what the model says, and an explanation flips when that is the target.
    weights : str or Path, optional
        With a model given by name: a file, or ``"default"`` for official ones.
    device : str or torch.device, optional
        Where to compute; by default where the model is.
    track : Track
        Shows progress; see `partswap.utils.progress`.

    Examples
    --------
    >>> from partswap import Explainer, aviary
    >>> explainer = Explainer("aviary:vgg", auxiliary="aviary")
    >>> birds = [aviary.draw(1, seed).image for seed in range(4)]
    >>> cf = explainer.explain(aviary.draw(0, 7).image, birds, target=1)
    >>> cf.flipped, bool(explainer.verify(cf))
    (True, True)
    """

    _given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Explainer:
        """Keep what it is made of, for pickles."""
        explainer = super().__new__(cls)
        explainer._given = args, options
        return explainer

    def __init__(
        self,
        model: nn.Module | Classifier | str | Path,
        layer: str | nn.Module | None = None,
        *,
        auxiliary: AuxiliaryLike = "auto",
        method: str | Method = "partswap",
        preprocess: Any = None,
        tensors: Tensors | None = None,
        class_names: Any = None,
        weights: str | Path | None = None,
        device: str | torch.device | None = None,
        batch_size: int = 32,
        activation: Activation = "softmax",
        track: Track = no_progress,
    ) -> None:
        if activation not in ("softmax", "sigmoid"):
            raise SettingError(f"activation is {activation!r}.", "Use 'softmax' or 'sigmoid'.")
        self.activation: Activation = activation
        #: What was assumed or adapted.
        self.notes: list[Note] = []
        if isinstance(model, str | Path):
            model = _named(str(model), weights, preprocess)
        elif weights is not None:
            raise SettingError("weights are given with a model that has its own.", "Give them with a name.")
        learned_from = None
        if isinstance(model, Classifier):
            learned_from = model.record.get("data")
            preprocess = model.preprocess if preprocess is None else preprocess
            known = list(model.classes)
            class_names = (
                known if class_names is None and known and known != placeholder_names(len(known)) else class_names
            )
            model = model.model
        if not isinstance(model, nn.Module):
            raise CutError(f"the model is a {type(model).__name__}.", "Pass a torch.nn.Module, or a name.")
        model = adapt(model) if is_classifier(model) else model
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise SettingError(f"batch_size is {batch_size!r}.", "Use 1 or more.")
        if device is not None:
            model = model.to(find_device(device))
        self.model_name = type(model).__name__
        self.device, self.track, self.batch_size = device_of(model), track, batch_size
        self.preprocess = as_preprocess(preprocess, model)
        if tensors is not None:
            self.preprocess = replace(self.preprocess, tensors=tensors)
        try:
            self.model, self.cut, notes = cut_as_logits(
                model, layer, self.preprocess.probe().to(self.device), track, self.activation
            )
        except InputError as error:
            raise misfit(error, model, self.preprocess) from error
        self.class_names = names_of(class_names, model, self.cut.classes)
        for note in notes:
            if note.kind != "features" or not self.class_names:  # names say that they are classes
                self._note(note)
        assumed = assumption(self.preprocess)
        self._note(Note("preprocess", assumed) if assumed else None)
        self.plan = HeadPlan(self.cut.head, self.cut.grid, self.activation)
        self.auxiliary = self._auxiliary(auxiliary, learned_from)
        self.method = self.patient(method)
        self._speakers: dict[str | WordsWriter, WordsWriter] = {}

    def __copy__(self) -> Explainer:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        # Networks that were traced cannot be pickled: what they were made of is, and they are made anew.
        try:
            return _made_anew, (type(self), pickle.dumps(self._given))
        except Exception as error:  # whatever an object's own pickling raises
            raise PartswapError(
                f"the explainer cannot be pickled: {error}.",
                "Make it in the other process; or make it of what can be: names, functions and classes of modules.",
            ) from error

    def __repr__(self) -> str:
        auxiliary = self.auxiliary.name if self.auxiliary else None
        return f"Explainer({self.cut!r}, auxiliary={auxiliary!r}, method={self.method!r})"

    def explain(
        self,
        query: ImageLike | EncodedImages,
        distractors: ImagesLike | Dataset,
        target: int | str | None = None,
        *,
        label: int | str | None = None,
        method: str | Method | None = None,
        keep_misclassified: bool = False,
        query_parts: CellParts | None = None,
        distractor_parts: Sequence[CellParts] | None = None,
        words: WordsWriter | str | Path | None = None,
        pixel: bool = False,
    ) -> Counterfactual:
        """Explain one image.

        Parameters
        ----------
        query : path, PIL image, array, bytes, tensor, item of a data set or Encoded
            The image to explain, or a list, batch or loader of one; a float tensor ``(channels, H, W)`` must be
            preprocessed (but see `tensors`).
        distractors : the same, or sequence of them, folder, batch, DataLoader, data set or Encoded
            Images to take regions from; of a data set, images of the target class that the model gets right. Methods
            whose authors use one (goyal, scout) take the first that the model predicts as the target.
        target : int or str, optional
            The class the model should say: its index, or as text its name (an index if no class is called so). By
            default the true class, if that is known and the model says another; else what more than half of the
            distractors are predicted as; else the model's second guess. The result tells which it was
            (``source["target_from"]``).
        label : int or str, optional
            The true class of the query, if it is known; that of an item of a data set is.
        method : str or Method, optional
            How to explain; by default the explainer's own method.
        keep_misclassified : bool
            Distractors that the model does not predict as the target are left out, unless this says otherwise.
        query_parts, distractor_parts : sequence of frozenset of str, and a sequence of such
            The parts each cell of the query, and of each distractor, holds; for methods that want to know, and words.
        words : Speaker, str or Path, optional
            Say the result in words (``cf.words``) with what ``partswap train words`` saved to a folder.
        pixel : bool
            Check the result in pixels (``cf.pixel``): regions are pasted into the query and the whole network is run.
            Among sets of edits that flip its decision in feature space, ours then prefers one that does so in pixels.
        """
        if target is not None:
            find_class(target, self.class_names, self.cut.classes)  # before images are read
        speaker = None if words is None else self.speaker(words)
        queries = query if isinstance(query, EncodedImages) else list_images(query)
        if len(queries) != 1:
            raise ShapeError(f"there are {len(queries)} queries.", "Use explain_many, or pass one image.")
        item = queries if isinstance(queries, EncodedImages) else queries[0]
        truth = true_class(item, label, distractors, self.class_names, self.cut.classes)
        encoded = self.encode(queries)
        if isinstance(distractors, Dataset):
            aim, why = choose_target(encoded.logits[0], target, truth, None, self.class_names)
            donors = find_distractors(
                distractors, aim, encoded.names[0], self.encode, self.class_names, self.cut.classes
            )
        else:
            donors = self.encode(distractors)
            doubt = suspicion(donors, self.class_names, self.cut.classes)
            self._note(Note("suspect", doubt) if doubt else None)
            aim, why = choose_target(encoded.logits[0], target, truth, donors.logits, self.class_names)
        if int(encoded.logits[0].argmax()) == aim:
            raise ClassIndexError(
                f"the model already says {self.name(aim)} of the query: there is nothing to change.",
                "Choose another target, or another query.",
            )
        self.check_familiar(donors.aux)
        kept = list(range(len(donors)))
        if not keep_misclassified:
            kept = [k for k in kept if int(donors.logits[k].argmax()) == aim]
            if not kept:
                raise NoDistractorsError(
                    f"none of the {len(donors)} distractors is predicted as the target {self.name(aim)}"
                    f"{'' if target is not None else f' ({why})'}; they are predicted as "
                    f"{predicted_as(donors.logits, self.name)}.",
                    "Pass images of that class which the model gets right, choose another {target}, or use these: "
                    "{keep_misclassified}.",
                )
        solver = self.method if method is None else self.patient(method)
        kept = kept[: solver.distractors]
        donors = donors.select(kept)
        encoded, donors = encoded.to(self.device), donors.to(self.device)
        problem = Problem.of(
            encoded.cut_grids,
            donors.grids,
            aim,
            query_aux=None if encoded.aux is None else encoded.aux[0],
            distractor_aux=donors.aux,
            aux_widths=donors.widths,
            query_parts=query_parts,
            distractor_parts=parts_of(distractor_parts, kept),
            about=self._about(encoded, donors, kept, aim, why, truth),
        )
        judge = self._judge(problem.about.pictures, aim) if pixel else None
        problem = replace(problem, judge=judge)
        if self.activation == "softmax" and not self._noted("labels") and many_labels(encoded.logits, donors.logits):
            self._note(Note("labels", _LABELS))
        if not self.plan.has_gradients(problem.query, problem.context) and not self._noted("gradients"):
            self._note(Note("gradients", _NO_GRADIENTS))
        cf = solver.solve(self.plan, problem)
        if judge is not None:
            cf = with_check(cf, judge([pairs_of(cf)])[0], self.class_names)
        if speaker is None:
            return cf
        annotated = None
        if query_parts is not None and distractor_parts is not None:
            annotated = annotated_parts(query_parts, [distractor_parts[k] for k in kept])
        return speaker.tell(cf, encoded, donors, annotated)

    def speaker(self, words: WordsWriter | str | Path) -> WordsWriter:
        """Return what says results in words, after checking that it was made for this model, cut here."""
        if not isinstance(words, WordsWriter | str | Path):
            raise SettingError(f"words is a {type(words).__name__}.", "Give the folder that train words made.")
        key = words if isinstance(words, WordsWriter) else str(words)
        if key not in self._speakers:  # the check reads all weights
            found = words if isinstance(words, WordsWriter) else open_words_writer(words)
            found.check(self.cut, self.model, self.class_names)
            self._speakers[key] = found
        return self._speakers[key]

    @overload
    def explain_many(
        self, queries: ImagesLike, distractors: ImagesLike | Dataset, target: Targets = None, *,
        on_error: Literal["raise"] = ..., keep_misclassified: bool = ...,
        words: WordsWriter | str | Path | None = ..., pixel: bool = ...,
    ) -> list[Counterfactual]: ...  # fmt: skip

    @overload
    def explain_many(
        self, queries: ImagesLike, distractors: ImagesLike | Dataset, target: Targets = None, *,
        on_error: Literal["skip"], keep_misclassified: bool = ...,
        words: WordsWriter | str | Path | None = ..., pixel: bool = ...,
    ) -> list[Counterfactual | None]: ...  # fmt: skip

    def explain_many(
        self,
        queries: ImagesLike,
        distractors: ImagesLike | Dataset,
        target: Targets = None,
        *,
        on_error: OnError = "raise",
        keep_misclassified: bool = False,
        words: WordsWriter | str | Path | None = None,
        pixel: bool = False,
    ) -> list[Counterfactual] | list[Counterfactual | None]:
        """Explain several images with the same distractors, whose features are computed once; the order is kept.

        Parameters
        ----------
        queries, distractors, keep_misclassified, words, pixel
            As in `explain`; of a folder, its images in the order of their names.
        target : int, str or sequence of such, optional
            One for all, or one per query (None: chosen as in `explain`).
        on_error : {"raise", "skip"}
            An image that cannot be read or explained does not stop the others. When they are done, one
            `UnexplainedError` says which failed and why (``error.failures``) and has the results of the others
            (``error.results``); with "skip" that is a warning, and None stands in their places.
        """
        failures = Failures(on_error)
        sources = queries if isinstance(queries, EncodedImages) else list_images(queries)
        targets = each_target(target, len(sources), self.class_names, self.cut.classes)
        told: dict[str, Any] = {"keep_misclassified": keep_misclassified, "pixel": pixel}
        told["words"] = None if words is None else self.speaker(words)
        donors = distractors if isinstance(distractors, Dataset) else self.encode(distractors)
        singles = self._singles(queries, sources, failures)
        found: list[Counterfactual | None] = [None] * len(sources)
        with self.track("explanations", len(singles)) as advance:
            for place, single in singles:
                with failures.of(place, single.names[0]):
                    found[place] = self.explain(single, donors, targets[place], **told)
                advance(1)
        if (note := failures.settle(found)) is not None:
            warnings.warn(note, PartswapWarning, stacklevel=2)
        return found

    def _singles(
        self, images: ImagesLike, sources: EncodedImages | list[ImageLike], failures: Failures
    ) -> list[tuple[int, EncodedImages]]:
        """Return the features of images one by one, each with its place; those that cannot be read are `failures`."""
        if isinstance(sources, EncodedImages):
            return [(place, sources.select([place])) for place in range(len(sources))]
        rows = read_images(sources, self.preprocess, self.track, failures)
        self._note_inputs(images, rows.values())
        if not rows:
            return []
        given = [sources[place] for place in rows]
        encoded = encode_images(self, given, list(rows.values()), self.batch_size, self.track)
        return [(place, encoded.select([k])) for k, place in enumerate(rows)]

    def verify(
        self, cf: Counterfactual, query: Any = None, distractors: Any = None, *, atol: float | None = None
    ) -> Verification:
        """Apply a counterfactual's edits once more and run the model: does it say what is claimed?

        Images that are not given are those it was made from, read again from their files if need be.
        """
        if cf.source.get("layer", self.cut.layer) != self.cut.layer:
            raise SettingError(
                f"the counterfactual is of layer {cf.source['layer']!r}, the explainer of {self.cut.layer!r}.",
                "Make an explainer with that layer.",
            )
        inputs = stacked([self.preprocess(image)[0] for image in cf.images(query, distractors)]).to(self.device)
        return verify_inputs(cf, self.cut, inputs[0], inputs[1:], atol)

    def pixel_check(self, cf: Counterfactual) -> Counterfactual:
        """Return a counterfactual with its pixel check: its regions are pasted, and the whole network is run.

        Images that are not attached to it are read again from their files.
        """
        if (pictures := cf.pictures) is None:
            seen = [self.preprocess(image)[1] for image in cf.images()]
            pictures = Pictures(seen[0], seen[1:])
        return with_check(cf, self._judge(pictures, cf.target)([pairs_of(cf)])[0], self.class_names)

    def heat(self, cf: Counterfactual) -> dict[str, HeatMap]:
        """Return maps of a counterfactual for a figure of kind "heat" (see `heat_maps`)."""
        return heat_maps(self.plan, self._problem(cf), next((e.distractor_image for e in cf.edits), 0))

    def clusters(self, cf: Counterfactual, count: int = 8) -> NDArray[Any]:
        """Return the cluster of each cell, ``(1 + n, h, w)``, for a figure of kind "clusters"."""
        return cluster_labels(self._problem(cf), count)

    def _problem(self, cf: Counterfactual) -> Problem:
        """Return what was asked, from the images."""
        shown = cf.pictures
        whole = shown is None or not self.preprocess.pictured
        given = (
            cf.images() if whole or shown is None else map(self.preprocess.tensor, (shown.query, *shown.distractors))
        )
        every = self.encode(list(given))
        query, donors = every.select([0]).to(self.device), every.select(range(1, len(every))).to(self.device)
        aux: dict[str, Any] = {"query_aux": None if query.aux is None else query.aux[0], "distractor_aux": donors.aux}
        return Problem.of(query.cut_grids, donors.grids, cf.target, **aux, aux_widths=donors.widths)

    def _judge(self, pictures: Pictures | None, target: int) -> PixelChecker:
        if pictures is None:
            raise SettingError(
                "the pixel check needs the images, and only their features are here.",
                "Pass images, or what encode returned for them; or leave out {pixel}.",
            )
        if not self.preprocess.pictured:
            raise SettingError(
                f"the pixel check pastes pictures, and the model takes {self.preprocess.channels} channels.",
                "Leave out {pixel}.",
            )
        how: dict[str, Any] = {"device": self.device, "batch_size": self.batch_size, "activation": self.activation}
        return PixelChecker(self.cut, self.preprocess, pictures.query, pictures.distractors, target, **how)

    def encode(self, images: ImagesLike) -> EncodedImages:
        """Compute the features and auxiliary features of images, in batches; what is encoded already stays as it is."""
        if isinstance(images, EncodedImages):
            return images
        sources = list_images(images)
        rows = read_images(sources, self.preprocess, self.track)
        self._note_inputs(images, rows.values())
        return encode_images(self, sources, list(rows.values()), self.batch_size, self.track)

    def resolve_method(self, method: str | Method) -> Method:
        """Return the method; the paper's, given by name, uses the temperature that suits the auxiliary."""
        if not isinstance(method, str):
            return method
        made = METHODS.get(method)()
        return made if self.auxiliary is None else made.suited(self.auxiliary.tau)

    def patient(self, method: str | Method) -> Method:
        """Return the method as `resolve_method` does; given by name, it ends where the target seems out of reach."""
        made = self.resolve_method(method)
        return changed(made, patience=PATIENCE) if isinstance(method, str) and made.takes("patience") else made

    def name(self, index: int) -> str:
        """Return the name of a class, or a stand-in."""
        return self.class_names[index] if self.class_names else f"class {index}"

    def guesses(self, image: ImageLike | EncodedImages, count: int = 5) -> list[tuple[str, float]]:
        """Return what the model thinks of an image: names of classes with their probabilities, best first."""
        encoded = self.encode(image if isinstance(image, EncodedImages) else [image])
        best = log_probabilities(encoded.logits[0].float(), self.activation).exp().topk(min(count, self.cut.classes))
        return [(self.name(int(k)), float(p)) for k, p in zip(best.indices, best.values, strict=True)]

    def check_familiar(self, grids: Tensor | None) -> None:
        """Note, once, if auxiliary grids ``(n, e, h, w)`` are unlike those that a trained auxiliary learned from."""
        known = None if self.auxiliary is None or grids is None else self.auxiliary.familiarity(grids.float())
        if known is None or known >= FAMILIAR or self._noted("unfamiliar"):
            return
        text = (
            f"these images are unlike those the auxiliary was trained on ({known:.0%} as alike to them as they are): "
            "its matches may be poor. Better: train one on such images (partswap train auxiliary)."
        )
        self._note(Note("unfamiliar", text))

    def with_auxiliary(self, auxiliary: Auxiliary) -> Explainer:
        """Return the same explainer with another auxiliary."""
        made = copy.copy(self)
        made.auxiliary, made.notes = auxiliary, list(self.notes)
        made._given = self._given[0], {**self._given[1], "auxiliary": auxiliary}
        return made

    def _auxiliary(self, auxiliary: AuxiliaryLike, learned_from: str | None) -> Auxiliary | None:
        if isinstance(auxiliary, str):
            auxiliary = None if auxiliary == "none" else AuxiliaryChoice.parse(auxiliary)
        if isinstance(auxiliary, AuxiliaryChoice):
            explained = ClassifierContext(self.model, self.preprocess, self.cut.layer, learned_from)
            auxiliary = build_auxiliary(auxiliary, explained)
            auxiliary.model.to(self.device)
            self.notes += [Note("auxiliary", auxiliary.note)] if auxiliary.note else []
        if isinstance(auxiliary, nn.Module):
            return Auxiliary(type(auxiliary).__name__, auxiliary, self.preprocess)
        if auxiliary is not None and not isinstance(auxiliary, Auxiliary):
            raise SettingError(
                f"the auxiliary is a {type(auxiliary).__name__}.", "Give a name, a torch.nn.Module, or None."
            )
        return auxiliary

    def _about(
        self, query: EncodedImages, donors: EncodedImages, kept: list[int], aim: int, why: Note, truth: int | None
    ) -> Provenance:
        told: dict[str, Any] = {
            "query": query.names[0],
            "distractors": list(donors.names),
            "distractor_indices": kept,  # among those that were passed; others were misclassified
            "model": self.model_name,
            "layer": self.cut.layer,
            "auxiliary": query.auxiliary,
        }
        if self.activation != "softmax":
            told["activation"] = self.activation
        said = donors.logits.argmax(1).tolist()
        if any(k != aim for k in said):
            told["distractor_classes"] = said  # what the model says of each
        if query.frames and donors.frames:
            seen = [
                None if f is None else {"size": list(f.size), "box": list(f.box)}
                for f in (*query.frames, *donors.frames)
            ]
            canvas = list(self.preprocess.shape[::-1])
            told["seen"] = {"canvas": canvas, "query": seen[0], "distractors": seen[1:]}
            told["preprocess"] = self.preprocess.record()
            told["target_from"] = why
            if truth is not None:
                told["label"] = truth
        shown = bool(query.pictures and donors.pictures)
        sources = (*query.sources, *donors.sources) if query.sources and donors.sources else ()
        pictures = Pictures(query.pictures[0], tuple(donors.pictures), sources, self.preprocess) if shown else None
        return Provenance(told, self.class_names or (), pictures)

    def _note_inputs(self, images: Any, rows: Iterable[PreparedImage]) -> None:
        """Note which files of folders were not read, and that what is transparent was put on white."""
        unread = unread_text(images)
        white = [picture.info[ON_WHITE] for _, picture, _ in rows if ON_WHITE in picture.info]
        self._note(Note("unread", f"{unread}.") if unread else None)
        if white and all(note.kind != "transparent" for note in self.notes):
            self._note(Note("transparent", f"images that are transparent in places are put on white, as {white[0]}."))

    def _noted(self, kind: str) -> bool:
        return any(note.kind == kind for note in self.notes)

    def _note(self, note: Note | None) -> None:
        if note is not None and note not in self.notes:
            self.notes.append(note)
            warnings.warn(str(note), PartswapWarning, stacklevel=3)


def _named(name: str, weights: str | Path | None, preprocess: Any) -> Classifier:
    """Return the classifier of a name; an architecture gets its official weights unless others are given."""
    weights = "default" if weights is None and is_architecture(name) else weights
    return open_classifier(name, weights, preprocess=preprocess)


def _made_anew(kind: type[Explainer], content: bytes) -> Explainer:
    args, options = Unpickler(io.BytesIO(content)).load()
    return kind(*args, **options)
