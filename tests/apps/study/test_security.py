"""One test per promise: each tries the attack, and is refused."""

from __future__ import annotations

import io
import re
import socket
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from elsewhere import from_elsewhere
from partswap.apps.study.admin import set_password
from partswap.apps.study.limits import HEADERS, LARGEST, RateLimiter
from partswap.apps.study.server import StudyState, make_app, open_site
from partswap.apps.study.serving import served
from partswap.errors import SettingError
from study_files import free_port, make_study, start_server

JSON = {"accept": "application/json"}


@pytest.fixture
def site(tmp_path: Path) -> StudyState:
    make_study(tmp_path, participants=6)
    return open_site(tmp_path, open_places=6)


@pytest.fixture
def client(site: StudyState) -> TestClient:
    return TestClient(make_app(site), follow_redirects=False)


def fast_client(site: StudyState) -> TestClient:
    """Return a client who may answer at the pace of programs, not of people."""
    site.answering = 1000.0
    return TestClient(make_app(site), follow_redirects=False)


def test_no_answer_without_a_valid_token(site, client):
    token = site.database.add()
    for wrong in ("x", token[:-1], token + "A", token.swapcase(), "' OR 1=1 --", "%00", "a" * 5000):
        response = client.post(f"/s/{wrong}", data={"step": 0, "choice": "agree"}, headers=JSON)
        assert response.status_code in (404, 422, 429)
        assert client.get(f"/s/{wrong}").status_code in (404, 429)
    assert site.database.all_answers() == []


def test_tokens_are_long_random_and_not_in_the_database(site):
    tokens = [site.database.add() for _ in range(6)]
    assert all(len(token) >= 32 for token in tokens)  # 24 random bytes
    assert len({token[:4] for token in tokens}) == 6
    everything = b"".join(path.read_bytes() for path in site.folder.glob("answers.db*"))
    assert not any(token.encode() in everything for token in tokens)


def test_guessing_tokens_is_slowed_down(site, client):
    answers = [client.get(f"/s/guess{k}").status_code for k in range(40)]
    assert answers[:30] == [404] * 30
    assert answers[-1] == 429
    # Others at the same address (a classroom, a proxy) are not locked out by it.
    assert client.get(f"/s/{site.database.add()}").status_code == 200


def test_no_label_or_mapping_is_reachable(site, client):
    token = site.database.add()
    for path in (
        "/study.json", "/static/../study.json", "/static/%2e%2e/study.json", f"/s/{token}/study.json",
        f"/s/{token}/i/../../study.json", f"/s/{token}/i/..%2f..%2fstudy.json.jpg", "/answers.db", "/images/",
        "/preview.html", "/static/preview.html", "/openapi.json", "/docs", "/redoc", "/admin/answers.csv",
        "/admin/answers.parquet", "/admin/progress",
    ):  # fmt: skip
        response = client.get(path)
        assert response.status_code in (401, 404), path
        assert b"red 0" not in response.content


def test_pages_answers_and_headers_do_not_tell_a_from_b(site):
    """Two participants who answer the same get the same pages, whatever is right, but for names of pictures."""
    seen: dict[str, set[str]] = {}
    client = fast_client(site)
    for _ in range(4):
        token = site.database.add()
        steps = site.steps_of(site.database.find(token).slot)
        for step in steps:
            text = client.get(f"/s/{token}").text
            for pair in site.study.pairs:
                assert pair.first not in text
                assert pair.second not in text
            response = client.post(f"/s/{token}", data={"step": step.number, "choice": step.choices[0]}, headers=JSON)
            assert response.status_code == 200
            if step.phase in ("before", "test"):
                plain = re.sub(r"/s/[\w-]+(/i/[0-9a-f]{32}\.jpg)?|<output>\w{8}", "", response.text)
                headers = sorted(response.headers.items())
                seen.setdefault(f"{step.number} {step.phase}", set()).add(f"{plain} {headers}")
    truths = {step.truth for slot in range(4) for step in site.steps_of(slot) if step.phase == "test"}
    assert truths == {"A", "B"}
    assert seen
    assert [variants for variants in seen.values() if len(variants) > 1] == []


