"""``partswap layers``: where a model can be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from partswap.cli.options import MODEL_HELP, Weights, console, say, with_preparation

if TYPE_CHECKING:
    from torch import nn

    from partswap.inputs.preprocess import Preprocess
    from partswap.models.preprocess_options import PreprocessOptions


@with_preparation
def layers(
    stated: Any,
    model: Annotated[str, typer.Argument(help=MODEL_HELP)],
    weights: Weights = None,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, mps, or auto.")] = "cpu",
) -> None:
    """List where a model can be cut, with the grid each place gives."""
    from partswap.cut.layers import layers_table
    from partswap.errors import InputError
    from partswap.models.outputs import as_logits
    from partswap.models.precision import check_device, dtype_of
    from partswap.models.preprocessing import assumption, suggest_input_size
    from partswap.utils.progress import bars, step

    where = check_device(device)
    with step(bars, f"inspecting {model}"):
        network, preprocess = _opened(model, weights, stated)
        probe = preprocess.probe().to(where, dtype_of(network))
        try:
            table = layers_table(as_logits(network.to(where), probe)[0], probe=probe)
        except InputError as error:
            raise suggest_input_size(error, network, preprocess) from error
    if assumed := assumption(preprocess):
        say(f"note: {assumed}")
    console.print(table)


def _opened(model: str, weights: str | None, stated: PreprocessOptions | None) -> tuple[nn.Module, Preprocess]:
    """Return the model, with random weights if only its architecture was named, and how its images are prepared."""
    from partswap.models.open import describe, is_architecture, open_classifier
    from partswap.models.zoo import load_model

    bare = weights is None and is_architecture(model)
    opened = describe(load_model(model), model, None, stated) if bare else open_classifier(model, weights, None, stated)
    return opened.model, opened.preprocess
