"""A small study without any network: flat pictures, whose colour says the class."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image

from partswap.apps.study.assign import assign
from partswap.apps.study.folder import ClassPair, LearningPair, Lesson, Method, Question, Region, Study, write_study
from partswap.apps.study.render import ImageStore
from partswap.apps.study.secret import random_from
from partswap.pixels.composite import highlighted

BOX = (3 / 7, 2 / 7, 4 / 7, 3 / 7)
METHODS = {"partswap": "partswap", "goyal": "Goyal et al.", "scout": "SCOUT"}


def make_study(
    folder: Path,
    *,
    pairs: int = 3,
    participants: int = 4,
    blocks: int = 2,
    learning: int = 2,
    questions: int = 4,
    least_seconds: float = 0.0,
    attention: int = 0,
    setups: tuple[str, ...] = ("random",),
    return_url: str | None = None,
    side: int = 56,
    methods: dict[str, str] = METHODS,
    seed: int = 1,
    secret: str = "5e" * 32,
) -> Study:
    """Write a study; pictures of the first class of a pair are red, of the second blue."""
    album = ImageStore(folder)

    def picture(second: bool, number: int) -> Image.Image:
        shade = 120 + 5 * (number % 20)
        return Image.new("RGB", (side, side), (30, number % 40, shade) if second else (shade, number % 40, 30))

    numbers = iter(range(100_000))

    def region(second: bool) -> Region:
        image = album.add(highlighted(picture(second, next(numbers)), BOX), "learning")
        return Region(image=image, box=BOX)

    made, lessons = [], []
    for number in range(pairs):
        asked = [
            Question(image=album.add(picture(second, next(numbers)), "question"), second=second)
            for second in (False, True)
            for _ in range(questions // 2)
        ]
        made.append(ClassPair(first=f"red {number}", second=f"blue {number}", questions=tuple(asked)))
        for setup in setups:
            for method in methods:
                learned = [LearningPair(query=region(False), distractor=region(True)) for _ in range(learning)]
                lessons.append(Lesson(pair=number, method=method, setup=setup, learning=tuple(learned)))
    album.close()
    study = Study(
        title="Which is which?",
        noun="bird",
        consent="First paragraph.\n\nSecond paragraph.",
        contact="lab@example.org",
        return_url=return_url,
        seed=seed,
        secret=secret,
        methods=tuple(Method(name=name, title=title) for name, title in methods.items()),
        setups=setups,
        pairs=tuple(made),
        lessons=tuple(lessons),
        slots=assign(lessons, participants, blocks, random_from(secret, "assignment")),
        least_seconds=least_seconds,
        attention=attention,
        source={},
    )
    write_study(folder, study)
    return study


def start_server(folder: Path, url: str, port: int, *more: str) -> subprocess.Popen[bytes]:
    """Serve a study in a process of its own, as the command does."""
    command = [sys.executable, "-m", "partswap", "study", "serve", str(folder), "--database", url, "--port", str(port)]
    server = subprocess.Popen([*command, "--admin-password", "x", *more], stdout=subprocess.DEVNULL)
    for _ in range(600):
        try:
            httpx.get(f"http://127.0.0.1:{port}/robots.txt", timeout=2)
            return server
        except httpx.TransportError:
            assert server.poll() is None, "the server ended"
            time.sleep(0.05)
    raise AssertionError("the server did not start")


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Postgres:
    """A real PostgreSQL server on this machine, in a folder of its own."""

    def __init__(self) -> None:
        self.programs = {name: _program(name) for name in ("initdb", "postgres")}
        # Its socket's path must be short, and the server must not be root.
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.port = free_port()
        command = [self.programs["initdb"], "-D", str(self.folder / "data"), "-A", "trust", "-U", "study", "-E", "UTF8"]
        subprocess.run([*command, "--no-sync"], check=True, capture_output=True, user=self.user, cwd="/")
        self.server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait for it."""
        options = ["-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(
                [self.programs["postgres"], *options], user=self.user, cwd="/", stdout=log, stderr=log
            )
        import psycopg

        for _ in range(200):
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=1).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text())

    def stop(self) -> None:
        """Stop the server at once."""
        if self.server is not None:
            self.server.send_signal(3)  # SIGQUIT: immediate
            self.server.wait(20)
            self.server = None

    def url(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://study@127.0.0.1:{self.port}/{name}"

    def new(self) -> str:
        """Make a database and return its address."""
        import psycopg

        name = f"d{time.time_ns()}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def remove(self) -> None:
        """Stop it and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _program(name: str) -> str:
    found = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if found is None:
        raise FileNotFoundError(name)
    return found


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Run a PostgreSQL server while the context lasts."""
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()
