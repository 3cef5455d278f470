"""An explainer in surroundings that are not the usual: pickled, on a device that is not here, in double precision."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from partswap import Explainer, aviary
from partswap.errors import PartswapError, SettingError
from partswap.inputs.preprocess import Preprocess
from partswap.results.counterfactual import Counterfactual

QUERY, DONORS = aviary.draw(0, 7).image, [aviary.draw(1, seed).image for seed in range(3)]
CHILD = """
import pickle, sys
from partswap import aviary
explainer = pickle.loads(open(sys.argv[1], "rb").read())
cf = explainer.explain(aviary.draw(0, 7).image, [aviary.draw(1, seed).image for seed in range(3)], target=1)
print([(e.query_cell, e.distractor_cell) for e in cf.edits], explainer.auxiliary.name, explainer.batch_size)
"""


def explained(explainer: Explainer, method: str | None = None) -> Counterfactual:
    return explainer.explain(QUERY, DONORS, target=1, method=method)


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer("aviary:vgg", auxiliary="aviary", batch_size=7)


def test_a_pickled_explainer_says_the_same_in_another_process(explainer: Explainer, tmp_path: Path) -> None:
    (tmp_path / "explainer.pickle").write_bytes(pickle.dumps(explainer))
    command = [sys.executable, "-c", CHILD, str(tmp_path / "explainer.pickle")]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    expected = [(e.query_cell, e.distractor_cell) for e in explained(explainer).edits]
    assert child.stdout.strip() == f"{expected} aviary 7"


def test_an_explainer_of_a_module_is_pickled_with_its_weights() -> None:
    net = nn.Sequential(nn.Conv2d(3, 6, 3, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))
    explainer = Explainer(net, auxiliary=None, preprocess=Preprocess(size=32), class_names=list("abc"))
    again = pickle.loads(pickle.dumps(explainer))
    assert again.class_names == explainer.class_names
    assert torch.equal(again.encode([QUERY]).logits, explainer.encode([QUERY]).logits)
    other = pickle.loads(pickle.dumps(explainer.with_auxiliary(explainer.auxiliary)))  # type: ignore[arg-type]
    assert other.auxiliary is None


def test_one_that_cannot_be_pickled_says_why() -> None:
    class Local(nn.Sequential):
        pass

    net = Local(nn.Conv2d(3, 6, 3, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))
    with pytest.raises(PartswapError, match=r"cannot be pickled: .*Local.* Make it in the other process"):
        pickle.dumps(Explainer(net, auxiliary=None, preprocess=Preprocess(size=32)))


@pytest.mark.parametrize("device", ["cuda", "cuda:3", torch.device("cuda"), "mps", "nonsense", 5])
def test_a_device_that_is_not_here_is_named(device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(SettingError, match=r"there is no (cuda|mps) device here|device is 'nonsense'") as caught:
        Explainer("aviary:vgg", auxiliary=None, device=device)  # type: ignore[arg-type]
    assert caught.value.fix == "Use auto, or one of: cpu."


@pytest.fixture
def double_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["aviary:vgg", "aviary:resnet"])
def test_double_precision_by_default_changes_no_explanation(name: str, request: pytest.FixtureRequest) -> None:
    methods = ("goyal", "paper", "partswap", "hard", "scout")
    usual = [explained(Explainer(name, auxiliary="aviary"), method) for method in methods]
    request.getfixturevalue("double_by_default")
    explainer = Explainer(name, auxiliary="aviary")
    for method, expected in zip(methods, usual, strict=True):
        cf = explained(explainer, method)
        assert cf.edits == expected.edits
        assert explainer.verify(cf)
    assert explainer.pixel_check(cf).pixel is not None
    assert explainer.heat(cf)
    assert explainer.clusters(cf).size


def test_results_are_hashed_and_compared_without_the_time_they_took(explainer: Explainer) -> None:
    first, second = explained(explainer), explained(explainer)
    assert first.seconds != second.seconds
    assert first == second
    assert len({first, second, explained(explainer, "goyal")}) == 2
    assert pickle.loads(pickle.dumps(first)) == second
