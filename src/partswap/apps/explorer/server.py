"""The explorer's web server: a page whose address is its state, parts of it for a slider that moves, and pictures."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from PIL import Image
from starlette.concurrency import run_in_threadpool

from partswap.apps.explorer import gallery, pages
from partswap.apps.explorer.cells import matches_of
from partswap.apps.explorer.pixels import composite_png, pixel_html
from partswap.apps.explorer.python_code import python_of
from partswap.apps.explorer.scheduler import BusyError, RequestScheduler
from partswap.apps.explorer.service import MEMORY_MB, ExplorerService, Kept
from partswap.apps.explorer.uploads import LARGEST_BYTES, Uploads
from partswap.apps.explorer.view import UPLOAD, View, read_view
from partswap.apps.security import SecurityMiddleware
from partswap.errors import PartswapError
from partswap.results.counterfactual import Counterfactual
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext
from partswap.search import METHODS
from partswap.utils.cancel import CancelledError
from partswap.utils.threads import release_threads

#: Pictures never change while a server runs, and their address has its version in it.
KEPT = "private, max-age=86400, immutable"
#: Seconds after which a page is sent without its result, which it then asks for while it shows how far that has come.
PAGE_SECONDS = 1.5
#: Sides of pictures, and how many are kept ready.
SIDES, PICTURES = {"i": pages.SIDE, "t": 160}, 600


class ExplorerState:
    """An explorer that is being served."""

    def __init__(self, bench: RunContext, config: RunConfig, memory_mb: float = MEMORY_MB) -> None:
        self.desk, self.uploads = RequestScheduler(), Uploads()
        self.room = ExplorerService(bench, config, self.uploads, memory_mb, self.desk.cancel)
        #: In the address of every picture: another server at this address has others.
        self.version = secrets.token_hex(4)
        self.pictures: Kept[bytes] = Kept(PICTURES)
        # The features were computed here; from now on it is the desk that computes.
        release_threads()

    def close(self) -> None:
        """Remove what was dropped and let the worker end."""
        self.desk.close()
        self.uploads.close()


def make_app(site: ExplorerState, names: tuple[str, ...] = ()) -> FastAPI:
    """Return the web application; `names` are those it goes by besides addresses in numbers and localhost."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(SecurityMiddleware, largest=LARGEST_BYTES, what="this explorer", names=names)
    app.mount("/static", StaticFiles(directory=pages.HERE / "static"))
    room, desk = site.room, site.desk

    async def asked(request: Request, work: Callable[[View], Any], kind: str) -> Any:
        """Do some work on the view of a request, when it is its turn; a newer request of the same page replaces it."""
        view = read_view(request.query_params)
        wanted: list[View] = []

        def done() -> Any:
            wanted.append(room.settled(view))
            return work(wanted[0])

        found = await desk.do(_asker(request, kind), done)
        if kind in ("page", "view"):  # while the picture is looked at, the next positions are found
            desk.spare(partial(room.solve, near) for near in room.nearby(wanted[0]))
        return found

    def likely(view: View, slider: str) -> Iterator[Callable[[], Any]]:
        for near in room.nearby(room.settled(view), slider):
            yield partial(room.solve, near)

    @app.exception_handler(PartswapError)
    def problem(request: Request, error: PartswapError) -> Response:
        status = 409 if isinstance(error, CancelledError) else 503 if isinstance(error, BusyError) else 422
        if request.url.path == "/":
            return HTMLResponse(pages.page("sorry", problem=error.problem, fix=error.fix), status)
        return JSONResponse({"error": f"{error.problem} {error.fix}".strip()}, status)

    @app.get("/")
    async def whole(request: Request) -> Response:
        return HTMLResponse(await asked(request, lambda view: _page(site, view), "page"))

    @app.get("/progress")
    async def progress(request: Request, kind: str = "view") -> Response:
        return JSONResponse(asdict(desk.progress(_asker(request, kind))))

    @app.post("/stop")
    async def stop(request: Request, kind: str = "view") -> Response:
        desk.stop(_asker(request, kind))
        return Response(status_code=204)

    @app.get("/palette.css")
    def palette() -> Response:
        return Response(pages.palette_css(), media_type="text/css")

    @app.get("/view")
    async def part(request: Request) -> Response:
        def work(view: View) -> dict[str, Any]:
            html = pages.result_html(room, view, room.solve(view), site.version)
            return {"html": html, "query": view.query()}

        return JSONResponse(await asked(request, work, "view"))

    @app.get("/hint")
    async def hint(request: Request, slider: str = "") -> Response:
        # The hand is on a slider: its next positions are found while nothing else is to be done.
        desk.spare(likely(read_view(request.query_params), slider))
        return Response(status_code=204)

    @app.get("/cell")
    async def cell(request: Request, cell: str = "") -> Response:
        def work(view: View) -> str:
            number = int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 7 else -1
            return pages.cell_html(room, view, matches_of(room, view, number), site.version)

        return HTMLResponse(await asked(request, work, "cell"))

    @app.get("/compare")
    async def compare(request: Request) -> Response:
        return HTMLResponse(await asked(request, lambda view: _compared(site, view), "compare"))

    @app.get("/pixel")
    async def pixel(request: Request) -> Response:
        return HTMLResponse(await asked(request, lambda view: pixel_html(room, view), "pixel"))

    @app.get("/composite.png")
    async def composite(request: Request) -> Response:
        drawn = await asked(request, lambda view: composite_png(room, view), "composite")
        return Response(drawn, media_type="image/png")

    @app.get("/python")
    async def python(request: Request) -> Response:
        return PlainTextResponse(await asked(request, lambda view: python_of(room, view), "python"))

    @app.get("/counterfactual.json")
    async def as_json(request: Request) -> Response:
        cf: Counterfactual = await asked(request, room.solve, "json")
        text = json.dumps(cf.to_dict(), indent=1, allow_nan=False)
        return Response(text + "\n", media_type="application/json", headers=_attached("counterfactual.json"))

    @app.get("/counterfactual.png")
    async def as_png(request: Request) -> Response:
        drawn = await asked(request, lambda view: _drawn(room.pictured(view, room.solve(view))), "png")
        return Response(drawn, media_type="image/png", headers=_attached("counterfactual.png"))

    @app.get("/images")
    async def images(request: Request) -> Response:
        wanted = gallery.read_gallery_query(request.query_params)
        return HTMLResponse(await run_in_threadpool(gallery.gallery_html, room, wanted, site.version))

    @app.post("/upload")
    async def upload(request: Request) -> Response:
        data = await request.body()
        name = await run_in_threadpool(site.uploads.add, data)
        return JSONResponse({"u": name})

    @app.get("/{kind}/{version}/{key}.jpg")
    def picture(kind: str, version: str, key: str) -> Response:
        known = kind in SIDES and version == site.version
        known &= (key.isascii() and key.isdecimal() and len(key) < 9) or UPLOAD.match(key) is not None
        if not known:
            return JSONResponse({"error": "There is no such picture."}, 404)
        try:
            data = site.pictures.get((kind, key), lambda: _picture(room, key, SIDES[kind]))
        except PartswapError as error:
            return JSONResponse({"error": str(error)}, 404)
        return Response(data, media_type="image/jpeg", headers={"cache-control": KEPT})

    return app


