"""``partswap figures``: every kind of figure on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partswap.cli.options import open_context, output_folder, say, with_config
from partswap.runs.config import RunConfig
from partswap.utils.progress import bars


@with_config(
    "path", "split", "options", "weights", "classes", "layer", "auxiliary", "distractors", "seed", "precision",
    "device", "cache", data="aviary", model="aviary:vgg", queries=12,
)  # fmt: skip
def figures(
    config: RunConfig,
    out: Annotated[Path, output_folder("Folder for the page and its figures.")] = Path("out/figures"),
) -> None:
    """Explain some images and draw every kind of figure, on a page to look at."""
    from partswap.analysis.gallery import make_gallery

    if config.data == "aviary" and not config.options:
        config = config.with_(options={"per_class": 12})  # enough to choose distractors from
    say(f"figures: {make_gallery(config, open_context(config), out, bars)}")
