"""A counterfactual as a fragment of HTML, for notebooks and reports; `partswap.drawing.figures` draws it for papers.

Drawing is separate from results: nothing here changes a counterfactual, and nothing there knows how it is drawn.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from PIL import Image

from partswap.drawing.palette import (
    EDIT_INK,
    INK,
    INK_DARK,
    LINE,
    LINE_DARK,
    NOTE,
    NOTE_DARK,
    PALE,
    PALE_DARK,
    RISE,
    RISE_DARK,
    TARGET,
    TARGET_DARK,
    edit_color,
)
from partswap.results.counterfactual import Counterfactual, Step
from partswap.results.words import percent

#: Edits that a card shows before it folds the others away; the one that flips the decision stays in sight.
FOLDED_AFTER = 6

#: Selectors of dark notebooks and pages: JupyterLab and Notebook 7, VS Code, Colab, documentation themes.
DARK_PLACES = (
    '[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast", '[theme="dark"]', '[data-theme="dark"]',
)  # fmt: skip
_LIGHT = (
    f"--ps-ink: {INK}; --ps-note: {NOTE}; --ps-ground: #fff; --ps-pale: {PALE}; --ps-line: {LINE}; "
    f"--ps-rise: {RISE}; --ps-target: {TARGET}; color-scheme: light;"
)
_DARK = (
    f"--ps-ink: {INK_DARK}; --ps-note: {NOTE_DARK}; --ps-ground: #181b21; --ps-pale: {PALE_DARK}; "
    f"--ps-line: {LINE_DARK}; --ps-rise: {RISE_DARK}; --ps-target: {TARGET_DARK}; color-scheme: dark;"
)
CSS = (
    f"""