def _asker(request: Request, kind: str) -> str:
    """Return who asks, and for what: a page of the explorer, by the name it gave itself."""
    tab = request.headers.get("x-tab", "")
    return f"{tab[:40]} {kind[:10]}" if tab.isalnum() else ""


def _page(site: ExplorerState, view: View) -> str:
    room = site.room
    cf = room.solve_within(view, PAGE_SECONDS)
    target, first_guess = view.target, room.guesses(view, 1)[0][0]
    others = [(k, room.name(k), k == target) for k in sorted(room.donors_of, key=room.name) if k != first_guess]
    sliders = pages.sliders(room, view)
    usual = view.with_(lam=View.lam, tau=View.tau, beam=View.beam)
    return pages.page(
        "page",
        view=view,
        version=site.version,
        result=(
            pages.page("searching", query=view.query())
            if cf is None
            else pages.result_html(room, view, cf, site.version)
        ),
        examples=[(one.title, one.view.key, one.view.query(), one.view.key == view.key) for one in room.examples],
        guesses=_guesses(room, view, first_guess),
        others=others,
        target=room.name(target or 0),
        sliders=[slider for slider in sliders if not slider["folded"]],
        folded=[slider for slider in sliders if slider["folded"]],
        unfolded=usual != view,
        methods=[(name, METHODS.get(name).title) for name in method_names()],
        classes=[(k, room.name(k)) for k in sorted(set(room.labels.tolist()), key=room.name)],
        about=_about(room),
        notes=room.explainer.notes,
        hidden={"i": view.image, "u": view.upload, "t": target},
        own="" if view.swaps is None else "-".join(f"{i}.{j}" for i, j in view.swaps),
    )


def _guesses(room: ExplorerService, view: View, first_guess: int) -> list[dict[str, Any]]:
    """Return what is shown of the classes the model thinks of."""
    label = room.query(view).label
    return [
        {
            "name": room.name(k), "probability": p, "go": view.with_(target=k, swaps=None).query(),
            "first": k == first_guess, "chosen": k == view.target, "true": k == label,
            "examples": [str(i) for i in room.donors_of.get(k, [])[:3]],
        }
        for k, p in room.guesses(view)
    ]  # fmt: skip


def method_names() -> list[str]:
    """Return the methods to choose from, ours first."""
    return sorted(METHODS.names(), key=lambda name: name != "partswap")


def _about(room: ExplorerService) -> str:
    config = room.config
    with_what = room.explainer.auxiliary.name if room.explainer.auxiliary else "no auxiliary"
    return f"{config.data} · {config.model.rstrip('/').rpartition('/')[2]} · {with_what}"


def _compared(site: ExplorerState, view: View) -> str:
    room, found = site.room, []
    for name in method_names():
        try:
            found.append((name, room.solve(view.with_(method=name, swaps=None))))
        except CancelledError:
            raise
        except PartswapError as error:  # of one method: it may need an auxiliary that is not there
            found.append((name, str(error)))  # type: ignore[arg-type]
    return pages.compare_html(room, view, found, site.version)


def _drawn(cf: Counterfactual) -> bytes:
    out = io.BytesIO()
    cf.plot().savefig(out, format="png", dpi=150)
    return out.getvalue()


def _picture(room: ExplorerService, key: str, side: int) -> bytes:
    """Return the part of an image that the model sees, as large as the image allows."""
    image, how = room.image(key), room.explainer.preprocess
    try:
        left, top, right, bottom = how.box(image.size)
        box = max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height)
        seen = image.resize((side, side), Image.Resampling.BICUBIC, box)
    except PartswapError:  # it warps the image: what the model sees is known, where it comes from is not
        seen = how.canvas(image).resize((side, side), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    seen.save(out, "JPEG", quality=88)
    return out.getvalue()


def _attached(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}
