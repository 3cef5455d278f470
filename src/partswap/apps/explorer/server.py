"""The explorer's web server: a page whose address is its state, parts of it for a slider that moves, and pictures."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from functools import partial
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from PIL import Image
from starlette.concurrency import run_in_threadpool

from partswap.apps.explorer import gallery, pages
from partswap.apps.explorer.cells import candidates_of
from partswap.apps.explorer.pixel_check import composite_png, pixel_html
from partswap.apps.explorer.python_code import python_of
from partswap.apps.explorer.scheduler import BusyError, RequestScheduler
from partswap.apps.explorer.service import MEMORY_MB, ExplorerService
from partswap.apps.explorer.uploads import LARGEST_BYTES, Uploads
from partswap.apps.explorer.view import UPLOAD, View, read_view, write_swaps
from partswap.apps.security import SecurityMiddleware
from partswap.errors import PartswapError
from partswap.results.counterfactual import Counterfactual
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext
from partswap.search import METHODS
from partswap.utils.cancel import CancelledError
from partswap.utils.threads import release_threads

#: Pictures never change while a server runs, and their address has its version in it.
CACHE_CONTROL = "private, max-age=86400, immutable"
#: Seconds after which a page is sent without its result, which it then asks for while it shows how far that has come.
PAGE_SECONDS = 1.5
#: Sides of large pictures and thumbnails, and how many pictures are cached.
SIDES, PICTURES = {"i": pages.SIDE, "t": 160}, 600


class ExplorerState:
    """What the requests to one explorer share: its service, its scheduler and the dropped images."""

    def __init__(self, context: RunContext, config: RunConfig, memory_mb: float = MEMORY_MB) -> None:
        self.scheduler, self.uploads = RequestScheduler(), Uploads()
        self.service = ExplorerService(context, config, self.uploads, memory_mb, self.scheduler.cancel)
        #: In the address of every picture, so that browsers do not show pictures of an earlier server.
        self.version = secrets.token_hex(4)
        # The features were computed in this thread; from now on the scheduler's thread computes.
        release_threads()

    async def answer(self, request: Request, kind: str, work: Callable[[View], Any]) -> Any:
        """Return what `work` makes of the view of a request; a newer request of the same page and kind replaces it."""
        view = read_view(request.query_params)
        client = _client(request, kind)
        result = await self.scheduler.do(client, lambda: work(self.service.with_defaults(view)))
        if kind in ("page", "view"):  # while people look at the result
            self.prefetch(view)
        return result

    def prefetch(self, view: View, slider: str = "") -> None:
        """Compute the views that come next while there are no requests, those of `slider` first."""

        # A generator function, since the views are computed by the scheduler's thread.
        def works() -> Iterator[Callable[[], Any]]:
            for candidate in self.service.prefetch_candidates(self.service.with_defaults(view), slider):
                yield partial(self.service.solve, candidate)

        self.scheduler.prefetch(works())

    def close(self) -> None:
        """Remove the dropped images and let the scheduler's thread end."""
        self.scheduler.close()
        self.uploads.close()


def make_app(state: ExplorerState, names: tuple[str, ...] = ()) -> FastAPI:
    """Return the web application; `names` are those it goes by besides addresses in numbers and localhost."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(SecurityMiddleware, largest=LARGEST_BYTES, what="this explorer", names=names)
    app.mount("/static", StaticFiles(directory=pages.HERE / "static"))
    for path, kind, content, response in ANSWERS:
        app.add_api_route(path, _endpoint(state, kind, content, response))
    _add_search_routes(app, state)
    _add_image_routes(app, state)

    @app.exception_handler(PartswapError)
    def problem(request: Request, error: PartswapError) -> Response:
        status = 409 if isinstance(error, CancelledError) else 503 if isinstance(error, BusyError) else 422
        if request.url.path == "/":
            return HTMLResponse(pages.page("sorry", problem=error.problem, fix=error.fix), status)
        text = f"{error.problem} {error.fix}".strip()
        return JSONResponse({"error": text[:1].upper() + text[1:]}, status)  # a sentence of the page

    @app.get("/palette.css")
    def palette() -> Response:
        return Response(pages.palette_css(), media_type="text/css")

    return app


def _endpoint(
    state: ExplorerState, kind: str, content: Callable[[ExplorerState, View], Any], response: Callable[[Any], Response]
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return what answers requests of a kind: the content that it computes from their view, as a response."""

    async def endpoint(request: Request) -> Response:
        return response(await state.answer(request, kind, partial(content, state)))

    return endpoint


