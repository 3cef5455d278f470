"""An auxiliary that learns the parts of one's own images: training, the folder it makes, and how it is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from partswap import Explainer, aviary, load_auxiliary
from partswap.analysis.matching import match_parts, measure_auxiliary
from partswap.cli.main import app
from partswap.cut.layer_extractor import LayerExtractors
from partswap.data.sets.aviary import Aviary
from partswap.data.subset import Subset
from partswap.errors import FileFormatError, LayerError, PartswapError, SettingError
from partswap.explainer.notes import PartswapWarning
from partswap.inputs.preprocess import Preprocess
from partswap.models import shipped
from partswap.models.auxiliaries import AUXILIARIES
from partswap.models.auxiliaries.auto import SELF_SUPERVISED
from partswap.models.auxiliaries.trained import find_auxiliary_for, load_trained_auxiliary, record_training
from partswap.models.checkpoints import Classifier
from partswap.models.fingerprint import model_fingerprint
from partswap.models.multi_layer import MultiLayerFeatures
from partswap.models.open import open_classifier
from partswap.models.side_by_side import SideBySide
from partswap.training.auxiliary import MatchRecipe, learn_map, match_loss, nearest_images, recurrence, train_auxiliary
from partswap.utils.notes import Note
from published_files import write
from trees import folder as write_folder

QUICK = MatchRecipe(components=48, width=24, steps=60, again=20, pairs=8, neighbours=6)
START = "aviary:vgg"


@pytest.fixture(scope="module")
def birds():
    return Subset(Aviary("train", per_class=2), range(0, 80, 2))


@pytest.fixture(scope="module")
def made(birds, tmp_path_factory):
    """A trained auxiliary, its folder and its cache."""
    folder = tmp_path_factory.mktemp("auxiliary")
    return train_auxiliary(birds, START, QUICK, folder / "aux", cache=folder / "cache"), folder / "aux"


# -- learning ---------------------------------------------------------------------------------------------------------


def test_the_map_learns_what_recurs():
    """Cells are a part's direction plus noise of another kind that is larger; matches alone must find the part."""
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(6, 8, generator=generator) * 2
    which = torch.stack([torch.randperm(6, generator=generator) for _ in range(60)])
    cells = torch.cat([parts[which], 2 * torch.randn(60, 6, 24, generator=generator)], 2)

    def right(x):
        x = F.normalize(x, dim=2)
        best = (x[:30] @ x[30:].transpose(1, 2)).argmax(2)
        return float((which[30:].gather(1, best) == which[:30]).float().mean())

    matrix, mutual = learn_map(cells, MatchRecipe(width=8, steps=300, pairs=16, neighbours=10))
    assert right(cells @ matrix.T) > right(cells) + 0.1
    assert 0 < mutual <= 1
    again, _ = learn_map(cells, MatchRecipe(width=8, steps=300, pairs=16, neighbours=10))
    assert torch.equal(matrix, again)


def test_only_mutual_matches_count():
    likeness = torch.tensor([[[0.9, 0.0], [0.8, 0.1]]])  # both cells like the first; it likes the first best
    cosine = torch.zeros(1, 2, 2, requires_grad=True)
    loss, share = match_loss(cosine, likeness, 0.1)
    assert float(share) == 0.5
    loss.backward()
    assert cosine.grad[0, 0, 0] < 0 < cosine.grad[0, 0, 1]
    assert cosine.grad[0, 1, 1] == 0


def test_cells_that_count_for_nothing_teach_nothing():
    likeness = torch.eye(3)[None]
    cosine = torch.zeros(1, 3, 3, requires_grad=True)
    weights = torch.tensor([[1.0, 0.0, 1.0]])
    loss, share = match_loss(cosine, likeness, 0.1, (weights, torch.zeros(1, 3)))
    loss.backward()
    assert float(share) == 1
    assert cosine.grad[0, 1].abs().sum() == 0
    assert cosine.grad[0, 0, 0] < 0


def test_what_recurs_is_counted():
    cells = torch.eye(4)[None].repeat(3, 1, 1)
    cells[2, 3] = cells[2, 0]  # the last image shows the first part twice, and not the last
    partners = torch.tensor([[1, 2], [0, 2], [0, 1]])
    assert recurrence(cells, partners)[0].tolist() == [1, 1, 1, 0.5]


def test_an_image_is_not_its_own_neighbour():
    cells = torch.randn(7, 4, 5, generator=torch.Generator().manual_seed(1))
    found = nearest_images(cells, 30)
    assert found.shape == (7, 6)
    assert not (found == torch.arange(7)[:, None]).any()


# -- the folder -------------------------------------------------------------------------------------------------------


