"""Features of data sets on disk: right, resumable, never stale, bounded in memory."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from partswap import _vision
from partswap.data.sets.aviary import Aviary
from partswap.data.subset import Subset
from partswap.errors import ImageError, NonFiniteError, ShapeError
from partswap.explainer.explainer import Explainer
from partswap.features.encode import auxiliary_features, classifier_features, encode_dataset, halved, prefetch
from partswap.grid import GridShape
from partswap.models import shipped
from partswap.models.auxiliaries import Auxiliary, load_auxiliary
from partswap.models.fingerprint import model_fingerprint

DATA = Subset(Aviary("test", per_class=1), range(10))


@pytest.fixture(scope="module")
def explainer():
    return Explainer(shipped.load("vgg"), auxiliary="aviary", preprocess=shipped.PREPROCESS)


def test_they_are_what_the_explainer_computes(explainer, tmp_path):
    stored = encode_dataset(DATA, explainer, cache=tmp_path)
    direct = explainer.encode([DATA.image(i) for i in range(10)])
    chosen = stored.select([7, 2])
    assert torch.allclose(chosen.grids, direct.grids[[7, 2]], atol=1e-2)
    assert torch.allclose(chosen.logits, direct.logits[[7, 2]], atol=0.05)
    assert chosen.aux.shape[-2:] == tuple(explainer.cut.grid)
    assert chosen.names == ["7", "2"]
    # The logits are exactly those of the grids that are stored.
    with torch.no_grad():
        again = explainer.cut.head(stored.grids.float())
    assert torch.allclose(again, stored.logits, atol=1e-5)
    found = explainer.explain(stored.select([0]), stored.select([1, 2, 3]), keep_misclassified=True, target=1)
    assert found.edits


def test_a_second_run_computes_nothing(explainer, tmp_path, monkeypatch):
    first = encode_dataset(DATA, explainer, cache=tmp_path)

    def forbidden(*_args, **_options):
        raise AssertionError("an image was read")

    monkeypatch.setattr(Subset, "image", forbidden)
    second = encode_dataset(DATA, explainer, cache=tmp_path)
    assert np.array_equal(first.grids, second.grids)


def test_a_killed_run_goes_on_and_ends_the_same(explainer, tmp_path, monkeypatch):
    whole = classifier_features(DATA, explainer, cache=tmp_path / "whole", batch=3)

    class Dies(Subset):
        def image(self, index):
            if index >= 7:
                raise KeyboardInterrupt
            return super().image(index)

    with pytest.raises(KeyboardInterrupt):
        classifier_features(Dies(DATA.data, DATA.indices), explainer, cache=tmp_path / "cut", batch=3)
    folder = next((tmp_path / "cut").iterdir())
    assert 0 < json.loads((folder / "progress.json").read_text())["done"] < 10
    cut = classifier_features(DATA, explainer, cache=tmp_path / "cut", batch=3)
    for path in whole.folder.iterdir():
        assert path.read_bytes() == (cut.folder / path.name).read_bytes()


def test_whatever_changes_the_features_changes_the_cache(explainer, tmp_path):
    def folder(data=DATA, precision="float32", **changes):
        made = Explainer(
            changes.get("model", shipped.load("vgg")),
            changes.get("layer"),
            preprocess=changes.get("preprocess", shipped.PREPROCESS),
        )
        return classifier_features(data, made, cache=tmp_path, precision=precision).folder

    nudged = shipped.load("vgg")
    with torch.no_grad():
        next(nudged.parameters()).view(-1)[0] += 1e-3
    folders = [
        folder(),
        folder(data=Subset(DATA.data, range(9))),
        folder(data=Subset(Aviary("train", per_class=1), range(10))),
        folder(precision="bfloat16"),
        folder(model=nudged),
        folder(layer="features.6"),
        folder(preprocess=replace(shipped.PREPROCESS, mean=(0.4, 0.4, 0.4))),
    ]
    assert len(set(folders)) == len(folders)
    assert folder() == folders[0]


def test_a_fingerprint_sees_weights_buffers_and_strides():
    def conv(**options):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3, **options), nn.BatchNorm2d(4))

    a = conv()
    assert model_fingerprint(a) == model_fingerprint(conv())
    assert model_fingerprint(conv(stride=2)) != model_fingerprint(a)
    before = model_fingerprint(a)
    a[1].running_mean[0] = 1
    assert model_fingerprint(a) != before


def test_a_fingerprint_sees_what_a_forward_pass_does_and_buffers_that_are_not_saved():
    def network(code, mean=0.0):
        names = {"nn": nn, "torch": torch}
        exec(
            "class Network(nn.Module):\n"
            "    def __init__(self, mean):\n"
            "        super().__init__()\n"
            "        self.register_buffer('mean', torch.tensor([mean]), persistent=False)\n"
            "    def forward(self, x):\n"
            f"        return {code}\n",
            names,
        )
        return names["Network"](mean)

    same = [model_fingerprint(network("torch.relu(x - self.mean)")) for _ in range(2)]
    assert same[0] == same[1]
    others = [network("torch.tanh(x - self.mean)"), network("torch.relu(x + self.mean)"), network("x", 1.0)]
    assert len({same[0], *(model_fingerprint(other) for other in others)}) == 4


def test_a_fingerprint_is_the_same_in_every_process():
    script = (
        "from partswap._vision import torchvision; from partswap.models.fingerprint import model_fingerprint\n"
        "import torch; torch.manual_seed(0)\n"
        "print(model_fingerprint(torchvision().models.swin_t(weights=None)))"
    )
    torch.manual_seed(0)
    here = model_fingerprint(_vision.torchvision().models.swin_t(weights=None))
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # another than that of this process
    there = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert there.stdout.strip() == here, there.stderr


def test_a_classifier_that_is_its_own_auxiliary_runs_once(tmp_path):
    model = shipped.load("vgg")
    same, other = (Explainer(model, auxiliary=auxiliary, preprocess=shipped.PREPROCESS) for auxiliary in (
        "classifier",
        load_auxiliary("classifier", classifier=shipped.load("vgg"), preprocess=shipped.PREPROCESS),
    ))  # fmt: skip
    own = encode_dataset(DATA, same, cache=tmp_path)
    assert [p.name.partition("-")[0] for p in tmp_path.iterdir()] == ["features"]
    # Another network with the same weights is not looked through: it is computed, and is the same.
    computed = encode_dataset(DATA, other, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert np.array_equal(own.aux, own.grids)
    assert np.allclose(computed.aux, own.aux, atol=1e-2)


def test_an_auxiliary_is_resized_to_the_classifiers_grid(tmp_path):
    torch.manual_seed(0)
    auxiliary = Auxiliary("conv", nn.Conv2d(3, 5, 16, 16), shipped.PREPROCESS)
    grids = auxiliary_features(DATA, auxiliary, shipped.PREPROCESS, GridShape(7, 7), cache=tmp_path)
    assert grids.shape == (10, 5, 7, 7)
    assert grids.dtype == np.float16
    with torch.no_grad():
        direct = auxiliary.grids([DATA.image(3)])
    assert np.allclose(grids[3], nn.functional.adaptive_avg_pool2d(direct, 7)[0], atol=1e-2)


def test_features_that_do_not_fit_are_an_error():
    with pytest.raises(NonFiniteError, match="not finite in half precision"):
        halved(torch.tensor([1e6]), "the classifier")


def test_images_of_two_sizes_are_named():
    with pytest.raises(ShapeError, match="different shapes"):
        list(prefetch([[0, 1]], lambda i: torch.zeros(3, 4 + i, 4)))


def test_an_unreadable_image_stops_with_its_name(explainer, tmp_path):
    class Broken(Subset):
        def image(self, index):
            if index == 4:
                raise ImageError("there is no image 4.jpg.", "Check the path.")
            return super().image(index)

    with pytest.raises(ImageError, match=r"4\.jpg"):
        classifier_features(Broken(DATA.data, DATA.indices), explainer, cache=tmp_path, batch=2)
    store = classifier_features(DATA, explainer, cache=tmp_path, batch=2)
    assert store.complete


MEMORY = """
import resource, sys
import numpy as np, torch
torch.set_num_threads(1)
from pathlib import Path
from PIL import Image
from torch import nn
from partswap.data.base import Dataset
from partswap.features.encode import auxiliary_features
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries import Auxiliary, load_auxiliary

class Blank(Dataset):
    classes, split = ["a"], "test"
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def label(self, index): return 0
    def fingerprint(self): return str(self.count)
    def __getitem__(self, index): raise NotImplementedError
    def image(self, index): return Image.new("RGB", (64, 64))

auxiliary = Auxiliary("wide", nn.Conv2d(3, 2048, 8, 8), Preprocess(64))
for count in (64, 1024):
    auxiliary_features(Blank(count), auxiliary, Preprocess(64), GridShape(8, 8), cache=Path(sys.argv[1]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_data_set(tmp_path):
    done = subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-1500:]
    few, many = (int(line) for line in done.stdout.split())
    unit = 1 if sys.platform == "darwin" else 1024
    written = 1024 * 2048 * 64 * 2
    assert (many - few) * unit < written / 4  # 268 MB were written
