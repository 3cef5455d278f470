"""The linear classifier behind a head: its own, where it is pooling and one linear layer, else one fitted to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from partswap.cut.network import Cut
from partswap.errors import SettingError

#: Grids of one kind that a head is asked at once.
CHUNK = 64


@dataclass(frozen=True)
class LinearHead:
    """Logits ``weights @ a + bias`` of pooled features ``a``."""

    weights: Tensor  #: ``(classes, d)``
    bias: Tensor  #: ``(classes,)``
    agreement: float | None = (
        None  #: how often it says what the model says, on images it was not fitted on; None: always
    )


@torch.no_grad()
def own_linear_head(cut: Cut) -> LinearHead | None:
    """Return the weights of a head that is pooling and one linear layer, found by asking it; None if it is not.

    A grid that has the same channels in every cell pools to these channels, so unit vectors give the weights; grids of
    random cells tell whether the head really does nothing else.
    """
    if cut.head.needs_context:
        return None
    device = next(iter(cut.head.parameters()), torch.empty(0)).device
    flat = torch.cat([torch.zeros(1, cut.channels), torch.eye(cut.channels)])[:, :, None, None]
    answers = [cut.head(part.expand(-1, -1, *cut.grid).to(device)).cpu() for part in flat.split(CHUNK)]
    bias, *rest = torch.cat(answers)
    weights = (torch.stack(rest) - bias).T
    generator = torch.Generator().manual_seed(0)
    grids = torch.randn(8, cut.channels, *cut.grid, generator=generator)
    logits_of_head = cut.head(grids.to(device)).cpu()
    expected = grids.mean((2, 3)) @ weights.T + bias
    scale = float(logits_of_head.abs().max())
    close = bool((logits_of_head - expected).abs().max() <= 1e-3 * max(scale, 1e-6))
    return LinearHead(weights.contiguous(), bias) if close else None


def fit_linear_head(pooled: Tensor, logits: Tensor, *, held_out: tuple[Tensor, Tensor], seed: int = 0) -> LinearHead:
    """Return a linear classifier that imitates a model, by its predictions on pooled features.

    Parameters
    ----------
    pooled, logits : Tensor
        Pooled features ``(n, d)`` and the model's logits ``(n, classes)`` of the same images.
    held_out : (Tensor, Tensor)
        The same of other images, to measure how often the two agree.
    """
    from sklearn.linear_model import LogisticRegression

    predicted = logits.argmax(1).numpy()
    if len(set(predicted.tolist())) < 2:
        raise SettingError("the model says one class of all images.", "Use images of several classes.")
    mean, spread = pooled.mean(0), pooled.std(0).clamp(min=1e-6)
    fitted = LogisticRegression(C=1.0, max_iter=500, random_state=seed).fit(
        ((pooled - mean) / spread).numpy(), predicted
    )
    coefficients = torch.from_numpy(fitted.coef_).float() / spread
    offsets = torch.from_numpy(fitted.intercept_).float() - coefficients @ mean
    if len(fitted.classes_) == 2:  # one row for two classes
        coefficients, offsets = (
            torch.stack([-coefficients[0], coefficients[0]]) / 2,
            torch.stack([-offsets[0], offsets[0]]) / 2,
        )
    weights, bias = torch.zeros(logits.shape[1], pooled.shape[1]), torch.full((logits.shape[1],), float("-inf"))
    at = torch.from_numpy(fitted.classes_)
    weights[at], bias[at] = coefficients, offsets
    features, held_out_logits = held_out
    agree = ((features @ weights.T + bias).argmax(1) == held_out_logits.argmax(1)).float().mean()
    return LinearHead(weights, bias, float(agree))
