"""Public names of the release before this one keep working, and say what they are called now."""

import warnings

import pytest
from PIL import Image

import partswap
from partswap import Explainer
from partswap._deprecated import RENAMED
from partswap.explainer.explainer import RENAMED_METHODS
from partswap.models import shipped

#: `partswap.__all__` of the release before this one.
PREVIOUS = [
    "AUXILIARIES", "DATASETS", "METHODS", "METRICS", "Auxiliary", "Counterfactual", "Cut", "Edit", "Explainer",
    "GridShape", "Grids", "HeadPlan", "OwnSwaps", "PartswapError", "Preprocess", "SearchSettings", "Step",
    "__version__", "aviary", "cut_network", "default_layer", "fetch_image", "find_counterfactual",
    "find_counterfactuals", "list_layers", "load_auxiliary", "load_classifier", "load_model", "on_canvas",
    "open_dataset",
]  # fmt: skip


@pytest.mark.parametrize("name", PREVIOUS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_public_name_of_the_previous_release_still_works(name):
    assert name in partswap.__all__ or name in RENAMED
    assert getattr(partswap, name) is getattr(partswap, RENAMED.get(name, name))


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_warns_where_it_is_used_and_names_the_new_one(old, new):
    assert old not in partswap.__all__
    assert new in partswap.__all__
    with pytest.warns(DeprecationWarning, match=f"{old} is called partswap.{new} now") as caught:
        assert getattr(partswap, old) is getattr(partswap, new)
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=new) as caught:
        exec(compile(f"from partswap import {old}", "user.py", "exec"), {})
    assert caught[0].filename == "user.py"


@pytest.mark.parametrize("name", partswap.__all__)
def test_every_public_name_can_be_imported(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert getattr(partswap, name) is not None


def test_the_picture_of_an_image_has_its_old_name():
    image = Image.new("RGB", (300, 200))
    with pytest.warns(DeprecationWarning, match=r"called Preprocess.crop now"):
        assert partswap.Preprocess().canvas(image) == partswap.Preprocess().crop(image)


def test_methods_of_an_explainer_are_found_by_their_old_names():
    explainer = Explainer(shipped.load("vgg"), preprocess=shipped.PREPROCESS, auxiliary=None)
    with pytest.warns(DeprecationWarning, match=r"Explainer.name is called class_name now"):
        assert explainer.name(5) == explainer.class_name(5)
    assert RENAMED_METHODS.keys() == {"name", "speaker", "check_familiar"}
    assert all(callable(getattr(Explainer, new)) for new in RENAMED_METHODS.values())
    assert not hasattr(explainer, "no_such_method")
