"""A counterfactual as text, for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partswap.results.words import decimal, percent

if TYPE_CHECKING:
    from partswap.results.counterfactual import Counterfactual

#: Edits that are written out; the rest are counted.
LISTED_EDITS = 12


def counterfactual_text(cf: Counterfactual) -> str:
    """Return the edits one by one, whether they reach the target, and the pixel check and words if there are any."""
    from partswap.utils.terminal import wrapped  # which imports rich

    lines = [_headline(cf), *_edit_lines(cf)]
    if len(cf) > LISTED_EDITS:
        lines.append(f"  ... and {len(cf) - LISTED_EDITS} more edits")
    if not cf.flipped:
        predicted = (cf.trace[-1] if cf.trace else cf.before).predicted
        reason = "" if cf.source.gave_up is None else f": {cf.source.gave_up}"
        verb = "still says" if predicted == cf.query_class else "says"
        lines.append(f"  not reached{reason}; the model {verb} {cf.class_name(predicted)}")
        lines += [] if cf.source.advice is None else [f"  {cf.source.advice}"]
    lines += [] if cf.pixel is None else [f"  {pixel_text(cf)}"]
    lines += [] if cf.words is None else [f"  {cf.words.sentence}"]
    return wrapped("\n".join(lines))


def _headline(cf: Counterfactual) -> str:
    count = f"{len(cf)} edit{'' if len(cf) == 1 else 's'}"
    classes = f"{cf.class_name(cf.query_class)} -> {cf.class_name(cf.target)}"
    outcome = f"in {count}" if cf.flipped else f"not reached in {count}"
    rise = f"{decimal(cf.before.target_probability)} -> {decimal(cf.probability)}"
    return f"Counterfactual: {classes} {outcome} (target probability {rise})"


def _edit_lines(cf: Counterfactual) -> list[str]:
    """Return two lines for an edit after which the model says another class than before it, one for others."""
    lines = []
    predicted = cf.before.predicted
    for number, (edit, step) in enumerate(zip(cf.edits[:LISTED_EDITS], cf.trace, strict=False), 1):
        cells = cf.grid.place(edit.query_cell), cf.grid.place(edit.image_cell)
        swap = f"query ({cells[0]}) -> {cf.distractor_name(edit.distractor_image)} ({cells[1]})"
        change = "" if step.predicted == predicted else f"   the model now says {cf.class_name(step.predicted)}"
        lines.append(f"  {number}. {swap}   p = {decimal(step.target_probability)}{change}")
        predicted = step.predicted
    return lines


def pixel_text(cf: Counterfactual) -> str:
    """Return the pixel check in words; empty if there was none."""
    if cf.pixel is None:
        return ""
    verb = "also says" if cf.pixel.flipped else "says"
    rise = f"{percent(cf.pixel.before)} -> {percent(cf.pixel.after)}"
    return f"in pixels the whole network {verb} {cf.class_name(cf.pixel.predicted)} (target {rise})"
