"""What a model gets of an image."""

from dataclasses import astuple, dataclass

from partswap.images import Preprocess


def test_the_key_of_a_preprocess_tells_what_is_not_the_default():
    assert Preprocess().key() == Preprocess(224, None).key() == "Preprocess()"
    assert Preprocess(160, mean=(0.5, 0.5, 0.5)).key() == "Preprocess(size=160, mean=(0.5, 0.5, 0.5))"
    # Caches are kept under keys that leave defaults out, so these must not change.
    assert astuple(Preprocess()) == (224, None, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_a_field_that_is_added_changes_no_key():
    @dataclass(frozen=True)
    class Later(Preprocess):
        sharpen: bool = False

    assert Later(160).key() == Preprocess(160).key() != Later(160, sharpen=True).key()
