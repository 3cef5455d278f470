"""Parts: the detector, clustering into parts, the auxiliary table, tuning."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from partswap.analysis.clustering import cluster_parts, draw_clusters, name_clusters
from partswap.analysis.tune import Point, knee, pareto, tune
from partswap.data.geometry import on_canvas
from partswap.data.on_grid import CellFacts
from partswap.data.sets.aviary import Aviary
from partswap.data.sets.folder import Folder
from partswap.data.subset import Subset
from partswap.errors import DataError, FileFormatError, LayerError, PartswapError, SettingError, ShapeError
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries import AuxiliaryChoice, load_auxiliary
from partswap.models.open import open_classifier
from partswap.models.parts import load_detector
from partswap.models.zoo import load_model
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.search.clusters import directions
from partswap.training.loop import Recipe
from partswap.training.parts import average_precisions, cell_loss, mirrored_targets, part_targets, train_parts
from partswap.training.plan import TrainingPlan

GRID = GridShape(2, 2)


def facts(*cells):
    return CellFacts(tuple(frozenset(c) for c in cells), None, None)


# -- clustering -----------------------------------------------------------------------------------------------------


def test_a_cluster_takes_its_majority_part():
    known = [facts(["eye"], ["tail"], [], ["eye", "beak"]), facts(["eye"], ["beak"], ["tail"], [])]
    assigned = np.array([[0, 1, 2, 0], [0, 0, 1, 2]], np.int32)
    found = name_clusters(assigned, known, 3)
    assert found.parts == ["eye", "tail", None]
    # Six cells hold a keypoint; only the beak in cluster 0 is wrong.
    assert found.accuracy == pytest.approx(5 / 6)
    with pytest.raises(SettingError, match="no cell"):
        name_clusters(assigned, [facts([], [], [], [])] * 2, 3)


@given(seed=st.integers(0, 1000))
def test_parts_with_directions_of_their_own_are_found(seed):
    rng = np.random.default_rng(seed)
    parts = ["beak", "eye", "tail", "wing"]
    held = rng.integers(4, size=(30, 4))
    grids = np.zeros((30, 8, 2, 2), np.float32)
    for image in range(30):
        for cell in range(4):
            grids[image, :, cell // 2, cell % 2] = rng.normal(scale=0.05, size=8)
            grids[image, held[image, cell], cell // 2, cell % 2] += rng.uniform(1, 9)  # length must not matter
    known = [facts(*([parts[p]] for p in row)) for row in held]
    assert cluster_parts(grids, known, 12, seed=0).accuracy > 0.95
    assert np.allclose(np.linalg.norm(directions(grids), axis=1), 1, atol=1e-5)


def test_more_clusters_than_cells_are_refused():
    with pytest.raises(SettingError, match="cannot make"):
        cluster_parts(np.ones((1, 3, 2, 2), np.float32), [facts(["a"], [], [], [])], 5)


# -- the detector ---------------------------------------------------------------------------------------------------


def test_targets_are_the_parts_each_cell_holds():
    data = Aviary("test", per_class=1)
    grid = GridShape(7, 7)
    targets = part_targets(data[0], data.parts, grid)
    assert targets.shape == (len(data.parts), 7, 7)
    for part, points in data[0].keypoints.items():
        for x, y in points:
            assert targets[list(data.parts).index(part), int(y / 32), int(x / 32)]


def test_a_left_eye_is_a_right_eye_in_the_mirror():
    targets = torch.zeros(1, 3, 2, 2, dtype=torch.bool)
    targets[0, 0, 0, 0] = targets[0, 2, 1, 0] = True
    seen = mirrored_targets(targets, ["left eye", "right eye", "tail"])
    assert seen.nonzero().tolist() == [[0, 1, 0, 1], [0, 2, 1, 1]]


def test_the_loss_sees_only_cells_with_keypoints():
    logits = torch.randn(1, 3, 2, 2)
    targets = torch.zeros(1, 3, 2, 2, dtype=torch.bool)
    targets[0, 1, 0, 0] = True
    expected = nn.functional.cross_entropy(logits[:, :, 0, 0], torch.tensor([1]))
    assert cell_loss(logits, targets) == pytest.approx(float(expected))
    changed = logits.clone()
    changed[:, :, 1, 1] += 100
    assert cell_loss(changed, targets) == pytest.approx(float(expected))
    assert float(cell_loss(logits, torch.zeros_like(targets))) == 0


def test_average_precision_of_a_perfect_detector_is_one():
    truth = np.eye(3, dtype=bool)[[0, 1, 1, 0]]
    found = average_precisions(truth.astype(float), truth, ["a", "b", "c"])
    assert found == {"a": 1.0, "b": 1.0}  # nothing holds c


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """A detector of a few drawn birds; it hardly learns in this time, but everything runs."""
    out = tmp_path_factory.mktemp("detector")
    sets = Subset(Aviary("train", per_class=2), range(60)), Subset(Aviary("test", per_class=1), range(20))
    plan = TrainingPlan("timm:test_resnet", None, "layer1", views=2)
    recipe = Recipe(epochs=4, batch=16, lr=0.1, schedule="cosine")
    return out, train_parts(*sets, plan, recipe, out / "net", layer="layer2", cache=out / "cache"), sets, plan, recipe


def mean_ap(detector, data):
    """The score of a detector, image by image, from the logits of the whole network."""
    scores, truth = [], []
    for sample in data:
        with torch.no_grad():
            found = detector.model(detector.preprocess(sample.image)[0][None])[0].softmax(0).flatten(1).T
        targets = part_targets(on_canvas(sample, detector.preprocess), data.parts, detector.model.grid).flatten(1).T
        scores.append(found[targets.any(1)].numpy())
        truth.append(targets[targets.any(1)].numpy())
    return np.mean(list(average_precisions(np.concatenate(scores), np.concatenate(truth), data.parts).values()))


def test_a_detector_learns_is_saved_and_read_back(detector):
    out, made, sets, plan, recipe = detector
    assert made.record["mean_ap"] == pytest.approx(mean_ap(made, sets[1]), abs=0.005)
    assert made.record["history"][-1]["loss"] < made.record["history"][0]["loss"]
    read = load_detector(out / "net")
    image = made.preprocess(sets[1].image(0))[0][None]
    assert torch.allclose(read.model(image), made.model(image), atol=1e-5)
    again = train_parts(*sets, plan, recipe, out / "net", layer="layer2", cache=out / "cache")
    assert again.record["mean_ap"] == made.record["mean_ap"]


def test_a_detector_trains_from_images_too(detector, tmp_path):
    sets = Subset(Aviary("train", per_class=1), range(8)), Subset(Aviary("test", per_class=1), range(4))
    made = train_parts(
        *sets, TrainingPlan("timm:test_resnet", None), Recipe(epochs=1, batch=8), tmp_path, layer="layer2"
    )
    assert made.record["mean_ap"] == pytest.approx(mean_ap(made, sets[1]), abs=0.005)


def test_a_detector_is_an_auxiliary(detector):
    folder = detector[0] / "net"
    image = Aviary("test", per_class=1).image(0)
    backbone, logits = load_auxiliary("parts", weights=folder), load_auxiliary("parts", weights=folder, layer="parts")
    assert backbone.grids([image]).shape[1] > 12
    assert logits.grids([image]).shape[1] == 12
    with pytest.raises(LayerError, match="no layer 'layer9'"):
        load_auxiliary("parts", weights=folder, layer="layer9")
    with pytest.raises(SettingError, match="no official weights"):
        load_auxiliary("parts")


def test_wrong_folders_and_data_without_keypoints_are_named(detector, tmp_path):
    with pytest.raises(PartswapError, match="holds no trained network"):
        load_detector(tmp_path)
    with pytest.raises(FileFormatError, match="not about a classifier"):
        open_classifier(str(detector[0] / "net"))
    (tmp_path / "a").mkdir()
    Aviary("test", per_class=1).image(0).save(tmp_path / "a" / "0.png")
    plain = Folder(tmp_path, "all")
    with pytest.raises(SettingError, match="no keypoints"):
        train_parts(
            plain, plain, TrainingPlan("timm:test_resnet", None), Recipe(epochs=1), tmp_path / "out", layer="layer2"
        )


# -- the table and tuning -------------------------------------------------------------------------------------------


def test_tuning_needs_an_auxiliary_a_method_with_settings_and_keypoints(tmp_path):
    config = RunConfig(data="aviary", model="aviary:vgg", auxiliary="none", cache=tmp_path, options={"per_class": 1})
    bench = open_run_context(config)
    with pytest.raises(SettingError, match="no auxiliary"):
        tune(bench)
    with pytest.raises(SettingError, match="has no lam"):
        tune(bench.with_auxiliary(AuxiliaryChoice("aviary")), method="goyal")


def test_a_classifier_of_other_classes_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    Aviary("test", per_class=1).image(0).save(tmp_path / "a" / "0.png")
    with pytest.raises(ShapeError, match="40 classes and the data set 1"):
        open_run_context(RunConfig(data="folder", path=tmp_path, model="aviary:vgg", split="all"))


def test_a_classifier_with_classes_in_another_order_is_refused(tmp_path):
    birds = Aviary("test", per_class=1)
    for index in range(40):
        name = birds.classes[{3: 7, 7: 3}.get(index, index)]
        (tmp_path / f"{index:03d}.{name}").mkdir()
        birds.image(index).save(tmp_path / f"{index:03d}.{name}" / "0.png")
    with pytest.raises(DataError, match=f"class 3 of the classifier is '{birds.classes[3]}'.*'{birds.classes[7]}'"):
        open_run_context(RunConfig(data="folder", path=tmp_path, model="aviary:vgg", split="all"))
    weights = str(tmp_path / "weights.safetensors")
    save_file(load_model("timm:test_resnet", classes=40).state_dict(), weights)
    with pytest.raises(SettingError, match="timm:test_resnet has no weights"):
        open_run_context(RunConfig(data="folder", path=tmp_path, model="timm:test_resnet", split="all"))
    config = RunConfig(data="folder", path=tmp_path, model="timm:test_resnet", weights=weights, split="all")
    zoo = open_run_context(config)
    assert list(zoo.classifier.classes)[3] == birds.classes[7]  # it knows no names of its own


POINTS = st.lists(st.tuples(st.floats(0, 1), st.floats(1, 9)), min_size=1, max_size=12)


@given(POINTS)
def test_the_knee_is_on_the_front_and_nothing_beats_the_front(raw):
    points = [Point(0, 0, same, 0, edits, 1) for same, edits in raw]
    front = pareto(points)
    assert knee(points) in front
    for p in points:
        assert p in front or any(q.same_kp >= p.same_kp and q.edits <= p.edits for q in front)


def test_the_knee_is_where_more_edits_stop_paying():
    points = [Point(0, 0.1, 0.1, 0, 2.0, 1), Point(0.2, 0.1, 0.4, 0, 2.3, 1), Point(0.8, 0.1, 0.45, 0, 6.0, 1)]
    assert knee(points).lam == 0.2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("swav", AuxiliaryChoice("swav")),
        ("swav@layer3", AuxiliaryChoice("swav", None, "layer3")),
        ("moco=a/b.pth", AuxiliaryChoice("moco", "a/b.pth")),
        ("moco=a/b.pth@layer4.0", AuxiliaryChoice("moco", "a/b.pth", "layer4.0")),
        ("timm:resnet18", AuxiliaryChoice("timm:resnet18")),
    ],
)
def test_auxiliaries_are_read_from_one_word(text, expected):
    assert AuxiliaryChoice.parse(text) == expected


def test_cluster_pictures_are_drawn(tmp_path):
    data = Subset(Aviary("test", per_class=1), range(4))
    assigned = np.zeros((4, 4), np.int32)
    assigned[:, 3] = 1
    clusters = name_clusters(assigned, [facts(["eye"], ["eye"], [], ["tail"])] * 4, 2)
    figure = draw_clusters(data, Preprocess(224), clusters, GRID, columns=4)
    figure.savefig(tmp_path / "c.png")
    assert (tmp_path / "c.png").stat().st_size > 5_000
