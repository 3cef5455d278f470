"""The Jinja templates of our pages: text is escaped, and a name that a template lacks is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2


@cache
def templates(folder: Path) -> jinja2.Environment:
    """Return the environment of the templates in a folder."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
