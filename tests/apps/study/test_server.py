"""The server as a client sees it: pages, answers, joining, administration; on both databases."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import httpx
import pyarrow.csv
import pyarrow.parquet
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from fastapi.testclient import TestClient

from partswap.apps.study import migrations
from partswap.apps.study.admin import set_password
from partswap.apps.study.backup import back_up
from partswap.apps.study.database import StudyFullError, metadata
from partswap.apps.study.export import answers_table
from partswap.apps.study.secret import token_from
from partswap.apps.study.server import StudyState, make_app, open_site
from partswap.apps.study.serving import served
from partswap.apps.study.simulate import read_page
from partswap.apps.study.steps import steps_of
from partswap.errors import MissingDependencyError, PartswapError, SettingError
from study_files import make_study

JSON = {"accept": "application/json"}


def site_of(folder: Path, url: str | None = None, **more) -> StudyState:
    if not (folder / "study.json").exists():
        make_study(folder)
    return open_site(folder, url, **{"answering": 1000.0, **more})  # at the pace of programs, not of people


def client_of(site: StudyState) -> TestClient:
    return TestClient(make_app(site), base_url="http://testserver", follow_redirects=False)


def answer(client: TestClient, token: str, step: int, choice: str, **more) -> httpx.Response:
    return client.post(f"/s/{token}", data={"step": step, "choice": choice, **more}, headers=JSON)


def go_to(client: TestClient, site: StudyState, token: str, step: int, *, right: bool = True) -> None:
    """Answer all steps before one."""
    who = site.database.find(token)
    for one in site.steps_of(who.slot)[who.done : step]:
        choice = one.truth if one.truth and right else one.choices[0]
        response = answer(client, token, one.number, choice, client_ms=800)
        assert response.status_code == 200, response.text
        assert response.json()["step"] == one.number + 1


def test_a_whole_study_is_taken_and_stored(tmp_path, new_database: Callable[[], str]):
    site = site_of(tmp_path, new_database())
    client, token = client_of(site), site.database.add()
    page = client.get(f"/s/{token}")
    assert page.status_code == 200
    assert read_page(page.text).phase == "consent"
    steps = site.steps_of(0)
    go_to(client, site, token, len(steps))
    thanks = client.get(f"/s/{token}").text
    who = site.database.find(token)
    assert who.code
    assert who.code in thanks
    table = answers_table(site.study, site.database).to_pylist()
    assert [row["step"] for row in table] == list(range(len(steps)))
    assert all(row["right"] for row in table if row["phase"] in ("before", "test"))
    assert {row["method"] for row in table if row["method"]} <= set(site.study.titles)
    assert all(row["server_ms"] >= 0 for row in table[1:])
    assert table[0]["server_ms"] is None
    assert all(row["client_ms"] == 800 and row["finished"] for row in table)


def test_an_answer_is_stored_once_and_the_first_one_stands(tmp_path, new_database: Callable[[], str]):
    site = site_of(tmp_path, new_database())
    client, token = client_of(site), site.database.add()
    go_to(client, site, token, 3)
    for choice in ("A", "B", "unknown"):
        response = answer(client, token, 3, choice)
        assert response.status_code == 200
        assert response.json()["step"] == 4
    stored = [row for row in site.database.all_answers() if row["step"] == 3]
    assert [row["choice"] for row in stored] == ["A"]
    # A tab that is ahead of what was shown, and one that is behind.
    assert answer(client, token, 9, "A").status_code == 409
    assert answer(client, token, 0, "agree").json()["step"] == 4


def test_pages_work_without_javascript(tmp_path):
    site = site_of(tmp_path)
    client, token = client_of(site), site.database.add()
    response = client.post(f"/s/{token}", data={"step": 0, "choice": "agree"})
    assert response.status_code == 303
    assert response.headers["location"] == f"/s/{token}"
    assert read_page(client.get(f"/s/{token}").text).phase == "instructions"
    refused = client.post(f"/s/{token}", data={"step": 7, "choice": "A"})
    assert refused.status_code == 409
    assert "has not been shown yet" in refused.text
    assert "<html" in refused.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404), ("GET", "/static/nowhere.css", 404), ("GET", "/s/", 404),
        ("GET", "/admin/nowhere", 404), ("GET", "/admin/login", 405), ("GET", "/admin/pause", 405),
        ("POST", "/robots.txt", 405), ("POST", "/admin/login", 422),
    ],
)  # fmt: skip
def test_what_leads_nowhere_is_answered_with_a_page(tmp_path, method: str, path: str, status: int):
    client = client_of(site_of(tmp_path))
    page = client.request(method, path, headers={"accept": "text/html,*/*;q=0.8", "content-length": "0"})
    assert page.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert "/static/study.css" in page.text
    assert re.search(r"<h1[^>]*>.+</h1>", page.text)
    assert status != 405 or page.headers["allow"]
    told = client.request(method, path, headers={**JSON, "content-length": "0"})
    assert told.status_code == status
    assert told.json()["error"]


def test_a_trailing_slash_leads_to_the_page_or_to_a_page_that_says_no(tmp_path):
    site = site_of(tmp_path)
    client = client_of(site)
    for path in (f"/s/{site.database.add()}", "/join", "/admin", "/nowhere"):
        page = client.get(f"{path}/", follow_redirects=True)
        assert page.status_code == client.get(path).status_code
        assert page.headers["content-type"].startswith("text/html")


def test_what_cannot_be_an_answer_is_refused(tmp_path):
    site = site_of(tmp_path)
    client, token = client_of(site), site.database.add()
    for data in (
        {"step": 0}, {"choice": "agree"}, {"step": -1, "choice": "agree"}, {"step": "x", "choice": "agree"},
        {"step": 0, "choice": "A"}, {"step": 0, "choice": "x" * 500}, {"step": 0, "choice": "agree", "client_ms": "x"},
    ):  # fmt: skip
        assert client.post(f"/s/{token}", data=data, headers=JSON).status_code == 422
    assert site.database.find(token).done == 0
    # A clock that says nonsense does not cost the answer.
    assert answer(client, token, 0, "agree", client_ms="nan").status_code == 200
    assert site.database.all_answers()[0]["client_ms"] is None


def test_a_learning_pair_is_looked_at_for_a_while(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("partswap.apps.study.database.time", SimpleNamespace(time=lambda: now[0]))
    make_study(tmp_path, least_seconds=60)
    site = site_of(tmp_path)
    client, token = client_of(site), site.database.add()
    learn = next(step.number for step in site.steps_of(0) if step.phase == "learn")
    go_to(client, site, token, learn)
    assert answer(client, token, learn, "next").status_code == 425
    assert site.database.find(token).done == learn
    now[0] += 29
    assert answer(client, token, learn, "next").status_code == 425
    now[0] += 2  # more than half of it: what the page takes to load is not looked at
    assert answer(client, token, learn, "next").status_code == 200


def test_the_open_link_passes_ids_on_and_keeps_to_its_places(tmp_path, new_database: Callable[[], str]):
    site = site_of(tmp_path, new_database(), open_places=2)
    client = client_of(site)
    assert client.get("/").headers["location"] == "/join"
    page = client.get("/join", params={"PROLIFIC_PID": "abc123", "SESSION_ID": "s-1"})
    assert 'value="abc123"' in page.text
    joined = client.post("/join", data={"PROLIFIC_PID": "abc123", "SESSION_ID": "s-1"})
    assert joined.status_code == 303
    person = site.database.everyone()[0]
    assert (person["name"], person["given"]) == ("abc123", '{"PROLIFIC_PID": "abc123", "SESSION_ID": "s-1"}')
    # The same browser goes on where it was, and so does the same id in another.
    place = joined.headers["location"]
    assert client.get("/join").headers["location"] == place
    go_to(client, site, place.removeprefix("/s/"), 3)
    for again in (client, client_of(site)):
        assert again.get("/join", params={"PROLIFIC_PID": "abc123"}).headers["location"] == place
        assert again.post("/join", data={"PROLIFIC_PID": "abc123", "SESSION_ID": "s-2"}).headers["location"] == place
    assert site.database.find(place.removeprefix("/s/")).done == 3
    assert len(site.database.everyone()) == 1
    assert client_of(site).post("/join", data={"PROLIFIC_PID": "other"}).status_code == 303
    third = {"PROLIFIC_PID": "third"}
    assert client_of(site).post("/join", data=third).status_code == 410
    assert client_of(site).get("/join", params=third).status_code == 410  # and nobody is welcomed before
    assert client_of(site).get("/join", params={"PROLIFIC_PID": "<script>"}).status_code == 400
    site.database.set_fact("paused", "yes")
    assert client_of(site).get("/join").status_code == 503
    # Who takes part already goes on, in another browser, too.
    assert client.get(place).status_code == 200
    assert client_of(site).get("/join", params={"PROLIFIC_PID": "abc123"}).headers["location"] == place


def test_nobody_joins_without_the_id_that_is_named(tmp_path):
    make_study(tmp_path)
    site = site_of(tmp_path, open_places=3, id_name="who")
    client = client_of(site)
    for given in ({}, {"PROLIFIC_PID": "a"}, {"who": ""}, {"WHO": "a"}):
        assert client.get("/join", params=given).status_code == 400
        assert client.post("/join", data=given).status_code == 400
    assert "with who" in client.get("/join").text
    assert site.database.everyone() == []
    assert [client.post("/join", data={"who": "a"}).status_code for _ in range(5)] == [303] * 5
    assert [row["name"] for row in site.database.everyone()] == ["a"]


def test_two_people_at_one_browser_have_a_place_each(tmp_path):
    site = site_of(tmp_path, open_places=3)
    client = client_of(site)
    first = client.post("/join", data={"PROLIFIC_PID": "a"}).headers["location"]
    # The second one's link does not lead into what the first one answers.
    page = client.get("/join", params={"PROLIFIC_PID": "b"})
    assert page.status_code == 200
    assert 'value="b"' in page.text
    second = client.post("/join", data={"PROLIFIC_PID": "b"}).headers["location"]
    assert second != first
    assert client.get("/join", params={"PROLIFIC_PID": "a"}).headers["location"] == first


def test_without_ids_a_browser_has_one_place(tmp_path):
    site = site_of(tmp_path, open_places=2, id_name="")
    client = client_of(site)
    assert client.get("/join").status_code == 200
    places = {client.post("/join").headers["location"] for _ in range(4)}
    assert len(places) == len(site.database.everyone()) == 1
    assert client_of(site).post("/join").headers["location"] not in places
    assert client_of(site).post("/join").status_code == 410


def test_one_id_that_joins_many_times_at_once_has_one_place(tmp_path, new_database: Callable[[], str]):
    make_study(tmp_path, participants=8)
    site = site_of(tmp_path, new_database(), open_places=8)
    with served(site) as base, ThreadPoolExecutor(8) as pool:
        joined = list(pool.map(lambda _: httpx.post(f"{base}/join", data={"PROLIFIC_PID": "a"}), range(8)))
    assert {response.status_code for response in joined} == {303}
    assert len({response.headers["location"] for response in joined}) == 1
    assert len(site.database.everyone()) == 1


def test_the_token_of_an_id_is_told_by_the_secret_alone(tmp_path):
    tokens = {token_from(secret, name) for secret in ("5e" * 32, "00" * 32) for name in ("a", "b")}
    assert len(tokens) == 4
    site = site_of(tmp_path, open_places=2)
    place = client_of(site).post("/join", data={"PROLIFIC_PID": "a"}).headers["location"]
    assert place == f"/s/{token_from(site.study.secret, 'a')}"
    assert open_site(tmp_path).database.find(place.removeprefix("/s/")) is not None  # after a restart, too


@pytest.mark.parametrize("name", ["a b", "<x>", "é"])
def test_a_name_of_ids_that_no_link_can_have_is_refused(tmp_path, name):
    with pytest.raises(SettingError, match=r"is no name of an id.*--id-name"):
        site_of(tmp_path, id_name=name)


def test_personal_links_take_no_places_of_the_open_link(tmp_path, new_database: Callable[[], str]):
    make_study(tmp_path, participants=9)
    site = site_of(tmp_path, new_database(), open_places=4)
    links = [site.database.add() for _ in range(3)]
    joined = [client_of(site).post("/join", data={"PROLIFIC_PID": f"p{k}"}).status_code for k in range(6)]
    assert joined == [303] * 4 + [410] * 2
    # Nor does the open link take more than its own: the other places are for personal links.
    links += [site.database.add() for _ in range(2)]
    assert all(site.database.find(token) is not None for token in links)
    with pytest.raises(StudyFullError, match=r"all 9 places are taken"):
        site.database.add()
    # A place is free again when its participant is deleted.
    first = next(row["id"] for row in site.database.everyone() if row["name"] == "p0")
    site.database.delete(first)
    assert client_of(site).post("/join", data={"PROLIFIC_PID": "p9"}).status_code == 303


def test_without_open_places_only_personal_links_open_anything(tmp_path):
    client = client_of(site_of(tmp_path))
    assert "personal link" in client.get("/").text
    assert client.get("/join").status_code == 403
    assert client.post("/join", data={"PROLIFIC_PID": "a"}).status_code == 403


def logged_in(site: StudyState) -> tuple[TestClient, str]:
    password = set_password(site.database, None)
    client = client_of(site)
    assert client.post("/admin/login", data={"password": password}).status_code == 303
    form = re.search(r'name="form" value="([^"]+)"', client.get("/admin").text)
    return client, form[1]


def test_the_administrator_sees_pauses_invites_exports_and_deletes(tmp_path, new_database: Callable[[], str]):
    site = site_of(tmp_path, new_database(), open_places=3)
    client, form = logged_in(site)
    page = client.post("/admin/links", data={"form": form, "count": 2}, follow_redirects=True).text
    links = re.findall(r"http://testserver/s/([\w-]+)", page)
    assert len(set(links)) == 2
    go_to(client_of(site), site, links[0], 5)
    progress = client.get("/admin/progress").json()["html"]
    assert re.search(r"<b>1</b> under way", progress)
    assert re.search(r"<b>2</b> places free", progress)
    table = pyarrow.parquet.read_table(io.BytesIO(client.get("/admin/answers.parquet").content))
    rows = pyarrow.csv.read_csv(io.BytesIO(client.get("/admin/answers.csv").content))
    assert len(table) == len(rows) == 5
    assert client.get("/admin/answers.exe").status_code == 404
    assert client.post("/admin/pause", data={"form": form, "paused": "true"}).status_code == 303
    assert site.paused
    page = client.post("/admin/links", data={"form": form, "count": 9}, follow_redirects=True).text
    assert "only 2" in page.lower()
    person = site.database.everyone()[0]["id"]
    # A button of the row leads to a page that asks; nothing happens before that is answered.
    assert f'href="/admin/delete/{person}"' in client.get("/admin").text
    asked = client.get(f"/admin/delete/{person}").text
    assert f"Delete participant {person}?" in asked
    assert len(site.database.everyone()) == 4
    assert form in asked
    deleted = client.post("/admin/delete", data={"form": form, "participant": person}, follow_redirects=True)
    assert f"Participant {person} and all their answers are deleted." in deleted.text
    assert site.database.find(links[0]) is None
    assert site.database.all_answers() == []
    for number in (person, 999):
        assert client.get(f"/admin/delete/{number}").status_code == 404
    again = client.post("/admin/delete", data={"form": form, "participant": person}, follow_redirects=True)
    assert "There is no participant" in again.text
    assert client.post("/admin/logout", data={"form": form}).status_code == 303
    assert client.get(f"/admin/delete/{person}").headers["location"] == "/admin"
    assert client.get("/admin/progress").status_code == 401


def test_the_page_of_links_may_be_loaded_again(tmp_path):
    site = site_of(tmp_path)
    client, form = logged_in(site)
    posted = client.post("/admin/links", data={"form": form, "count": 2})
    assert (posted.status_code, posted.headers["location"]) == (303, "/admin/links")
    pages = {client.get("/admin/links").text for _ in range(3)}
    assert len(pages) == 1
    assert len(site.database.everyone()) == 2
    # They are for whoever made them, until they log out.
    assert client_of(site).get("/admin/links").headers["location"] == "/admin"
    client.post("/admin/logout", data={"form": form})
    assert client.get("/admin/links").headers["location"] == "/admin"


def test_a_trial_goes_through_everything_and_stores_nothing(tmp_path):
    make_study(tmp_path, return_url="https://example.org/done")
    site = site_of(tmp_path)
    client, form = logged_in(site)
    before = (tmp_path / "answers.db").read_bytes() + (tmp_path / "answers.db-wal").read_bytes()
    link = client.post("/admin/trial", data={"form": form, "place": 2}).headers["location"]
    for step in site.steps_of(1):
        page = client.get(link)
        assert "Trial: nothing that you answer is stored." in page.text
        seen = read_page(page.text)
        assert (seen.step, seen.phase) == (step.number, step.phase)
        for image in seen.images:
            assert client.get(image["src"]).status_code == 200
        assert client.post(link, data={"step": step.number, "choice": step.choices[0]}).status_code == 303
    thanks = client.get(link).text
    assert "This was a trial" in thanks
    assert 'href="https://example.org' not in thanks  # nobody comes back from a trial
    assert site.database.everyone() == site.database.all_answers() == []
    assert (tmp_path / "answers.db").read_bytes() + (tmp_path / "answers.db-wal").read_bytes() == before
    # It keeps to the rules of the study: no step before its time, no answer that there is not.
    link = f"/s/{site.trials.add(0)}"
    assert client.post(link, data={"step": 3, "choice": "A"}).status_code == 409
    assert client.post(link, data={"step": 0, "choice": "A"}).status_code == 422
    for wrong in (0, 5):
        assert client.post("/admin/trial", data={"form": form, "place": wrong}).status_code == 422
    assert client.post("/admin/trial", data={"form": "guessed", "place": 1}).status_code == 403
    assert "Trial:" not in client.get(f"/s/{site.database.add()}").text


def test_a_trial_waits_as_long_as_a_participant(tmp_path):
    make_study(tmp_path, least_seconds=60.0)
    site = site_of(tmp_path)
    client, link = client_of(site), f"/s/{site.trials.add(0)}"
    learn = next(step.number for step in site.steps_of(0) if step.phase == "learn")
    for step in site.steps_of(0)[:learn]:
        client.post(link, data={"step": step.number, "choice": step.choices[0]})
    early = client.post(link, data={"step": learn, "choice": "next"})
    assert early.status_code == 425
    assert f'href="{link}"' in early.text  # and the way back


def test_old_trials_are_forgotten(tmp_path):
    site = site_of(tmp_path)
    tokens = [site.trials.add(0) for _ in range(120)]
    assert [token in site.trials for token in tokens] == [False] * 20 + [True] * 100


def test_a_password_is_kept_hashed_and_shown_once(tmp_path):
    site = site_of(tmp_path)
    made_up = set_password(site.database, None)
    assert len(made_up) >= 12
    assert site.database.fact("password").startswith("$argon2id$")
    assert made_up not in site.database.fact("password")
    assert set_password(site.database, None) is None  # it has one
    token, _ = site.database.open_session(60)
    set_password(site.database, "another one")
    assert site.database.session_form(token) is None  # whoever was in is out


def test_migrations_make_the_tables_the_code_uses(tmp_path, new_database: Callable[[], str]):
    database = site_of(tmp_path, new_database()).database
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "0002"
    database.upgrade()  # nothing to do, and nothing lost


def test_who_joined_before_the_open_link_was_counted_is_counted(tmp_path, new_database: Callable[[], str]):
    database = site_of(tmp_path, new_database()).database
    for name in (None, "p1", "p2"):
        database.add(name=name)
    with database.engine.connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
        connection.commit()
    database.upgrade()
    assert [(row["name"], row["open_link"]) for row in database.everyone()] == [(None, 0), ("p1", 1), ("p2", 1)]


def test_a_running_study_is_backed_up_and_the_copy_can_be_served(tmp_path, new_database: Callable[[], str]):
    site = site_of(tmp_path, new_database())
    client, token = client_of(site), site.database.add()
    go_to(client, site, token, 7)
    site.database.open_session(60)
    copy = tmp_path / "copies" / "monday.db"
    assert back_up(site.database, copy) == 7
    assert [path.name for path in copy.parent.iterdir()] == ["monday.db"]
    with pytest.raises(SettingError, match=r"monday.db is there already"):
        back_up(site.database, copy)
    go_to(client, site, token, 9)
    again = open_site(tmp_path, f"sqlite:///{copy}")
    assert again.database.find(token).done == 7
    assert site.database.find(token).done == 9
    with again.database.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM sessions")) == 0


def test_a_database_of_another_study_is_refused(tmp_path):
    site_of(tmp_path / "one", f"sqlite:///{tmp_path / 'a.db'}")
    with pytest.raises(SettingError, match=r"answers of another study"):
        site_of(tmp_path / "two", f"sqlite:///{tmp_path / 'a.db'}")


def test_bad_addresses_and_folders_are_named(tmp_path, monkeypatch):
    with pytest.raises(PartswapError, match=r"holds no study"):
        open_site(tmp_path / "nothing")
    make_study(tmp_path)
    for url in ("nonsense", "mysql://a/b"):
        with pytest.raises(SettingError):
            open_site(tmp_path, url)
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"partswap\[postgres\]"):
        open_site(tmp_path, "postgresql://a/b")


def test_a_damaged_study_is_named(tmp_path):
    study = make_study(tmp_path)
    text = (tmp_path / "study.json").read_text()
    (tmp_path / "study.json").write_text(text.replace('"noun": "bird"', '"noun": 5'))
    with pytest.raises(PartswapError, match=r"study.json: noun"):
        open_site(tmp_path)
    (tmp_path / "study.json").write_text(text)
    (tmp_path / "images" / f"{study.pairs[0].questions[0].image}.jpg").unlink()
    with pytest.raises(SettingError, match=r"a picture of the study is not there"):
        open_site(tmp_path)


def test_steps_are_the_same_after_a_restart(tmp_path):
    study = make_study(tmp_path)
    again = open_site(tmp_path).study
    assert [steps_of(study, k) for k in range(4)] == [steps_of(again, k) for k in range(4)]
