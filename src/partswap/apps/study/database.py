"""Where answers are kept: SQLite beside the study, or PostgreSQL by address.

An answer is one row, keyed by participant and step: stored once, however often it is sent. A request is answered only
after its row is on disk. Tokens are kept as digests, so that a copy of the database opens nobody's session.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, OperationalError

from partswap.errors import MissingDependencyError, PartswapError, SettingError
from partswap.utils.files import make_private

metadata = sa.MetaData()
participants = sa.Table(
    "participants",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("slot", sa.Integer, nullable=False, unique=True),
    sa.Column("token", sa.String(64), nullable=False, unique=True),
    sa.Column("name", sa.String(200), unique=True),  # an id of a recruiting service; empty for personal links
    sa.Column("given", sa.Text, nullable=False, server_default="{}"),  # what came with the open link, as JSON
    sa.Column("simulated", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("finished", sa.Float),
    sa.Column("code", sa.String(32)),
    sa.Column("open_link", sa.Boolean, nullable=False, server_default=sa.false()),  # joined by it
)
answers = sa.Table(
    "answers",
    metadata,
    sa.Column("participant", sa.Integer, sa.ForeignKey("participants.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("choice", sa.String(16), nullable=False),
    sa.Column("client_ms", sa.Float),
    sa.Column("server_ms", sa.Float),  # since the step before was answered; of the first, nothing
    sa.Column("created", sa.Float, nullable=False),
)
facts = sa.Table(
    "facts",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("token", sa.String(64), primary_key=True),
    sa.Column("form", sa.String(64), nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
)


class DatabaseUnavailableError(PartswapError):
    """The database cannot be written or reached just now; nothing was stored."""


class StudyFullError(PartswapError):
    """All places of a study are taken."""


class AlreadyJoinedError(PartswapError):
    """Someone with this id takes part already."""


@dataclass(frozen=True)
class Participant:
    """Someone who takes part, and how far they are."""

    id: int
    slot: int
    name: str | None
    simulated: bool
    code: str | None
    done: int  #: answered steps
    last: float | None  #: when the last one was answered


@dataclass(frozen=True)
class AnswerOutcome:
    """What became of an answer: `stored` now, or before; `early`: nothing was stored, it came too soon."""

    participant: Participant
    stored: bool
    early: bool = False


def digest(token: str) -> str:
    """Return what of a token is kept."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Database:
    """A study's database; `steps` is how many steps each slot has."""

    def __init__(self, url: str, steps: Sequence[int]) -> None:
        self.url, self.steps = address(url), steps
        self.lite = self.url.get_backend_name() == "sqlite"
        try:
            self.engine = sa.create_engine(
                self.url,
                pool_pre_ping=not self.lite,
                **({} if self.lite else {"pool_size": 10, "max_overflow": 10, "pool_timeout": 10}),
            )
        except (NoSuchModuleError, ImportError) as error:
            raise MissingDependencyError(
                f"there is no driver for {self.url.drivername} ({error}).", "Install partswap[postgres]."
            ) from error
        if self.lite:
            sa.event.listen(self.engine, "connect", _prepare)
            sa.event.listen(self.engine, "begin", _begin)
        # SQLite lets one writer in at a time; those who wait here are let in the moment it is free.
        self._writers = threading.Lock() if self.lite else nullcontext()

    def upgrade(self) -> None:
        """Make the tables, or bring those of an earlier version up to date."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
        self._make_private()
        with self._wait(), self.engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()

    def _make_private(self) -> None:
        """Let only its owner read the file of SQLite; those that SQLite makes beside it take after it."""
        path = Path(self.url.database or "")
        if self.lite and path.name not in ("", ":memory:"):
            with suppress(OSError):  # SQLite itself says why it cannot be made
                make_private(path)
            for beside in path.parent.glob(f"{path.name}-*"):  # of a server that was killed, or still runs
                with suppress(FileNotFoundError):
                    beside.chmod(0o600)

    def close(self) -> None:
        """Let all connections go."""
        self.engine.dispose()

    @contextmanager
    def _wait(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, sa.exc.TimeoutError) as error:
            reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
            raise DatabaseUnavailableError(
                f"the database cannot be used just now ({reason}).", "Make room on its disk, or start its server."
            ) from error

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._wait(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._writers, self._wait(), self.engine.connect().execution_options(write=True) as connection:
            yield connection
            connection.commit()

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Read as of one moment, while others write."""
        with self._reading() as connection:
            # A reader of SQLite sees one moment by itself.
            yield connection if self.lite else connection.execution_options(isolation_level="REPEATABLE READ")

    # -- people -----------------------------------------------------------------------------------------------------

    def add(
        self, *, name: str | None = None, given: Mapping[str, str] | None = None, simulated: bool = False,
        cap: int | None = None, token: str | None = None,
    ) -> str:  # fmt: skip
        """Give someone a free slot; returns their token, which is kept nowhere.

        With `cap` they join by the open link, as one of so many. The token is random unless given.
        """
        token = token or secrets.token_urlsafe(24)
        for _ in range(20):  # another process may take a slot in between
            try:
                with self._writing() as connection:
                    if name is not None and connection.scalar(
                        sa.select(participants.c.id).where(participants.c.name == name)
                    ):
                        raise AlreadyJoinedError(
                            "someone with this id takes part already.", "Go on in the browser you began with."
                        )
                    # In one query: who sees the same people as another takes the same slot, and has to look again.
                    taken = dict(connection.execute(sa.select(participants.c.slot, participants.c.open_link)).all())
                    free = next((slot for slot in range(len(self.steps)) if slot not in taken), None)
                    if free is None:
                        raise StudyFullError(f"all {len(self.steps)} places are taken.", "Plan more participants.")
                    if cap is not None and sum(taken.values()) >= cap:
                        raise StudyFullError(f"all {cap} places of the open link are taken.", "Open more (--open).")
                    connection.execute(
                        participants.insert().values(
                            slot=free, token=digest(token), name=name, given=json.dumps(dict(given or {})),
                            simulated=simulated, created=time.time(), open_link=cap is not None,
                        )
                    )  # fmt: skip
                return token
            except IntegrityError:
                continue
        raise DatabaseUnavailableError("no place could be given.", "Try again.")

    def find(self, token: str) -> Participant | None:
        """Return whose token it is, None if it is nobody's."""
        with self._reading() as connection:
            return self._find(connection, token)

    def _find(self, connection: sa.Connection, token: str, *, alone: bool = False) -> Participant | None:
        query = sa.select(participants).where(participants.c.token == digest(token))
        row = connection.execute(query.with_for_update() if alone and not self.lite else query).one_or_none()
        if row is None:
            return None
        done, last = connection.execute(
            sa.select(sa.func.count(), sa.func.max(answers.c.created)).where(answers.c.participant == row.id)
        ).one()
        return Participant(row.id, row.slot, row.name, bool(row.simulated), row.code, done, last)

    def answer(
        self, token: str, step: int, choice: str, client_ms: float | None, *, least_ms: float = 0.0
    ) -> AnswerOutcome | None:
        """Store an answer, unless that step is answered; None if the token is nobody's.

        A step after the next one is an error of the caller: what is asked next is known from `find`. An answer sooner
        than `least_ms` after the one before is not taken.
        """
        with self._writing() as connection:
            who = self._find(connection, token, alone=True)
            if who is None:
                return None
            if step != who.done or step >= self.steps[who.slot]:
                return AnswerOutcome(who, stored=step < who.done)
            # Never before the one before: a clock may be set back.
            now = max(time.time(), who.last or 0.0)
            taken = None if who.last is None else 1000 * (now - who.last)
            if taken is not None and taken < least_ms:
                return AnswerOutcome(who, stored=False, early=True)
            connection.execute(
                answers.insert().values(
                    participant=who.id, step=step, choice=choice, client_ms=client_ms, server_ms=taken, created=now
                )
            )
            code = who.code
            if step + 1 == self.steps[who.slot]:
                code = secrets.token_hex(4).upper()
                connection.execute(
                    participants.update().where(participants.c.id == who.id).values(finished=now, code=code)
                )
        return AnswerOutcome(replace(who, code=code, done=step + 1, last=now), stored=True)

    def delete(self, participant: int) -> bool:
        """Delete a participant and all their answers; their slot is free again. Tells whether there was one."""
        with self._writing() as connection:
            connection.execute(answers.delete().where(answers.c.participant == participant))
            return bool(connection.execute(participants.delete().where(participants.c.id == participant)).rowcount)

    # -- for the people who run it ----------------------------------------------------------------------------------

    def everyone(self) -> list[dict[str, Any]]:
        """Return all participants and how far they are."""
        count = (
            sa.select(
                answers.c.participant, sa.func.count().label("done"), sa.func.max(answers.c.created).label("last")
            )
            .group_by(answers.c.participant)
            .subquery()
        )
        query = (
            sa.select(
                *(c for c in participants.c if c.name != "token"),
                sa.func.coalesce(count.c.done, 0).label("done"),
                count.c.last,
            )
            .outerjoin(count, count.c.participant == participants.c.id)
            .order_by(participants.c.id)
        )
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def all_answers(self) -> list[dict[str, Any]]:
        """Return all answers, in order."""
        query = sa.select(answers).order_by(answers.c.participant, answers.c.step)
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def fact(self, name: str) -> str | None:
        """Return what is known under a name."""
        with self._reading() as connection:
            found: str | None = connection.scalar(sa.select(facts.c.value).where(facts.c.name == name))
            return found

    def set_fact(self, name: str, value: str) -> None:
        """Keep something under a name."""
        with self._writing() as connection:
            changed = connection.execute(facts.update().where(facts.c.name == name).values(value=value))
            if not changed.rowcount:
                connection.execute(facts.insert().values(name=name, value=value))

    def open_session(self, seconds: float) -> tuple[str, str]:
        """Begin an administrator's session; returns its token and that of its forms."""
        token, form = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        with self._writing() as connection:
            connection.execute(sessions.delete().where(sessions.c.expires < time.time()))
            connection.execute(sessions.insert().values(token=digest(token), form=form, expires=time.time() + seconds))
        return token, form

    def session_form(self, token: str) -> str | None:
        """Return the token of a session's forms, None if there is no such session."""
        query = sa.select(sessions.c.form).where(sessions.c.token == digest(token), sessions.c.expires > time.time())
        with self._reading() as connection:
            found: str | None = connection.scalar(query)
            return found

    def close_session(self, token: str) -> None:
        """End a session."""
        with self._writing() as connection:
            connection.execute(sessions.delete().where(sessions.c.token == digest(token)))

    def close_sessions(self) -> None:
        """End all sessions: the password is another."""
        with self._writing() as connection:
            connection.execute(sessions.delete())


def address(url: str) -> sa.URL:
    """Return the address of a database, for the drivers we use; a password in it is not shown in messages."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise SettingError(
            "the address of the database cannot be read.", "Use postgresql://user:password@host/name, or leave it out."
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return parsed
    if backend == "postgresql" or parsed.drivername == "postgres":
        return parsed.set(drivername="postgresql+psycopg")
    raise SettingError(f"{backend} is no database that a study can use.", "Use PostgreSQL, or SQLite (the default).")


def _prepare(connection: Any, _record: Any) -> None:
    """Prepare a connection to SQLite: readers and a writer beside each other, and on disk means on disk."""
    connection.isolation_level = None  # we say when a transaction begins
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 10000", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    # Who will write takes the lock at once; to take it later could fail, and all would be read again.
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