def test_files_of_pictures_do_not_tell_a_from_b(site, client):
    """Names are random; sizes, dates, headers and metadata are the same for all."""
    token = site.database.add()
    steps = site.steps_of(0)
    for step in steps[:4]:
        client.post(f"/s/{token}", data={"step": step.number, "choice": step.choices[0]}, headers=JSON)
    headers, lengths = set(), set()
    for step in steps[3:7]:
        response = client.get(f"/s/{token}/i/{step.shown[0].image}.jpg")
        assert response.status_code == 200
        headers.add(tuple(sorted(response.headers.items())))
        lengths.add(len(response.content))
        picture = Image.open(io.BytesIO(response.content))
        assert set(picture.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        assert np.asarray(picture).std() > 0
    assert len(headers) == len(lengths) == 1
    assert not {"last-modified", "etag"} & set(dict(next(iter(headers))))
    names = [path.stem for path in (site.folder / "images").iterdir()]
    assert all(re.fullmatch(r"[0-9a-f]{32}", name) for name in names)
    assert Counter(path.stat().st_mtime for path in (site.folder / "images").iterdir()) == {0.0: len(names)}


def test_a_picture_is_opened_to_those_who_are_shown_it_only(site, client):
    mine, other = site.database.add(), site.database.add()
    steps = site.steps_of(0)
    later = next(step for step in steps if step.phase == "learn").shown[0].image
    assert client.get(f"/s/{mine}/i/{later}.jpg").status_code == 404  # not yet
    elsewhere = {shown.image for step in site.steps_of(1) for shown in step.shown}
    own = {shown.image for step in steps for shown in step.shown}
    foreign = next(iter(elsewhere - own))
    assert client.get(f"/s/{mine}/i/{foreign}.jpg").status_code == 404
    assert client.get(f"/s/{other}/i/{'0' * 32}.jpg").status_code == 404


def test_pictures_are_loaded_ahead_within_a_part_only(site):
    """The last questions of the first look do not bring the labelled pictures of the lesson."""
    client, token = fast_client(site), site.database.add()
    steps = site.steps_of(0)
    for step in steps:
        text = client.get(f"/s/{token}").text
        part = {"attention": "test"}.get(step.phase, step.phase)
        same = {
            shown.image
            for later in steps[step.number + 1 : step.number + 3]
            if (later.block, {"attention": "test"}.get(later.phase, later.phase)) == (step.block, part)
            for shown in later.shown
        }
        ahead = re.search(r'data-ahead="([^"]*)"', text)[1].split()
        assert {Path(address).stem for address in ahead} == same
        seen = {shown.image for earlier in steps[: step.number + 1] for shown in earlier.shown}
        for shown in (shown for later in steps[step.number + 1 : step.number + 4] for shown in later.shown):
            status = client.get(f"/s/{token}/i/{shown.image}.jpg").status_code
            assert (status == 200) == (shown.image in same | seen)  # 404, and 429 after many
        client.post(f"/s/{token}", data={"step": step.number, "choice": step.choices[0]}, headers=JSON)
    assert site.database.find(token).code


def test_no_path_leads_out_of_the_study(site):
    token = site.database.add()
    with served(site) as base:
        host, port = base.removeprefix("http://").split(":")
        for path in (
            "/static/../../../../../../etc/passwd", "/static/..%2f..%2f..%2fetc/passwd", "//etc/passwd",
            f"/s/{token}/i/../../../../../etc/passwd", f"/s/{token}/i/%2e%2e%2f%2e%2e%2fstudy.json",
            "/static/....//....//study.json", "/static/study.css%00.html",
        ):  # fmt: skip
            # By hand: clients tidy such paths before they send them.
            with socket.create_connection((host, int(port)), timeout=10) as raw:
                raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                reply = b"".join(iter(lambda raw=raw: raw.recv(65536), b""))
            status = int(reply.split()[1])
            assert status in (400, 404, 429), (path, status)
            assert b"root:" not in reply
            assert b"partswap.study" not in reply


@from_elsewhere("http://testserver")
def test_other_sites_cannot_change_anything(site, client, headers):
    token = site.database.add()
    password = set_password(site.database, None)
    for path, data in (
        (f"/s/{token}", {"step": 0, "choice": "agree"}),
        ("/join", {"PROLIFIC_PID": "a"}),
        ("/admin/login", {"password": password}),
    ):
        assert client.post(path, data=data, headers=headers).status_code == 403
    assert site.database.all_answers() == []
    assert len(site.database.everyone()) == 1


def test_an_administrators_forms_need_their_own_token(site, client):
    password = set_password(site.database, None)
    login = client.post("/admin/login", data={"password": password})
    cookie = login.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    site.database.add()
    person = site.database.everyone()[0]["id"]
    for path, data in (
        ("/admin/delete", {"participant": person}),
        ("/admin/pause", {"paused": "true"}),
        ("/admin/links", {"count": 1}),
        ("/admin/trial", {"place": 1}),
        ("/admin/logout", {}),
    ):
        assert client.post(path, data=data).status_code == 422  # no form at all
        assert client.post(path, data={**data, "form": "guessed"}).status_code == 403
    assert len(site.database.everyone()) == 1
    assert not site.paused


def test_links_have_the_address_that_was_configured_and_other_names_are_refused(tmp_path):
    make_study(tmp_path)
    site = open_site(tmp_path, open_places=2, address="https://study.example.org")
    password = set_password(site.database, None)
    with served(site) as base, httpx.Client(base_url=base) as client:
        ours = {"host": "study.example.org"}
        login = client.post("/admin/login", data={"password": password}, headers=ours)
        cookie = {"cookie": login.headers["set-cookie"].partition(";")[0]}  # it is for https, which a proxy would end
        form = re.search(r'name="form" value="([^"]+)"', client.get("/admin", headers=ours | cookie).text)[1]
        for host in ("study.example.org", "STUDY.example.org:443", "127.0.0.1", "6.6.6.6"):
            sent = client.post("/admin/links", data={"form": form, "count": 1}, headers=cookie | {"host": host})
            assert sent.headers["location"] == "/admin/links"  # which may be loaded again
            page = client.get("/admin/links", headers=cookie | {"host": host})
            assert set(re.findall(r"https?://[^/]+/s/", page.text)) == {"https://study.example.org/s/"}
        for host in ("evil.example", "study.example.org.evil.example", "evil.example:8000", "x@study.example.org", ""):
            for method, path in (("GET", "/admin"), ("POST", "/admin/links"), ("GET", "/join"), ("GET", "/")):
                refused = client.request(method, path, headers=cookie | {"host": host})
                assert refused.status_code in (400, 421)
                assert "/s/" not in refused.text


def test_the_command_serves_the_address_it_was_given(tmp_path):
    make_study(tmp_path)
    port = free_port()
    server = start_server(tmp_path, f"sqlite:///{tmp_path / 'a.db'}", port, "--address", "http://study.example.org")
    try:
        codes = [
            httpx.get(f"http://127.0.0.1:{port}/admin", headers={"host": host}).status_code
            for host in ("study.example.org", "localhost", "evil.example")
        ]
    finally:
        server.terminate()
        server.wait(20)
    assert codes == [200, 200, 421]


@pytest.mark.parametrize("address", ["study.example.org", "javascript:alert(1)", "https://", "http://[x"])
def test_an_address_that_is_none_is_refused(tmp_path, address):
    make_study(tmp_path)
    with pytest.raises(SettingError, match=r"is no address of a web page.*Use https://NAME"):
        open_site(tmp_path, address=address)


def test_the_administrators_page_needs_the_password(site, client):
    set_password(site.database, "correct horse")
    guess = {"cookie": "partswap_admin=guess"}
    for path in ("/admin/progress", "/admin/answers.csv", "/admin/answers.parquet"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=guess).status_code == 401
    assert "participant" not in client.get("/admin").text.lower()
    answers = [client.post("/admin/login", data={"password": f"guess {k}"}).status_code for k in range(4)]
    assert answers == [401] * 4
    assert client.post("/admin/login", data={"password": "correct horse"}).status_code == 303
    assert client.get("/admin/progress").status_code == 200


def test_what_is_typed_is_never_html(site, client):
    page = client.get("/join", params={"PROLIFIC_PID": "a", "x": "y"})
    assert page.status_code == 200
    for evil in ("<script>alert(1)</script>", '"><img src=x>', "=cmd|' /C calc'!A0", "-1+1"):
        assert client.get("/join", params={"PROLIFIC_PID": evil}).status_code == 400
        assert client.get("/join", params={evil: "a"}).status_code == 400
        assert client.post("/join", data={"PROLIFIC_PID": evil}).status_code == 400
    assert site.database.everyone() == []


def test_requests_that_are_too_large_are_refused(site, client):
    token = site.database.add()
    for size in (LARGEST + 1, 50_000_000):
        response = client.post(
            f"/s/{token}", content=b"", headers={"content-length": str(size), "content-type": "text/plain"}
        )
        assert response.status_code == 413
    # A length that lies, and none at all.
    with served(site) as base:
        host, port = base.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(f"POST /s/{token} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            assert b" 411 " in raw.recv(4096).split(b"\r\n")[0]
    assert site.database.all_answers() == []


def test_answers_and_joining_keep_to_a_pace(site, client):
    token = site.database.add()
    codes = [
        client.post(f"/s/{token}", data={"step": 0, "choice": "agree"}, headers=JSON).status_code for _ in range(40)
    ]
    assert codes[0] == 200
    assert 429 in codes
    strangers = TestClient(make_app(site), follow_redirects=False)
    joined = [strangers.post("/join", data={"PROLIFIC_PID": f"p{k}"}).status_code for k in range(65)]
    assert 429 not in joined[:60]
    assert joined[-1] == 429
    tried = [client.get("/join", params={"PROLIFIC_PID": f"q{k}"}).status_code for k in range(65)]
    assert 429 not in tried[:60]
    assert tried[-1] == 429


def test_a_pace_recovers_with_time():
    now = [0.0]
    pace = RateLimiter(2.0, 4, clock=lambda: now[0])
    assert [pace.passes("a") for _ in range(6)] == [True] * 4 + [False] * 2
    assert pace.passes("b")
    now[0] += 0.5
    assert pace.passes("a")
    assert not pace.passes("a")
    now[0] += 60
    assert [pace.passes("a") for _ in range(5)] == [True] * 4 + [False]


def test_every_response_has_strict_headers_and_no_page_has_inline_code(site, client):
    token = site.database.add()
    for path in (f"/s/{token}", "/join", "/admin", "/static/study.js", "/nowhere", f"/s/{token}/i/{'0' * 32}.jpg"):
        response = client.get(path)
        for name, value in HEADERS.items():
            assert response.headers.get(name) == value or name == "cache-control", (path, name)
        if "html" in response.headers["content-type"]:
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|style=|javascript:", response.text)
    policy = client.get("/join").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert client.get(f"/s/{token}").headers["cache-control"] == "no-store"
    assert "server" not in client.get("/join").headers


def test_a_deleted_participants_link_and_cookie_open_nothing(site, client):
    joined = client.post("/join", data={"PROLIFIC_PID": "a"})
    link = joined.headers["location"]
    assert client.get(link).status_code == 200
    site.database.delete(site.database.everyone()[0]["id"])
    assert client.get(link).status_code == 404
    assert client.get("/join").status_code == 400
    assert client.get("/join", params={"PROLIFIC_PID": "a"}).status_code == 200  # welcome again, as anyone
