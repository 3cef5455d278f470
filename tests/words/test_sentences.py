"""Every template, word for word."""

from partswap.words import sentences


def test_reasons():
    assert sentences.reason("Western Gull", "Herring Gull", "wing colour", "black", "grey", 0.62) == (
        "The model says Western Gull rather than Herring Gull mainly because of the wing colour: black rather than "
        "grey (62 % of the change)."
    )
    assert "among other things because of the crown colour: red (30 %" in sentences.reason(
        "A", "B", "crown colour", "red", None, 0.3
    )
    assert "mainly because of the crown colour: not red (50 %" in sentences.reason(
        "A", "B", "crown colour", None, "red", 0.5
    )


def test_what_is_withheld_says_why():
    assert sentences.different_parts(("wing", "back"), ("tail",)) == (
        "The swapped regions show different parts (wing and tail); words would mislead."
    )
    for none in (((), ("tail",)), (("tail",), ()), ((), ())):
        assert sentences.different_parts(*none) == (
            "The swapped regions show no part that has a name; words would mislead."
        )
    assert sentences.no_attributes(["wing"]) == "No attribute of the wing stands out; look at the regions themselves."
    assert sentences.residual(["back", "nape", "wing"]) == (
        "Most of what the swap of the back, nape and wing changes is nothing that attributes tell; words would mislead."
    )
    assert sentences.stand_in(0.981) == (
        " This reads a linear stand-in, which says what the model says for 98 % of images."
    )
