"""Notes of an explainer: what was assumed or adapted, each a warning when it is first added."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from partswap.features.encode import PreparedImage
from partswap.inputs.images import ON_WHITE, unread_text
from partswap.utils.notes import Note

#: Cells less similar than this to what an auxiliary was trained on, relative to that itself, are unfamiliar to it.
FAMILIAR = 0.8
_PACKAGE = str(Path(__file__).parents[1])

MANY_LABELS = Note(
    "labels",
    "several logits are above 0 at once and most are far below, as of a network of several labels per image; its "
    'probabilities are a softmax here. If each class has its own sigmoid: activation="sigmoid" (--activation sigmoid).',
)
NO_GRADIENTS = Note(
    "gradients",
    "no gradients pass through the head (it is quantized, or leaves torch): nothing says which swaps are worth a "
    "look, so every one is evaluated exactly, which is slow. In floating point, or cut at a later layer, it is faster.",
)


class PartswapWarning(UserWarning):
    """Something was assumed or adapted that the user should know of."""


class NoteLog(list[Note]):
    """Notes in the order in which they were added, each once."""

    def add(self, note: Note | None) -> None:
        """Add a note and warn of it, unless it is None or here already."""
        if note is not None and note not in self:
            self.append(note)
            warn(note.text)

    def has(self, kind: str) -> bool:
        """Tell whether there is a note of a kind."""
        return any(note.kind == kind for note in self)

    def add_inputs(self, images: Any, prepared: Iterable[PreparedImage]) -> None:
        """Note which files of folders were not read, and that transparent images were put on white."""
        unread = unread_text(images)
        self.add(Note("unread", f"{unread}.") if unread else None)
        on_white = [picture.info[ON_WHITE] for _, picture, _ in prepared if ON_WHITE in picture.info]
        if on_white and not self.has("transparent"):
            text = f"images that are transparent in places are put on white, as {on_white[0]}."
            self.add(Note("transparent", text))

    def add_familiarity(self, familiarity: float | None) -> None:
        """Note, once, that images are unlike those that an auxiliary was trained on (1: as similar as those)."""
        if familiarity is None or familiarity >= FAMILIAR or self.has("unfamiliar"):
            return
        text = (
            f"these images are unlike those the auxiliary was trained on ({familiarity:.0%} as alike to them as they "
            "are): its matches may be poor. Better: train one on such images (partswap train auxiliary)."
        )
        self.add(Note("unfamiliar", text))


def warn(text: str) -> None:
    """Warn at the line outside the package that called it."""
    frame, level = sys._getframe(), 1
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, PartswapWarning, stacklevel=level)
