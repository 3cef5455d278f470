"""Explain images, not grids: the way in for one's own model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor, nn

from partswap.counterfactual import Counterfactual
from partswap.cut.network import cut_network
from partswap.errors import ClassIndexError, NoDistractorsError, SettingError, ShapeError, suggest
from partswap.heads import HeadPlan
from partswap.images import ImageLike, Preprocess
from partswap.models.auxiliaries import Auxiliary, load_auxiliary
from partswap.models.preprocessing import preprocess_for
from partswap.search import METHODS, Method
from partswap.search.inputs import class_index
from partswap.search.methods.base import CellParts


@dataclass(frozen=True)
class Encoded:
    """Images after the features: compute once, explain many times.

    Attributes
    ----------
    grids : Tensor
        ``(n, d, h, w)``.
    contexts : Tensor or None
        What a vision transformer keeps besides the cells, ``(n, tokens, d)``.
    aux : Tensor or None
        Auxiliary grids ``(n, e, h', w')``.
    logits : Tensor
        ``(n, classes)``.
    pictures : list of PIL.Image.Image
        The part of each image the model sees; empty if nobody is going to look at them.
    names : list of str
        Paths where there were any.
    """

    grids: Tensor
    contexts: Tensor | None
    aux: Tensor | None
    logits: Tensor
    pictures: list[Image]
    names: list[str]

    def __len__(self) -> int:
        return len(self.grids)

    def select(self, indices: Sequence[int]) -> Encoded:
        """Return some of the images."""
        at = list(indices)
        return Encoded(
            self.grids[at],
            None if self.contexts is None else self.contexts[at],
            None if self.aux is None else self.aux[at],
            self.logits[at],
            [self.pictures[i] for i in at] if self.pictures else [],
            [self.names[i] for i in at],
        )


class Explainer:
    """Explains a classifier by counterfactual.

    It looks at the model once; if the model is trained on, or moved, make another.

    Parameters
    ----------
    model : torch.nn.Module
        Images ``(n, 3, H, W)`` to logits ``(n, classes)``. It is left as it is.
    layer : str, optional
        Where to cut it; by default after the last down-sampling (``partswap layers`` lists the choices).
    auxiliary : str, Auxiliary, torch.nn.Module or None
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
        auxiliary: str | Auxiliary | nn.Module | None = None,
        method: str | Method = "partswap",
        preprocess: Preprocess | None = None,
        class_names: Sequence[str] | None = None,
        batch_size: int = 32,
    ) -> None:
        self.preprocess = preprocess or preprocess_for(model)
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        generator = torch.Generator().manual_seed(0)
        probe = torch.randn(2, 3, self.preprocess.size, self.preprocess.size, generator=generator).to(device)
        self.cut = cut_network(model, layer, probe=probe)
        self.model_name = type(model).__name__
        self.device = device
        self.auxiliary = self._auxiliary(auxiliary, model)
        self.method = self.resolve_method(method)
        self.class_names = list(class_names) if class_names is not None else None
        self.batch_size = batch_size
        self._plan: HeadPlan | None = None
        if self.class_names is not None and len(self.class_names) != self.cut.classes:
            raise ShapeError(
                f"{len(self.class_names)} class names for a model with {self.cut.classes} classes.",
                "Give one name per class, in the order of the logits.",
            )

    def __repr__(self) -> str:
        auxiliary = self.auxiliary.name if self.auxiliary else None
        return f"Explainer({self.cut!r}, auxiliary={auxiliary!r}, method={self.method!r})"

    # -- the verbs --------------------------------------------------------------------------------------------------

    def explain(
        self,
        query: ImageLike | Encoded,
        distractors: Sequence[ImageLike] | Tensor | Encoded,
        target: int | str | None = None,
        *,
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
        keep_misclassified : bool
            Distractors that the model does not predict as the target are left out, unless this says otherwise.
        query_parts, distractor_parts : sequence of frozenset of str, and a sequence of such
            The parts each cell of the query, and of each distractor, holds; for methods that want to know.
        """
        encoded = query if isinstance(query, Encoded) else self.encode([query])
        if len(encoded) != 1:
            raise ShapeError(f"there are {len(encoded)} queries.", "Use explain_many, or pass one image.")
        donors = distractors if isinstance(distractors, Encoded) else self.encode(distractors)
        aim = self._target(encoded.logits[0], target)
        right = list(range(len(donors)))
        if not keep_misclassified:
            right = [k for k in right if int(donors.logits[k].argmax()) == aim]
            if not right:
                raise NoDistractorsError(
                    f"none of the {len(donors)} distractors is predicted as the target {self._name(aim)}.",
                    "Pass images of that class which the model gets right, or keep_misclassified=True.",
                )
            donors = donors.select(right)
        found = self.method.explain(
            self.head_for(encoded),
            encoded.grids[0],
            donors.grids,
            aim,
            query_aux=None if encoded.aux is None else encoded.aux[0],
            distractor_aux=donors.aux,
            query_parts=query_parts,
            distractor_parts=_parts_of(distractor_parts, right),
        )
        if encoded.pictures and donors.pictures:
            found = found.with_images(encoded.pictures[0], donors.pictures)
        return replace(found, source=self._source(found, encoded, donors, right))

    def explain_many(
        self,
        queries: Sequence[ImageLike] | Encoded,
        distractors: Sequence[ImageLike] | Tensor | Encoded,
        target: int | str | None = None,
        *,
        keep_misclassified: bool = False,
    ) -> list[Counterfactual]:
        """Explain several images with the same distractors, whose features are computed once."""
        encoded = queries if isinstance(queries, Encoded) else self.encode(queries)
        donors = distractors if isinstance(distractors, Encoded) else self.encode(distractors)
        return [
            self.explain(encoded.select([k]), donors, target, keep_misclassified=keep_misclassified)
            for k in range(len(encoded))
        ]

    def encode(self, images: Sequence[ImageLike] | Tensor) -> Encoded:
        """Compute the features and auxiliary features of images, in batches."""
        if isinstance(images, str | PathLike | Image):
            raise ShapeError("one image was passed where several are expected.", "Pass a list of images.")
        if len(images) == 0:
            raise NoDistractorsError("there are no images.", "Pass at least one.")
        inputs, pictures = zip(*(self.preprocess(image) for image in images), strict=True)
        shapes = {tuple(x.shape) for x in inputs}
        if len(shapes) > 1:
            raise ShapeError(f"images of different shapes {sorted(shapes)}.", "Preprocess them to one size.")
        grids, contexts, logits = [], [], []
        with torch.inference_mode():
            for start in range(0, len(inputs), self.batch_size):
                grid = self.cut.features(torch.stack(inputs[start : start + self.batch_size]).to(self.device))
                logits.append(self.cut.head(grid))
                if hasattr(grid, "context"):
                    contexts.append(grid.context)
                grids.append(grid)
        # Cloned out of inference mode, so that gradients may flow through them later.
        return Encoded(
            torch.cat(grids).clone(),
            torch.cat(contexts).clone() if contexts else None,
            self.auxiliary.grids(list(pictures)) if self.auxiliary else None,
            torch.cat(logits).clone(),
            list(pictures),
            [str(image) if isinstance(image, str) or hasattr(image, "__fspath__") else "" for image in images],
        )

    def head_for(self, query: Encoded) -> nn.Module | HeadPlan:
        """Return the head for one query; it is looked at once if it is the same for all."""
        if query.contexts is not None:
            return self.cut.head.bind(query.contexts)
        if self._plan is None:
            self._plan = HeadPlan(self.cut.head.bind(), self.cut.grid)
        return self._plan

    def resolve_method(self, method: str | Method) -> Method:
        """Return the method; one given by name uses the temperature that suits the auxiliary."""
        if not isinstance(method, str):
            return method
        made = METHODS.get(method)()
        if self.auxiliary is not None and any(f.name == "tau" for f in fields(made)):
            return replace(made, tau=self.auxiliary.tau)  # type: ignore[call-arg]
        return made

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _auxiliary(self, auxiliary: str | Auxiliary | nn.Module | None, model: nn.Module) -> Auxiliary | None:
        if auxiliary == "classifier":
            layer = self.cut.layer
            return load_auxiliary("classifier", classifier=model, layer=layer, preprocess=self.preprocess)
        if isinstance(auxiliary, str):
            found = load_auxiliary(auxiliary)
            found.model.to(self.device)
            return found
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

    def _source(self, found: Counterfactual, query: Encoded, donors: Encoded, kept: list[int]) -> dict[str, Any]:
        named = {found.query_class, found.target, *(step.predicted for step in found.trace)}
        return {
            **found.source,
            "query": query.names[0],
            "distractors": donors.names,
            "distractor_indices": kept,  # among those that were passed; others were misclassified
            "model": self.model_name,
            "layer": self.cut.layer,
            "auxiliary": self.auxiliary.name if self.auxiliary else None,
            "class_names": {str(k): self.class_names[k] for k in sorted(named)} if self.class_names else {},
        }


def _parts_of(distractor_parts: Sequence[CellParts] | None, kept: Sequence[int]) -> CellParts | None:
    """Return the parts of the cells of the distractors that were kept, in one row."""
    if distractor_parts is None:
        return None
    if kept and max(kept) >= len(distractor_parts):
        raise ShapeError(f"parts of {len(distractor_parts)} distractors.", "Give those of all distractors.")
    return [cell for k in kept for cell in distractor_parts[k]]
