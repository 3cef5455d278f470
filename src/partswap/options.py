"""``NAME=VALUE`` as one writes it on the command line, and help texts of options that are described in two places."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from partswap.errors import SettingError

MODEL_HELP = "Folder of a trained classifier, aviary:vgg, aviary:resnet, or a torchvision or timm name with --weights."
AUXILIARY_HELP = "NAME, NAME@LAYER, NAME=WEIGHTS or NAME=WEIGHTS@LAYER."

WORDS: dict[str, Any] = {"true": True, "yes": True, "false": False, "no": False, "null": None, "none": None}
WHOLE = re.compile(r"[-+]?\d+")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


def parse_options(texts: Iterable[str] | None) -> dict[str, Any]:
    """Return ``NAME=VALUE`` texts as keyword arguments; numbers, true / false and none become what they are.

    Examples
    --------
    >>> parse_options(["supercategory=Birds", "test_share=0.2", "skip_bad=true"])
    {'supercategory': 'Birds', 'test_share': 0.2, 'skip_bad': True}
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingError(f"the option is {text!r}.", "Write NAME=VALUE.")
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if WHOLE.fullmatch(text):
        return int(text)
    return float(text) if NUMBER.fullmatch(text) else text