def test_what_is_trained_is_read_back(made, birds):
    learned, folder = made
    read = load_auxiliary(str(folder))
    pictures = [birds.image(i) for i in range(3)]
    ours = replace(read, model=learned.model).grids(pictures)
    assert torch.equal(read.grids(pictures), ours)
    assert ours.shape[1] == 24
    assert {path.name for path in folder.iterdir()} == {"model.json", "model.safetensors"}
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000  # not the network below
    assert learned.record["images"] == 40
    assert 0 < learned.record["mutual"] <= 1
    assert learned.record["mirrored"] > 0.2


def test_a_second_call_returns_the_result_and_another_recipe_is_refused(made, birds):
    learned, folder = made
    again = train_auxiliary(birds, START, QUICK, folder, cache=folder.parent / "cache")
    assert torch.equal(again.model.basis, learned.model.basis)
    with pytest.raises(SettingError, match=r"recipe\.steps was 60 and is 61"):
        train_auxiliary(birds, START, replace(QUICK, steps=61), folder)


def test_the_same_images_give_the_same_auxiliary(made, birds, tmp_path):
    again = train_auxiliary(birds, START, QUICK, tmp_path / "aux", cache=made[1].parent / "cache")
    assert torch.equal(again.model.basis, made[0].model.basis)


def test_both_ways_a_mirrored_image_has_the_mirrored_grid(made, birds):
    read = load_auxiliary(str(made[1]))
    images = read.inputs([birds.image(i) for i in range(3)])
    assert read.model.flip_average
    assert torch.allclose(read.forward(images.flip(3)), read.forward(images).flip(3), atol=1e-5)
    one = read.model.with_options(smoothing=read.model.smoothing)
    assert torch.allclose((one(images) + one(images.flip(3)).flip(3)) / 2, read.forward(images), atol=1e-5)
    assert model_fingerprint(one) != model_fingerprint(read.model)


def test_smoothed_cells_are_partly_the_mean_of_those_around(made, birds):
    blend = load_auxiliary(str(made[1])).model
    images = load_auxiliary(str(made[1])).inputs([birds.image(0)])
    plain, smooth = blend.with_options()(images), blend.with_options(smoothing=0.4)(images)
    around = plain[:, :, :2, :2].mean((2, 3))  # of a corner: the cells that exist
    assert torch.allclose(smooth[:, :, 0, 0], 0.6 * plain[:, :, 0, 0] + 0.4 * around, atol=1e-5)


def test_one_that_looks_plainly_stays_so(birds, made, tmp_path):
    recipe = replace(QUICK, both_ways=False, smoothing=0.0, steps=2)
    learned = train_auxiliary(birds, START, recipe, tmp_path / "aux", cache=made[1].parent / "cache")
    read = load_auxiliary(str(tmp_path / "aux"))
    assert (read.model.flip_average, read.model.smoothing) == (False, 0)
    about = json.loads((tmp_path / "aux/model.json").read_text())
    for name in ("both_ways", "smoothing"):  # as those before these settings were written
        del about["record"]["recipe"][name]
    (tmp_path / "aux/model.json").write_text(json.dumps(about))
    images = [birds.image(0)]
    older = load_auxiliary(str(tmp_path / "aux"))
    assert torch.equal(older.grids(images), replace(read, model=learned.model).grids(images))


def test_a_half_written_folder_is_refused(made, tmp_path):
    (tmp_path / "aux").mkdir()
    (tmp_path / "aux/training.json").write_text('{"kind": "auxiliary"}')
    with pytest.raises(PartswapError, match="training is not finished"):
        load_auxiliary(str(tmp_path / "aux"))
    shutil.copytree(made[1], tmp_path / "other")
    (tmp_path / "other/model.safetensors").unlink()
    with pytest.raises(FileFormatError, match="no weights file"):
        load_auxiliary(str(tmp_path / "other"))


def test_other_weights_below_are_refused(made, tmp_path):
    shutil.copytree(made[1], tmp_path / "aux")
    about = json.loads((tmp_path / "aux/model.json").read_text())
    (tmp_path / "aux/model.json").write_text(json.dumps({**about, "weights": "0" * 24}))
    with pytest.raises(PartswapError, match="other weights than when"):
        load_trained_auxiliary(tmp_path / "aux")


def test_bad_input(birds, made, tmp_path):
    with pytest.raises(SettingError, match="there are 4 images to learn from"):
        train_auxiliary(Subset(birds, range(4)), START, QUICK, tmp_path)
    with pytest.raises(SettingError, match="names one layer"):
        train_auxiliary(birds, f"{START}@features.3", QUICK, tmp_path)
    with pytest.raises(LayerError, match="layer3"):
        train_auxiliary(birds, f"{START}@layer3+layer4", QUICK, tmp_path)
    with pytest.raises(SettingError, match="temperature is 0"):
        MatchRecipe(temperature=0)
    with pytest.raises(LayerError, match="trained on its own layers"):
        load_auxiliary(f"{made[1]}@features.3")


