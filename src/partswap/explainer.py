"""Explain images, not grids: the way in for one's own model."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import torch
from PIL.Image import Image
from torch import Tensor, nn

from partswap.counterfactual import About, Counterfactual, Pictures
from partswap.cut.network import cut_network
from partswap.errors import ClassIndexError, NoDistractorsError, SettingError, ShapeError, suggest
from partswap.features import Encoded
from partswap.heads import HeadPlan
from partswap.images import ImageLike, Preprocess
from partswap.models.auxiliaries import Auxiliary, AuxiliaryChoice, Explained, build_auxiliary
from partswap.models.precision import device_of
from partswap.models.preprocessing import preprocess_for
from partswap.search import METHODS, Method
from partswap.search.problem import CellParts, Problem, class_index
from partswap.search.settings import changed

#: What may be given as an auxiliary.
AuxiliaryLike = str | AuxiliaryChoice | Auxiliary | nn.Module | None


class Explainer:
    """Explains a classifier by counterfactual.

    It looks at the model once; if the model is trained on, or moved, make another.

    Parameters
    ----------
    model : torch.nn.Module
        Images ``(n, 3, H, W)`` to logits ``(n, classes)``. It is left as it is.
    layer : str, optional
        Where to cut it; by default after the last down-sampling (``partswap layers`` lists the choices).
    auxiliary : str, AuxiliaryChoice, Auxiliary, torch.nn.Module or None
        What says which cells show the same part: a name (see `partswap.load_auxiliary`), or a module from the
        classifier's own inputs to a grid. None: the semantic term is left out.
    method : str or Method
        A registered name or a method with its settings.
    preprocess : Preprocess, optional
        How images become inputs; by default what the model itself says, else ImageNet's.
    class_names : sequence of str, optional
        For pictures and text.

    Examples
    --------
    >>> from partswap import Explainer, aviary
    >>> from partswap.models import shipped
    >>> explainer = Explainer(shipped.load("vgg"), auxiliary="aviary", preprocess=shipped.PREPROCESS)
    >>> birds = [aviary.draw(1, seed).image for seed in range(4)]
    >>> cf = explainer.explain(aviary.draw(0, 7).image, birds, target=1)
    >>> cf.flipped
    True
    """

    def __init__(
        self,
        model: nn.Module,
        layer: str | None = None,
        *,
        auxiliary: AuxiliaryLike = None,
        method: str | Method = "partswap",
        preprocess: Preprocess | None = None,
        class_names: Sequence[str] | None = None,
        batch_size: int = 32,
    ) -> None:
        self.preprocess = preprocess or preprocess_for(model)
        self.device = device_of(model)
        generator = torch.Generator().manual_seed(0)
        probe = torch.randn(2, 3, self.preprocess.size, self.preprocess.size, generator=generator).to(self.device)
        self.cut = cut_network(model, layer, probe=probe)
        self.plan = HeadPlan(self.cut.head, self.cut.grid)
        self.model_name = type(model).__name__
        self.auxiliary = self._auxiliary(auxiliary, model)
        self.method = self.resolve_method(method)
        self.class_names = list(class_names) if class_names is not None else None
        self.batch_size = batch_size
        if self.class_names is not None and len(self.class_names) != self.cut.classes:
            raise ShapeError(
                f"{len(self.class_names)} class names for a model with {self.cut.classes} classes.",
                "Give one name per class, in the order of the logits.",
            )

    def __repr__(self) -> str:
        auxiliary = self.auxiliary.name if self.auxiliary else None
        return f"Explainer({self.cut!r}, auxiliary={auxiliary!r}, method={self.method!r})"

    def explain(
        self,
        query: ImageLike | Encoded,
        distractors: Sequence[ImageLike] | Tensor | Encoded,
        target: int | str | None = None,
        *,
        method: str | Method | None = None,
        keep_misclassified: bool = False,
        query_parts: CellParts | None = None,
        distractor_parts: Sequence[CellParts] | None = None,
    ) -> Counterfactual:
        """Explain one image.

        Parameters
        ----------
        query : path, PIL image, array, tensor or Encoded
            The image to explain; a tensor must be preprocessed, ``(3, H, W)``.
        distractors : sequence of the same, or Encoded
            Images to take regions from.
        target : int or str, optional
            The class the model should say (index or name); by default its second guess.
        method : str or Method, optional
            How to explain; by default the explainer's own method.
        keep_misclassified : bool
            Distractors that the model does not predict as the target are left out, unless this says otherwise.
        query_parts, distractor_parts : sequence of frozenset of str, and a sequence of such
            The parts each cell of the query, and of each distractor, holds; for methods that want to know.
        """
        encoded = self.encode(query if isinstance(query, Encoded) else [query])
        if len(encoded) != 1:
            raise ShapeError(f"there are {len(encoded)} queries.", "Use explain_many, or pass one image.")
        donors = self.encode(distractors)
        aim = self._target(encoded.logits[0], target)
        kept = list(range(len(donors)))
        if not keep_misclassified:
            kept = [k for k in kept if int(donors.logits[k].argmax()) == aim]
            if not kept:
                raise NoDistractorsError(
                    f"none of the {len(donors)} distractors is predicted as the target {self._name(aim)}.",
                    "Pass images of that class which the model gets right, or keep_misclassified=True.",
                )
            donors = donors.select(kept)
        encoded, donors = encoded.to(self.device), donors.to(self.device)
        problem = Problem.of(
            encoded.cut_grids,
            donors.grids,
            aim,
            query_aux=None if encoded.aux is None else encoded.aux[0],
            distractor_aux=donors.aux,
            query_parts=query_parts,
            distractor_parts=_parts_of(distractor_parts, kept),
            about=self._about(encoded, donors, kept),
        )
        return (self.method if method is None else self.resolve_method(method)).solve(self.plan, problem)

    def explain_many(
        self,
        queries: Sequence[ImageLike] | Encoded,
        distractors: Sequence[ImageLike] | Tensor | Encoded,
        target: int | str | None = None,
        *,
        keep_misclassified: bool = False,
    ) -> list[Counterfactual]:
        """Explain several images with the same distractors, whose features are computed once."""
        encoded, donors = self.encode(queries), self.encode(distractors)
        return [
            self.explain(encoded.select([k]), donors, target, keep_misclassified=keep_misclassified)
            for k in range(len(encoded))
        ]

    def encode(self, images: Sequence[ImageLike] | Tensor | Encoded) -> Encoded:
        """Compute the features and auxiliary features of images, in batches; what is encoded already stays as it is."""
        if isinstance(images, Encoded):
            return images
        if isinstance(images, str | PathLike | Image):
            raise ShapeError("one image was passed where several are expected.", "Pass a list of images.")
        if len(images) == 0:
            raise NoDistractorsError("there are no images.", "Pass at least one.")
        inputs, pictures = zip(*(self.preprocess(image) for image in images), strict=True)
        shapes = {tuple(x.shape) for x in inputs}
        if len(shapes) > 1:
            raise ShapeError(f"images of different shapes {sorted(shapes)}.", "Preprocess them to one size.")
        found, logits = [], []
        with torch.inference_mode():
            for start in range(0, len(inputs), self.batch_size):
                grids = self.cut.features(torch.stack(inputs[start : start + self.batch_size]).to(self.device))
                logits.append(self.cut.head(grids))
                found.append(grids)
        # Cloned out of inference mode, so that gradients may flow through them later.
        contexts = [grids.context for grids in found if grids.context is not None]
        return Encoded(
            torch.cat([grids.values for grids in found]).clone(),
            torch.cat(logits).clone(),
            torch.cat(contexts).clone() if contexts else None,
            self.auxiliary.grids(list(pictures)) if self.auxiliary else None,
            [str(image) if isinstance(image, str | PathLike) else "" for image in images],
            list(pictures),
            self.auxiliary.name if self.auxiliary else None,
        )

    def resolve_method(self, method: str | Method) -> Method:
        """Return the method; one given by name uses the temperature that suits the auxiliary."""
        if not isinstance(method, str):
            return method
        made = METHODS.get(method)()
        return changed(made, tau=self.auxiliary.tau) if self.auxiliary is not None and made.takes("tau") else made

    def _auxiliary(self, auxiliary: AuxiliaryLike, model: nn.Module) -> Auxiliary | None:
        if isinstance(auxiliary, str):
            auxiliary = AuxiliaryChoice.parse(auxiliary)
        if isinstance(auxiliary, AuxiliaryChoice):
            auxiliary = build_auxiliary(auxiliary, Explained(model, self.preprocess, self.cut.layer))
            auxiliary.model.to(self.device)
        if isinstance(auxiliary, nn.Module):
            return Auxiliary(type(auxiliary).__name__, auxiliary, self.preprocess)
        return auxiliary

    def _target(self, logits: Tensor, target: int | str | None) -> int:
        if target is None:
            return int(logits.topk(2).indices[1])
        if isinstance(target, str):
            if self.class_names is None:
                raise SettingError(f"target is {target!r} but there are no class names.", "Pass class_names.")
            if target not in self.class_names:
                raise ClassIndexError(f"there is no class {target!r}.", suggest(target, self.class_names))
            return self.class_names.index(target)
        return class_index(target, self.cut.classes)

    def _name(self, index: int) -> str:
        return self.class_names[index] if self.class_names else f"class {index}"

    def _about(self, query: Encoded, donors: Encoded, kept: list[int]) -> About:
        told = {
            "query": query.names[0],
            "distractors": list(donors.names),
            "distractor_indices": kept,  # among those that were passed; others were misclassified
            "model": self.model_name,
            "layer": self.cut.layer,
            "auxiliary": query.auxiliary,
        }
        shown = bool(query.pictures and donors.pictures)
        pictures = Pictures(query.pictures[0], tuple(donors.pictures)) if shown else None
        return About(told, self.class_names or (), pictures)


def _parts_of(distractor_parts: Sequence[CellParts] | None, kept: Sequence[int]) -> CellParts | None:
    """Return the parts of the cells of the distractors that were kept, in one row."""
    if distractor_parts is None:
        return None
    if kept and max(kept) >= len(distractor_parts):
        raise ShapeError(f"parts of {len(distractor_parts)} distractors.", "Give those of all distractors.")
    return [cell for k in kept for cell in distractor_parts[k]]
