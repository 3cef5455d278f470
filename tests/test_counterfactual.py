import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from partswap import Counterfactual, Edit, GridShape, Step, find_counterfactual
from partswap.errors import ClassIndexError, FileFormatError, SettingError, ShapeError
from partswap.utils.notes import Note

finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def counterfactuals(draw):
    grid = GridShape(draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    n = draw(st.integers(1, 4))
    cells = st.tuples(st.integers(0, grid.cells - 1), st.integers(0, grid.cells * n - 1))
    edits = draw(st.lists(cells, max_size=4))
    steps = draw(st.lists(st.tuples(finite, st.integers(0, 9), finite), min_size=len(edits), max_size=len(edits)))
    return Counterfactual(
        query_class=draw(st.integers(0, 9)),
        target=draw(st.integers(0, 9)),
        grid=grid,
        distractors=n,
        edits=tuple(Edit(i, j, j // grid.cells) for i, j in edits),
        before=Step(draw(finite), 1),
        trace=tuple(Step(*s) for s in steps),
        flipped=draw(st.booleans()),
        method="goyal",
        settings={"lam": draw(finite), "keep": None},
        source={"class_names": {"1": draw(st.text())}},
        evaluations=draw(st.integers(0, 10**9)),
        seconds=draw(finite),
    )


@given(counterfactuals())
def test_json_round_trips_exactly(cf):
    assert Counterfactual.from_dict(json.loads(json.dumps(cf.to_dict()))) == cf


def test_files_round_trip_and_leave_nothing_half_written(tmp_path, problem):
    cf = find_counterfactual(**problem)
    path = cf.save(tmp_path / "new" / "why.json")
    assert Counterfactual.load(path) == cf
    assert [p.name for p in path.parent.iterdir()] == ["why.json"]


def test_reasons_have_a_kind_and_files_with_their_text_alone_are_read(problem):
    reasons = {"target_from": Note("distractors", "4 of 6 distractors"), "gave_up": Note("unreachable", "nothing does")}
    cf = replace(find_counterfactual(**problem), source=reasons)
    assert Counterfactual.from_dict(json.loads(json.dumps(cf.to_dict()))) == cf
    old = {**cf.to_dict(), "source": {"target_from": "given", "gave_up": "nothing does"}}
    read = Counterfactual.from_dict(old).source
    assert read.target_from.kind == "given"
    assert (str(read.gave_up), read.gave_up.kind) == ("nothing does", "unknown")
    with pytest.raises(FileFormatError, match="damaged"):
        Counterfactual.from_dict({**old, "source": {"gave_up": {"text": "nothing does"}}})


def written_by(version: int) -> dict[str, object]:
    """Return a counterfactual as the given version of the schema writes it."""
    steps: list[dict[str, object]] = [
        {"probability": 0.1, "predicted": 3, "objective": None},
        {"probability": 0.8, "predicted": 5, "objective": -0.2},
    ]
    source: dict[str, object] = {
        "partswap": "0.1.0", "evaluator": "pooled", "query": "a.png", "distractors": ["b.png", "c.png"],
        "distractor_indices": [0, 2], "model": None, "layer": "features", "auxiliary": None,
        "seen": {
            "canvas": [8, 8], "query": {"size": [10, 8], "box": [1.0, 0.0, 9.0, 8.0]}, "distractors": [None, None],
        },
        "preprocess": {"size": [8, 8]}, "target_from": "given", "class_names": {"3": "crow", "5": "wren"},
    }  # fmt: skip
    data: dict[str, object] = {
        "schema": "partswap.counterfactual", "version": version, "query_class": 3, "target": 5, "grid": [2, 2],
        "distractors": 2, "edits": [{"query_cell": 1, "distractor_cell": 6, "distractor_image": 1}],
        "before": steps[0], "trace": steps[1:], "flipped": True, "method": "goyal", "settings": {"lam": 0.2},
        "source": source, "evaluations": 7, "seconds": 0.5,
    }  # fmt: skip
    if version >= 2:
        steps[0]["own"], steps[1]["own"] = 0.9, 0.1
    if version >= 3:
        data["words"] = None
    if version >= 4:
        data["pixel"] = {"before": 0.1, "after": 0.7, "predicted": 5, "flipped": True}
        source["target_from"] = {"kind": "given", "text": "given"}
    return data


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_files_of_every_version_are_read(version):
    cf = Counterfactual.from_dict(written_by(version))
    source = cf.source
    assert (source.version, source.query, source.layer) == ("0.1.0", "a.png", "features")
    assert source.target_from.kind == "given"
    assert (cf.class_name(5), cf.distractor_name(1), source.distractor_indices) == ("wren", "c.png", [0, 2])
    assert cf.edits[0].query_box == (5.0, 0.0, 9.0, 4.0)  # from the frame that the file holds
    assert cf.before.original_class_probability == (None if version == 1 else 0.9)
    assert (cf.pixel is not None) == (version == 4)
    assert Counterfactual.from_dict(json.loads(json.dumps(cf.to_dict()))) == cf
    if version == 4:
        assert json.loads(json.dumps(cf.to_dict())) == {**written_by(4), "words": None}


def test_what_a_later_version_knows_of_the_source_is_written_again():
    data = written_by(4)
    data["source"] = {**data["source"], "camera": {"name": "x"}}
    cf = Counterfactual.from_dict(data)
    assert cf.source.extra == {"camera": {"name": "x"}}
    assert cf.to_dict()["source"] == data["source"]


@pytest.mark.parametrize("key", ["query", "distractors", "seen", "class_names", "label"])
def test_a_source_of_the_wrong_type_is_a_clear_error(key):
    data = written_by(4)
    data["source"] = {**data["source"], key: 0.5}
    with pytest.raises(FileFormatError, match=key):
        Counterfactual.from_dict(data)
    with pytest.raises(SettingError, match=key):
        replace(Counterfactual.from_dict(written_by(4)), source={key: 0.5})


def test_former_names_work_and_say_the_new_ones():
    cf, data = Counterfactual.from_dict(written_by(4)), written_by(4)["source"]
    with pytest.warns(DeprecationWarning, match=r"source\['seen'\]"):
        assert cf.source["seen"] == data["seen"]
    with pytest.warns(DeprecationWarning, match="has attributes"):
        assert cf.source.get("gave_up", "no") == "no"
    with pytest.warns(DeprecationWarning, match="has attributes"):
        assert {**cf.source} == data | {"target_from": Note("given", "given")}
    with pytest.warns(DeprecationWarning, match="has attributes"), pytest.raises(KeyError):
        cf.source["gave_up"]
    with pytest.warns(DeprecationWarning, match="target_probability"):
        assert cf.before.probability == 0.1
    with pytest.warns(DeprecationWarning, match="original_class_probability"):
        assert cf.before.own == 0.9
    images = [Image.new("RGB", (8, 8), "teal")] * 3
    attached = cf.with_images(images[0], images[1:])
    with pytest.warns(DeprecationWarning, match="outlined"):
        assert attached.image().size == (8, 8)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_a_half_written_file_is_a_clear_error(tmp_path, problem, share):
    path = find_counterfactual(**problem).save(tmp_path / "why.json")
    text = path.read_text()
    path.write_text(text[: int(len(text) * share)])
    with pytest.raises(FileFormatError, match=r"why.json is not complete JSON"):
        Counterfactual.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "not a partswap counterfactual"),
        ({"version": 99}, "schema version 99"),
        ({"edits": [{"query_cell": 1}]}, "damaged"),
        ({"edits": [{"query_cell": 900, "distractor_cell": 0, "distractor_image": 0}], "trace": []}, "damaged"),
        ({"surprise": 1}, "damaged"),
        ({"grid": [0, 7]}, "damaged"),
        ({"before": {"probability": "x", "predicted": 1}}, "damaged"),
        ({"source": None}, "damaged"),
        ({"query_class": 0.5}, "damaged"),
    ],
)
def test_a_foreign_file_is_a_clear_error(tmp_path, problem, change, message):
    path = tmp_path / "why.json"
    path.write_text(json.dumps(find_counterfactual(**problem).to_dict() | change))
    with pytest.raises(FileFormatError, match=message):
        Counterfactual.load(path)


