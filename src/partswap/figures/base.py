"""What a kind of figure is, and how one is drawn and saved."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partswap.counterfactual import Counterfactual
from partswap.errors import SettingError, suggest
from partswap.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Suffixes that a figure can be written with.
FORMATS = (".png", ".svg", ".pdf", ".jpg", ".html")
#: Dots per inch of files of pixels.
DPI = 150

FIGURES: Registry[Callable[..., Figure]] = Registry("kind of figure", "partswap.figures")


def draw(cf: Counterfactual, path: str | Path | None = None, *, kind: str = "edits", **options: Any) -> Figure:
    """Draw a counterfactual as a kind of figure; save it if a path is given.

    Needs the images: use what `Explainer.explain` returned, or `Counterfactual.with_images`.

    Parameters
    ----------
    path : path, optional
        Where to; its suffix says how. An html page shows the counterfactual whatever the kind.
    kind : str
        "edits", "best", "trace", "sheet"; "methods" and "failures" (with ``others``, more counterfactuals); "heat" and
        "clusters" (with ``explainer``).
    **options
        Of that kind.
    """
    where = None if path is None else check_format(path)
    make = FIGURES.get(kind)
    known = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            fix = f"{suggest(name, known)} Options: {', '.join(known) or 'none'}.".strip()
            raise SettingError(f"a figure of kind {kind!r} has no option {name!r}.", fix)
    cf.drawn()
    figure = make(cf, **options)
    if where is not None:
        save(figure, cf, where)
    return figure


def save(figure: Figure, cf: Counterfactual, path: Path) -> None:
    """Write a figure; html is a page with the counterfactual's card."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".html":
        from partswap.pictures import page

        path.write_text(page(cf), encoding="utf-8")
    else:
        figure.savefig(path, dpi=DPI)


def check_format(path: str | Path) -> Path:
    """Return where to draw, after checking that the suffix says a format; done before a long search."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise SettingError(
            f"{path} has no suffix of a figure.", f"Use one of {', '.join(suffix[1:] for suffix in FORMATS)}."
        )
    return path
