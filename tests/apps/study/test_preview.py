"""The preview of a study, and trying it: all of it is there, and nothing is stored."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser
from typer.testing import CliRunner

from devices import DESKTOP, PHONE
from partswap.apps.study.power import power_of
from partswap.apps.study.preview import write_preview
from partswap.apps.study.simulate import read_page
from partswap.cli.main import app
from study_files import free_port, make_study


@pytest.fixture
def preview(tmp_path: Path) -> Path:
    study = make_study(tmp_path, pairs=12, participants=4, blocks=2, learning=6)
    return write_preview(tmp_path, study, power_of(4, 2, 4, 3, 12))


def test_every_picture_of_every_pair_is_in_the_preview(preview):
    page = preview.read_text("utf-8")
    named = set(re.findall(r'src="images/([0-9a-f]{32})\.jpg"', page))
    assert named == {path.stem for path in (preview.parent / "images").iterdir()}
    assert [int(number) for number in re.findall(r"<h2>(\d+)\. red", page)] == list(range(1, 13))
    assert "All 12 pairs of classes" in page
    assert f"partswap study serve {preview.parent.name} --try 1" in page


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_preview_fits_the_screen(preview, browser: Browser, device, scheme):
    context = browser.new_context(**device, color_scheme=scheme)
    page = context.new_page()
    page.goto(preview.as_uri())
    # A phone that lacks a viewport lays the page out for a desktop.
    assert page.evaluate("window.innerWidth") == device["viewport"]["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128")
    assert light == (scheme == "light")
    context.close()


def test_a_study_is_tried_on_the_command_line_and_nothing_is_written(tmp_path):
    make_study(tmp_path / "study")
    before = sorted(path.name for path in (tmp_path / "study").iterdir())
    command = [sys.executable, "-m", "partswap", "study", "serve", str(tmp_path / "study"), "--try", "2"]
    with subprocess.Popen([*command, "--port", str(free_port())], stdout=subprocess.PIPE, text=True) as server:
        try:
            link = re.search(r"http://\S+/s/\S+", server.stdout.readline())[0]
            with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
                for choice in ("agree", "next", "next", "unknown"):
                    page = client.get(link)
                    assert "Trial: nothing that you answer is stored." in page.text
                    step = read_page(page.text).step
                    assert client.post(link, data={"step": step, "choice": choice}).status_code == 303
                assert read_page(client.get(link).text).step == 4
        finally:
            server.terminate()
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == before


def test_a_participant_that_is_not_there_is_not_tried(tmp_path):
    make_study(tmp_path / "study")
    for number, reason in (("5", "Try a number from 1 to 4."), ("-1", "greater than or equal to 0")):
        words = ["study", "serve", str(tmp_path / "study"), "--try", number, "--port", str(free_port())]
        result = CliRunner().invoke(app, words)
        assert result.exit_code
        assert reason in " ".join((str(result.exception) + result.output).split())
