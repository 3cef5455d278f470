"""Whatever is passed to the public entry points, only partswap's own errors come out."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from partswap import (
    Counterfactual,
    Explainer,
    PartswapError,
    Preprocess,
    aviary,
    cut_network,
    find_counterfactual,
    load_auxiliary,
    load_model,
    open_dataset,
)
from partswap.inputs.images import read_image
from partswap.models.names import class_names

SMALL = st.integers(0, 3)


@st.composite
def arrays(draw):
    kind = draw(st.sampled_from([np.uint8, np.float32, np.int64, bool]))
    shape = draw(st.lists(st.integers(0, 12), max_size=4))
    return np.full(shape, draw(st.integers(0, 1)), kind)


@st.composite
def tensors(draw):
    kind = draw(st.sampled_from([torch.uint8, torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64]))
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 7, 8, 64]), max_size=5))
    filled = torch.full(shape, draw(st.sampled_from([0, 1])), dtype=kind)
    return filled * float("nan") if draw(st.booleans()) and kind.is_floating_point else filled


@st.composite
def pictures(draw):
    mode = draw(st.sampled_from(["RGB", "L", "RGBA", "P", "1", "I", "F", "CMYK", "LA", "I;16", "HSV"]))
    return Image.new(mode, (draw(st.integers(1, 40)), draw(st.integers(1, 40))))


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3000), st.floats(), st.text(max_size=8), st.binary(max_size=8),
    st.lists(SMALL, max_size=2), st.dictionaries(SMALL, SMALL, max_size=2), st.just(object()), st.just(int),
)  # fmt: skip
ODD = st.one_of(PLAIN, arrays(), tensors(), pictures(), st.lists(pictures(), max_size=2), st.tuples(pictures(), SMALL))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.Conv2d(8, 8, 2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


@pytest.fixture(scope="module")
def explainer():
    return Explainer(network(), preprocess=Preprocess(64), class_names=["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def birds():
    return [aviary.draw(k, 0).image for k in range(6)]


def survives(function, *args, **options):
    """Call a function; anything but an answer or an error of partswap's is a bug."""
    try:
        return function(*args, **options)
    except PartswapError as error:
        said = error
    assert str(said).strip()
    assert said.fix
    return None


fuzz = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@fuzz
@given(source=ODD)
def test_images(source):
    survives(read_image, source)
    survives(Preprocess(64), source)


@fuzz
@given(query=ODD, distractors=ODD, target=PLAIN)
def test_explaining(explainer, birds, query, distractors, target):
    survives(explainer.explain, query, birds, 1, keep_misclassified=True)
    survives(explainer.explain, birds[0], distractors, 1, keep_misclassified=True)
    survives(explainer.explain, birds[0], birds, target, keep_misclassified=True)
    survives(explainer.explain, birds[0], birds, None, label=target, keep_misclassified=True)
    survives(explainer.encode, distractors)


@fuzz
@given(model=ODD, layer=PLAIN, names=PLAIN, preprocess=PLAIN, auxiliary=PLAIN, method=PLAIN, size=PLAIN)
def test_making_an_explainer(model, layer, names, preprocess, auxiliary, method, size):
    usual = {"preprocess": Preprocess(64)}
    survives(Explainer, model, **usual)
    survives(Explainer, network(), layer, **usual)
    survives(Explainer, network(), class_names=names, **usual)
    survives(Explainer, network(), auxiliary=auxiliary, **usual)
    survives(Explainer, network(), method=method, **usual)
    survives(Explainer, network(), batch_size=size, **usual)
    survives(Explainer, network(), preprocess=preprocess)
    survives(class_names, names, network(), 4)


@fuzz
@given(size=PLAIN, resize=PLAIN, mean=PLAIN, std=PLAIN, interpolation=PLAIN, fit=PLAIN)
def test_preprocessing(size, resize, mean, std, interpolation, fit):
    given = {"size": size, "resize": resize, "mean": mean, "std": std, "interpolation": interpolation, "fit": fit}
    for name, value in given.items():
        survives(Preprocess, **{name: value})


@fuzz
@given(head=PLAIN, query=ODD, distractors=ODD, target=PLAIN, lam=PLAIN, beam=PLAIN, screen=PLAIN)
def test_searching(head, query, distractors, target, lam, beam, screen):
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    grids = torch.randn(3, 8, 4, 4)
    said = int(pooled(grids[:1]).argmax())
    aim = (said + 1) % 3
    survives(find_counterfactual, head, grids[0], grids[1:], aim)
    survives(find_counterfactual, pooled, query, grids[1:], aim)
    survives(find_counterfactual, pooled, grids[0], distractors, aim)
    survives(find_counterfactual, pooled, grids[0], grids[1:], target)
    survives(find_counterfactual, pooled, grids[0], grids[1:], aim, lam=lam, beam=beam, screen=screen)


@fuzz
@given(name=PLAIN, other=PLAIN)
def test_names(name, other):
    survives(load_model, name)
    survives(load_model, "resnet18", weights=other)
    survives(load_auxiliary, name)
    survives(open_dataset, name, other)
    survives(Counterfactual.load, name)
    survives(Counterfactual.from_dict, other)


@fuzz
@given(model=ODD, layer=PLAIN, probe=ODD)
def test_cutting(model, layer, probe):
    survives(cut_network, model)
    survives(cut_network, network(), layer, probe=torch.randn(2, 3, 64, 64))
    survives(cut_network, network(), probe=probe)


@fuzz
@given(model=ODD, query=ODD, distractors=ODD)
def test_results(explainer, birds, model, query, distractors):
    cf = explainer.explain(birds[0], birds[1:], _another(explainer, birds[0]), keep_misclassified=True)
    survives(cf.verify, model)
    survives(cf.verify, explainer, query, distractors)
    survives(cf.with_images, query, distractors)
    survives(explainer.verify, cf, query, birds[1:])


def _another(explainer, image) -> int:
    return int(explainer.encode([image]).logits[0].topk(2).indices[1])
