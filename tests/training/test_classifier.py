"""Training: the recipe, resuming, refusing, and the same result after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from typer.testing import CliRunner

from partswap import _vision
from partswap.cli.main import app
from partswap.data.sets.aviary import Aviary
from partswap.data.subset import Subset, held_out
from partswap.errors import FileFormatError, NonFiniteError, PartswapError, SettingError
from partswap.models.checkpoints import load_classifier
from partswap.models.open import start_of
from partswap.models.zoo import load_model
from partswap.training.classifier import LEARNING_RATES, start_pooled, train_classifier
from partswap.training.loop import Recipe, at_lr, fit, search_lr, shuffled
from partswap.training.plan import TrainingPlan

RECIPE = Recipe(epochs=3, batch=8, lr=0.05)
X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))


def batches(epoch, first):
    order = shuffled(40, 0, epoch)
    for start in range(8 * first, 40, 8):
        yield X[order[start : start + 8]], Y[order[start : start + 8]]


def train(model, folder, recipe=RECIPE, **options):
    return fit(model, batches, 5, recipe, folder, loss=F.cross_entropy, **options)


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


class KilledError(Exception):
    pass


def dies_after(count):
    """Batches that stop in the middle of everything."""
    left = count

    def some(epoch, first):
        nonlocal left
        for batch in batches(epoch, first):
            if left == 0:
                raise KilledError
            left -= 1
            yield batch

    return some


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("steps", [3, 5, 12])
def test_a_killed_training_ends_where_a_whole_one_does(tmp_path, optimizer, steps):
    recipe = replace(RECIPE, optimizer=optimizer, lr=0.01)
    whole = network()
    history = train(whole, tmp_path / "whole", recipe)
    assert len(history) == 3
    cut = network()
    with pytest.raises(KilledError):
        fit(cut, dies_after(steps), 5, recipe, tmp_path / "cut", loss=F.cross_entropy, checkpoint_minutes=0)
    resumed = network()
    nn.init.zeros_(resumed[0].weight)  # it must come from the checkpoint
    train(resumed, tmp_path / "cut", recipe)
    assert same(whole, resumed)


def test_the_learning_rate_falls_at_seventy_and_ninety_per_cent():
    scales = [Recipe().scale(step, 100) for step in range(100)]
    assert scales[:70] == [1.0] * 70
    assert scales[70:90] == pytest.approx([0.1] * 20)
    assert scales[90:] == pytest.approx([0.01] * 10)
    cosine = [Recipe(schedule="cosine").scale(step, 100) for step in range(100)]
    assert cosine[10] == 1.0
    assert cosine[0] < 0.1
    assert cosine[99] < 0.01


def test_what_a_killed_training_left_half_written_goes_with_the_next(tmp_path):
    for name in (".model.safetensors.1-00.tmp", ".checkpoint-0001-000000.safetensors.1-00.tmp"):
        (tmp_path / name).touch()
    train(network(), tmp_path)
    assert not list(tmp_path.glob(".*.tmp"))


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    with pytest.raises(KilledError):
        fit(network(), dies_after(7), 5, RECIPE, tmp_path, loss=F.cross_entropy)
    with pytest.raises(SettingError, match=r"recipe\.lr was 0\.05 and is 0\.1"):
        train(network(), tmp_path, replace(RECIPE, lr=0.1))


def test_a_lost_checkpoint_is_named(tmp_path):
    with pytest.raises(KilledError):
        fit(network(), dies_after(7), 5, RECIPE, tmp_path, loss=F.cross_entropy)
    next(tmp_path.glob("checkpoint-*")).unlink()
    with pytest.raises(FileFormatError, match="is gone"):
        train(network(), tmp_path)


def test_a_diverged_training_says_so(tmp_path):
    with pytest.raises(NonFiniteError, match="Lower the learning rate"):
        train(network(), tmp_path, replace(RECIPE, lr=1e38, epochs=5))


def test_frozen_parameters_and_modules_stay(tmp_path):
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model[0].requires_grad_(False)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    train(model, tmp_path, frozen=[model[1]])
    after = model.state_dict()
    assert torch.equal(before["0.weight"], after["0.weight"])
    assert torch.equal(before["1.running_mean"], after["1.running_mean"])
    assert not torch.equal(before["2.weight"], after["2.weight"])
    model.requires_grad_(False)
    with pytest.raises(SettingError, match="every layer is frozen"):
        train(model, tmp_path / "none")


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"lr": -1}, {"optimizer": "lion"}, {"schedule": "up"}, {"seed": -1}])
def test_a_recipe_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(SettingError):
        Recipe(**wrong)


def test_the_best_learning_rate_wins_and_divergence_loses():
    def trial(recipe):
        if recipe.lr > 0.02:
            raise NonFiniteError("the loss is nan")
        assert recipe.new_lr == pytest.approx(10 * recipe.lr)
        return {0.001: 0.3, 0.01: 0.5}[recipe.lr]

    assert search_lr([0.03, 0.01, 0.001], Recipe(lr=0.01, new_lr=0.1), trial) == 0.01


def test_a_recipe_at_another_rate_keeps_the_proportion():
    assert at_lr(Recipe(lr=0.01), 0.1) == Recipe(lr=0.1)
    assert at_lr(Recipe(lr=0.01, new_lr=0.05), 0.1).new_lr == pytest.approx(0.5)


def test_one_training_at_a_time_writes_to_a_folder(tmp_path):
    def meanwhile(epoch, first):
        with pytest.raises(PartswapError, match="another process is training"):
            train(network(), tmp_path)
        yield from batches(epoch, first)

    fit(network(), meanwhile, 5, replace(RECIPE, epochs=1), tmp_path, loss=F.cross_entropy)


# -- classifiers ----------------------------------------------------------------------------------------------------

TRAIN, TEST = Aviary("train", per_class=2), Aviary("test", per_class=1)
SMALL = Recipe(epochs=2, batch=16, lr=0.01)


@pytest.mark.parametrize("freeze", [None, "layer3"])
def test_a_classifier_is_trained_saved_and_read_back(tmp_path, freeze):
    plan = TrainingPlan("timm:test_resnet", None, freeze, views=2)
    few = Subset(TRAIN, range(24)), Subset(TEST, range(12))
    trained = train_classifier(*few, plan, SMALL, tmp_path / "out", cache=tmp_path / "cache")
    assert len(trained.record["history"]) == 2
    read = load_classifier(tmp_path / "out")
    image = trained.preprocess(TEST.image(0))[0][None]
    assert torch.allclose(read.model(image), trained.model(image), atol=1e-5)
    assert read.classes == TRAIN.classes
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["model.json", "model.safetensors"]
    stamp = (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns
    train_classifier(*few, plan, SMALL, tmp_path / "out", cache=tmp_path / "cache")
    assert (tmp_path / "out" / "model.safetensors").stat().st_mtime_ns == stamp
    for other in (replace(plan, views=3), SMALL), (plan, replace(SMALL, lr=0.02)):
        with pytest.raises(SettingError, match=r"made otherwise \((plan.views was 2|recipe.lr was 0.01) and is"):
            train_classifier(*few, *other, tmp_path / "out", cache=tmp_path / "cache")


def test_a_layer_that_reads_a_grid_can_start_as_if_it_were_averaged():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.Flatten(), nn.Linear(4 * 15 * 15, 5), nn.Linear(5, 2))
    start_pooled(network, ["2.weight", "3.weight"], 31)
    grids = torch.randn(2, 4, 15, 15)
    assert torch.allclose(
        network[2](grids.flatten(1)),
        network[2](grids.mean((2, 3), keepdim=True).expand_as(grids).flatten(1)),
        atol=1e-5,
    )
    assert network[2].weight.std() > 0
    with pytest.raises(SettingError, match="no new linear layer"):
        start_pooled(network, ["3.weight"], 31)
    with pytest.raises(SettingError, match="no new linear layer"):
        start_pooled(load_model("timm:test_resnet"), ["fc.weight"], 64)


def test_a_trained_folder_explains_a_file(tmp_path):
    plan = TrainingPlan("timm:test_resnet", None, "layer3", views=1)
    few = Subset(TRAIN, range(8)), Subset(TEST, range(4))
    trained = train_classifier(*few, plan, SMALL, tmp_path / "out", cache=tmp_path / "cache")
    for index in range(3):
        TEST.image(index).save(tmp_path / f"{index}.png")
    said = int(trained.model(trained.preprocess(TEST.image(0))[0][None]).argmax())
    target = TRAIN.classes[(said + 1) % 40]
    command = ["explain", *(str(tmp_path / f"{k}.png") for k in range(3)), "--model", str(tmp_path / "out")]
    command += ["--target", str((said + 1) % 40), "--keep-misclassified", "--save", str(tmp_path / "why.json")]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert target in result.output  # the folder knows the names


def test_dropout_drops_behind_a_frozen_layer(tmp_path):
    """What is cut from a network stays in eval mode when told to train, but learning needs its dropout."""
    few = Subset(TRAIN, range(16)), Subset(TEST, range(4))
    seen = []
    dropout = nn.Dropout.forward

    def spy(self, x):
        seen.append(self.training)
        return dropout(self, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Dropout, "forward", spy)
        plan = TrainingPlan("squeezenet1_1", None, "features.12", views=1)
        trained = train_classifier(*few, plan, replace(SMALL, epochs=1), tmp_path / "out", cache=tmp_path / "cache")
    assert True in seen
    assert not seen[-1]  # when the test images were measured
    assert not any(module.training for module in trained.model.modules())


def test_a_searched_learning_rate_is_kept(tmp_path, monkeypatch):
    few = Subset(TRAIN, range(80)), Subset(TEST, range(4))
    monkeypatch.setitem(LEARNING_RATES, "sgd", (1e-6, 0.01))
    plan = TrainingPlan("timm:test_resnet", None, "layer3", views=1)
    recipe, where = replace(SMALL, lr=0.01, new_lr=0.05), {"cache": tmp_path / "cache", "search": True}

    class StopError(Exception):
        pass

    def after_an_epoch(*_):
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr("partswap.training.classifier.search_lr", lambda *args, **options: 1e-3)
        patch.setattr("partswap.training.session.epoch_line", lambda console: after_an_epoch)
        with pytest.raises(StopError):
            train_classifier(*few, plan, recipe, tmp_path / "out", **where)
    # Nothing is searched again: the other rates would have been tried.
    trained = train_classifier(*few, plan, recipe, tmp_path / "out", **where)
    assert (trained.record["recipe"]["lr"], trained.record["recipe"]["new_lr"]) == (1e-3, 5e-3)
    assert (
        train_classifier(*few, plan, recipe, tmp_path / "out", **where).record
        == json.loads((tmp_path / "out" / "model.json").read_text())["record"]
    )
    one_each = Subset(TRAIN, range(40))
    with pytest.raises(SettingError, match="no class has a second training image"):
        train_classifier(one_each, few[1], plan, recipe, tmp_path / "one", **where)
    searched = train_classifier(*few, plan, recipe, tmp_path / "searched", **where)
    assert searched.record["recipe"]["lr"] in (1e-6, 0.01)
    # Of both training sets and of the test images: trials used what the training needs anyway.
    assert len(list((tmp_path / "cache").glob("trunk-*"))) == 3


@pytest.mark.parametrize(
    ("arch", "freeze"),
    [("timm:test_vit", "blocks.2"), ("timm:test_convnext", "stages.2"), ("timm:test_efficientnet", "blocks.1")],
)
def test_other_architectures_train_behind_a_frozen_layer(tmp_path, arch, freeze):
    few = Subset(TRAIN, range(16))  # learned by heart, or nearly: what is measured below is then no accident
    plan, recipe = (
        TrainingPlan(arch, None, freeze, views=1),
        replace(SMALL, epochs=30, lr=0.003, optimizer="adamw", mixup=0.01),
    )
    trained = train_classifier(few, few, plan, recipe, tmp_path / "out", cache=tmp_path / "cache")
    # What was measured behind the cached trunk is what the whole network says.
    said = [int(trained.model(trained.preprocess(few.image(i))[0][None]).argmax()) for i in range(16)]
    right = np.mean([s == few.label(i) for i, s in enumerate(said)])
    assert trained.record["accuracy"] == pytest.approx(right, abs=0.07)  # half precision may change one
    assert right > 0.5


def test_what_is_frozen_does_not_change_and_the_rest_does(tmp_path):
    torch.manual_seed(0)
    start = load_model("timm:test_resnet", classes=7).state_dict()
    save_file({k: v.contiguous() for k, v in start.items()}, tmp_path / "start.safetensors")
    plan = TrainingPlan("timm:test_resnet", str(tmp_path / "start.safetensors"), "layer3", views=2)
    trained = train_classifier(
        Subset(TRAIN, range(24)), Subset(TEST, range(4)), plan, SMALL, tmp_path / "out", cache=tmp_path / "cache"
    )
    after = trained.model.state_dict()
    early = next(k for k in start if k.startswith("layer1") and k.endswith("weight"))
    late = next(k for k in start if k.startswith("layer4") and k.endswith("conv1.weight"))
    assert torch.equal(start[early], after[early])
    assert not torch.equal(start[late], after[late])
    norm = next(k for k in start if k.startswith("layer4") and k.endswith("running_mean"))
    assert torch.equal(start[norm], after[norm])


OWN = """
from torch import nn
from partswap import Preprocess


