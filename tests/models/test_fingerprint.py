"""Fingerprints: our own code may move, everything else that a network computes with counts."""

import pytest
import torch
from torch import nn

from partswap.models import fingerprint
from partswap.models.fingerprint import model_fingerprint

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
