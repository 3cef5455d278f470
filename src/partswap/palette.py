"""Colours that mean the same on every surface: figures, report, explorer, notebooks and studies.

A colour of `EDITS` stands for one edit, in the order of edits; green stands for the target class only.
"""

from __future__ import annotations

#: One colour per edit, readable on photographs, with dark text on it, and for colour-blind eyes; they repeat after the
#: last. No green: that is the target's.
EDITS = ("#ffb000", "#f0529c", "#00b4d8", "#fe6100", "#b388ff", "#f5e663", "#6d9bff", "#ff9ecb")
#: Text on a colour of `EDITS`.
EDIT_INK = "#14181f"
#: The target class is reached, or not: on white, and on dark grounds. Apart for colour-blind eyes.
TARGET, TARGET_DARK = "#007a59", "#4fd1a5"
MISSED, MISSED_DARK = "#b3541e", "#f0966f"


def edit_color(number: int) -> str:
    """Return the colour of the edit with this number (from 0).

    Examples
    --------
    >>> edit_color(0), edit_color(8)
    ('#ffb000', '#ffb000')
    """
    return EDITS[number % len(EDITS)]
