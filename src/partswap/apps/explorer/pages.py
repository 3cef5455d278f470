"""Pages: templates, filled with what a counterfactual shows; shapes become numbers here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from partswap.apps.explorer.cells import Match, Matches
from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import MOST_BEAM, UNLIMITED, View
from partswap.drawing.palette import EDIT_INK, EDITS, MISSED, MISSED_DARK, TARGET, TARGET_DARK
from partswap.grid import GridShape
from partswap.metrics.clarity import turns_into, weaknesses
from partswap.results.counterfactual import Counterfactual, Step, percent
from partswap.search import METHODS

HERE = Path(__file__).parent
#: Side of a picture in the coordinates of its drawing.
SIDE = 448
#: Swaps that are seen at once; the others are folded.
OPENED = 4
#: How many distractors nothing was taken from are shown.
REST = 20


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(HERE / "templates")
    made = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["percent"] = percent
    made.filters["fine"] = _fine
    return made


def _fine(probability: float) -> str:
    """Return a probability in percent with two digits that count: matches differ by little."""
    if not 0.0001 <= probability <= 0.995:
        return percent(probability)
    return f"{100 * probability:.{sum(probability < limit for limit in (0.00995, 0.0995))}f} %"


def page(name: str, /, **values: Any) -> str:
    """Return a page, or a part of one."""
    return _templates().get_template(f"{name}.html").render(**values)


@dataclass(frozen=True)
class CellBox:
    """A cell as it is drawn."""

    x: float
    y: float
    w: float
    h: float
    cell: int
    number: int = 0  #: of the edit, from 1
    colour: int = 0

    @property
    def zoom(self) -> str:
        """The part of a picture around the cell, as a viewBox; cut at the picture's edges by moving it."""
        wide, high = min(3 * self.w, SIDE), min(3 * self.h, SIDE)
        left = min(max(self.x - (wide - self.w) / 2, 0), SIDE - wide)
        top = min(max(self.y - (high - self.h) / 2, 0), SIDE - high)
        return f"{left:.1f} {top:.1f} {wide:.1f} {high:.1f}"


def box_of(grid: GridShape, cell: int, number: int = 0) -> CellBox:
    """Return where a cell is drawn."""
    left, top, right, bottom = grid.box(cell, (SIDE, SIDE))
    return CellBox(left, top, right - left, bottom - top, cell, number, (number - 1) % len(EDITS) if number else 0)


def result_html(room: ExplorerService, view: View, cf: Counterfactual, version: str) -> str:
    """Return what a view shows: the verdict, the pictures, the swaps and the trace."""
    grid, drawn, query = cf.grid, room.drawn(view), room.query(view)
    before = [cf.before, *cf.trace]
    swaps = _swaps(room, view, cf)
    used: dict[int, list[CellBox]] = {}
    for number, edit in enumerate(cf.edits, 1):
        used.setdefault(edit.distractor_image, []).append(box_of(grid, edit.distractor_cell % grid.cells, number))
    by_cell = {swap["query"].cell: swap for swap in swaps}
    cells = [(box_of(grid, cell), cell_label(grid, cell, by_cell.get(cell))) for cell in range(grid.cells)]
    taken = view.with_(swaps=tuple((e.query_cell, e.distractor_cell) for e in cf.edits))
    return page(
        "result",
        view=view,
        cf=cf,
        version=version,
        side=SIDE,
        own=view.swaps is not None,
        first_guess=room.name(cf.query_class),
        target=room.name(cf.target),
        mistake=None if query.label in (None, cf.query_class) else room.name(query.label),
        label=None if query.label is None else room.name(query.label),
        now=room.name(before[-1].predicted),
        strange=room.is_strange(view),
        turns=turns_into(cf),
        weak=weaknesses(cf, room.evidence(view, cf)) if view.swaps is None else [],
        first=cf.before,
        last=before[-1],
        swaps=swaps,
        opened=OPENED,
        cells=cells,
        used=[(str(drawn[k]), boxes) for k, boxes in used.items()],
        unused=[str(drawn[k]) for k in range(cf.distractors) if k not in used][:REST],
        trace=trace_of(before),
        gave_up=cf.source.get("gave_up"),
        advice=cf.source.get("advice"),
        take_over=taken.query(),
        undo=_without(view, len(view.swaps) - 1) if view.swaps else None,
        clear=view.with_(swaps=()).query(),
        back=view.with_(swaps=None).query(),
        address=view.query(),
    )


def _swaps(room: ExplorerService, view: View, cf: Counterfactual) -> list[dict[str, Any]]:
    """Return what is shown of each swap."""
    grid, drawn, swaps = cf.grid, room.drawn(view), []
    steps = [cf.before, *cf.trace]
    for number, edit in enumerate(cf.edits, 1):
        before, after = steps[number - 1 : number + 1]
        cell = edit.distractor_cell % grid.cells
        swaps.append(
            {
                "number": number,
                "query": box_of(grid, edit.query_cell, number),
                "donor": box_of(grid, cell, number),
                "key": str(drawn[edit.distractor_image]),
                "place": grid.place(edit.query_cell),
                "from": f"example {edit.distractor_image + 1} of {room.name(cf.target)}, {grid.place(cell)}",
                "before": before.probability,
                "after": after.probability,
                "now": room.name(after.predicted) if after.predicted != before.predicted else None,
                "reached": after.predicted == cf.target,
                "without": _without(view, number - 1) if view.swaps is not None else None,
            }
        )
    return swaps