def _add_search_routes(app: FastAPI, state: ExplorerState) -> None:
    """Add what the page's script requests besides content: one cell, prefetching, progress and the end of a search."""

    @app.get("/cell")
    async def cell(request: Request, cell: str = "") -> Response:
        number = int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 7 else -1

        def content(view: View) -> str:
            return pages.cell_html(state.service, view, candidates_of(state.service, view, number), state.version)

        return HTMLResponse(await state.answer(request, "cell", content))

    @app.get("/hint")
    async def hint(request: Request, slider: str = "") -> Response:
        # The pointer is on a slider: views it may lead to come next.
        state.prefetch(read_view(request.query_params), slider)
        return Response(status_code=204)

    @app.get("/progress")
    async def progress(request: Request, kind: str = "view") -> Response:
        return JSONResponse(asdict(state.scheduler.progress(_client(request, kind))))

    @app.post("/stop")
    async def stop(request: Request, kind: str = "view") -> Response:
        state.scheduler.stop(_client(request, kind))
        return Response(status_code=204)


def _add_image_routes(app: FastAPI, state: ExplorerState) -> None:
    """Add the gallery, uploads and pictures."""

    @cached(LRUCache(PICTURES), lock=Lock())
    def picture_bytes(key: str, side: int) -> bytes:
        return _picture(state.service, key, side)

    @app.get("/images")
    async def images(request: Request) -> Response:
        query = gallery.read_gallery_query(request.query_params)
        return HTMLResponse(await run_in_threadpool(gallery.gallery_html, state.service, query, state.version))

    @app.post("/upload")
    async def upload(request: Request) -> Response:
        data = await request.body()
        name = await run_in_threadpool(state.uploads.add, data)
        return JSONResponse({"u": name})

    @app.get("/{kind}/{version}/{key}.jpg")
    def picture(kind: str, version: str, key: str) -> Response:
        valid_key = (key.isascii() and key.isdecimal() and len(key) < 9) or UPLOAD.match(key)
        if kind not in SIDES or version != state.version or not valid_key:
            return JSONResponse({"error": "There is no such picture."}, 404)
        try:
            data = picture_bytes(key, SIDES[kind])
        except PartswapError as error:
            return JSONResponse({"error": str(error)}, 404)
        return Response(data, media_type="image/jpeg", headers={"cache-control": CACHE_CONTROL})


def _client(request: Request, kind: str) -> str:
    """Return which page of the explorer sent a request, by the name it gave itself, and of which kind it is."""
    tab = request.headers.get("x-tab", "")
    return f"{tab[:40]} {kind[:10]}" if tab.isalnum() else ""


def _page(state: ExplorerState, view: View) -> str:
    service = state.service
    cf = service.solve_within(view, PAGE_SECONDS)
    target, first_guess = view.target, service.top_classes(view, 1)[0][0]
    others = [k for k in sorted(service.correct_images, key=service.class_name) if k != first_guess]
    sliders = pages.sliders(service, view)
    return pages.page(
        "page",
        view=view,
        version=state.version,
        result=(
            pages.page("searching", query=view.query())
            if cf is None
            else pages.result_html(service, view, cf, state.version)
        ),
        examples=[(e.title, e.view.key, e.view.query(), e.view.key == view.key) for e in service.examples],
        guesses=_guesses(service, view, first_guess),
        others=[(k, service.class_name(k), k == target) for k in others],
        target=service.class_name(target or 0),
        sliders=[slider for slider in sliders if not slider["folded"]],
        folded=[slider for slider in sliders if slider["folded"]],
        unfolded=any(slider["folded"] and slider["value"] != slider["default"] for slider in sliders),
        default_method=View.method,
        most_bytes=LARGEST_BYTES,
        methods=[(name, METHODS.get(name).title) for name in method_names()],
        classes=[(k, service.class_name(k)) for k in sorted(set(service.labels.tolist()), key=service.class_name)],
        about=_about(service),
        notes=service.explainer.notes,
        hidden={"i": view.image, "u": view.upload, "t": target},
        swaps=write_swaps(view.swaps or ()),
    )


