"""``partswap explore``: look at counterfactuals in the browser, and play with them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from partswap.cli.options import Threads, open_context, say, use_threads, with_config
from partswap.errors import MissingDependencyError, SettingError
from partswap.runs.config import RunConfig

Host = Annotated[str, typer.Option(help="Address to listen at; this machine only by default.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")]
Memory = Annotated[
    int, typer.Option(min=64, help="Megabytes for searches and what is kept of them; model and data come on top.")
]

FIELDS = (
    "data", "path", "split", "options", "model", "weights", "classes", "layer", "auxiliary", "tau", "precision",
    "device", "cache", "seed",
)  # fmt: skip


@with_config(*FIELDS, data="aviary", model="aviary:vgg")
def explore(
    config: RunConfig, host: Host = "127.0.0.1", port: Port = 8000, memory: Memory = 2048, threads: Threads = None
) -> None:
    """Explore counterfactuals in the browser: choose an image and another class, move the settings, swap regions."""
    try:
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"the explorer needs {error.name}.", "Install partswap[explore].") from error
    # Searches multiply matrices of ever new shapes, and oneDNN would keep the code it wrote for a thousand of them.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    from partswap.apps.explorer.serving import serve
    from partswap.apps.security import check_free
    from partswap.models.model_name import ModelName

    if config.data != "aviary" and ModelName.parse(config.model).kind == "shipped":
        raise SettingError(f"the data set is {config.data}, and there is no classifier for it.", "Name one: --model.")
    use_threads(threads)
    check_free(host, port)
    context = open_context(config)
    _ = context.encodings  # before anybody waits
    name = "localhost" if host in ("0.0.0.0", "::") else host
    say(f"exploring at http://{name}:{port} (stop with Ctrl-C)")
    serve(context, config, host, port, memory)
