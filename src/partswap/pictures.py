"""A counterfactual as a fragment of HTML, for notebooks and reports; `partswap.figures` draws it for papers.

Drawing is separate from results: nothing here changes a counterfactual, and nothing there knows how it is drawn.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Sequence

from PIL import Image

from partswap.counterfactual import Counterfactual, Step
from partswap.palette import edit_color
from partswap.words import percent

CSS = """
.ps-card { font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1d2430; background: #fff;
  border: 1px solid #e3e6ec; border-radius: 12px; padding: 16px 18px; margin: 12px 0; }
.ps-card h4 { margin: 0 0 12px; font-size: 15px; font-weight: 600; }
.ps-card h4 small { font-weight: 400; color: #667085; margin-left: 6px; }
.ps-card p.ps-words { margin: -4px 0 12px; max-width: 80ch; }
.ps-card p.ps-withheld { color: #667085; font-style: italic; }
.ps-row { display: flex; flex-wrap: wrap; gap: 14px; align-items: flex-start; }
.ps-row figure { margin: 0; }
.ps-row figcaption { font-size: 12px; color: #667085; margin-top: 5px; max-width: 184px; }
.ps-row svg.ps-image { width: 184px; height: auto; border-radius: 8px; display: block; background: #eef0f4; }
.ps-trace { flex: 1 1 230px; min-width: 220px; }
.ps-step { display: grid; grid-template-columns: 24px 1fr 66px; gap: 8px; align-items: center; margin: 0 0 7px; }
.ps-step .ps-dot { width: 20px; height: 20px; border-radius: 6px; font-size: 11px; font-weight: 700; color: #14181f;
  display: flex; align-items: center; justify-content: center; }
.ps-bar { height: 10px; background: #eef0f4; border-radius: 5px; overflow: hidden; }
.ps-bar i { display: block; height: 100%; background: #98a2b3; border-radius: 5px; }
.ps-bar i.ps-flip { background: #1f9d61; }
.ps-step b { font-variant-numeric: tabular-nums; font-weight: 600; text-align: right; }
.ps-says { grid-column: 2 / 4; font-size: 12px; color: #667085; margin-top: -5px; }
"""


def counterfactual_html(cf: Counterfactual, *, style: bool = True, title: str | None = None) -> str:
    """Return a card: query and distractors with the swapped cells outlined, and the probability after each edit."""
    heading = html.escape(title or f"{cf.class_name(cf.query_class)} → {cf.class_name(cf.target)}")
    count = f"{len(cf)} edit{'' if len(cf) == 1 else 's'}"
    note = f"{cf.title}, {count}" if cf.title else count
    note = html.escape(note if cf.flipped else f"{note}: not reached")
    figures = [_figure(cf, *panel) for panel in panels_of(cf)]
    steps = [_step_html(cf, cf.before, None, says=True)]
    for number, (last, step) in enumerate(zip((cf.before, *cf.trace), cf.trace, strict=False)):
        steps.append(_step_html(cf, step, number, says=step.predicted != last.predicted))
    if cf.pixel is not None:
        steps.append(f'<div class="ps-says">{html.escape(cf.pixel_text())}</div>')
    return (
        (f"<style>{CSS}</style>" if style else "")
        + f'<div class="ps-card"><h4>{heading}<small>{note}</small></h4>{_words_html(cf)}<div class="ps-row">'
        + "".join(figures)
        + f'<div class="ps-trace">{"".join(steps)}</div></div></div>'
    )


def _words_html(cf: Counterfactual) -> str:
    if cf.words is None:
        return ""
    kind = "ps-words" if cf.words.stated else "ps-words ps-withheld"
    return f'<p class="{kind}">{html.escape(cf.words.sentence)}</p>'


def used_distractors(cf: Counterfactual) -> list[int]:
    """Return the distractors that cells were taken from, in order of first use."""
    return list(dict.fromkeys(edit.distractor_image for edit in cf.edits))


def distractor_label(cf: Counterfactual, image: int) -> str:
    """Return the number of a distractor, and the name of its file if that is known."""
    number, name = f"distractor {cf.distractor_number(image)}", cf.distractor_name(image)
    return number if name == number else f"{number}: {name}"


def first_edits(cf: Counterfactual, most: int) -> list[int]:
    """Return which edits to draw if not all: the first ones, and always the one that flips the decision."""
    first = list(range(min(len(cf), most)))
    if cf.flip is None or cf.flip <= len(first):
        return first
    return [*first[: most - 1], cf.flip - 1]


#: Numbers of edits, each with the cell it touches.
Marks = Sequence[tuple[int, int]]


def cells_taken(cf: Counterfactual, image: int) -> Marks:
    """Return the edits that take a cell of a distractor, each with that cell."""
    cells = cf.grid.cells
    return [(n, e.distractor_cell % cells) for n, e in enumerate(cf.edits) if e.distractor_image == image]


def panels_of(cf: Counterfactual) -> Iterator[tuple[str, str, Image.Image | None, Marks]]:
    """Yield the query and the distractors that were used: role, class, picture if there is one, and swapped cells."""
    marks = [(n, e.query_cell) for n, e in enumerate(cf.edits)]
    yield "query", cf.class_name(cf.query_class), cf.pictures.query if cf.pictures else None, marks
    for k in used_distractors(cf):
        yield (
            distractor_label(cf, k),
            cf.class_name(cf.distractor_class(k)),
            cf.pictures.distractors[k] if cf.pictures else None,
            cells_taken(cf, k),
        )


def _figure(cf: Counterfactual, role: str, name: str, image: Image.Image | None, marks: Marks) -> str:
    """Return one picture with its cells outlined."""
    caption = html.escape(f"{role}, {name}")
    width, height = image.size if image else (32 * cf.grid.w, 32 * cf.grid.h)
    body = f'<image href="{_data_uri(image)}" width="{width}" height="{height}"/>' if image else _lattice(cf)
    unit = width / 224
    for number, cell in marks:
        left, top, right, bottom = cf.grid.box(cell, (width, height))
        box = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" fill="none"'
        body += f'<rect {box} stroke="#fff" stroke-width="{4.5 * unit:.1f}" stroke-opacity=".85" rx="2"/>'
        body += f'<rect {box} stroke="{edit_color(number)}" stroke-width="{2.6 * unit:.1f}" rx="2"/>'
        side, paint = 13 * unit, edit_color(number)
        body += (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{side:.1f}" height="{side:.1f}" fill="{paint}" rx="2"/>'
            f'<text x="{left + side / 2:.1f}" y="{top + side * 0.78:.1f}" font-size="{10.5 * unit:.1f}" '
            f'font-family="sans-serif" font-weight="700" text-anchor="middle" fill="#14181f">{number + 1}</text>'
        )
    return (
        f'<figure><svg class="ps-image" viewBox="0 0 {width} {height}" role="img" aria-label="{caption}">'
        f"{body}</svg><figcaption>{caption}</figcaption></figure>"
    )


def _lattice(cf: Counterfactual) -> str:
    lines = "".join(f'<path d="M{32 * c} 0V{32 * cf.grid.h}"/>' for c in range(1, cf.grid.w))
    lines += "".join(f'<path d="M0 {32 * r}H{32 * cf.grid.w}"/>' for r in range(1, cf.grid.h))
    return f'<g stroke="#cfd4dd">{lines}</g>'


def _step_html(cf: Counterfactual, step: Step, number: int | None, *, says: bool) -> str:
    """Return one row of the trace; what the model says is written only where it changes."""
    dot = "" if number is None else str(number + 1)
    paint = "transparent" if number is None else edit_color(number)
    flip = " class='ps-flip'" if step.predicted == cf.target else ""
    moment = "before" if number is None else f"after edit {number + 1}"
    own = ""
    if step.own is not None:
        whose = "" if step.predicted == cf.query_class else f"{html.escape(cf.class_name(cf.query_class))} "
        own = f" ({whose}{_percent(step.own)})"
    line = f'<span class="ps-says">{moment} the model says {html.escape(cf.class_name(step.predicted))}{own}</span>'
    return (
        f'<div class="ps-step"><span class="ps-dot" style="background:{paint}">{dot}</span>'
        f'<span class="ps-bar"><i{flip} style="width:{100 * step.probability:.1f}%"></i></span>'
        f"<b>{_percent(step.probability)}</b>{line if says else ''}</div>"
    )


def _percent(probability: float) -> str:
    """Return percent for HTML, in one piece."""
    return html.escape(percent(probability)).replace(" ", "&nbsp;")


def _data_uri(image: Image.Image) -> str:
    """Return an image as a JPEG data URI."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def page(cf: Counterfactual) -> str:
    """Return a page of its own with one counterfactual."""
    title = html.escape(f"{cf.class_name(cf.query_class)} → {cf.class_name(cf.target)}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head>'
        f'<body style="margin:24px;background:#f6f7f9">{counterfactual_html(cf)}</body></html>\n'
    )