class Inner(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.Conv2d(8, 16, 2, 2), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


class Net(nn.Module):  # all keys begin with "model.", which files are often read without
    def __init__(self, classes):
        super().__init__()
        self.model = Inner(classes)

    def forward(self, x):
        return self.model(x)


def build(classes=5):
    model = Net(classes)
    model.preprocess = lambda image: Preprocess(64)(image)[0]
    return model


def rigid():
    return build()
"""


def test_a_training_starts_from_whatever_names_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    few = Subset(TRAIN, range(8))
    recipe = replace(SMALL, epochs=1, lr=1e-9)
    first = train_classifier(few, few, TrainingPlan("mine.py:build"), recipe, tmp_path / "first")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = load_classifier(tmp_path / "first")  # from anywhere, and prepared by the model's own function
    assert same(again.model, first.model)
    assert again.preprocess.key() == first.preprocess.key()
    architecture, weights = start_of(str(tmp_path / "first"))
    assert architecture == f"{tmp_path / 'mine.py'}:build"
    assert weights.keys() == first.model.state_dict().keys()
    second = train_classifier(
        few, few, TrainingPlan(architecture, str(tmp_path / "first")), recipe, tmp_path / "second"
    )
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    with pytest.raises(SettingError, match="rigid has 5 classes and the data set 40"):
        train_classifier(few, few, TrainingPlan(f"{tmp_path / 'mine.py'}:rigid"), recipe, tmp_path / "third")
    assert start_of("weights.pt") == (None, "weights.pt")


def test_a_training_starts_from_a_model_of_hugging_face(tmp_path):
    _vision.torchvision()
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1] * 4, layer_type="basic", num_labels=3
    )
    transformers.ResNetForImageClassification(config).save_pretrained(tmp_path / "hf")
    transformers.ConvNextImageProcessor(size={"shortest_edge": 64}).save_pretrained(tmp_path / "hf")
    few = Subset(TRAIN, range(8))
    made = train_classifier(few, few, TrainingPlan(f"hf:{tmp_path / 'hf'}"), replace(SMALL, epochs=1), tmp_path / "out")
    assert same(load_classifier(tmp_path / "out").model, made.model)
    assert len(made.classes) == 40


COMMAND = [
    "train",
    "classifier",
    "--data",
    "folder",
    "--arch",
    "timm:test_resnet",
    "--start",
    "none",
    "--freeze",
    "layer3",
    "--views",
    "3",
    "--epochs",
    "6",
    "--batch",
    "32",
    "--precision",
    "float32",
    "--threads",
    "1",
]


def write_birds(root):
    for split, count in (("train", 24), ("test", 2)):
        data = Aviary(split, per_class=count)
        for index in range(len(data)):
            if data.label(index) < 4:
                folder = root / split / f"species {data.label(index)}"
                folder.mkdir(parents=True, exist_ok=True)
                data.image(index).save(folder / f"{index}.png")
    return root


def test_kill_nine_during_extraction_and_during_training(tmp_path):
    birds = write_birds(tmp_path / "birds")

    def words_of(folder):
        return [*COMMAND, "--path", str(birds), "--out", str(folder / "out"), "--cache", str(folder / "cache")]

    def finish(folder):
        result = CliRunner().invoke(app, words_of(folder), catch_exceptions=False)
        assert result.exit_code == 0, result.output

    def run(folder, kill):
        command = [sys.executable, "-m", "partswap", *words_of(folder)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < deadline and not kill(folder):
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        error = process.communicate()[1].decode()
        assert process.returncode == -signal.SIGKILL, error

    def extracting(folder):
        found = (folder / "cache").glob("trunk-*/progress.json")
        return sum(json.loads(path.read_text())["done"] for path in found) >= 130

    def training(folder):
        return (folder / "out" / "training.json").exists()

    cut, whole = tmp_path / "cut", tmp_path / "whole"
    run(cut, extracting)
    run(cut, training)
    finish(cut)
    finish(whole)
    for path in sorted((whole / "cache").rglob("*.*")):
        assert path.read_bytes() == (cut / "cache" / path.relative_to(whole / "cache")).read_bytes(), path.name
    assert (whole / "out" / "model.safetensors").read_bytes() == (cut / "out" / "model.safetensors").read_bytes()


def test_training_spreads_over_processes(tmp_path):
    pytest.importorskip("accelerate")
    script = f"""
import torch
torch.set_num_threads(1)
from pathlib import Path
from partswap.data.sets.aviary import Aviary
from partswap.data.subset import Subset
from partswap.training.classifier import train_classifier
from partswap.training.devices import launch
from partswap.training.loop import Recipe
from partswap.training.plan import TrainingPlan
sets = Subset(Aviary("train", per_class=1), range(17)), Subset(Aviary("test", per_class=1), range(4))
root = Path({str(tmp_path)!r})
plan, recipe = TrainingPlan("timm:test_resnet", None, "layer3", views=1), Recipe(epochs=2, batch=8, lr=0.2)
for processes in (1, 2):
    launch(processes, lambda accelerator: train_classifier(
        *sets, plan, recipe, root / str(processes), cache=root / f"cache{{processes}}", accelerator=accelerator))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in "12")
    assert all(torch.allclose(one[k].float(), two[k].float(), atol=1e-4) for k in one)
    torch.manual_seed(0)  # as the training began
    start = load_model("timm:test_resnet", classes=40).state_dict()
    assert torch.equal(one["conv1.0.weight"], start["conv1.0.weight"])  # frozen
    assert not torch.allclose(one["fc.weight"], start["fc.weight"], atol=1e-3)  # learned


