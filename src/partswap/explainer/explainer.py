"""`Explainer`: counterfactuals of images for a classifier."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from partswap._vision import Unpickler
from partswap.data.base import Dataset
from partswap.errors import PartswapError, SettingError
from partswap.evaluators import Activation, HeadPlan, log_probabilities
from partswap.explainer.many import explain_each
from partswap.explainer.notes import MANY_LABELS, NO_GRADIENTS, NoteLog
from partswap.explainer.opening import AuxiliaryLike, open_auxiliary, open_model
from partswap.explainer.question import Question, pose_question, problem_of
from partswap.explainer.target import Targets
from partswap.explainer.verification import verify_inputs
from partswap.features.encode import EncodedImages
from partswap.features.own_images import encode_images, read_images
from partswap.grid import HeatMap
from partswap.inputs.images import ImageLike, list_images
from partswap.inputs.preprocess import Tensors, stacked
from partswap.models.auxiliaries import Auxiliary
from partswap.models.checkpoints import Classifier
from partswap.models.outputs import looks_multi_label
from partswap.models.precision import device_of
from partswap.pixels.check import PixelChecker, pairs_of, with_check
from partswap.results.counterfactual import Counterfactual, Pictures
from partswap.results.verification import Verification
from partswap.search import METHODS, Method
from partswap.search.maps import cluster_labels, heat_maps
from partswap.search.problem import CellParts, Problem
from partswap.search.settings import changed
from partswap.utils.failures import OnError
from partswap.utils.notes import Note
from partswap.utils.progress import Track, no_progress
from partswap.words.writer import WordsWriter, open_words_writer

#: Several images, encoded or still to be read.
ImagesLike = Sequence[ImageLike] | Tensor | EncodedImages | str | Path
#: After so many edits it is asked whether the target seems out of reach; runs and tables go on to the end.
PATIENCE = 8


#: Old name of a method -> the name it has now.
RENAMED_METHODS = {"name": "class_name", "speaker": "words_writer", "check_familiar": "note_familiarity"}


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

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Explainer:
        """Store the arguments, for pickles."""
        explainer = super().__new__(cls)
        explainer._arguments = args, options
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
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise SettingError(f"batch_size is {batch_size!r}.", "Use 1 or more.")
        opened = open_model(
            model, layer, preprocess=preprocess, tensors=tensors, class_names=class_names, weights=weights,
            device=device, activation=activation, track=track,
        )  # fmt: skip
        self.model, self.cut, self.preprocess = opened.model, opened.cut, opened.preprocess
        self.class_names, self.model_name = opened.class_names, opened.name
        self.device, self.track, self.batch_size = device_of(opened.model), track, batch_size
        self.activation: Activation = activation
        #: What was assumed or adapted.
        self.notes = NoteLog()
        for note in opened.notes:
            self.notes.add(note)
        self.plan = HeadPlan(self.cut.head, self.cut.grid, activation)
        self.auxiliary = open_auxiliary(auxiliary, opened)
        if self.auxiliary is not None and self.auxiliary is not auxiliary and self.auxiliary.note:
            self.notes.append(Note("auxiliary", self.auxiliary.note))
        self.method = self.method_with_patience(method)
        self._writers: dict[str | WordsWriter, WordsWriter] = {}

    def __getattr__(self, name: str) -> Any:
        """Find methods by the names that they had in the release before this one."""
        if name not in RENAMED_METHODS:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        message = f"Explainer.{name} is called {RENAMED_METHODS[name]} now; the old name goes with the next release."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(self, RENAMED_METHODS[name])

    def __copy__(self) -> Explainer:
        duplicate = object.__new__(type(self))
        duplicate.__dict__.update(self.__dict__)
        return duplicate

    def __reduce__(self) -> tuple[Any, ...]:
        # Traced networks cannot be pickled: the arguments are, and the explainer is opened again from them.
        try:
            return _opened_again, (type(self), pickle.dumps(self._arguments))
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
        query : path, PIL image, array, bytes, tensor, item of a data set or EncodedImages
            The image to explain, or a list, batch or loader of one; a float tensor ``(channels, H, W)`` must be
            preprocessed (but see `tensors`).
        distractors : the same, or sequence of them, folder, batch, DataLoader, data set or EncodedImages
            Images to take regions from; of a data set, images of the target class that the model gets right. Methods
            whose authors use one (goyal, scout) take the first that the model predicts as the target.
        target : int or str, optional
            The class the model should say: its index, or as text its name (an index if no class is called so). By
            default the true class, if that is known and the model says another; else what more than half of the
            distractors are predicted as; else the model's second guess. The result tells which it was
            (``source.target_from``).
        label : int or str, optional
            The true class of the query, if it is known; that of an item of a data set is.
        method : str or Method, optional
            How to explain; by default the explainer's own method.
        keep_misclassified : bool
            Distractors that the model does not predict as the target are left out, unless this says otherwise.
        query_parts, distractor_parts : sequence of frozenset of str, and a sequence of such
            The parts each cell of the query, and of each distractor, holds; for methods that want to know, and words.
        words : WordsWriter, str or Path, optional
            Say the result in words (``cf.words``) with what ``partswap train words`` saved to a folder.
        pixel : bool
            Check the result in pixels (``cf.pixel``): regions are pasted into the query and the whole network is run.
            Among sets of edits that flip its decision in feature space, ours then prefers one that does so in pixels.
        """
        writer = None if words is None else self.words_writer(words)
        solver = self.method if method is None else self.method_with_patience(method)
        question = pose_question(
            self, query, distractors, target, label, keep_misclassified=keep_misclassified, most=solver.distractors
        )
        problem = question.problem(self, query_parts, distractor_parts)
        checker = self._pixel_checker(problem.about.pictures, question.target) if pixel else None
        self._note_doubts(question, problem)
        cf = solver.solve(self.plan, replace(problem, judge=checker))
        if checker is not None:
            cf = with_check(cf, checker([pairs_of(cf)])[0], self.class_names)
        if writer is None:
            return cf
        annotated = question.annotated_parts(query_parts, distractor_parts)
        return writer.add_words(cf, question.query, question.distractors, annotated)

    def _note_doubts(self, question: Question, problem: Problem) -> None:
        logits = question.query.logits, question.distractors.logits
        if self.activation == "softmax" and not self.notes.has("labels") and looks_multi_label(*logits):
            self.notes.add(MANY_LABELS)
        if not self.notes.has("gradients") and not self.plan.has_gradients(problem.query, problem.context):
            self.notes.add(NO_GRADIENTS)

    def words_writer(self, words: WordsWriter | str | Path) -> WordsWriter:
        """Return the writer of words in a folder, after checking that it was trained for this model and this cut."""
        if not isinstance(words, WordsWriter | str | Path):
            raise SettingError(f"words is a {type(words).__name__}.", "Give the folder that train words made.")
        key = words if isinstance(words, WordsWriter) else str(words)
        if key not in self._writers:  # the check reads all weights
            writer = words if isinstance(words, WordsWriter) else open_words_writer(words)
            writer.check(self.cut, self.model, self.class_names)
            self._writers[key] = writer
        return self._writers[key]

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
        writer = None if words is None else self.words_writer(words)
        options = {"keep_misclassified": keep_misclassified, "words": writer, "pixel": pixel}
        return explain_each(self, queries, distractors, target, on_error, options)

    def verify(
        self, cf: Counterfactual, query: Any = None, distractors: Any = None, *, atol: float | None = None
    ) -> Verification:
        """Apply a counterfactual's edits again, run the model, and compare what it says with the trace.

        Images that are not given are those it was made from, read again from their files if need be.
        """
        if cf.source.layer not in (None, self.cut.layer):
            raise SettingError(
                f"the counterfactual is of layer {cf.source.layer!r}, the explainer of {self.cut.layer!r}.",
                "Make an explainer with that layer.",
            )
        inputs = stacked([self.preprocess(image)[0] for image in cf.images(query, distractors)]).to(self.device)
        return verify_inputs(cf, self.cut, inputs[0], inputs[1:], atol)

    def pixel_check(self, cf: Counterfactual) -> Counterfactual:
        """Return a counterfactual with its pixel check: its regions are pasted, and the whole network is run.

        Images that are not attached to it are read again from their files.
        """
        if (pictures := cf.pictures) is None:
            query, *distractors = (self.preprocess(image)[1] for image in cf.images())
            pictures = Pictures(query, distractors)
        return with_check(cf, self._pixel_checker(pictures, cf.target)([pairs_of(cf)])[0], self.class_names)

    def heat(self, cf: Counterfactual) -> dict[str, HeatMap]:
        """Return maps of a counterfactual for a figure of kind "heat" (see `heat_maps`)."""
        return heat_maps(self.plan, problem_of(self, cf), next((e.distractor_image for e in cf.edits), 0))

    def clusters(self, cf: Counterfactual, count: int = 8) -> NDArray[Any]:
        """Return the cluster of each cell, ``(1 + n, h, w)``, for a figure of kind "clusters"."""
        return cluster_labels(problem_of(self, cf), count)

    def _pixel_checker(self, pictures: Pictures | None, target: int) -> PixelChecker:
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
        return PixelChecker(
            self.cut, self.preprocess, pictures.query, pictures.distractors, target,
            device=self.device, batch_size=self.batch_size, activation=self.activation,
        )  # fmt: skip

    def encode(self, images: ImagesLike) -> EncodedImages:
        """Return the features and auxiliary features of images; `EncodedImages` are returned as they are."""
        if isinstance(images, EncodedImages):
            return images
        sources = list_images(images)
        rows = read_images(sources, self.preprocess, self.track)
        self.notes.add_inputs(images, rows.values())
        return encode_images(self, sources, list(rows.values()), self.batch_size, self.track)

    def resolve_method(self, method: str | Method) -> Method:
        """Return the method, with its default settings if it is given by name."""
        return METHODS.get(method)() if isinstance(method, str) else method

    def method_with_patience(self, method: str | Method) -> Method:
        """Return the method; one given by name stops early where the target seems out of reach (`PATIENCE`)."""
        resolved = self.resolve_method(method)
        stops_early = isinstance(method, str) and resolved.takes("patience")
        return changed(resolved, patience=PATIENCE) if stops_early else resolved

    def class_name(self, index: int) -> str:
        """Return the name of a class; ``class 3`` where names are unknown."""
        return self.class_names[index] if self.class_names else f"class {index}"

    def guesses(self, image: ImageLike | EncodedImages, count: int = 5) -> list[tuple[str, float]]:
        """Return the `count` most probable classes of an image: their names and probabilities, best first."""
        encoded = self.encode(image if isinstance(image, EncodedImages) else [image])
        best = log_probabilities(encoded.logits[0].float(), self.activation).exp().topk(min(count, self.cut.classes))
        return [(self.class_name(int(k)), float(p)) for k, p in zip(best.indices, best.values, strict=True)]

    def note_familiarity(self, grids: Tensor | None) -> None:
        """Note, once, if auxiliary grids ``(n, e, h, w)`` are unlike those that a trained auxiliary learned from."""
        if self.auxiliary is not None and grids is not None:
            self.notes.add_familiarity(self.auxiliary.familiarity(grids.float()))

    def with_auxiliary(self, auxiliary: Auxiliary) -> Explainer:
        """Return the same explainer with another auxiliary."""
        explainer = copy.copy(self)
        explainer.auxiliary, explainer.notes = auxiliary, NoteLog(self.notes)
        explainer._arguments = self._arguments[0], {**self._arguments[1], "auxiliary": auxiliary}
        return explainer


def _opened_again(kind: type[Explainer], content: bytes) -> Explainer:
    args, options = Unpickler(io.BytesIO(content)).load()
    return kind(*args, **options)
