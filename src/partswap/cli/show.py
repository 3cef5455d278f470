"""``partswap show``: a counterfactual that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import say


def show(path: Annotated[Path, typer.Argument(help="A counterfactual that was saved as JSON.")]) -> None:
    """Print a saved counterfactual."""
    from partswap.counterfactual import Counterfactual

    say(str(Counterfactual.load(path)))
