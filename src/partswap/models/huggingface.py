"""Image classifiers of Hugging Face transformers, as modules that return plain logits.

Nothing here imports transformers: a caller that has such a model has imported it already.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from partswap.errors import CutError


class HuggingFaceClassifier(nn.Module):
    """Images to logits; layers keep the names they have in the transformers model, after ``model.``."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)

    @property
    def config(self) -> Any:
        """The transformers configuration; it says which image size the model takes."""
        return self.model.config

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(n, classes)``."""
        logits: Tensor = self.model(pixel_values=images).logits
        return logits


def adapt(hf_model: nn.Module) -> nn.Module:
    """Return a transformers image classifier as a module from images to logits that partswap can cut.

    Parameters
    ----------
    hf_model : transformers.PreTrainedModel
        A ``...ForImageClassification``; it is wrapped, not copied.

    Examples
    --------
    ``model = adapt(transformers.AutoModelForImageClassification.from_pretrained("path/to/vit"))``, then
    ``features, head = partswap.cut_network(model)``.
    """
    if isinstance(hf_model, HuggingFaceClassifier):
        return hf_model
    if not isinstance(hf_model, nn.Module) or not hasattr(hf_model, "config"):
        raise CutError(
            f"{type(hf_model).__name__} is not a transformers model.",
            "Pass a model of a ...ForImageClassification class.",
        )
    if not type(hf_model).__name__.endswith("ImageClassification"):
        raise CutError(
            f"{type(hf_model).__name__} has no classification head.",
            "Load the checkpoint with transformers.AutoModelForImageClassification.",
        )
    return HuggingFaceClassifier(hf_model)
