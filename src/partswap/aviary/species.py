"""The birds of the aviary: parts, attributes, families and species.

Every attribute belongs to one part, so the parts in which two species truly differ are known exactly. Species of
one family share a body plan and differ in one to three attributes; that is what makes the task fine-grained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from partswap.utils.sides import merge_sides

#: Keypoints in the order (and with the names) of CUB-200-2011.
KEYPOINTS = (
    "back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing", "nape",
    "right eye", "right leg", "right wing", "tail", "throat",
)  # fmt: skip

#: Parts: keypoints with left and right merged, sorted.
PARTS = tuple(sorted({merge_sides(k) for k in KEYPOINTS}))

COLORS: dict[str, tuple[int, int, int]] = {
    "black": (34, 33, 38), "white": (242, 240, 232), "grey": (140, 146, 152), "slate": (78, 90, 104),
    "brown": (112, 84, 60), "umber": (74, 54, 42), "chestnut": (150, 74, 38), "buff": (216, 190, 148),
    "sand": (190, 160, 116), "red": (196, 40, 34), "orange": (234, 130, 30), "yellow": (240, 204, 50),
    "olive": (118, 122, 58), "green": (62, 130, 62), "teal": (30, 134, 138), "blue": (50, 96, 186),
    "violet": (112, 66, 150), "rose": (222, 124, 138),
}  # fmt: skip

#: Attribute -> the part it belongs to.
ATTRIBUTE_PARTS: dict[str, str] = {
    "crown_color": "crown", "crest": "crown", "forehead_color": "forehead", "eye_ring": "eye", "eye_color": "eye",
    "bill_shape": "beak", "bill_color": "beak", "throat_color": "throat", "nape_color": "nape",
    "breast_color": "breast", "breast_pattern": "breast", "belly_color": "belly",
    "back_color": "back", "back_pattern": "back", "wing_color": "wing", "wing_bars": "wing",
    "tail_color": "tail", "tail_length": "tail", "tail_shape": "tail", "leg_color": "leg",
}  # fmt: skip


@dataclass(frozen=True)
class BodyPlan:
    """Proportions a family shares, in units of half the body's length."""

    depth: float = 0.56
    head: float = 0.40
    neck: float = 0.30
    leg: float = 0.55
    pitch: float = 18.0
    face_color: str = "grey"


@dataclass(frozen=True)
class Species:
    """One class: its family, its body plan and a value for every attribute."""

    index: int
    name: str
    family: str
    plan: BodyPlan
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class _Family:
    name: str
    plan: BodyPlan
    base: dict[str, str]
    species: dict[str, dict[str, str]] = field(default_factory=dict)


def _plumage(color: str, **changes: str) -> dict[str, str]:
    """Return all attributes of a plain bird of one colour, with changes."""
    plain = {
        "crown_color": color, "crest": "none", "forehead_color": color, "eye_ring": "none", "eye_color": "black",
        "bill_shape": "dagger", "bill_color": "slate", "throat_color": color, "nape_color": color,
        "breast_color": color, "breast_pattern": "plain", "belly_color": color, "back_color": color,
        "back_pattern": "plain", "wing_color": color, "wing_bars": "none", "tail_color": color,
        "tail_length": "medium", "tail_shape": "square", "leg_color": "umber",
    }  # fmt: skip
    return plain | changes


