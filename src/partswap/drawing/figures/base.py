"""What a kind of figure is, and how one is drawn."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from partswap.drawing.figures.saving import Destination, format_of, save
from partswap.errors import SettingError, suggest
from partswap.results.counterfactual import Counterfactual
from partswap.utils.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: Registry[Callable[..., Figure]] = Registry("kind of figure", "partswap.drawing.figures")


def draw(
    cf: Counterfactual,
    path: Destination | None = None,
    *,
    kind: str = "edits",
    format: str | None = None,
    **options: Any,
) -> Figure:
    """Draw a counterfactual as a kind of figure; save it if a path or an open file is given.

    Needs the images: use what `Explainer.explain` returned, or `Counterfactual.with_images`.

    Parameters
    ----------
    path : path or open file, optional
        Where to; its suffix says how, a buffer becomes png. An html page shows the counterfactual whatever the kind.
    kind : str
        "edits", "best", "trace", "sheet"; "methods" and "failures" (with ``others``, more counterfactuals); "heat" and
        "clusters" (with ``explainer``).
    format : str, optional
        "png", "svg", "pdf", "jpg" or "html", where the name does not say it.
    **options
        Of that kind. All of ours take ``width``: "column" (3.25 inches), "page" (6.875) or inches; the figure is then
        laid out for print at that width, with no text below 7 points.
    """
    file_format = None if path is None else format_of(path, format)
    make = FIGURES.get(kind)
    names = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in names:
            fix = f"{suggest(name, names)} Options: {', '.join(names) or 'none'}.".strip()
            raise SettingError(f"a figure of kind {kind!r} has no option {name!r}.", fix)
    cf.drawn()
    figure = make(cf, **options)
    if path is not None and file_format is not None:
        save(figure, cf, path, file_format)
    return figure
