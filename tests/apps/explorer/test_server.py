"""Pages, parts of them, pictures and files, over HTTP."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from partswap import Counterfactual, aviary
from partswap.apps.explorer.view import View
from partswap.drawing import palette
from partswap.search import METHODS
from partswap.search.settings import SearchSettings
from public_names import private_uses


def shot(side: int = 300, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    aviary.draw(3, 77).image.resize((side, side)).save(out, form)
    return out.getvalue()


def test_the_page_shows_a_counterfactual_at_once(state, client):
    text = client.get("/").text
    view = state.service.with_defaults(View())
    cf = state.service.solve(view)
    assert text.count('<li>\n<span class="number') == len(cf)
    assert state.service.class_name(cf.target) in text
    assert f'data-value="{cf.probability}"' in text
    assert 'id="choose"' in text
    # Nothing but our own address is named.
    assert not re.search(r"(src|href|action)=\"(https?:)?//", text)


def test_a_part_of_the_page_for_a_slider(state, client):
    view = state.service.with_defaults(View())
    found = client.get("/view", params={"i": view.image, "t": view.target, "lam": "1", "beam": "2"}).json()
    assert found["query"] == view.with_(lam=1.0, beam=2).query()
    assert "<html" not in found["html"]
    assert client.get(f"/?{found['query']}").status_code == 200


def test_a_hint_has_the_next_positions_of_a_slider_found(state, client, monkeypatch):
    view, solved, enough = state.service.with_defaults(View()), [], threading.Event()

    def solve(near: View) -> None:
        solved.append(near)
        if len(solved) == 3:
            enough.set()

    monkeypatch.setattr(state.service, "solve", solve)
    told = client.get("/hint", params={"i": view.image, "t": view.target, "slider": "n"})
    assert (told.status_code, told.content) == (204, b"")
    assert enough.wait(30)
    assert (
        solved[:3]
        == list(state.service.prefetch_candidates(view, "n"))[:3]
        != list(state.service.prefetch_candidates(view))[:3]
    )
    assert client.get("/hint?lam=much&slider=n").status_code == 422
    assert client.get("/hint?slider=<b>").status_code == 204  # no such slider: all take turns


def test_a_cell_and_own_swaps(state, client):
    view = state.service.with_defaults(View())
    text = client.get(f"/cell?{view.query()}&cell=24").text
    links = re.findall(r'data-go href="/\?([^"]+)"', text)
    assert len(links) >= 7
    made = client.get("/view?" + links[0].replace("&amp;", "&")).json()
    assert "Your own swaps" in made["html"]
    assert "Undo" in made["html"]
    assert client.get(f"/cell?{view.query()}&cell=49").status_code == 422
    assert client.get(f"/cell?{view.query()}&cell=x").status_code == 422


def test_methods_side_by_side(state, client):
    view = state.service.with_defaults(View())
    text = client.get(f"/compare?{view.query()}").text
    for name in METHODS.names():
        assert METHODS.get(name).title in text


def test_files_to_download(state, client):
    view = state.service.with_defaults(View())
    response = client.get(f"/counterfactual.json?{view.query()}")
    assert "attachment" in response.headers["content-disposition"]
    assert Counterfactual.from_dict(response.json()).edits == state.service.solve(view).edits
    response = client.get(f"/counterfactual.png?{view.query()}")
    assert min(Image.open(io.BytesIO(response.content)).size) > 200


def test_the_python_runs_and_makes_the_same_edits(state, client, tmp_path):
    """In a process of its own, with public names only, and with the figure: found swaps, other settings, own swaps."""
    usual = state.service.with_defaults(View())
    changed = usual.with_(lam=1.0, tau=0.05, beam=2, distractors=2)
    views = [usual, changed, usual.with_(method="paper"), usual.with_(swaps=((3, 5), (9, 60)))]
    programs = [client.get(f"/python?{view.query()}").text for view in views]
    tail = "cf.plot()\nprint('EDITS', [(e.query_cell, e.distractor_cell) for e in cf.edits])"
    (tmp_path / "copied.py").write_text("\n".join(f"{program}\n{tail}\n" for program in programs))
    run = subprocess.run(
        [sys.executable, "copied.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "agg"},
    )
    assert run.returncode == 0, run.stderr
    printed = [line.removeprefix("EDITS ") for line in run.stdout.splitlines() if line.startswith("EDITS")]
    edits = [[(e.query_cell, e.distractor_cell) for e in state.service.solve(view).edits] for view in views]
    assert printed == [str(one) for one in edits]
    assert min(Image.open(tmp_path / "counterfactual.png").size) > 200
    assert [private_uses(program) for program in programs] == [[]] * len(programs)
    assert state.service.class_name(usual.target) in programs[0]  # by name, and images by number with their names
    assert state.service.query(usual).name in programs[0]


def test_an_image_of_ones_own(state, client):
    response = client.post("/upload", content=shot(), headers={"content-type": "application/octet-stream"})
    name = response.json()["u"]
    page = client.get(f"/?u={name}")
    assert page.status_code == 200
    assert f"/i/{state.version}/{name}.jpg" in page.text
    assert client.get(f"/i/{state.version}/{name}.jpg").headers["content-type"] == "image/jpeg"
    assert client.get(f"/counterfactual.png?u={name}").status_code == 200
    assert "image = 'your-image.jpg'" in client.get(f"/python?u={name}").text


def like_a_photograph() -> Image.Image:
    """Return coarse and fine structure of all colors, as photographs have and drawn birds do not."""
    rng = np.random.default_rng(0)
    layers = [
        Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).resize((300, 300), Image.Resampling.BICUBIC)
        for side in (6, 24, 120)
    ]
    return Image.blend(Image.blend(layers[0], layers[1], 0.4), layers[2], 0.3)


@pytest.mark.parametrize(("image", "outlier"), [(like_a_photograph(), True), (aviary.draw(3, 77).image, False)])
def test_an_image_of_another_kind_gets_a_warning(client, image, outlier):
    out = io.BytesIO()
    image.save(out, "PNG")
    name = client.post("/upload", content=out.getvalue(), headers={"content-type": "application/octet-stream"}).json()[
        "u"
    ]
    assert ("An image of another kind" in client.get(f"/?u={name}").text) == outlier


def test_pictures_and_the_gallery(state, client):
    for kind, side in (("i", 448), ("t", 160)):
        response = client.get(f"/{kind}/{state.version}/0.jpg")
        assert Image.open(io.BytesIO(response.content)).size == (side, side)
        assert "immutable" in response.headers["cache-control"]
    assert client.get(f"/i/{state.version}/100000.jpg").status_code == 404
    assert client.get("/i/00000000/0.jpg").status_code == 404
    text = client.get("/images").text
    assert text.count("<li>") == 36
    wrong = client.get("/images", params={"wrong": "1"}).text
    assert wrong.count("model:") == wrong.count("<li>") <= int((~state.service.correct).sum())
    one = client.get("/images", params={"class": "2"}).text
    assert one.count("<li>") == int((state.service.labels == 2).sum())
    assert client.get("/images", params={"page": "x"}).status_code == 422


def test_a_wish_that_cannot_be_met_is_explained(state, client):
    said = state.service.solve(state.service.with_defaults(View(image=0))).query_class
    response = client.get(f"/?i=0&t={said}")
    assert response.status_code == 422
    assert "already says" in response.text
    assert "already says" in json.loads(client.get(f"/view?i=0&t={said}").text)["error"]


def test_the_pixel_check_is_what_the_explainer_says(state, client):
    view = state.service.with_defaults(View(image=0))
    checked = state.service.explainer.pixel_check(state.service.with_pictures(view, state.service.solve(view)))
    text = client.get(f"/pixel?{view.query()}").text
    assert ("It holds in pixels" in text) == checked.pixel.flipped
    assert state.service.class_name(checked.pixel.predicted) in text
    shown = client.get(f"/composite.png?{view.query()}")
    assert shown.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(shown.content)).tobytes() == checked.composite().tobytes()


def test_a_weak_explanation_says_so_and_a_strong_one_does_not(state, client):
    view = state.service.with_defaults(View())
    assert 'class="weak"' not in client.get(f"/?{view.query()}").text
    unreached = next(
        candidate
        for k in range(len(state.service.labels))
        if not state.service.solve(
            candidate := state.service.with_defaults(View(image=k, method="goyal", edits=1))
        ).flipped
    )
    text = client.get(f"/?{unreached.query()}").text
    assert "A weak explanation." in text
    assert "do not reach" in text
    assert not re.search(r"turns? <em>", text)


def test_a_flip_that_ends_low_does_not_turn_one_class_into_another(state, client):
    low = next(
        candidate
        for k in range(len(state.service.labels))
        if (cf := state.service.solve(candidate := state.service.with_defaults(View(image=k)))).flipped
        and cf.probability < 0.5
    )
    text = client.get(f"/?{low.query()}").text
    assert "A low probability" in text
    assert not re.search(r"turns? <em>", text)


def test_a_mistake_is_headed_by_what_the_model_says_and_what_it_is(state, client):
    wrong = int((~state.service.correct).nonzero()[0][0])
    view = state.service.with_defaults(View(image=wrong))
    names = (
        state.service.class_name(int(state.service.predicted[wrong])),
        state.service.class_name(int(state.service.labels[wrong])),
    )
    assert f"it says <b>{names[0]}</b>, and this is <b>{names[1]}</b>" in client.get(f"/?{view.query()}").text
    assert 'class="mistake"' not in client.get("/").text


def test_words_are_those_of_a_first_reader(state, client):
    text = client.get("/").text
    view = state.service.with_defaults(View())
    assert "istractor" not in re.sub(r'name="[^"]*"', "", text)
    assert f"Examples of {state.service.class_name(view.target)}" in text
    folded = text[text.index('<details id="more"') : text.index("</details>", text.index('<details id="more"'))]
    assert [name for name in ("lam", "tau", "beam", "n", "edits") if f'name="{name}"' in folded] == [
        "lam",
        "tau",
        "beam",
    ]
    assert "←" not in text


def test_bars_are_green_only_where_the_model_says_the_target(state, client):
    view = state.service.with_defaults(View())
    cf = state.service.solve(view)
    text = client.get(f"/?{view.query()}").text
    reached = ["reached" in kind for kind in re.findall(r'<rect class="gain([^"]*)"', text)]
    assert reached == [step.predicted == cf.target for step in cf.trace]
    assert set(reached) == {False, True}
    css = client.get("/static/explorer.css").text
    assert ".meter .gain { fill: var(--rise); } .meter .gain.reached { fill: var(--target); }" in css
    assert f"--rise:light-dark({palette.RISE},{palette.RISE_DARK})" in client.get("/palette.css").text


def test_defaults_of_sliders_are_those_of_the_search(client):
    defaults = dict(
        re.findall(r'name="(\w+)" min=.*? data-default="([^"]*)"', client.get("/?lam=1&beam=2&tau=0.1").text)
    )
    assert float(defaults["lam"]) == SearchSettings.lam
    assert int(defaults["beam"]) == SearchSettings.beam
    assert defaults["tau"] == "0"  # "auto"


def test_colors_are_those_of_every_surface(client):
    text = client.get("/palette.css").text
    assert all(f"--edit:{color}" in text for color in palette.EDITS)
    assert f"--target:light-dark({palette.TARGET},{palette.TARGET_DARK})" in text
    assert '<link rel="stylesheet" href="/palette.css">' in client.get("/").text
