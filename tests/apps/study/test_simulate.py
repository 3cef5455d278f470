"""Simulated participants: they see what is shown, learn from it, and take the same study over HTTP."""

from __future__ import annotations

import asyncio
import io
import json

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from partswap.apps.study.export import answers_table
from partswap.apps.study.server import open_site
from partswap.apps.study.serving import served
from partswap.apps.study.simulate import (
    NearestExampleLearner,
    RandomLearner,
    RegionFeatures,
    SimulationSettings,
    read_page,
    run_simulated_participants,
)
from partswap.cli.main import app
from study_files import BOX, make_study


def encoded(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_only_the_region_that_was_sharp_is_learned_from():
    learner = NearestExampleLearner(RegionFeatures())
    red, blue = np.zeros((70, 70, 3)), np.zeros((70, 70, 3))
    red[20:30, 30:40], blue[20:30, 30:40] = (200, 30, 30), (30, 30, 200)
    red[50:60, 50:60], blue[50:60, 50:60] = (30, 30, 200), (200, 30, 30)  # elsewhere it is the other way round
    learner.learn("A", encoded(red), BOX)
    learner.learn("B", encoded(blue), BOX)
    test = np.zeros((70, 70, 3))
    test[40:50, 10:20] = (190, 40, 40)
    assert learner.tell(encoded(test)) < 0
    test[40:50, 10:20] = (40, 40, 190)
    assert learner.tell(encoded(test)) > 0


def test_a_crowd_learns_from_what_it_sees_and_guessers_do_not(tmp_path):
    make_study(tmp_path, participants=8, attention=1, setups=("random", "consistent"))
    shares = {}
    for name in ("nearest", "guess"):
        site = open_site(tmp_path, f"sqlite:///{tmp_path / name}.db")
        tokens = [site.database.add(simulated=True) for _ in range(8)]
        eye = RegionFeatures()
        learners = [NearestExampleLearner(eye) if name == "nearest" else RandomLearner() for _ in tokens]
        with served(site) as base:
            traffic = asyncio.run(
                run_simulated_participants(base, tokens, learners, SimulationSettings(noise=0.0, lapse=0.0), at_once=4)
            )
        assert traffic.finished == 8
        rows = answers_table(site.study, site.database).to_pylist()
        assert all(row["simulated"] for row in rows)
        assert all(row["right"] for row in rows if row["phase"] == "attention")
        assert all(row["choice"] == "unknown" for row in rows if row["phase"] == "before")
        shares[name] = np.mean([row["right"] for row in rows if row["phase"] == "test"])
    assert shares["nearest"] > 0.9  # red and blue are easy
    assert 0.25 < shares["guess"] < 0.75


def test_pages_are_read_as_they_are_shown():
    page = read_page(
        '<section id="step" data-step="4" data-phase="learn" data-least="2000"><h1>Compare <span>1 of 2</span></h1>'
        '<img src="/s/x/i/y.jpg" data-box="0 0 0.5 1" data-label="A"><button name="choice" value="next">Go</button>'
    )
    assert (page.step, page.phase, page.least_ms, page.choices) == (4, "learn", 2000.0, ["next"])
    assert page.images[0]["data-label"] == "A"
    assert page.heading.startswith("Compare")


def test_after_a_simulation_analyse_says_whose_answers_it_reads(tmp_path):
    folder = tmp_path / "study"
    make_study(folder, participants=4)
    open_site(folder).database.add()  # served, and nobody has answered yet
    empty = CliRunner().invoke(app, ["study", "analyse", str(folder)])
    assert "nobody has answered" in str(empty.exception)
    assert CliRunner().invoke(app, ["study", "serve", str(folder), "--simulate", "4"]).exit_code == 0
    before = json.loads((folder / "simulated" / "analysis.json").read_text())
    (folder / "simulated" / "analysis.json").unlink()
    result = CliRunner().invoke(app, ["study", "analyse", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"the simulated participants of {folder / 'simulated.db'}" in result.output.replace("\n", " ")
    assert json.loads((folder / "simulated" / "analysis.json").read_text()) == before
    assert not (folder / "analysis").exists()
    site = open_site(folder)
    site.database.answer(site.database.add(), 0, "agree", None)  # now a person has
    after = CliRunner().invoke(app, ["study", "analyse", str(folder)])
    assert "simulated" not in after.output + str(after.exception)
