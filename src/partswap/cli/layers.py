"""``partswap layers``: where a model can be cut."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partswap.cli.options import MODEL_HELP, Weights, console, open_named, say, with_preparation
from partswap.utils.progress import bars, step


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

    where = check_device(device)
    with step(bars, f"inspecting {model}"):
        classifier = open_named(model, weights, None, stated)
        network, preprocess = classifier.model, classifier.preprocess
        probe = preprocess.probe().to(where, dtype_of(network))
        try:
            table = layers_table(as_logits(network.to(where), probe)[0], probe=probe)
        except InputError as error:
            raise suggest_input_size(error, network, preprocess) from error
    if assumed := assumption(preprocess):
        say(f"note: {assumed}")
    console.print(table)
