import pytest

import partswap
from partswap.errors import UnknownNameError
from partswap.utils.registry import Registry


@pytest.mark.parametrize(
    ("registry", "names"),
    [
        ("METHODS", {"goyal", "paper", "partswap"}),
        ("METRICS", {"near_kp", "same_kp", "true_part", "edits", "flip_rate", "foreground", "seconds"}),
        ("DATASETS", {"aviary"}),
        ("AUXILIARIES", {"aviary", "classifier", "deepcluster", "dinov2_vits14"}),
    ],
)
def test_everything_in_a_folder_is_found(registry, names):
    assert names <= set(getattr(partswap, registry))


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'same_kp'"):
        partswap.METRICS.get("same-kp")


def test_one_name_for_two_things_is_refused():
    registry: Registry[int] = Registry("thing", "partswap.metrics")
    registry.register("a")(1)
    with pytest.raises(ValueError, match="two things"):
        registry.register("a")(2)
