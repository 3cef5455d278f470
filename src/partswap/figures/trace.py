"""Trace: the query, the distractors that were used and what the model says after each edit, in one row."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from partswap.counterfactual import Counterfactual
from partswap.figures.base import FIGURES
from partswap.figures.style import mark
from partswap.palette import edit_color
from partswap.pictures import panels_of
from partswap.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Characters that fit above a picture and above or below the bars; longer lines are broken.
PANEL_WIDTH, TRACE_WIDTH = 30, 46


@FIGURES.register("trace")
def trace(cf: Counterfactual) -> Figure:
    """Draw pictures in a row, and bars of the probability beside them."""
    from matplotlib.figure import Figure

    panels = list(panels_of(cf))
    width = 2.6 * len(panels) + 3.6
    sentence = [] if cf.words is None else textwrap.wrap(cf.words.sentence, int(13 * width))
    figure = Figure(figsize=(width, 3.1), layout="constrained")
    axes = figure.subplots(1, len(panels) + 1, width_ratios=[1.0] * len(panels) + [1.25])
    for axis, (role, name, picture, marks) in zip(axes, panels, strict=False):
        assert picture is not None
        axis.imshow(picture)
        axis.set_title(_broken(name if role == "query" else f"{name}\n{role}", PANEL_WIDTH), fontsize=9)
        axis.set_axis_off()
        mark(axis, cf, marks, picture.size)
    _draw_trace(axes[-1], cf)
    # Texts of usual length have two lines; room for more is added, or the pictures would shrink.
    above = max(axis.get_title().count("\n") for axis in axes)
    below = axes[-1].get_xlabel().count("\n")
    figure.set_figheight(3.1 + 0.16 * max(0, above - 1) + 0.14 * max(0, below - 1) + 0.22 * len(sentence))
    if cf.words is not None:
        style = "normal" if cf.words.stated else "italic"
        figure.supxlabel("\n".join(sentence), x=0.01, ha="left", fontsize=10, style=style)
    return figure


def _draw_trace(axis: Axes, cf: Counterfactual) -> None:
    """Draw the probability of the target before and after each edit, and under it that of the class said before."""
    steps = [cf.before, *cf.trace]
    names = ["before", *(f"edit {n + 1}" for n in range(len(cf.trace)))]
    if cf.flip is not None:
        names[cf.flip] += " flips"
    paints = ["#98a2b3", *(edit_color(n) for n in range(len(cf.trace)))]
    rows = range(len(steps))
    axis.barh(rows, [s.probability for s in steps], color=paints, height=0.5)
    owns = [s.own for s in steps if s.own is not None]
    if len(owns) == len(steps):
        axis.barh([row + 0.36 for row in rows], owns, color="#d0d5dd", height=0.16)
    for row, step in enumerate(steps):
        axis.text(min(step.probability + 0.02, 0.8), row, percent(step.probability), va="center", fontsize=8)
    axis.set_xlim(0, 1)
    axis.invert_yaxis()
    axis.set_yticks(list(rows), names)
    axis.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"], fontsize=8)
    axis.tick_params(axis="y", labelsize=8, length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    own = "" if cf.before.own is None else f" ({percent(cf.before.own)})"
    last = cf.trace[-1] if cf.trace else cf.before
    verb = "then says" if cf.flipped else "still says" if last.predicted == cf.query_class else "then says"
    known = last.probability if cf.flipped else last.own if last.predicted == cf.query_class else None
    after = f"{cf.class_name(last.predicted)}" + ("" if known is None else f" ({percent(known)})")
    title = f"model says {cf.class_name(cf.query_class)}{own},\n{verb} {after}"
    axis.set_title(_broken(title, TRACE_WIDTH), fontsize=9)
    grey = "" if len(owns) < len(steps) else f"\ngrey: {cf.class_name(cf.query_class)}"
    axis.set_xlabel(_broken(f"probability of {cf.class_name(cf.target)}{grey}", TRACE_WIDTH), fontsize=8)


def _broken(text: str, width: int) -> str:
    """Return a text with each line in at most two of `width` characters; longer ones would be cut off at the edge."""
    lines: list[str] = []
    for line in text.replace(" %", "\u00a0%").splitlines():
        if " " in line or len(line) <= width:
            lines += textwrap.wrap(line, width, max_lines=2, placeholder=" …")
            continue
        # The name of a file: its end tells it from others.
        name = line if len(line) <= 2 * width else f"{line[: width - 1]}…{line[-width:]}"
        half = -(-len(name) // 2)
        lines += [name[:half], name[half:]]
    return "\n".join(lines).replace("\u00a0", " ")
