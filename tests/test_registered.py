"""One test over everything registered: what is added is tested the moment it exists."""

import importlib.util
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import trees
from partswap import AUXILIARIES, DATASETS, METHODS, METRICS, Counterfactual, GridShape, load_auxiliary
from partswap.data import cell_facts, open_dataset
from partswap.data.base import Dataset
from partswap.errors import SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import EditMetric, Evidence, Metric
from partswap.models import shipped
from partswap.models.checkpoints import save_trained
from partswap.models.parts import Detector, PartsDetector
from partswap.models.zoo import load_model
from partswap.results.counterfactual import PixelCheck
from partswap.search import Method
from published_files import FILES, write


@pytest.mark.parametrize("name", METHODS.names())
def test_a_method_explains_and_prints_itself(name, problem):
    method = METHODS.get(name)()
    assert isinstance(method, Method)
    assert method.name == name
    assert method.title
    assert all(f.name in repr(method) for f in fields(method) if f.init)
    found = method.explain(**problem)
    assert isinstance(found, Counterfactual)
    assert found.method == name
    assert found.flipped or not method.flips
    assert found.verify(problem["head"], problem["query"], problem["distractors"])
    again = method.explain(**problem)
    assert replace(found, seconds=0) == replace(again, seconds=0)


@pytest.mark.parametrize("name", METRICS.names())
def test_a_metric_scores_what_it_can_and_leaves_out_what_it_cannot(name, problem):
    metric = METRICS.get(name)()
    assert isinstance(metric, Metric)
    found = METHODS.get("goyal")().explain(**problem)
    found = replace(found, pixel=PixelCheck(0.1, 0.4, found.target, True))
    data = DATASETS.get("aviary")("test", per_class=1)
    facts = [cell_facts(data[i], GridShape(7, 7)) for i in range(5)]
    known = Evidence(facts[0], facts[1:], frozenset({"crown"}))
    scores = metric.scores(found, known)
    assert scores is not None
    assert len(scores) == (len(found) if isinstance(metric, EditMetric) else 1)
    if metric.percent:
        assert all(0 <= s <= 1 for s in scores)
    total = metric.compute([(found, known), (found, known)])
    assert total.all == pytest.approx(sum(scores) / len(scores))
    assert total.count == 2 * len(scores)
    assert (total.single is None) == (not metric.single)
    assert metric.compute([]).all is None
    drawn = metric.compute([(found, known), (found, known)], resamples=10)
    assert drawn.all_interval == pytest.approx((total.all, total.all))
    assert (drawn.single_interval is None) == (not metric.single)
    bare = replace(facts[0], keypoints=None, shows=None, object=None)
    unknown = metric.scores(found, Evidence(bare, [bare] * 4, None))
    assert (unknown is None) == metric.single  # what needs annotations says nothing without them


@pytest.mark.parametrize("name", DATASETS.names())
def test_a_data_set_keeps_the_contract(name, tmp_path):
    kind = DATASETS.get(name)
    path = trees.TREES[name](tmp_path) if kind.needs_path else None
    data = open_dataset(name, path, "test")
    assert isinstance(data, Dataset)
    assert data.split == "test"
    assert "test" in data.splits
    assert len(data) > 3
    assert data.labels().tolist() == [data.label(i) for i in range(len(data))]
    assert data.labels().dtype == np.int64
    assert len({str(c) for c in data.classes}) == len(data.classes)
    for index in (0, 3):
        sample = data[index]
        width, height = sample.image.size
        assert sample.image.mode == "RGB"
        assert sample.label == data.label(index)
        assert 0 <= sample.label < len(data.classes)
        assert set(sample.keypoints or ()) <= set(data.parts)
        for points in (sample.keypoints or {}).values():
            assert all(0 <= x < width and 0 <= y < height for x, y in points)
        assert sample.mask is None or (sample.mask.shape == (height, width) and sample.mask.dtype == bool)
        assert np.array_equal(np.asarray(data[index].image), np.asarray(sample.image))
    assert len({data[i].name for i in range(4)}) == 4
    assert data.fingerprint() == open_dataset(name, path, "test").fingerprint()
    assert data.fingerprint() != open_dataset(name, path, data.splits[0]).fingerprint()
    with pytest.raises(IndexError):
        data[len(data)]
    with pytest.raises(SettingError, match="no split"):
        open_dataset(name, path, "tset")
    with pytest.raises(SettingError, match="path"):
        open_dataset(name, None if path else tmp_path)
    attributes = data.attributes()
    assert attributes is None or attributes.share.shape == (len(data.classes), len(attributes.names))


@pytest.mark.parametrize("name", AUXILIARIES.names())
def test_an_auxiliary_gives_finite_grids(name, tmp_path):
    options = {}
    if name in FILES:  # random weights in the published layout
        options["weights"] = write(name, tmp_path)[0]
    elif name == "parts":
        detector = PartsDetector(load_model("timm:test_resnet"), "layer2", 2, size=160)
        options["weights"] = save_trained(
            Detector(detector, "timm:test_resnet", "layer2", ["a", "b"], Preprocess(160)), tmp_path
        )
    elif name in ("classifier", "auto"):
        options = {"classifier": shipped.load("vgg"), "preprocess": shipped.PREPROCESS}
    elif name == "augnet" and importlib.util.find_spec("imgsim") is None:
        pytest.skip("imgsim is not installed: pip install partswap[augnet]")
    auxiliary = load_auxiliary(name, **options)
    assert auxiliary.name == ("aviary" if name == "auto" else name)
    assert not any(module.training for module in auxiliary.model.modules())
    data = DATASETS.get("aviary")("test", per_class=1)
    grids = auxiliary.grids([data[i].image for i in range(3)], batch=2)
    assert grids.ndim == 4
    assert len(grids) == 3
    assert grids.shape[2] * grids.shape[3] >= 49
    assert torch.isfinite(grids).all()
    assert auxiliary.tau > 0


@pytest.mark.parametrize("name", ["vgg", "resnet"])
def test_a_shipped_classifier_is_good_but_confuses_within_families(name):
    data = DATASETS.get("aviary")("test", per_class=6)
    labels = torch.tensor([data.label(i) for i in range(len(data))])
    images = torch.from_numpy(data.pixels()).permute(0, 3, 1, 2)
    model = shipped.load(name)
    with torch.inference_mode():
        predicted = torch.cat([model(shipped.normalize(x)).argmax(1) for x in images.split(60)])
    wrong = predicted != labels
    assert 0 < wrong.float().mean() < 0.1
    family = [s.family for s in data.species]
    within = [family[a] == family[b] for a, b in zip(predicted[wrong].tolist(), labels[wrong].tolist(), strict=True)]
    assert np.mean(within) > 0.7
    assert shipped.weights_path(name).stat().st_size <= 3e6


def test_the_shipped_auxiliary_finds_parts_without_labels():
    from partswap.training.aviary import part_matching

    torch.manual_seed(0)
    trained, untrained = shipped.load("auxiliary"), shipped.build("auxiliary").eval()
    assert part_matching(trained, count=80) > 2 * part_matching(untrained, count=80)
    assert shipped.weights_path("auxiliary").stat().st_size <= 3e6
