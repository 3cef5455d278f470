"""``partswap layers``: where a model can be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from partswap.cli.options import MODEL_HELP, Weights, console

if TYPE_CHECKING:
    from torch import Tensor, nn


def layers(
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    weights: Weights = None,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, mps, or auto.")] = "cpu",
) -> None:
    """List where a model can be cut, with the grid each place gives."""
    from partswap.cut.layers import layers_table
    from partswap.models.precision import check_device
    from partswap.progress import bars, step

    where = check_device(device)
    with step(bars, f"studying {model}"):
        network, probe = _opened(model, weights)
        table = layers_table(network.to(where), probe=probe.to(where))
    console.print(table)


def _opened(model: str, weights: str | None) -> tuple[nn.Module, Tensor]:
    """Return the model, with random weights if only its architecture was named, and a probe of the size it takes."""
    import torch

    from partswap.models.open import is_architecture, open_classifier
    from partswap.models.outputs import as_logits
    from partswap.models.precision import dtype_of
    from partswap.models.preprocessing import preprocess_for
    from partswap.models.zoo import load_model

    if weights is None and is_architecture(model):
        network = load_model(model)
        preprocess = preprocess_for(network)
    else:
        classifier = open_classifier(model, weights)
        network, preprocess = classifier.model, classifier.preprocess
    probe = torch.randn(2, 3, *preprocess.shape, generator=torch.Generator().manual_seed(0))
    return as_logits(network, probe.to(dtype_of(network)))[0], probe