def test_a_list_is_not_a_counterfactual_and_a_missing_file_is_named(tmp_path):
    (tmp_path / "a.json").write_text("[1, 2]")
    with pytest.raises(FileFormatError, match="not a partswap counterfactual"):
        Counterfactual.load(tmp_path / "a.json")
    with pytest.raises(FileFormatError, match=r"no file .*b.json"):
        Counterfactual.load(tmp_path / "b.json")
    with pytest.raises(FileFormatError, match="is a folder"):
        Counterfactual.load(tmp_path)


def test_edits_that_do_not_fit_the_grid_are_refused():
    with pytest.raises(SettingError, match="does not fit"):
        Counterfactual(0, 1, GridShape(2, 2), 1, (Edit(0, 4, 1),), Step(0.1, 0), (Step(0.9, 1, 0.0),), True)


def test_an_edit_says_which_image_and_which_cell_of_it():
    grid = GridShape(3, 4)
    edit = Edit.of(5, 2 * 12 + 7, grid)
    assert (edit.distractor_image, edit.image_cell) == (2, 7)
    bare = Edit(5, 2 * 12 + 7, 2)
    assert bare == edit
    with pytest.raises(SettingError, match="of no counterfactual"):
        assert bare.image_cell
    cf = Counterfactual(0, 1, grid, 3, (bare,), Step(0.1, 0), (Step(0.9, 1, 0.0),), True)
    assert cf.edits[0].image_cell == 7
    assert set(cf.to_dict()["edits"][0]) == {"query_cell", "distractor_cell", "distractor_image"}
    assert Counterfactual.from_dict(cf.to_dict()).edits[0].image_cell == 7


