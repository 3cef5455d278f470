"""The study's web server: a page per step, an answer at a time, and an administrator's page.

Pages work without JavaScript; with it, answers are sent in the background, kept while the connection is away, and the
next step takes the place of the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Form, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from partswap.apps.study import pages
from partswap.apps.study.admin import admin_routes
from partswap.apps.study.database import (
    AlreadyJoinedError,
    Database,
    DatabaseUnavailableError,
    Participant,
    StudyFullError,
)
from partswap.apps.study.folder import Study, image_path, read_study
from partswap.apps.study.limits import RateLimiter, RequestLimits, address_of
from partswap.apps.study.secret import token_from
from partswap.apps.study.steps import StudyStep, steps_of
from partswap.apps.study.trials import Trials
from partswap.errors import SettingError
from partswap.utils.files import make_private

#: Answers of one participant per second; wrong links and new participants per minute from one address.
ANSWERS, WRONG, JOINING = 10.0, 30, 60
#: A browser that joined by the open link is known by this cookie.
COOKIE = "partswap_study"
#: Steps whose pictures are loaded ahead.
AHEAD = 2
#: How pictures may be kept: they never change.
KEPT = "private, max-age=86400, immutable"
#: Title, text and status for whom there is no place left.
FULL = ("Thank you", "All places of this study are taken.", 410)
#: Ids that recruiting services send along with the open link, the first one being the person's.
IDS = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$")


@dataclass
class StudyState:
    """A study that is being served."""

    folder: Path
    study: Study
    database: Database
    open_places: int = 0  #: how many may join by the open link; 0: personal links only
    id_name: str = "PROLIFIC_PID"  #: who joins must bring this id, and has one place; "": none is asked for
    joining: int = JOINING  #: new participants per minute from one address
    answering: float = ANSWERS  #: answers of one participant per second
    address: str | None = None  #: what participants use, for links; requests for another name are refused
    trials: Trials = field(default_factory=Trials)
    steps: dict[int, tuple[StudyStep, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that no link can have."""
        if self.id_name and not IDS.match(self.id_name):
            raise SettingError(f"{self.id_name!r} is no name of an id.", "Use letters and digits (--id-name).")
        if self.address is not None and (not self.address.startswith(("https://", "http://")) or not self.names):
            raise SettingError(f"{self.address!r} is no address of a web page.", "Use https://NAME (--address).")

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names that the study goes by, besides localhost and addresses in numbers; None: any."""
        try:
            return None if self.address is None else tuple(filter(None, [urlsplit(self.address).hostname]))
        except ValueError:  # [, and no ]
            return ()

    @property
    def https(self) -> bool:
        """Whether cookies are sent over TLS only."""
        return (self.address or "").startswith("https:")

    def steps_of(self, slot: int) -> tuple[StudyStep, ...]:
        """Return the steps of a slot."""
        if slot not in self.steps:
            self.steps[slot] = steps_of(self.study, slot)
        return self.steps[slot]

    def ahead_of(self, who: Participant) -> tuple[StudyStep, ...]:
        """Return the next steps whose pictures may be loaded ahead: none of another part, which may tell labels."""
        steps = self.steps_of(who.slot)[who.done : who.done + 1 + AHEAD]
        return tuple(takewhile(lambda step: pages.part_of(step) == pages.part_of(steps[0]), steps[1:]))

    def people_of(self, token: str) -> Database | Trials:
        """Return where to look for whoever has a token: in the database, or among the trials."""
        return self.trials if token in self.trials else self.database

    @property
    def paused(self) -> bool:
        """Whether nobody new may join."""
        return self.database.fact("paused") == "yes"


def open_site(folder: str | Path, url: str | None = None, **more: Any) -> StudyState:
    """Return the site of a study, its database up to date; SQLite beside the study unless an address is given."""
    folder, study = Path(folder), read_study(folder)
    make_private(folder, folder=True)  # an earlier partswap let everyone read it
    make_private(folder / "study.json")
    missing = next(
        (n for pair in study.pairs for q in pair.questions if not image_path(folder, n := q.image).is_file()), None
    )
    if missing is not None:
        raise SettingError(f"a picture of the study is not there: images/{missing}.jpg.", "Plan the study again.")
    url = url or f"sqlite:///{(folder / 'answers.db').absolute()}"
    database = Database(url, [len(steps_of(study, slot)) for slot in range(len(study.slots))])
    database.upgrade()
    known = database.fact("study")
    mine = f"{study.seed} {len(study.slots)} {study.lessons[0].learning[0].query.image}"
    if known is None:
        database.set_fact("study", mine)
    elif known != mine:
        raise SettingError(
            "the database holds the answers of another study.", "Give this one a database of its own (--database)."
        )
    if study.secret is None and not database.all_answers():
        raise SettingError(
            f"{folder} was planned by an earlier partswap: participants could work the answers out from its orders.",
            "Plan it again; only a study that people have begun goes on as it is.",
        )
    return StudyState(folder, study, database, **more)


def make_app(site: StudyState) -> FastAPI:
    """Return the web application of a study."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(RequestLimits, names=site.names)
    app.mount("/static", StaticFiles(directory=pages.HERE / "static"))
    app.include_router(admin_routes(site))
    answering, wrong = RateLimiter(site.answering, 20), RateLimiter(WRONG / 60, WRONG)
    joining, looking = (RateLimiter(site.joining / 60, site.joining) for _ in range(2))
    study, database = site.study, site.database

    def whole(
        content: str, *, status: int = 200, script: bool = True, headers: Mapping[str, str] | None = None,
        trial: bool = False,
    ) -> Any:  # fmt: skip
        name = "study.js" if script else None
        text = pages.page("layout", title=study.title, content=content, script=name, kind="trial" if trial else "")
        return HTMLResponse(text, status_code=status, headers=dict(headers or {}))

    def note(title: str, text: str, status: int, *, back: str | None = None, **headers: str) -> Any:
        content = pages.page("note", title=title, text=text, link=back and (back, "Go back"))
        return whole(content, status=status, script=False, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def stranger(request: Request) -> Any:
        if not wrong.passes(address_of(request)):
            return note("Too many wrong links", "Please wait a minute.", 429, retry_after="60")
        return note("This link leads nowhere", "Please use the link exactly as you were given it.", 404)

    def refused(request: Request, status: int, **told: str) -> Any:
        if pages.wants_json(request):
            return JSONResponse(told, status, {"retry-after": "1"} if "wait" in told else {})
        title, text = "Not yet" if "wait" in told else "This cannot be done", " ".join(told.values())
        return note(title, text, status, back=request.url.path)

    def content(who: Participant, token: str) -> str:
        steps = site.steps_of(who.slot)
        if who.done >= len(steps):
            return pages.thanks_html(study, who.code or "", trial=token in site.trials)
        upcoming = tuple(shown.image for step in site.ahead_of(who) for shown in step.shown)
        return pages.step_html(study, steps[who.done], len(steps), token, upcoming)

    @app.exception_handler(DatabaseUnavailableError)
    def wait(request: Request, _error: DatabaseUnavailableError) -> Response:
        text = "Your answer is not stored yet, and not lost: please wait a moment. The page tries again by itself."
        if pages.wants_json(request):
            return JSONResponse({"wait": text}, 503, headers={"retry-after": "3"})
        found: Response = note("Please wait a moment", text, 503, retry_after="3")
        return found

    @app.exception_handler(RequestValidationError)
    def unclear(request: Request, _error: RequestValidationError) -> Any:
        return nothing_here(request, HTTPException(422))

    @app.exception_handler(HTTPException)
    def nothing_here(request: Request, error: HTTPException) -> Any:
        title, text = pages.REFUSALS.get(error.status_code, pages.REFUSALS[400])
        if pages.wants_json(request):
            return JSONResponse({"error": text}, error.status_code, error.headers)
        headers = {name.replace("-", "_"): value for name, value in (error.headers or {}).items()}
        return note(title, text, error.status_code, **headers)

    @app.get("/")
    def entrance() -> Any:
        if site.open_places:
            return RedirectResponse("/join", 303)
        return note(study.title, "To take part, use the personal link that you were given.", 200)

    @app.get("/join")
    def invitation(request: Request) -> Any:
        given = request.query_params
        if given and not looking.passes(address_of(request)):  # ids could be tried out
            return note("Too many at once", "Please try again in a minute.", 429, retry_after="60")
        token = _place_of(site, given, request.cookies.get(COOKIE))
        if token is not None:
            return entered(token)
        refusal = _cannot_join(site, given)
        if refusal is not None:
            return note(*refusal)
        return whole(pages.page("join", study=study, given=list(given.items())), script=False)

    @app.post("/join")
    async def join(request: Request) -> Any:
        if not joining.passes(address_of(request)):
            return note("Too many at once", "Please try again in a minute.", 429, retry_after="60")
        form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
        return await _threaded(_join, form, request.cookies.get(COOKIE))

    def _join(form: Mapping[str, str], cookie: str | None) -> Any:
        if (token := _place_of(site, form, cookie)) is not None:
            return entered(token)
        refusal = _cannot_join(site, form)
        if refusal is not None:
            return note(*refusal)
        name = form.get(site.id_name)
        try:
            token = _token_of(site, name)
            return entered(database.add(name=name, given=form, cap=site.open_places, token=token))
        except StudyFullError:
            return note(*FULL)
        except (
            AlreadyJoinedError
        ):  # this very moment, in another request; or in a study of version 1, in another browser
            if token is not None:
                return entered(token)
            return note(
                "You take part already", "Please go on in the browser you began with, or use your personal link.", 409
            )

    def entered(token: str) -> Response:
        response = RedirectResponse(f"/s/{token}", 303)
        response.set_cookie(
            COOKIE, token, max_age=30 * 86400, httponly=True, samesite="lax", secure=site.https, path="/"
        )
        return response

    @app.get("/s/{token}")
    def show(token: str, request: Request) -> Any:
        who = site.people_of(token).find(token)
        if who is None:
            return stranger(request)
        text = content(who, token)
        if pages.wants_json(request):
            return JSONResponse({"step": who.done, "html": text})
        return whole(text, trial=token in site.trials)

    @app.post("/s/{token}")
    def answer(
        token: str,
        request: Request,
        step: Annotated[int, Form(ge=0, le=100_000)],
        choice: Annotated[str, Form(max_length=16)],
        client_ms: Annotated[float | None, Form()] = None,
    ) -> Any:
        if not answering.passes(token):
            return refused(request, 429, wait="That was very fast. Please go on in a moment.")
        people = site.people_of(token)
        who = people.find(token)
        if who is None:
            return stranger(request)
        steps = site.steps_of(who.slot)
        if step > who.done or step >= len(steps):
            return refused(request, 409, error="This step has not been shown yet.")
        if choice not in steps[step].choices:
            return refused(request, 422, error="That is not among the answers.")
        if client_ms is not None and not (math.isfinite(client_ms) and 0 <= client_ms < 1e9):
            client_ms = None
        # A page needs a moment to be shown; half the time is what no honest clock falls short of.
        least = 500 * study.least_seconds if steps[step].phase == "learn" else 0.0
        found = people.answer(token, step, choice, client_ms, least_ms=least)
        if found is None:
            return stranger(request)
        if found.early:
            return refused(request, 425, wait="Please go back and look a little longer.")
        if pages.wants_json(request):
            return JSONResponse({"step": found.participant.done, "html": content(found.participant, token)})
        return RedirectResponse(f"/s/{token}", 303)

    @app.get("/s/{token}/i/{name}.jpg")
    def picture(token: str, name: str, request: Request) -> Any:
        who = site.people_of(token).find(token)
        if who is None:
            return stranger(request)
        # What a participant has seen, sees, or is about to see; the name of another picture opens nothing.
        steps = site.steps_of(who.slot)[: who.done + 1] + site.ahead_of(who)
        if not any(shown.image == name for step in reversed(steps) for shown in step.shown):
            return stranger(request)
        path = image_path(site.folder, name)
        # No date and no tag of the file: nothing but the picture.
        return Response(path.read_bytes(), media_type="image/jpeg", headers={"cache-control": KEPT})

    @app.get("/robots.txt")
    def robots() -> Any:
        return FileResponse(pages.HERE / "static" / "robots.txt", media_type="text/plain")

    return app


def _token_of(site: StudyState, name: str | None) -> str | None:
    """Return the token that belongs to an id; None without an id, and in studies of version 1: it is random then."""
    return None if name is None or site.study.secret is None else token_from(site.study.secret, name)


def _place_of(site: StudyState, given: Mapping[str, str], cookie: str | None) -> str | None:
    """Return the token of someone who takes part already: whose id it is, or without an id, whose browser."""
    name = given.get(site.id_name)
    for token in (_token_of(site, name), cookie):
        who = site.database.find(token) if token else None
        # Several people may use one browser: the id says who it is, not what the one before left there.
        if who is not None and name in (None, who.name):
            return token
    return None


def _cannot_join(site: StudyState, given: Mapping[str, str]) -> tuple[str, str, int] | None:
    """Return a note's title, text and status if someone with these ids may not join now."""
    if not site.open_places:
        return "By invitation", "To take part, use the personal link that you were given.", 403
    if site.paused:
        return "Not at the moment", "The study takes no new participants just now. Please come back later.", 503
    if len(given) > 10 or not all(IDS.match(part) for pair in given.items() for part in pair):
        return "This link cannot be read", "Please use the link exactly as you were given it.", 400
    if site.id_name and site.id_name not in given:
        return (
            "This link is not complete",
            f"Please use the link exactly as you were given it, with {site.id_name}.",
            400,
        )
    people = site.database.everyone()
    if len(people) >= len(site.study.slots) or sum(bool(one["open_link"]) for one in people) >= site.open_places:
        return FULL
    return None


async def _threaded(function: Any, *given: Any) -> Any:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(function, *given)
