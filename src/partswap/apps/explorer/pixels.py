"""The pixel check: what the whole network says of the query with the regions pasted in."""

from __future__ import annotations

import io

from partswap.apps.explorer.pages import page
from partswap.apps.explorer.room import Room
from partswap.apps.explorer.view import View
from partswap.counterfactual import Counterfactual


def pixel_html(room: Room, view: View) -> str:
    """Return what the network says of the composite, and where that is."""
    checked = _checked(room, view).pixel
    assert checked is not None
    return page("pixel", check=checked, said=room.name(checked.predicted), query=view.query())


def composite_png(room: Room, view: View) -> bytes:
    """Return the query with the regions pasted in."""
    out = io.BytesIO()
    _checked(room, view).composite().save(out, "PNG")
    return out.getvalue()


def _checked(room: Room, view: View) -> Counterfactual:
    return room.explainer.pixel_check(room.pictured(view, room.solve(view)))