def test_bad_checkpoints_are_named(tmp_path):
    plan = TrainingPlan("timm:test_resnet", None, "layer3", views=1)
    out = tmp_path / "out"
    with pytest.raises(PartswapError, match="holds no trained network"):
        load_classifier(tmp_path)
    train_classifier(Subset(TRAIN, range(8)), Subset(TEST, range(4)), plan, SMALL, out, cache=tmp_path / "cache")
    about = json.loads((out / "model.json").read_text())
    (out / "model.json").write_text(json.dumps({**about, "classes": about["classes"][:5]}))
    with pytest.raises(FileFormatError, match=r"model\.safetensors does not fit"):
        load_classifier(out)
    (out / "model.json").write_text(json.dumps({**about, "architecture": "resnet18"}))
    with pytest.raises(FileFormatError, match="does not fit"):
        load_classifier(out)
    (out / "model.json").write_text(json.dumps({**about, "kind": "sandwich"}))
    with pytest.raises(FileFormatError, match="not about a classifier"):
        load_classifier(out)


def test_unfinished_is_not_finished(tmp_path):
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(PartswapError, match="its training is not finished"):
        load_classifier(tmp_path)


def test_the_command_line_says_what_is_wrong(tmp_path):
    result = CliRunner().invoke(
        app, ["train", "classifier", "--data", "aviary", "--out", str(tmp_path), "--lr", "fast"]
    )
    assert isinstance(result.exception, SettingError)
    assert "Give a number, or auto" in str(result.exception)


def test_held_out_takes_some_of_every_class():
    kept, out = held_out(TRAIN, share=0.1, seed=0)
    assert len(kept) + len(out) == len(TRAIN)
    assert set(out.labels()) == set(range(40))
    assert not set(kept.indices) & set(out.indices)
    assert kept.fingerprint() != out.fingerprint()
    assert np.array_equal(held_out(TRAIN, share=0.1, seed=0)[1].indices, out.indices)
    assert kept.attributes().names == TRAIN.attributes().names
    assert kept.differing_parts(0, 1) == TRAIN.differing_parts(0, 1)
