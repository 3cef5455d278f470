"""The pixel check: what the whole network says of the query with the regions pasted in."""

from __future__ import annotations

import io

from partswap.apps.explorer.pages import page
from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import View


def pixel_html(room: ExplorerService, view: View) -> str:
    """Return what the network says of the composite, and where that is."""
    cf = room.checked(view)
    assert cf.pixel is not None
    named = {"predicted": room.name(cf.pixel.predicted), "target": room.name(cf.target)}
    return page("pixel", check=cf.pixel, query=view.query(), **named)


def composite_png(room: ExplorerService, view: View) -> bytes:
    """Return the query with the regions pasted in."""
    out = io.BytesIO()
    room.pictured(view, room.solve(view)).composite().save(out, "PNG")
    return out.getvalue()
