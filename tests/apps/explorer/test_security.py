"""One test per promise: each tries the attack, and is refused."""

from __future__ import annotations

import io
import os
import re
import socket
import struct
import sys
import zlib
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from elsewhere import from_elsewhere
from partswap.apps.explorer import uploads
from partswap.apps.explorer.server import make_app
from partswap.apps.explorer.uploads import LARGEST_BYTES, STORED, Uploads
from partswap.apps.security import HEADERS, served_app

RAW = {"content-type": "application/octet-stream"}


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """Return a PNG that says how large it is, with hardly anything in it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", data or zlib.compress(b"\0" * 99))
        + chunk(b"IEND", b"")
    )


def small(color: tuple[int, int, int] = (9, 99, 200), form: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (64, 64), color).save(out, form)
    return out.getvalue()


def test_too_many_bytes_are_refused(state, client):
    response = client.post("/upload", content=b"x" * (LARGEST_BYTES + 1), headers=RAW)
    assert response.status_code == 413
    with served_app(make_app(state)) as base:
        host, port = base.removeprefix("http://").split(":")
        # A length that lies, and none at all.
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(f"POST /upload HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            assert b" 411 " in raw.recv(4096).split(b"\r\n")[0]
    assert list(state.uploads.folder.iterdir()) == []


@pytest.mark.parametrize("size", [(20_000, 20_000), (100_000, 100_000), (1, 50_000_000), (7000, 6000)])
def test_image_bombs_are_refused_before_they_are_unpacked(state, client, size, monkeypatch):
    monkeypatch.setattr(uploads, "read_image", lambda _image: pytest.fail("it was decoded"))
    response = client.post("/upload", content=png(*size), headers=RAW)
    assert response.status_code == 422
    assert "pixels" in response.json()["error"]
    assert list(state.uploads.folder.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"", b"hello", b"GIF89a" + b"\0" * 50, b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.4", png(64, 64),
        small()[:60], small(form="TIFF"), small(form="GIF"), b"\x89PNG\r\n\x1a\n", small(form="JPEG")[:300],
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused_with_a_reason(state, client, data):
    response = client.post("/upload", content=data, headers=RAW)
    assert response.status_code == 422
    assert "Use" in response.json()["error"]
    assert response.json()["error"][0].isupper()
    assert list(state.uploads.folder.iterdir()) == []


WRITTEN: list[str] = []
WATCHING: list[bool] = []


def _watch(event: str, given: tuple[object, ...]) -> None:
    """Note what is opened for writing or made; a hook stays for good, so it has a switch."""
    if not WATCHING:
        return
    if event == "open" and isinstance(given[0], str | bytes) and int(given[2] or 0) & (os.O_WRONLY | os.O_RDWR):
        WRITTEN.append(os.fsdecode(given[0]))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink"):
        WRITTEN.append(str(given[0]))


sys.addaudithook(_watch)


def test_nothing_is_written_outside_its_own_folder(state, client):
    WRITTEN.clear()
    WATCHING.append(True)
    try:
        name = client.post("/upload", content=small(), headers={**RAW, "x-name": "../../evil.png"}).json()["u"]
        for path in ("/", "/view", "/cell", "/python", "/counterfactual.json", "/compare"):
            client.get(f"{path}?u={name}&cell=3")
    finally:
        WATCHING.clear()
    home = state.uploads.folder
    assert f"{home / name}.png" in WRITTEN
    assert [path for path in WRITTEN if not Path(path).is_relative_to(home) and path != os.devnull] == []
    assert [path.name for path in home.iterdir()] == [f"{name}.png"]
    assert home.stat().st_mode & 0o077 == 0  # and nobody else can look into it


def test_the_folder_goes_away_and_does_not_fill_up():
    kept = Uploads()
    for k in range(STORED + 5):
        kept.add(small((k, 0, 0)))
    assert len(list(kept.folder.iterdir())) == STORED
    kept.close()
    assert not kept.folder.exists()


def test_hidden_data_does_not_survive_an_upload(state):
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    Image.new("RGB", (64, 64)).save(out, "JPEG", exif=exif)
    name = state.uploads.add(out.getvalue())
    assert b"secret" not in (state.uploads.folder / f"{name}.png").read_bytes()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "a@127.0.0.1", "[evil"]
)
def test_other_names_that_point_here_are_refused(state, host):
    client = TestClient(make_app(state), base_url="http://127.0.0.1")
    for path in ("/", "/view", "/images", f"/i/{state.version}/0.jpg", "/static/explorer.js"):
        assert client.get(path, headers={"host": host}).status_code == 421


def test_its_own_names_are_served(state):
    client = TestClient(make_app(state, ("birds.lan",)), base_url="http://127.0.0.1")
    for host in ("127.0.0.1:8000", "localhost", "[::1]:8000", "birds.lan:80", "192.168.1.7"):
        assert client.get("/static/explorer.js", headers={"host": host}).status_code == 200


@from_elsewhere("http://127.0.0.1")
def test_other_sites_cannot_upload(state, client, headers):
    assert client.post("/upload", content=small(), headers={**RAW, **headers}).status_code == 403
    assert list(state.uploads.folder.iterdir()) == []


def test_other_sites_cannot_use_what_is_served(state, client):
    for path in ("/view", f"/i/{state.version}/0.jpg", "/counterfactual.json", "/compare"):
        for kind in ("image", "script", "iframe", "empty"):
            headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": kind}
            assert client.get(path, headers=headers).status_code == 403
    # A link that someone shared leads here all the same.
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=link).status_code == 200


def test_every_response_has_strict_headers_and_no_page_has_inline_code(state, client):
    for path in ("/", "/images", "/compare", "/cell?cell=3", "/?t=77777", "/static/explorer.js", "/nowhere"):
        response = client.get(path)
        for name, value in HEADERS.items():
            assert response.headers.get(name) == value, (path, name)
        if "html" in response.headers["content-type"]:
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:", response.text), path
    html = client.get("/view").json()["html"]
    assert not re.search(r"<script|\son\w+=|\sstyle=|javascript:", html)
    policy = client.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_no_path_leads_out(state):
    with served_app(make_app(state)) as base:
        host, port = base.removeprefix("http://").split(":")
        for path in (
            "/static/../../../../../../etc/passwd", "/static/..%2f..%2f..%2fetc/passwd", "//etc/passwd",
            f"/i/{state.version}/../../../../etc/passwd.jpg", f"/i/{state.version}/%2e%2e%2fserver.jpg",
            f"/i/{state.version}/..%2f..%2fetc%2fpasswd.jpg", "/static/....//....//server.py", "/static/%00.js",
            "/templates/page.html", "/static/../server.py", "/openapi.json", "/docs",
        ):  # fmt: skip
            # By hand: clients tidy such paths before they send them.
            with socket.create_connection((host, int(port)), timeout=10) as raw:
                raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                reply = b"".join(iter(lambda raw=raw: raw.recv(65536), b""))
            assert int(reply.split()[1]) in (400, 404), path
            assert b"root:" not in reply
            assert b"import" not in reply


def test_names_of_classes_and_images_are_never_html(state, client, monkeypatch):
    evil = "<img src=x onerror=alert(1)>"
    monkeypatch.setattr(state.service.explainer, "class_names", [evil] * len(state.service.explainer.class_names))
    monkeypatch.setattr(type(state.service.data), "image_name", lambda self, k: f"{evil}\nimport os")
    for path in ("/", "/images", "/compare", "/cell?cell=3"):
        assert "<img src=x" not in client.get(path).text
    code = client.get("/python").text
    assert "\nimport os" not in code  # a name stays in its comment


def test_one_search_at_a_time_and_no_pile_up(state, client, monkeypatch):
    monkeypatch.setattr(state.scheduler, "_most", 0)
    response = client.get("/view")
    assert response.status_code == 503
    assert "waiting" in response.json()["error"]
