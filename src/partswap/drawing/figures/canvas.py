"""Canvas: a matplotlib figure whose text stays text, however it is saved; imported only where one is drawn."""

from __future__ import annotations

from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

#: Fonts that journals accept: TrueType in PDF and PostScript, none at all in SVG, where text is text.
FONTS: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}


class Canvas(Figure):
    """A figure that embeds its fonts as `FONTS` says, whatever the user's settings of matplotlib are."""

    def savefig(self, *args: Any, **options: Any) -> None:
        """Save it as matplotlib does."""
        with rc_context(FONTS):
            super().savefig(*args, **options)