def test_images_it_does_not_know_are_said_to_be_strange(made):
    explainer = Explainer(START, auxiliary=str(made[1]))
    grids = explainer.encode([aviary.draw(k, 900 + k).image for k in range(4)]).aux
    explainer.note_familiarity(grids)
    assert "unfamiliar" not in [note.kind for note in explainer.notes]
    assert explainer.auxiliary.familiarity(grids) == pytest.approx(1, abs=0.15)
    # Cells that point away from all it knows.
    known = explainer.auxiliary.model.prototypes
    some = F.normalize(torch.randn(5000, known.shape[1], generator=torch.Generator().manual_seed(0)), dim=1)
    away = some[(some @ known.T).amax(1).argmin()][None, :, None, None].expand(2, -1, 7, 7)
    with pytest.warns(PartswapWarning, match="unlike those the auxiliary was trained on"):
        explainer.note_familiarity(away)
    explainer.note_familiarity(away)  # said once
    assert [note.kind for note in explainer.notes].count("unfamiliar") == 1


# -- how it is found --------------------------------------------------------------------------------------------------


def test_auto_takes_one_trained_on_the_images_of_the_classifier(made, birds, tmp_path, monkeypatch):
    monkeypatch.setenv("PARTSWAP_CACHE", str(tmp_path))
    record_training(made[1], birds.fingerprint())
    assert find_auxiliary_for(birds.fingerprint()) == made[1]
    assert find_auxiliary_for("other") is None
    opened = open_classifier("timm:test_resnet", write_weights(tmp_path))
    classifier = Classifier(opened.model, "x", opened.classes, opened.preprocess, record={"data": birds.fingerprint()})
    explainer = Explainer(classifier)
    assert explainer.auxiliary.name == "aux"
    assert explainer.notes == [Note("auxiliary", f"auxiliary: {made[1]}, trained on these images.")]


def write_weights(folder):
    from safetensors.torch import save_file

    from partswap.models.zoo import load_model

    path = folder / "w.safetensors"
    torch.manual_seed(0)
    save_file({k: v.contiguous() for k, v in load_model("timm:test_resnet").state_dict().items()}, path)
    return path


def test_auto_takes_the_shipped_one_for_the_shipped_networks():
    explainer = Explainer(shipped.load("vgg"), preprocess=shipped.PREPROCESS)
    assert explainer.auxiliary.name == "aviary"


def test_auto_takes_a_self_supervised_network_that_is_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTSWAP_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    model = open_classifier("timm:test_resnet", write_weights(tmp_path))
    alone = Explainer(model)
    assert alone.auxiliary.name.startswith("classifier@")
    assert "the classifier's own features" in alone.notes[0].text
    assert "partswap train auxiliary" in alone.notes[0].text
    from partswap.models.auxiliaries.dino_resnet50 import PUBLISHED

    (tmp_path / "checkpoints").mkdir()
    shutil.copy(write("dino_resnet50", tmp_path)[0], tmp_path / "checkpoints" / PUBLISHED.url.rpartition("/")[2])
    found = Explainer(model)
    assert found.auxiliary.name == "dino_resnet50"
    assert "a self-supervised network" in found.notes[0].text
    assert set(SELF_SUPERVISED) <= set(AUXILIARIES.names())


def test_the_classifiers_own_features_are_centred_and_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTSWAP_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    model = shipped.load("resnet")
    explainer = Explainer(model, auxiliary="classifier@layer3+layer4.0", preprocess=shipped.PREPROCESS)
    assert explainer.auxiliary.widths == tuple(explainer.auxiliary.model.widths)
    query, others = aviary.draw(4, 5).image, [aviary.draw(5, k).image for k in range(4)]
    cf = explainer.explain(query, others, 5, keep_misclassified=True)
    assert cf.settings["semantic"]
    assert cf.settings["temperature"] > 0
    assert explainer.verify(cf)
    # What all cells share is subtracted: a constant added to every cell changes nothing.
    encoded, donors = explainer.encode([query]), explainer.encode(others)
    shifted = [replace(e, aux=e.aux + 3) for e in (encoded, donors)]
    again = explainer.explain(*shifted, 5, keep_misclassified=True)
    assert again.edits == cf.edits


@pytest.mark.parametrize(
    ("name", "size", "cut", "expected"),
    [
        ("torchvision:resnet18", 64, "layer4.0", ["layer3", "layer4.0", "layer4"]),
        ("torchvision:vgg11", 64, "features.20", ["features.19", "features.20"]),
        ("timm:vit_tiny_patch16_224", 224, "blocks.9", ["blocks.7", "blocks.9", "norm"]),
        ("timm:convnext_atto", 64, "stages.3.blocks.0", ["stages.3.downsample.0", "stages.3.blocks.0", "stages.3"]),
    ],
)
def test_layers_that_know_different_things(name, size, cut, expected):
    from partswap.cut.layer_extractor import default_auxiliary_layers
    from partswap.models.zoo import load_model

    found = default_auxiliary_layers(load_model(name), size, cut)
    assert found[:2] == expected[:2]
    assert len(found) == len(expected)


