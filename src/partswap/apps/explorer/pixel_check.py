"""The part of the page with the pixel check: what the whole network says of the query with the regions pasted in."""

from __future__ import annotations

import io

from partswap.apps.explorer.pages import page
from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import View


def pixel_html(service: ExplorerService, view: View) -> str:
    """Return what the network says of the composite, and where that is."""
    cf = service.with_pixel_check(view)
    assert cf.pixel is not None
    named = {"predicted": service.class_name(cf.pixel.predicted), "target": service.class_name(cf.target)}
    return page("pixel", check=cf.pixel, query=view.query(), **named)


def composite_png(service: ExplorerService, view: View) -> bytes:
    """Return the query with the regions pasted in."""
    out = io.BytesIO()
    service.with_pictures(view, service.solve(view)).composite().save(out, "PNG")
    return out.getvalue()