def test_nobody_else_takes_a_distractor_cell_apart():
    source = Path(__file__).parents[1] / "src/partswap"
    apart = re.compile(r"(cell|donor|\bj)\b *(%|//) *\S*cells")
    assert [str(file) for file in source.rglob("*.py") if apart.search(file.read_text())] == []


def test_it_prints_what_was_swapped():
    cf = Counterfactual(0, 1, GridShape(7, 7), 2, (Edit(8, 50, 1),), Step(0.1, 0), (Step(0.9, 1, 0.0),), True)
    assert "query (row 2, column 2) -> distractor 1 (row 1, column 2)" in str(cf)  # the first that is used
    assert "class 0 -> class 1 in 1 edit" in str(cf)


def test_what_it_prints_fits_a_terminal():
    names = {0: "a bird with a name that is long", 1: "Black-throated Blue Warbler of the northern woods"}
    source = {"class_names": {str(k): name for k, name in names.items()}, "distractors": ["a" * 30 + ".jpg"]}
    cf = Counterfactual(
        0, 1, GridShape(7, 7), 1, (Edit(8, 48, 0),), Step(0.1, 0), (Step(0.9, 1, 0.0),), True, source=source
    )
    said = str(cf)
    assert all(len(line) <= 80 for line in said.splitlines())
    assert " ".join(said.split()).endswith(f"p = 0.90 the model now says {names[1]}")
    assert "\n     column 7)   p = 0.90" in said


def test_verify_confirms_the_truth_and_refuses_a_lie(problem):
    cf = find_counterfactual(**problem)
    grids = problem["head"], problem["query"], problem["distractors"]
    assert cf.verify(*grids)
    other = torch.randn_like(problem["query"])
    assert not cf.verify(problem["head"], other, problem["distractors"])
    with pytest.raises(ShapeError, match="same query and distractors"):
        cf.verify(problem["head"], problem["query"], problem["distractors"][:2])
    small = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8 * 49, cf.target))
    with pytest.raises(ClassIndexError, match="but the head has"):
        cf.verify(small, *grids[1:])


def test_notebooks_show_pictures_and_escape_names(problem):
    cf = find_counterfactual(**problem)
    assert cf._repr_html_().count("<svg") == 1 + len({e.distractor_image for e in cf.edits})
    named = Counterfactual.from_dict(
        cf.to_dict() | {"source": {"class_names": {str(cf.target): "<script>alert(1)</script>"}}}
    )
    assert "<script>" not in named._repr_html_()
    images = [Image.new("RGB", (224, 224), "teal")] * 4
    assert "data:image/jpeg" in cf.with_images(images[0], images)._repr_html_()


def test_plot_needs_images_and_writes_a_file(tmp_path, problem):
    cf = find_counterfactual(**problem)
    with pytest.raises(SettingError, match="with_images"):
        cf.plot()
    with pytest.raises(ShapeError, match="3 distractor images"):
        cf.with_images(Image.new("RGB", (8, 8)), [Image.new("RGB", (8, 8))] * 3)
    images = [Image.new("RGB", (224, 224), "teal")] * 4
    cf.with_images(images[0], images).plot(tmp_path / "why.png")
    assert Image.open(tmp_path / "why.png").size[0] > 300