def cell_label(grid: GridShape, cell: int, swap: Mapping[str, Any] | None) -> str:
    """Return the accessible name of a cell: where it is, and what it is swapped for."""
    place = grid.place(cell)
    label = place[0].upper() + place[1:]
    return f"{label}: swap {swap['number']}, for {swap['from']}" if swap else label


def palette_css() -> str:
    """Return the colours that are the same on every surface, as a style sheet."""
    pairs = {"target": (TARGET, TARGET_DARK), "missed": (MISSED, MISSED_DARK)}
    variables = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in pairs.items())
    edits = "".join(f".c{number}{{--edit:{color}}}" for number, color in enumerate(EDITS))
    return f":root{{{variables}--edit-ink:{EDIT_INK}}}{edits}\n"


def _without(view: View, number: int) -> str:
    assert view.swaps is not None
    return view.with_(swaps=(*view.swaps[:number], *view.swaps[number + 1 :])).query()


def trace_of(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the coordinates of the trace: what the model thinks of both classes after each swap."""
    width, height, left, bottom = 360, 150, 34, 24
    step = (width - left - 14) / max(1, len(steps) - 1)

    def at(number: int, probability: float) -> tuple[float, float]:
        return left + number * step, 10 + (1 - probability) * (height - bottom - 10)

    theirs = [at(k, s.probability) for k, s in enumerate(steps)]
    mine = [at(k, s.own) for k, s in enumerate(steps) if s.own is not None]
    every = 1 + (len(steps) - 1) // 12
    return {
        "width": width,
        "height": height,
        "target": theirs,
        "own": mine,
        "lines": [(f"{x:.1f},{y:.1f}") for x, y in theirs],
        "own_lines": [(f"{x:.1f},{y:.1f}") for x, y in mine],
        "levels": [(at(0, p)[1], f"{100 * p:.0f}") for p in (0, 0.5, 1)],
        "ticks": [(at(k, 0)[0], k) for k in range(0, len(steps), every)],
        "left": left,
    }


def cell_html(room: ExplorerService, view: View, found: Matches, version: str) -> str:
    """Return what is shown of one cell."""
    grid, drawn = room.explainer.cut.grid, room.drawn(view)
    target = room.name(view.target or 0)
    made = tuple(swap for swap in view.swaps or () if swap[0] != found.cell)

    def shown(match: Match) -> dict[str, Any]:
        image = match.cell // grid.cells
        return {
            "box": box_of(grid, match.cell % grid.cells),
            "key": str(drawn[image]),
            "probability": match.probability,
            "flips": match.flips,
            "better": match.probability > found.before,
            "go": view.with_(swaps=(*made, (found.cell, match.cell))).query(),
            "place": f"example {image + 1} of {target}, {grid.place(match.cell % grid.cells)}",
        }

    return page(
        "cell",
        view=view,
        version=version,
        side=SIDE,
        box=box_of(grid, found.cell),
        place=grid.place(found.cell),
        before=found.before,
        alike=[shown(m) for m in found.alike],
        raising=[shown(m) for m in found.raising],
        target=target,
        own=view.swaps is not None,
        auxiliary=room.explainer.auxiliary is not None,
    )


def compare_html(
    room: ExplorerService, view: View, found: Sequence[tuple[str, Counterfactual | str]], version: str
) -> str:
    """Return methods side by side."""
    drawn, rows = room.drawn(view), []
    for name, cf in found:
        row: dict[str, Any] = {"title": METHODS.get(name).title, "name": name, "error": None}
        row["go"] = view.with_(method=name, swaps=None).query()
        if isinstance(cf, str):
            rows.append({**row, "error": cf})
            continue
        pairs = [
            (
                box_of(cf.grid, e.query_cell, k),
                box_of(cf.grid, e.distractor_cell % cf.grid.cells, k),
                str(drawn[e.distractor_image]),
            )
            for k, e in enumerate(cf.edits, 1)
        ]
        rows.append({**row, "cf": cf, "pairs": pairs[:4], "marked": [p[0] for p in pairs], "more": len(pairs) - 4})
    return page("compare", rows=rows, view=view, version=version, side=SIDE)


def sliders(room: ExplorerService, view: View) -> list[dict[str, Any]]:
    """Return the sliders of a view; those its method has no use for are off, those few people move are folded."""
    method = METHODS.get(view.method)()
    most = len(room.drawn(view))
    examples = f"Examples of {room.name(view.target or 0)}"
    edits = view.edits or UNLIMITED
    rows: list[tuple[str, str, str, float, float, float, float, str]] = [
        ("n", examples, "distractors", 1, most, 1, min(view.distractors, most), "Images that regions are taken from."),
        ("edits", "Most swaps", "max_edits", 1, UNLIMITED, 1, edits, "Give up after so many."),
        ("lam", "Like for like", "lam", 0, 2, 0.05, view.lam, "How much it counts that both show the same part."),
        (
            "tau",
            "Strictness",
            "tau",
            0,
            0.3,
            0.01,
            view.tau or 0,
            "Lower is stricter; auto suits the data.",
        ),
        ("beam", "Sets at once", "beam", 1, MOST_BEAM, 1, view.beam, "How many sets of swaps are followed."),
    ]
    return [
        {
            "name": name, "title": title, "setting": setting, "least": least, "most": high, "step": step,
            "value": f"{value:g}", "help": words, "folded": name in ("lam", "tau", "beam"),
            "off": (method.distractors == 1 if name == "n" else not method.takes(setting)),
        }
        for name, title, setting, least, high, step, value, words in rows
    ]  # fmt: skip
