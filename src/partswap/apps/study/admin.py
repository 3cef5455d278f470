"""The administrator's page: how far everyone is, pause, links, exports, deletion; behind a password."""

from __future__ import annotations

import asyncio
import hmac
import io
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from partswap.apps.study import pages
from partswap.apps.study.database import Database, StudyFullError
from partswap.apps.study.export import answers_table
from partswap.apps.study.limits import PasswordDelays, address_of

if TYPE_CHECKING:
    from partswap.apps.study.server import StudyState

COOKIE = "partswap_admin"
#: A browser that was shown the form for the password; it opens nothing.
LOGIN = "partswap_login"
#: Seconds that a session lasts.
SESSION = 8 * 3600


def set_password(database: Database, password: str | None) -> str | None:
    """Set the password if one is given, or none is set yet; returns one that was made up, to be shown once."""
    if password is None and database.fact("password") is not None:
        return None
    chosen = password or secrets.token_urlsafe(12)
    database.set_fact("password", PasswordHasher().hash(chosen))
    database.close_sessions()
    return chosen if password is None else None


def admin_routes(site: StudyState) -> APIRouter:
    """Return the administrator's pages of a site."""
    routes = APIRouter(prefix="/admin")
    database, hasher, tries = site.database, PasswordHasher(), PasswordDelays()
    checking = ThreadPoolExecutor(1)  # a check takes much memory, on purpose: one at a time
    #: New links of each session, and a message: tokens are nowhere in the database, and a page may be loaded again.
    new_links: dict[str, tuple[list[str], str]] = {}

    def form_of(request: Request) -> str | None:
        token = request.cookies.get(COOKIE, "")
        return database.session_form(token) if token else None

    def whole(content: str, status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
        title = f"{site.study.title}: administration"
        text = pages.page("layout", title=title, content=content, script="admin.js", kind="office")
        return HTMLResponse(text, status_code=status, headers=headers)

    def note(title: str, text: str, status: int, **headers: str) -> HTMLResponse:
        content = pages.page("note", title=title, text=text, link=("/admin", "Administration"))
        return whole(content, status, {name.replace("_", "-"): value for name, value in headers.items()})

    def refused(request: Request, form: str) -> Response | None:
        """Return a refusal unless the form was ours and someone is logged in."""
        known = form_of(request)
        if known is None:
            return note("Log in first", "Nobody is logged in, or not any more.", 401)
        if not hmac.compare_digest(known.encode(), form.encode()):
            return note("Nothing was done", "The form is not of this session. Please try again.", 403)
        return None

    def asked(request: Request, *, wrong: bool = False) -> HTMLResponse:
        """Return the form for the password."""
        response = whole(pages.page("login", wrong=wrong), 401 if wrong else 200)
        if LOGIN not in request.cookies:
            keep(response, LOGIN, secrets.token_urlsafe(16), 30 * 86400)
        return response

    def keep(response: Response, name: str, value: str, seconds: int) -> None:
        response.set_cookie(
            name, value, max_age=seconds, httponly=True, samesite="strict", secure=site.https, path="/admin"
        )

    def opened(password: str) -> str | None:
        """Return the token of a new session, None if the password is wrong."""
        try:
            hasher.verify(database.fact("password") or "", password)
        except (VerificationError, InvalidHashError):
            return None
        return database.open_session(SESSION)[0]

    @routes.get("")
    def overview(request: Request, deleted: int | None = None) -> Any:
        form = form_of(request)
        if form is None:
            return asked(request)
        message = "" if deleted is None else f"Participant {deleted} and all their answers are deleted."
        return whole(pages.page("admin", form=form, message=message, **progress_of(site)))

    @routes.post("/login")
    async def login(request: Request, password: Annotated[str, Form(max_length=500)]) -> Any:
        who = address_of(request), request.cookies.get(LOGIN, "")[:64]
        if not await tries.turn(*who):
            return note("Too many tries at once", "Please try again in a moment.", 429, retry_after="10")
        token = await asyncio.get_running_loop().run_in_executor(checking, opened, password)
        if token is None:
            return asked(request, wrong=True)
        tries.right(*who)
        response = RedirectResponse("/admin", 303)
        keep(response, COOKIE, token, SESSION)
        return response

    @routes.post("/logout")
    def logout(request: Request, form: Annotated[str, Form()]) -> Any:
        if (no := refused(request, form)) is not None:
            return no
        database.close_session(request.cookies[COOKIE])
        new_links.pop(form, None)
        response = RedirectResponse("/admin", 303)
        response.delete_cookie(COOKIE, path="/admin")
        return response

    @routes.get("/progress")
    def progress(request: Request) -> Any:
        if form_of(request) is None:
            return JSONResponse({"error": "Log in first."}, 401)
        return JSONResponse({"html": pages.page("progress", form=form_of(request), **progress_of(site))})

    @routes.post("/pause")
    def pause(request: Request, form: Annotated[str, Form()], paused: Annotated[bool, Form()]) -> Any:
        if (no := refused(request, form)) is not None:
            return no
        database.set_fact("paused", "yes" if paused else "no")
        return RedirectResponse("/admin", 303)

    @routes.post("/links")
    def links(request: Request, form: Annotated[str, Form()], count: Annotated[int, Form(ge=1, le=1000)]) -> Any:
        if (no := refused(request, form)) is not None:
            return no
        made: list[str] = []
        public = site.address or str(request.base_url).rstrip("/")
        message = ""
        try:
            for _ in range(count):
                made.append(f"{public}/s/{database.add()}")
        except StudyFullError:
            message = f"Only {len(made)} places were left." if made else "All places are taken."
        new_links[form] = made, message
        return RedirectResponse("/admin/links", 303)

    @routes.get("/links")
    def show_links(request: Request) -> Any:
        form = form_of(request)
        if form is None or form not in new_links:
            return RedirectResponse("/admin", 303)
        made, message = new_links[form]
        return whole(pages.page("links", study=site.study, links=made, message=message))

    @routes.get("/delete/{participant}")
    def confirm(request: Request, participant: int) -> Any:
        form = form_of(request)
        if form is None:
            return RedirectResponse("/admin", 303)
        person = next((one for one in progress_of(site)["people"] if one["id"] == participant), None)
        if person is None:
            return note("Nobody has this number", f"There is no participant {participant} (any more).", 404)
        return whole(pages.page("delete", form=form, person=person))

    @routes.post("/delete")
    def delete(request: Request, form: Annotated[str, Form()], participant: Annotated[int, Form()]) -> Any:
        if (no := refused(request, form)) is not None:
            return no
        deleted = database.delete(participant)
        return RedirectResponse(f"/admin?deleted={participant}" if deleted else f"/admin/delete/{participant}", 303)

    @routes.post("/trial")
    def trial(request: Request, form: Annotated[str, Form()], place: Annotated[int, Form()]) -> Any:
        if (no := refused(request, form)) is not None:
            return no
        if not 1 <= place <= len(site.study.slots):
            return note("There is no such place", f"The study has places 1 to {len(site.study.slots)}.", 422)
        return RedirectResponse(f"/s/{site.trials.add(place - 1)}", 303)

    @routes.get("/answers.{kind}")
    def export(request: Request, kind: str) -> Any:
        if form_of(request) is None:
            return note("Log in first", "Nobody is logged in, or not any more.", 401)
        if kind not in ("csv", "parquet"):
            return note("There is no such table", "There is answers.csv and answers.parquet.", 404)
        import pyarrow.csv
        import pyarrow.parquet

        table, sink = answers_table(site.study, database), io.BytesIO()
        write = pyarrow.csv.write_csv if kind == "csv" else pyarrow.parquet.write_table
        write(table, sink)
        known = {"content-disposition": f'attachment; filename="answers.{kind}"'}
        media = "text/csv" if kind == "csv" else "application/vnd.apache.parquet"
        return Response(sink.getvalue(), media_type=media, headers=known)

    return routes


def progress_of(site: StudyState) -> dict[str, Any]:
    """Return how far everyone is, for the page."""
    now, people = time.time(), []
    for row in site.database.everyone():
        total = len(site.steps_of(row["slot"]))
        people.append(
            {
                "id": row["id"],
                "name": row["name"] or "",
                "simulated": row["simulated"],
                "percent": round(100 * row["done"] / total),
                "state": "finished" if row["finished"] else "not begun" if not row["done"] else "under way",
                "seen": "" if row["last"] is None else _ago(now - row["last"]),
                "code": row["code"] or "",
            }
        )
    states = [person["state"] for person in people]
    return {
        "study": site.study,
        "people": people,
        "finished": states.count("finished"),
        "under_way": states.count("under way"),
        "invited": states.count("not begun"),
        "free": len(site.study.slots) - len(people),
        "paused": site.paused,
        "open_places": site.open_places,
    }


def _ago(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {name} ago"
    return "now"