.ps-card {{ {_LIGHT} }}
{", ".join(f"{place} .ps-card" for place in DARK_PLACES)} {{ {_DARK} }}
.ps-page {{ margin: 24px; background: #f6f7f9; }}
@media (prefers-color-scheme: dark) {{ .ps-page {{ background: #101216; }} .ps-page .ps-card {{ {_DARK} }} }}
"""
    + """
.ps-card { font: 14px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ps-ink);
  background: var(--ps-ground); border: 1px solid var(--ps-line); border-radius: 12px; padding: 16px 18px;
  margin: 12px 0; }
.ps-card h4 { margin: 0 0 12px; font-size: 15px; font-weight: 600; color: inherit; }
.ps-card h4 small { font-weight: 400; color: var(--ps-note); margin-left: 6px; }
.ps-card p.ps-words { margin: -4px 0 12px; max-width: 80ch; }
.ps-card p.ps-withheld { color: var(--ps-note); font-style: italic; }
.ps-row { display: flex; flex-wrap: wrap; gap: 14px; align-items: flex-start; }
.ps-row figure { margin: 0; }
.ps-row figcaption { font-size: 12px; color: var(--ps-note); margin-top: 5px; max-width: 184px; }
.ps-row svg.ps-image { width: 184px; height: auto; border-radius: 8px; display: block; background: var(--ps-pale); }
.ps-pictures { flex: 0 1 auto; }
.ps-pictures > details { margin-top: 10px; width: 0; min-width: 100%; }
.ps-trace { flex: 1 1 320px; min-width: 220px; max-width: 560px; }
.ps-step { display: grid; grid-template-columns: 24px 1fr 66px; gap: 8px; align-items: center; margin: 0 0 7px; }
.ps-step .ps-dot { width: 20px; height: 20px; border-radius: 6px; font-size: 11px; font-weight: 700;
  display: flex; align-items: center; justify-content: center; }
.ps-bar { height: 10px; background: var(--ps-pale); border-radius: 5px; overflow: hidden; }
.ps-bar i { display: block; height: 100%; background: var(--ps-rise); border-radius: 5px; }
.ps-bar i.ps-flip { background: var(--ps-target); }
.ps-step b { font-variant-numeric: tabular-nums; font-weight: 600; text-align: right; }
.ps-says { grid-column: 2 / 4; font-size: 12px; color: var(--ps-note); margin-top: -5px; }
.ps-more { margin: 0 0 7px; }
.ps-more summary { cursor: pointer; font-size: 12px; color: var(--ps-note); margin-bottom: 7px; }
"""
)


def counterfactual_html(cf: Counterfactual) -> str:
    """Return a card: query and distractors with the swapped cells outlined, and the probability after each edit.

    It is dark where a notebook is, and shows `FOLDED_AFTER` edits; the others are folded away.
    """
    heading = html.escape(f"{cf.class_name(cf.query_class)} → {cf.class_name(cf.target)}")
    count = f"{len(cf)} edit{'' if len(cf) == 1 else 's'}"
    note = f"{cf.title}, {count}" if cf.title else count
    note = html.escape(note if cf.flipped else f"{note}: not reached")
    pixel = cf.pixel_text().replace("->", "→")
    says = f'<div class="ps-says">{html.escape(pixel)}</div>' if pixel else ""
    return (
        f'<style>{CSS}</style><div class="ps-card"><h4>{heading}<small>{note}</small></h4>{_words_html(cf)}'
        f'<div class="ps-row"><div class="ps-pictures">{_figures_html(cf)}</div>'
        f'<div class="ps-trace">{_trace_html(cf)}{says}</div></div></div>'
    )


def _unfolded_edits(cf: Counterfactual) -> set[int]:
    """Return the edits that are not folded away."""
    return {*range(min(len(cf), FOLDED_AFTER)), *([cf.flip - 1] if cf.flip is not None and cf.edits else [])}


def _figures_html(cf: Counterfactual) -> str:
    """Return the query and the distractors; those that only folded edits use are folded, too."""
    unfolded = _unfolded_edits(cf)
    query, *distractors = panels_of(cf)
    figures, folded = [_figure(cf, *query)], list[str]()
    for panel in distractors:
        is_unfolded = any(number in unfolded for number, _ in panel[3])
        (figures if is_unfolded else folded).append(_figure(cf, *panel))
    rows = [f'<div class="ps-row">{"".join(row)}</div>' for row in (figures, folded)]
    return rows[0] + (_folded(len(folded), "distractor", rows[1]) if folded else "")


def _trace_html(cf: Counterfactual) -> str:
    """Return the probability before all edits and after each of them."""
    unfolded = _unfolded_edits(cf)
    parts = [_step_html(cf, cf.before, None, says=True)]
    rows = [
        (number in unfolded, _step_html(cf, step, number, says=step.predicted != last.predicted))
        for number, (last, step) in enumerate(zip((cf.before, *cf.trace), cf.trace, strict=False))
    ]
    for is_unfolded, group in groupby(rows, key=itemgetter(0)):
        content = [row for _, row in group]
        parts += content if is_unfolded else [_folded(len(content), "edit", "".join(content))]
    return "".join(parts)


def _folded(count: int, what: str, content: str) -> str:
    """Return content that is folded away until its summary is clicked."""
    summary = f"{count} more {what}{'' if count == 1 else 's'}"
    return f'<details class="ps-more"><summary>{summary}</summary>{content}</details>'


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
    return [(n, e.image_cell) for n, e in enumerate(cf.edits) if e.distractor_image == image]


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
        body += _mark_svg(cf.grid.box(cell, (width, height)), number, unit)
    return (
        f'<figure><svg class="ps-image" viewBox="0 0 {width} {height}" role="img" aria-label="{caption}">'
        f"{body}</svg><figcaption>{caption}</figcaption></figure>"
    )


def _mark_svg(box: tuple[float, float, float, float], number: int, unit: float) -> str:
    """Return the outline of a cell and the number of its edit, both inside the cell."""
    left, top, right, bottom = box
    rim = min(4.5 * unit, 0.2 * min(right - left, bottom - top))
    place = (
        f'x="{left + rim / 2:.1f}" y="{top + rim / 2:.1f}" width="{right - left - rim:.1f}" '
        f'height="{bottom - top - rim:.1f}" fill="none"'
    )
    side = min(16 * unit, 0.62 * min(right - left, bottom - top))
    paint, wide = edit_color(number), side * (1 if number < 9 else 1.35)
    ground = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{side:.1f}" rx="{2 * unit:.1f}"'
    return (
        f'<rect {place} stroke="#fff" stroke-width="{rim:.1f}"/>'
        f'<rect {place} stroke="{paint}" stroke-width="{0.58 * rim:.1f}"/>'
        f'<rect {ground} fill="{paint}"/>'
        f'<text x="{left + wide / 2:.1f}" y="{top + side * 0.79:.1f}" font-size="{side * 0.82:.1f}" '
        f'font-family="sans-serif" font-weight="700" text-anchor="middle" fill="{EDIT_INK}">{number + 1}</text>'
    )


def _lattice(cf: Counterfactual) -> str:
    lines = "".join(f'<path d="M{32 * c} 0V{32 * cf.grid.h}"/>' for c in range(1, cf.grid.w))
    lines += "".join(f'<path d="M0 {32 * r}H{32 * cf.grid.w}"/>' for r in range(1, cf.grid.h))
    return f'<g stroke="{LINE}">{lines}</g>'


def _step_html(cf: Counterfactual, step: Step, number: int | None, *, says: bool) -> str:
    """Return one row of the trace; what the model says is written only where it changes."""
    flip = " class='ps-flip'" if step.predicted == cf.target else ""
    moment = "before" if number is None else f"after edit {number + 1}"
    original = ""
    if step.original_class_probability is not None:
        name = "" if step.predicted == cf.query_class else f"{html.escape(cf.class_name(cf.query_class))} "
        original = f" ({name}{_percent(step.original_class_probability)})"
    line = f"{moment} the model says {html.escape(cf.class_name(step.predicted))}{original}"
    notes = [*([] if number is None else [_places_html(cf, number)]), *([line] if says else [])]
    style = f"background:{edit_color(number)};color:{EDIT_INK}" if number is not None else ""
    dot = "" if number is None else number + 1
    lines = "".join(f'<span class="ps-says">{note}</span>' for note in notes)
    return (
        f'<div class="ps-step"><span class="ps-dot" style="{style}">{dot}</span>'
        f'<span class="ps-bar"><i{flip} style="width:{100 * step.target_probability:.1f}%"></i></span>'
        f"<b>{_percent(step.target_probability)}</b>{lines}</div>"
    )


def _places_html(cf: Counterfactual, number: int) -> str:
    """Return which cell becomes which."""
    edit = cf.edits[number]
    places = [cf.grid.place(cell) for cell in (edit.query_cell, edit.image_cell)]
    return f"{places[0]} → {places[1]} of distractor {cf.distractor_number(edit.distractor_image)}"


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
        f'<body class="ps-page">{counterfactual_html(cf)}</body></html>\n'
    )
