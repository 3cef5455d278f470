"""Words of counterfactuals, on a classifier whose weights are made of attributes that are known."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from partswap import Counterfactual, Explainer
from partswap.cut.network import cut_network
from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.results.counterfactual import Edit, Step
from partswap.words.linear import fit_linear_head, own_linear_head
from partswap.words.model import AttributeHeads, WordsModel
from partswap.words.writer import CellParts, WordsWriter, annotated_parts, moved, shared_parts, span

ATTRIBUTES = [
    ("wing_colour::black", "wing", "wing colour", "black"),
    ("wing_colour::grey", "wing", "wing colour", "grey"),
    ("tail_shape::forked", "tail", "tail shape", "forked"),
]
#: Channels: black, grey, forked, and one that no attribute is about.
BLACK, GREY, FORKED, OTHER = range(4)
GRID = GridShape(2, 2)


def writer_of(agreement=None, **weights):
    """Return a writer for three classes: 0 has black wings, 1 grey ones, 2 a forked tail; weights may be changed."""
    heads = AttributeHeads(3, 3, 4)
    heads.attributes.copy_(torch.eye(4)[:3])
    heads.classes.copy_(torch.eye(4)[:3])
    for name, row in weights.items():
        heads.classes[int(name.removeprefix("class"))] = torch.tensor(row)
    heads.means.copy_(torch.cat([torch.eye(4)[:3] + torch.eye(4)[3]]))
    about = [dict(zip(("name", "part", "kind", "value"), a, strict=True)) for a in ATTRIBUTES]
    made = WordsModel(heads, "test", "layer", 4, "digest", ["A", "B", "C"], about, [], None, agreement, Preprocess(8))
    return WordsWriter(made)


def swap(edits=((0, 0),), query_class=0, target=1):
    step = Step(0.5, target, -0.1)
    return Counterfactual(
        query_class=query_class, target=target, grid=GRID, distractors=1,
        edits=tuple(Edit(i, j, 0) for i, j in edits), before=Step(0.1, query_class), trace=(step,) * len(edits),
        flipped=True, source={"class_names": {"0": "Western Gull", "1": "Herring Gull", "2": "Tern"}},
    )  # fmt: skip


def grids(query, donor):
    """Return grids whose first cells have these channels, the others nothing."""
    mine, theirs = torch.zeros(4, 2, 2), torch.zeros(1, 4, 2, 2)
    mine[:, 0, 0], theirs[0, :, 0, 0] = torch.tensor(query), torch.tensor(donor)
    return mine, theirs


def parts(mine=("wing",), theirs=("wing",), **more):
    nothing = [()] * 3
    return CellParts([mine, *nothing], [[theirs, *nothing]], **more)


def test_black_rather_than_grey():
    words = writer_of().write(swap(), *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts())
    assert words.sentence == (
        "The model says Western Gull rather than Herring Gull mainly because of the wing colour: black rather than "
        "grey (100 % of the change)."
    )
    assert words.withheld is None
    # One cell of four moved: black speaks for the query's class and is lost, grey for the target and is won.
    assert {c.value: round(c.change, 6) for c in words.stated} == {"black": -1.0, "grey": 1.0}
    assert words.residual == pytest.approx(0)


def test_one_side_says_little():
    words = writer_of().write(swap(), *grids([4.0, 0, 0, 0], [0, 0.4, 0, 0]), parts())
    assert "wing colour: black (100 %" in words.sentence
    assert [c.value for c in words.stated] == ["black"]
    words = writer_of().write(swap(), *grids([0.4, 0, 0, 0], [0, 4.0, 0, 0]), parts())
    assert "wing colour: not grey (100 %" in words.sentence


def test_what_is_carried_adds_up_to_the_change_of_the_margin():
    rng = np.random.default_rng(0)
    one = writer_of(class0=[1.0, 0.2, -0.5, 0.7], class1=[0.1, 0.9, 0.4, -0.3])
    for _ in range(20):
        delta = rng.normal(size=4)
        found = one.reading(0, 1, delta, frozenset({"wing"}))
        margin = (one.model.model.classes[1] - one.model.model.classes[0]).double().numpy()
        assert found.carried.sum() + found.residual == pytest.approx(margin @ delta)


def test_other_parts_are_not_put_into_words():
    words = writer_of().write(swap(), *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts(("wing",), ("tail",)))
    assert (words.withheld, words.stated) == ("parts", ())
    assert words.sentence == "The swapped regions show different parts (wing and tail); words would mislead."
    words = writer_of().write(swap(), *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts((), ("tail",)))
    assert words.withheld == "parts"


def test_an_attribute_of_another_part_is_not_named():
    # The change is all in the tail, and the cells show wings.
    words = writer_of().write(swap(target=2), *grids([0, 0, 0, 0], [0, 0, 4.0, 0]), parts())
    assert words.withheld == "residual"
    assert "wing" in words.sentence
    assert "tail" not in words.sentence


def test_nothing_stands_out():
    # Two thirds are something nobody has a word for, and what is left is shared by two properties.
    both = parts(("wing", "tail"), ("wing", "tail"))
    one = writer_of(class1=[0, 1.0, 1.0, 1.0])
    words = one.write(swap(), *grids([0, 0, 0, 0], [0, 1.0, 1.0, 10.0]), both)
    assert (words.withheld, round(words.share, 2)) == ("attributes", 0.17)
    assert words.sentence == "No attribute of the wing and tail stands out; look at the regions themselves."


def test_what_its_classifier_does_not_see_is_not_named():
    # Black speaks for the query's class, but nobody sees black in the query: its mean is below the bias.
    one = writer_of()
    one.model.model.bias.copy_(torch.tensor([-2.0, 0.0, 0.0]))
    words = one.write(swap(), *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts())
    assert "wing colour: not grey (50 %" in words.sentence
    assert [c.value for c in words.stated] == ["grey"]
    one.model.model.bias.copy_(torch.tensor([-2.0, -2.0, 0.0]))
    assert one.write(swap(), *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts()).withheld == "attributes"


def test_a_stand_in_is_said():
    words = writer_of(agreement=0.9).write(swap(), *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts())
    assert words.sentence.endswith("which says what the model says for 90 % of images.")


def test_shared_parts():
    # With three parts a cell, the surest of one must be among those of the other.
    assert shared_parts([(("wing", "back", "belly"), ("tail", "leg", "belly"))]) == ()
    assert shared_parts([(("wing", "back", "belly"), ("tail", "leg", "belly"))], annotated=True) == ("belly",)
    assert shared_parts([(("wing", "back"), ("back", "wing")), (("eye",), ("eye",))]) == ("wing", "back", "eye")
    assert shared_parts([((), ("eye",))]) == ()


def test_annotated_parts_merge_sides():
    found = annotated_parts([{"left wing", "right wing"}, set()], [[{"right eye"}, {"tail"}]])
    assert found == CellParts([("wing",), ()], [[("eye",), ("tail",)]], annotated=True)


def test_moved_is_the_change_of_the_mean():
    generator = torch.Generator().manual_seed(0)
    mine, theirs = torch.randn(4, 2, 2, generator=generator), torch.randn(3, 4, 2, 2, generator=generator)
    edited = mine.clone()
    edited[:, 0, 1], edited[:, 1, 0] = theirs[2, :, 1, 1], theirs[0, :, 0, 0]
    found = moved([Edit.of(1, 11, GridShape(2, 2)), Edit.of(2, 0, GridShape(2, 2))], mine, theirs)
    assert np.allclose(found, (edited.mean((1, 2)) - mine.mean((1, 2))).numpy(), atol=1e-6)


def test_the_papers_way():
    # s'_t - s_t: what the target's weights make of the edited image, less what the query's make of the image.
    columns, changes = writer_of().paper_changes(
        0, 1, np.array([3.0, 0, 0, 0]), np.array([2.0, 1.0, 0, 0]), frozenset({"wing"})
    )
    assert columns == (0, 1)
    assert changes.tolist() == [-3, 1]
    assert writer_of().paper_changes(0, 1, np.zeros(4), np.zeros(4), frozenset({"eye"}))[0] == ()


def test_only_directions_in_which_classes_differ_count():
    assert span(np.array([[3.0, 0, 0], [0, 0, 2.0], [3.0, 0, 2.0]])).shape == (2, 3)
    assert span(np.zeros((2, 3))).shape == (0, 3)


# -- heads ----------------------------------------------------------------------------------------------------------


class Pooled(nn.Module):
    def __init__(self, hidden=False):
        super().__init__()
        self.layer = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU())
        self.rest = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(1),
            *([nn.Linear(6, 6), nn.ReLU()] if hidden else []), nn.Linear(6, 4),
        )  # fmt: skip

    def forward(self, x):
        return self.rest(self.layer(x))


def cut_of(model):
    return cut_network(
        model.eval(), "layer", probe=torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    )


def test_weights_of_a_linear_head_are_found_by_asking():
    torch.manual_seed(0)
    model = Pooled()
    found = own_linear_head(cut_of(model))
    assert torch.allclose(found.weights, model.rest[-1].weight, atol=1e-5)
    assert torch.allclose(found.bias, model.rest[-1].bias, atol=1e-5)
    assert found.agreement is None
    assert own_linear_head(cut_of(Pooled(hidden=True))) is None


def test_a_linear_classifier_stands_in():
    rng = torch.Generator().manual_seed(0)
    pooled, other = torch.randn(300, 5, generator=rng), torch.randn(100, 5, generator=rng)
    true = torch.randn(3, 5, generator=rng)
    found = fit_linear_head(pooled, pooled @ true.T, held_out=(other, other @ true.T))
    assert found.agreement > 0.9
    two = fit_linear_head(pooled, pooled @ true[:2].T, held_out=(other, other @ true[:2].T))
    assert two.weights.shape == (2, 5)
    assert two.agreement > 0.9
    with pytest.raises(SettingError, match="one class of all images"):
        fit_linear_head(pooled, torch.tensor([[1.0, 0.0]]).expand(300, 2), held_out=(other, other))


# -- results --------------------------------------------------------------------------------------------------------


def test_words_are_saved_and_shown(tmp_path):
    one = writer_of()
    cf = swap()
    cf = replace(cf, words=one.write(cf, *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts()))
    again = Counterfactual.load(cf.save(tmp_path / "why.json"))
    assert again == cf
    assert again.words == cf.words
    assert json.loads((tmp_path / "why.json").read_text())["version"] == 4
    assert "black rather than grey" in str(cf)
    assert "black rather than grey" in cf._repr_html_()
    withheld = replace(cf, words=one.write(cf, *grids([4.0, 0, 0, 0], [0, 4.0, 0, 0]), parts(("wing",), ("tail",))))
    assert 'class="ps-words ps-withheld"' in withheld._repr_html_()


def test_earlier_files_are_read(tmp_path):
    content = swap().to_dict()
    del content["words"]
    for version in (1, 2):
        (tmp_path / "old.json").write_text(json.dumps({**content, "version": version}))
        assert Counterfactual.load(tmp_path / "old.json").words is None


def test_words_of_another_model_are_refused():
    explainer = Explainer("aviary:resnet", "layer4", auxiliary=None)
    with pytest.raises(SettingError, match="another classifier"):
        explainer.words_writer(writer_of())
    with pytest.raises(SettingError, match="words is a int"):
        explainer.words_writer(3)
