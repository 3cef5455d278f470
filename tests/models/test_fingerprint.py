"""Fingerprints: our own code may move, everything else that a network computes with counts."""

import pytest
import torch
from torch import nn

from partswap.models import fingerprint, shipped
from partswap.models.fingerprint import model_fingerprint, weights_digest
from partswap.models.multi_layer import feature_extractor

CODE = """
class Wrapper(nn.Module):
    def __init__(self, body, side=3):
        super().__init__()
        self.body, self.side = body, side
        self.register_buffer("mean", torch.zeros(2), persistent=False)

    def extra_repr(self):
        return f"side={self.side}"

    def forward(self, x):
        return self.body(x) - self.mean
"""
REWORDED = CODE.replace("return self.body(x) - self.mean", "y = self.body(x)\n        return y - self.mean")


def wrapper(module, code=CODE, body=None, **options):
    names = {"__name__": module, "nn": nn, "torch": torch}
    exec(code, names)
    torch.manual_seed(0)
    return names["Wrapper"](nn.Linear(2, 2) if body is None else body, **options)


def test_our_own_code_can_be_moved_and_reworded():
    before = model_fingerprint(wrapper("partswap.cut.network"))
    assert model_fingerprint(wrapper("partswap.elsewhere", REWORDED)) == before
    # Inside another network, too.
    inside = [nn.Sequential(wrapper(*given)) for given in (("partswap.a",), ("partswap.b", REWORDED))]
    assert model_fingerprint(inside[0]) == model_fingerprint(inside[1])


def test_renamed_classes_and_attributes_of_ours_keep_their_fingerprints(monkeypatch):
    hashed, compute = {}, fingerprint._hash
    monkeypatch.setattr(
        fingerprint, "_hash", lambda text, tensors: hashed.update({text: set(tensors)}) or compute(text, tensors)
    )
    network = shipped.load("vgg")
    for layers in ("features.2", "features.2+features.4"):
        model_fingerprint(feature_extractor(network, layers))
    (one, one_tensors), (several, several_tensors) = hashed.items()
    assert one.startswith("1\nTrunk\nTrunk(")
    assert several.startswith("1\nBlend\nBlend(\n  (trunks): Trunks(\n")
    assert "\n    (twin): SmallVGG(" in several
    assert {name for name in one_tensors if "features.0.0.weight" in name} == {"features.body.twin.features.0.0.weight"}
    assert {name for name in several_tensors if "twin" not in name} == {"mean", "basis", "offset", "known", "turn"}
    assert "trunks.twin.features.0.0.weight" in several_tensors


def test_another_class_or_another_revision_of_ours_counts(monkeypatch):
    before = model_fingerprint(wrapper("partswap.cut.network"))
    renamed = wrapper("partswap.cut.network")
    renamed.__class__.__name__ = "Other"
    assert model_fingerprint(renamed) != before
    monkeypatch.setattr(fingerprint, "REVISION", fingerprint.REVISION + 1)
    assert model_fingerprint(wrapper("partswap.cut.network")) != before


@pytest.mark.parametrize("module", ["partswaps", "mine.partswap", "__main__"])
def test_the_code_and_place_of_others_count(module):
    before = model_fingerprint(wrapper(module))
    assert before == model_fingerprint(wrapper(module))
    assert before != model_fingerprint(wrapper(module, REWORDED))
    assert before != model_fingerprint(wrapper("partswap.cut.network"))
    # What we wrap is not ours.
    inside = [wrapper("partswap.a", body=wrapper(module, code)) for code in (CODE, REWORDED)]
    assert model_fingerprint(inside[0]) != model_fingerprint(inside[1])


@pytest.mark.parametrize("module", ["partswap.cut.network", "mine"])
def test_weights_buffers_and_settings_count(module):
    made = [wrapper(module) for _ in range(4)]
    with torch.no_grad():
        made[1].body.weight[0, 0] += 1e-3
        made[2].body.weight[0, 0] += 1e-3
    made[2].mean[1] = 1
    made[3] = wrapper(module, side=4)
    assert len({model_fingerprint(each) for each in made}) == 4


@pytest.fixture
def hashed(monkeypatch):
    """The names of the weights of every full hash that is computed."""
    hashes, compute = [], fingerprint._hash
    monkeypatch.setattr(
        fingerprint, "_hash", lambda text, tensors: hashes.append(list(tensors)) or compute(text, tensors)
    )
    return hashes


def test_weights_are_hashed_once_per_model(hashed):
    model = wrapper("mine")
    assert len({model_fingerprint(model) for _ in range(3)}) == 1
    assert len({weights_digest(model) for _ in range(3)}) == 1
    assert len(hashed) == 2
    beside = wrapper("mine", body=model.body)  # another module with the same tensors, but for the mean
    beside.mean = model.mean
    assert model_fingerprint(beside) == model_fingerprint(model)
    assert len(hashed) == 2
    assert model_fingerprint(wrapper("mine")) == model_fingerprint(model)
    assert len(hashed) == 3


def test_weights_that_are_gone_are_not_taken_for_others_at_their_place(hashed):
    for value in range(20):
        model = nn.Linear(1, 1).requires_grad_(False)
        model.weight.fill_(value)
        model.bias.fill_(0)
        assert weights_digest(model) == fingerprint._hash("", dict(model.named_parameters()))
        del model


def change_data(weight):
    weight.data[0, 1] += 1e-7


def change_array(weight):
    weight.detach().numpy()[0, 1] += 1e-7


def exchange(weight):
    with torch.no_grad():
        weight.copy_(weight.flip(0))


def replace_storage(weight):
    weight.data = weight.data + 1


@pytest.mark.parametrize("change", [change_data, change_array, exchange, replace_storage])
def test_a_model_that_was_changed_is_hashed_again(hashed, change):
    model = wrapper("mine")
    before = model_fingerprint(model)
    change(model.body.weight)
    assert model_fingerprint(model) != before
    assert len(hashed) == 2


def test_weights_made_in_inference_mode_have_a_fingerprint(hashed):
    with torch.inference_mode():
        model = wrapper("mine")
    assert model_fingerprint(model) == model_fingerprint(model) == model_fingerprint(wrapper("mine"))
    assert len(hashed) == 2