# -- measuring --------------------------------------------------------------------------------------------------------


def test_matching_is_measured_where_there_are_keypoints(made, tmp_path):
    data = Subset(Aviary("test", per_class=3), range(60))
    shutil.copytree(made[1], tmp_path / "aux")
    measure_auxiliary(made[0], data, tmp_path / "aux", cache=made[1].parent / "cache")
    told = json.loads((tmp_path / "aux/parts.json").read_text())
    assert told["images"] == 60
    assert 0.1 < told["right"] <= 1
    assert set(told["clustering"]) == {"15", "50", "250"}


def test_a_perfect_auxiliary_matches_every_part():
    from partswap.data.on_grid import CellFacts

    names = ["beak", "eye", "tail", "wing"]
    facts = [CellFacts(tuple(frozenset({name}) for name in names), None, None)] * 8
    grids = torch.eye(4).reshape(1, 4, 2, 2).expand(8, -1, -1, -1)
    right, mass = match_parts(grids, facts, [0, 0, 0, 0, 1, 1, 1, 1])
    assert right == 1
    assert mass > 0.99
    shuffled = grids.clone()
    shuffled[4:] = grids[4:].flip(1)
    assert match_parts(shuffled, facts, [0, 0, 0, 0, 1, 1, 1, 1])[0] == 0


def test_on_the_command_line(tmp_path):
    images = write_folder(tmp_path / "photos")
    command = ["train", "auxiliary", "--data", "folder", "--path", str(images), "--start", START, "--steps", "5"]
    command += ["--out", str(tmp_path / "aux"), "--cache", str(tmp_path / "cache")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert isinstance(load_auxiliary(str(tmp_path / "aux")).model, MultiLayerFeatures)


# -- several networks side by side ------------------------------------------------------------------------------------


def test_networks_side_by_side_see_images_as_they_want_them():
    torch.manual_seed(0)
    one, two = (nn.Sequential(nn.Conv2d(3, 4, 8, 8), nn.ReLU()).eval() for _ in range(2))
    first = Preprocess(32, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    second = Preprocess(64, mean=(0.5, 0.5, 0.5), std=(0.5, 0.25, 0.5))
    both = SideBySide([one, two], [first, replace(second, size=32)])
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8))
    own, theirs = first.tensor(image)[None], replace(second, size=32).tensor(image)[None]
    grids = LayerExtractors(both, ["networks.0.1", "networks.1.1"], size=32)(own)
    assert torch.allclose(grids[0], one(own), atol=1e-5)
    assert torch.allclose(grids[1], two(theirs), atol=1e-5)
    # Another size is resized to.
    larger = LayerExtractors(SideBySide([one, two], [first, second]), ["networks.0.1", "networks.1.1"], size=32)(own)
    assert larger[0].shape[2:] == (4, 4)
    assert larger[1].shape[2:] == (8, 8)


def test_two_networks_are_reduced_alike_and_come_back_from_the_folder(birds, tmp_path):
    start = "aviary:vgg,aviary:resnet"
    made = train_auxiliary(birds, start, QUICK, tmp_path / "aux", cache=tmp_path / "cache")
    assert {layer.split(".")[1] for layer in made.layers} == {"0", "1"}
    assert made.model.basis.shape[1] == 2 * QUICK.components
    assert made.model.projection.shape == (2 * QUICK.components, QUICK.width)
    canvases = [birds.image(k) for k in range(3)]
    again = load_auxiliary(str(tmp_path / "aux"))
    grids = again.grids(canvases)
    assert grids.shape[1] == QUICK.width
    # Each network's part has length 1 before the map, whatever it is made of.
    plain = made.model.with_state(made.model.mean, made.model.basis, made.model.offset, projection=torch.zeros(0, 0))
    parts = plain(again.inputs(canvases)).split(QUICK.components, 1)
    assert all(torch.allclose(part.norm(dim=1), torch.ones(3, *part.shape[2:]), atol=1e-4) for part in parts)
    assert torch.allclose(grids, torch.einsum("nchw,ce->nehw", torch.cat(parts, 1), made.model.projection), atol=1e-5)
    # One network of the two is not the map of the other.
    own = sum(made.model.widths[layer] for layer in made.model.networks[0])
    assert not made.model.basis[:own, QUICK.components :].any()
    with pytest.raises(SettingError, match=r"made of 2 networks, and 1 files"):
        load_trained_auxiliary(tmp_path / "aux", "one.safetensors")