def _guesses(service: ExplorerService, view: View, first_guess: int) -> list[dict[str, Any]]:
    """Return the template's values of the likeliest classes."""
    label = service.query(view).label
    return [
        {
            "name": service.class_name(k), "probability": p, "go": view.with_(target=k, swaps=None).query(),
            "first": k == first_guess, "chosen": k == view.target, "true": k == label,
            "examples": [str(i) for i in service.correct_images.get(k, [])[:3]],
        }
        for k, p in service.top_classes(view)
    ]  # fmt: skip


def method_names() -> list[str]:
    """Return the methods to choose from, ours first."""
    return sorted(METHODS.names(), key=lambda name: name != View.method)


def _about(service: ExplorerService) -> str:
    config = service.config
    auxiliary = service.explainer.auxiliary.name if service.explainer.auxiliary else "no auxiliary"
    return f"{config.data} · {config.model.rstrip('/').rpartition('/')[2]} · {auxiliary}"


def _compared(state: ExplorerState, view: View) -> str:
    results: dict[str, Counterfactual | str] = {}
    for name in method_names():
        try:
            results[name] = state.service.solve(view.with_(method=name, swaps=None))
        except CancelledError:
            raise
        except PartswapError as error:  # of one method: it may need an auxiliary, and there is none
            results[name] = str(error)
    return pages.compare_html(state.service, view, results, state.version)


def _result(state: ExplorerState, view: View) -> dict[str, Any]:
    cf = state.service.solve(view)
    return {"html": pages.result_html(state.service, view, cf, state.version), "query": view.query()}


def _json(state: ExplorerState, view: View) -> str:
    return json.dumps(state.service.solve(view).to_dict(), indent=1, allow_nan=False) + "\n"


def _figure_png(state: ExplorerState, view: View) -> bytes:
    out = io.BytesIO()
    cf = state.service.with_pictures(view, state.service.solve(view))
    cf.plot().savefig(out, format="png", dpi=150)
    return out.getvalue()


def _picture(service: ExplorerService, key: str, side: int) -> bytes:
    """Return the part of an image that the model sees, as large as the image allows."""
    image, preprocess = service.image(key), service.explainer.preprocess
    try:
        left, top, right, bottom = preprocess.box(image.size)
        box = max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height)
        picture = image.resize((side, side), Image.Resampling.BICUBIC, box)
    except PartswapError:  # it warps the image: the picture is no rectangle of it
        picture = preprocess.crop(image).resize((side, side), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=88)
    return out.getvalue()


def _attachment(name: str, media_type: str) -> Callable[[Any], Response]:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return partial(Response, media_type=media_type, headers=headers)


#: Pages, parts of them and files: path, kind of request, the content that is computed from a view, its response.
ANSWERS: tuple[tuple[str, str, Callable[[ExplorerState, View], Any], Callable[[Any], Response]], ...] = (
    ("/", "page", _page, HTMLResponse),
    ("/view", "view", _result, JSONResponse),
    ("/compare", "compare", _compared, HTMLResponse),
    ("/pixel", "pixel", lambda state, view: pixel_html(state.service, view), HTMLResponse),
    (
        "/composite.png",
        "composite",
        lambda state, view: composite_png(state.service, view),
        partial(Response, media_type="image/png"),
    ),
    ("/python", "python", lambda state, view: python_of(state.service, view), PlainTextResponse),
    ("/counterfactual.json", "json", _json, _attachment("counterfactual.json", "application/json")),
    ("/counterfactual.png", "png", _figure_png, _attachment("counterfactual.png", "image/png")),
)