# Within a family the changes are chosen so that any two species differ in one to three attributes,
# and over all families every part is somewhere the one that matters.
_FAMILIES = (
    _Family(
        "finch",
        BodyPlan(depth=0.62, head=0.43, neck=0.20, leg=0.42, pitch=22, face_color="brown"),
        _plumage("brown", bill_shape="cone", bill_color="sand", throat_color="buff", breast_color="buff",
                 belly_color="white", wing_color="umber", tail_color="umber", leg_color="chestnut"),
        {
            "Plain Finch": {},
            "Ember-crowned Finch": {"crown_color": "red"},
            "Streaked Finch": {"breast_pattern": "streaked"},
            "Barred Ember Finch": {"crown_color": "red", "wing_bars": "two"},
        },
    ),
    _Family(
        "warbler",
        BodyPlan(depth=0.52, head=0.38, neck=0.22, leg=0.55, pitch=14, face_color="olive"),
        _plumage("olive", bill_color="black", throat_color="yellow", breast_color="yellow", belly_color="white",
                 wing_color="slate", tail_color="slate", leg_color="sand"),
        {
            "Olive Warbler": {},
            "Spectacled Warbler": {"eye_ring": "white"},
            "Black-throated Warbler": {"throat_color": "black"},
            "Spectacled Lemon Warbler": {"eye_ring": "white", "belly_color": "yellow"},
        },
    ),
    _Family(
        "kingfisher",
        BodyPlan(depth=0.58, head=0.48, neck=0.18, leg=0.22, pitch=34, face_color="teal"),
        _plumage("teal", bill_shape="long dagger", bill_color="black", throat_color="white",
                 breast_color="orange", belly_color="orange", back_color="blue", wing_color="teal",
                 tail_color="blue", tail_length="short", leg_color="red"),
        {
            "River Kingfisher": {},
            "Coral-billed Kingfisher": {"bill_color": "red"},
            "White-breasted Kingfisher": {"breast_color": "white"},
            "Collared Coral Kingfisher": {"bill_color": "red", "nape_color": "white"},
        },
    ),
    _Family(
        "woodpecker",
        BodyPlan(depth=0.50, head=0.42, neck=0.34, leg=0.28, pitch=48, face_color="white"),
        _plumage("black", bill_shape="chisel", bill_color="slate", forehead_color="white", throat_color="white",
                 breast_color="white", belly_color="white", back_pattern="barred", tail_shape="pointed",
                 leg_color="slate"),
        {
            "Ladder Woodpecker": {},
            "Red-naped Woodpecker": {"nape_color": "red"},
            "Sooty-backed Woodpecker": {"back_pattern": "plain"},
            "Red-naped Rosy Woodpecker": {"nape_color": "red", "belly_color": "rose"},
        },
    ),
    _Family(
        "tern",
        BodyPlan(depth=0.44, head=0.37, neck=0.24, leg=0.30, pitch=8, face_color="white"),
        _plumage("white", bill_color="orange", crown_color="black", forehead_color="black", nape_color="black",
                 back_color="grey", wing_color="grey", tail_length="long", tail_shape="forked",
                 leg_color="orange"),
        {
            "Common Tern": {},
            "Black-billed Tern": {"bill_color": "black"},
            "Wedge-tailed Tern": {"tail_shape": "pointed"},
            "White-fronted Black-billed Tern": {"bill_color": "black", "forehead_color": "white"},
        },
    ),
    _Family(
        "thrush",
        BodyPlan(depth=0.56, head=0.40, neck=0.26, leg=0.66, pitch=26, face_color="brown"),
        _plumage("brown", bill_color="yellow", throat_color="white", breast_color="buff",
                 breast_pattern="spotted", belly_color="white", leg_color="sand"),
        {
            "Song Thrush": {},
            "Banded Thrush": {"breast_pattern": "band"},
            "Slate-backed Thrush": {"back_color": "slate"},
            "Fox-tailed Banded Thrush": {"breast_pattern": "band", "tail_color": "chestnut"},
        },
    ),
    _Family(
        "jay",
        BodyPlan(depth=0.54, head=0.42, neck=0.28, leg=0.50, pitch=20, face_color="blue"),
        _plumage("blue", bill_shape="stout", bill_color="black", crest="short", throat_color="grey",
                 breast_color="grey", belly_color="grey", wing_color="blue", tail_length="long",
                 tail_shape="rounded", leg_color="black"),
        {
            "Blue Jay": {},
            "Patch-winged Jay": {"wing_bars": "patch"},
            "Snow-throated Jay": {"throat_color": "white"},
            "Patch-winged Rusty Jay": {"wing_bars": "patch", "belly_color": "chestnut"},
        },
    ),
    _Family(
        "parakeet",
        BodyPlan(depth=0.54, head=0.44, neck=0.22, leg=0.26, pitch=46, face_color="green"),
        _plumage("green", bill_shape="hooked", bill_color="red", forehead_color="green", tail_length="long",
                 tail_shape="pointed", belly_color="yellow", leg_color="rose"),
        {
            "Green Parakeet": {},
            "Flame-fronted Parakeet": {"forehead_color": "red"},
            "Violet-tailed Parakeet": {"tail_color": "violet"},
            "Flame-fronted Azure Parakeet": {"forehead_color": "red", "wing_color": "blue"},
        },
    ),
    _Family(
        "wader",
        BodyPlan(depth=0.50, head=0.34, neck=0.46, leg=1.00, pitch=12, face_color="sand"),
        _plumage("sand", bill_shape="curved", bill_color="umber", throat_color="white", breast_color="buff",
                 belly_color="white", back_color="umber", wing_color="brown", tail_length="short",
                 leg_color="slate"),
        {
            "Mud Wader": {},
            "Yellow-legged Wader": {"leg_color": "yellow"},
            "Straight-billed Wader": {"bill_shape": "long dagger"},
            "Yellow-legged Chestnut Wader": {"leg_color": "yellow", "breast_color": "chestnut"},
        },
    ),
    _Family(
        "flycatcher",
        BodyPlan(depth=0.50, head=0.42, neck=0.18, leg=0.36, pitch=36, face_color="slate"),
        _plumage("slate", bill_shape="dagger", bill_color="black", throat_color="rose", breast_color="rose",
                 belly_color="buff", crest="short", leg_color="black"),
        {
            "Rosy Flycatcher": {},
            "Golden-eyed Flycatcher": {"eye_ring": "yellow"},
            "Fork-tailed Flycatcher": {"tail_shape": "forked"},
            "Golden-eyed Pied Flycatcher": {"eye_ring": "yellow", "wing_bars": "two"},
        },
    ),
)  # fmt: skip


@cache
def all_species() -> tuple[Species, ...]:
    """Return every species, class 0 first; those of one family stand together."""
    found: list[Species] = []
    for family in _FAMILIES:
        for name, changes in family.species.items():
            attributes = family.base | changes
            found.append(Species(len(found), name, family.name, family.plan, attributes))
    return tuple(found)


@cache
def differing_parts(first: int, second: int) -> frozenset[str]:
    """Return the parts in which two classes truly differ.

    Within a family these are exactly the parts whose attributes differ; species of two families also have
    other proportions, which is not counted.
    """
    a, b = all_species()[first], all_species()[second]
    return frozenset(
        part for attribute, part in ATTRIBUTE_PARTS.items() if a.attributes[attribute] != b.attributes[attribute]
    )
