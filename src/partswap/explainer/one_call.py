"""Explain one image in one call."""

from __future__ import annotations

import inspect
from typing import Any

from partswap.errors import SettingError, suggest
from partswap.explainer.explainer import Explainer
from partswap.results.counterfactual import Counterfactual


def explain(
    model: Any, image: Any, distractors: Any, target: int | str | None = None, **options: Any
) -> Counterfactual:
    """Explain why a model says one class of an image and not another.

    For several images of one model make an `Explainer`, which opens and cuts the model once.

    Parameters
    ----------
    model : torch.nn.Module or str
        The classifier, or what names one (see `Explainer`).
    image, distractors, target
        The image to explain, images to take regions from, and the class the model should say (see
        `Explainer.explain`).
    **options
        Keyword arguments of `Explainer` (``layer``, ``auxiliary``, ``method``, ``preprocess``, ...) and of its
        `explain` (``label``, ``keep_misclassified``, ``words``, ``pixel``, ...).

    Examples
    --------
    >>> import partswap
    >>> birds = [partswap.aviary.draw(1, seed).image for seed in range(4)]
    >>> cf = partswap.explain("aviary:vgg", partswap.aviary.draw(0, 7).image, birds, 1, auxiliary="aviary")
    >>> cf.flipped
    True
    """
    for_explainer = set(inspect.signature(Explainer.__init__).parameters) - {"self", "model"}
    for_image = set(inspect.signature(Explainer.explain).parameters) - {"self", "query", "distractors", "target"}
    for name in options:
        if name not in for_explainer | for_image:
            raise SettingError(f"explain has no option {name!r}.", suggest(name, for_explainer | for_image))
    explainer = Explainer(model, **{name: value for name, value in options.items() if name in for_explainer})
    remaining = {name: value for name, value in options.items() if name not in for_explainer}
    return explainer.explain(image, distractors, target, **remaining)
