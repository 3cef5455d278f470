"""Pages: templates, filled with counterfactuals; cells become coordinates here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from partswap.apps.explorer.cells import CandidateCell, CellCandidates
from partswap.apps.explorer.service import ExplorerService
from partswap.apps.explorer.view import MOST_BEAM, UNLIMITED, View
from partswap.apps.templates import templates
from partswap.drawing.palette import EDITS, css_variables
from partswap.grid import GridShape
from partswap.metrics.clarity import turns_into, weaknesses
from partswap.results.counterfactual import Counterfactual, Step
from partswap.results.words import percent
from partswap.search import METHODS

HERE = Path(__file__).parent
#: Side of a picture in the coordinates of its drawing.
SIDE = 448
#: Swaps that are listed; the others are folded away.
UNFOLDED = 4
#: At most so many unused distractors are shown.
MOST_UNUSED = 20


@cache
def _templates() -> jinja2.Environment:
    environment = templates(HERE / "templates")
    environment.filters |= {"percent": percent, "fine": _fine_percent}
    return environment


def _fine_percent(probability: float) -> str:
    """Return a probability in percent with two significant digits: candidates for a cell differ by little."""
    if not 0.0001 <= probability <= 0.995:
        return percent(probability)
    return f"{100 * probability:.{sum(probability < limit for limit in (0.00995, 0.0995))}f} %"


def page(name: str, /, **values: Any) -> str:
    """Return a page, or a part of one."""
    return _templates().get_template(f"{name}.html").render(**values)


@dataclass(frozen=True)
class CellBox:
    """The outline of a cell in the coordinates of a drawing."""

    x: float
    y: float
    w: float
    h: float
    cell: int
    number: int = 0  #: of the edit, from 1
    color: int = 0

    @property
    def zoom(self) -> str:
        """The surroundings of the cell as a viewBox, moved so that they lie within the picture."""
        wide, high = min(3 * self.w, SIDE), min(3 * self.h, SIDE)
        left = min(max(self.x - (wide - self.w) / 2, 0), SIDE - wide)
        top = min(max(self.y - (high - self.h) / 2, 0), SIDE - high)
        return f"{left:.1f} {top:.1f} {wide:.1f} {high:.1f}"


def box_of(grid: GridShape, cell: int, number: int = 0) -> CellBox:
    """Return the outline of a cell; `number` is that of its edit, from 1, or 0."""
    left, top, right, bottom = grid.box(cell, (SIDE, SIDE))
    return CellBox(left, top, right - left, bottom - top, cell, number, (number - 1) % len(EDITS) if number else 0)


def result_html(service: ExplorerService, view: View, cf: Counterfactual, version: str) -> str:
    """Return the HTML of a result: the verdict, the pictures, the swaps and the trace."""
    grid, distractors, query = cf.grid, service.distractor_indices(view), service.query(view)
    steps = [cf.before, *cf.trace]
    swaps = _swaps(service, view, cf)
    used: dict[int, list[CellBox]] = {}
    for number, edit in enumerate(cf.edits, 1):
        used.setdefault(edit.distractor_image, []).append(box_of(grid, edit.image_cell, number))
    by_cell = {swap["query"].cell: swap for swap in swaps}
    cells = [(box_of(grid, cell), cell_label(grid, cell, by_cell.get(cell))) for cell in range(grid.cells)]
    by_hand = view.with_(swaps=tuple((e.query_cell, e.distractor_cell) for e in cf.edits))
    return page(
        "result",
        view=view,
        cf=cf,
        version=version,
        side=SIDE,
        by_hand=view.swaps is not None,
        first_guess=service.class_name(cf.query_class),
        target=service.class_name(cf.target),
        mistake=None if query.label in (None, cf.query_class) else service.class_name(query.label),
        label=None if query.label is None else service.class_name(query.label),
        now=service.class_name(steps[-1].predicted),
        outlier=service.is_outlier(view),
        turns=turns_into(cf),
        weak=weaknesses(cf, service.evidence(view, cf)) if view.swaps is None else [],
        first=cf.before,
        last=steps[-1],
        swaps=swaps,
        unfolded=UNFOLDED,
        cells=cells,
        used=[(str(distractors[k]), boxes) for k, boxes in used.items()],
        unused=[str(distractors[k]) for k in range(cf.distractors) if k not in used][:MOST_UNUSED],
        trace=trace_of(steps),
        gave_up=cf.source.gave_up,
        advice=cf.source.advice,
        change_by_hand=by_hand.query(),
        undo=_without(view, len(view.swaps) - 1) if view.swaps else None,
        clear=view.with_(swaps=()).query(),
        back=view.with_(swaps=None).query(),
        address=view.query(),
    )


def _swaps(service: ExplorerService, view: View, cf: Counterfactual) -> list[dict[str, Any]]:
    """Return the template's values of each swap."""
    grid, distractors, swaps = cf.grid, service.distractor_indices(view), []
    steps = [cf.before, *cf.trace]
    for number, edit in enumerate(cf.edits, 1):
        before, after = steps[number - 1 : number + 1]
        cell = edit.image_cell
        swaps.append(
            {
                "number": number,
                "query": box_of(grid, edit.query_cell, number),
                "distractor": box_of(grid, cell, number),
                "key": str(distractors[edit.distractor_image]),
                "place": grid.place(edit.query_cell),
                "from": f"example {edit.distractor_image + 1} of {service.class_name(cf.target)}, {grid.place(cell)}",
                "before": before.target_probability,
                "after": after.target_probability,
                "now": service.class_name(after.predicted) if after.predicted != before.predicted else None,
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
    """Return the colors that are the same on every surface, as a style sheet."""
    edits = "".join(f".c{number}{{--edit:{color}}}" for number, color in enumerate(EDITS))
    return f"{css_variables()}{edits}\n"


def _without(view: View, number: int) -> str:
    assert view.swaps is not None
    return view.with_(swaps=(*view.swaps[:number], *view.swaps[number + 1 :])).query()


def trace_of(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the coordinates of the trace: the probabilities of both classes after each swap."""
    width, height, left, bottom = 360, 150, 34, 24
    step = (width - left - 14) / max(1, len(steps) - 1)

    def at(number: int, probability: float) -> tuple[float, float]:
        return left + number * step, 10 + (1 - probability) * (height - bottom - 10)

    target = [at(k, s.target_probability) for k, s in enumerate(steps)]
    levels = [(k, s.original_class_probability) for k, s in enumerate(steps)]
    original = [at(k, level) for k, level in levels if level is not None]
    every = 1 + (len(steps) - 1) // 12
    return {
        "width": width,
        "height": height,
        "target": target,
        "original": original,
        "levels": [(at(0, p)[1], f"{100 * p:.0f}") for p in (0, 0.5, 1)],
        "ticks": [(at(k, 0)[0], k) for k in range(0, len(steps), every)],
        "left": left,
    }


def cell_html(service: ExplorerService, view: View, candidates: CellCandidates, version: str) -> str:
    """Return the HTML of one cell's panel."""
    grid, distractors = service.explainer.cut.grid, service.distractor_indices(view)
    target = service.class_name(view.target or 0)
    others = tuple(swap for swap in view.swaps or () if swap[0] != candidates.cell)

    def values_of(candidate: CandidateCell) -> dict[str, Any]:
        image, cell = grid.split(candidate.cell)
        return {
            "box": box_of(grid, cell),
            "key": str(distractors[image]),
            "probability": candidate.probability,
            "flips": candidate.flips,
            "better": candidate.probability > candidates.before,
            "go": view.with_(swaps=(*others, (candidates.cell, candidate.cell))).query(),
            "place": f"example {image + 1} of {target}, {grid.place(cell)}",
        }

    return page(
        "cell",
        view=view,
        version=version,
        side=SIDE,
        box=box_of(grid, candidates.cell),
        place=grid.place(candidates.cell),
        before=candidates.before,
        similar=list(map(values_of, candidates.similar)),
        raising=list(map(values_of, candidates.raising)),
        target=target,
        auxiliary=service.explainer.auxiliary is not None,
    )


def compare_html(
    service: ExplorerService, view: View, results: Mapping[str, Counterfactual | str], version: str
) -> str:
    """Return methods side by side: of each its counterfactual, or why it has none."""
    distractors, rows = service.distractor_indices(view), []
    for name, cf in results.items():
        row: dict[str, Any] = {"title": METHODS.get(name).title, "name": name, "error": None}
        row["go"] = view.with_(method=name, swaps=None).query()
        if isinstance(cf, str):
            rows.append({**row, "error": cf})
            continue
        pairs = [
            (
                box_of(cf.grid, e.query_cell, k),
                box_of(cf.grid, e.image_cell, k),
                str(distractors[e.distractor_image]),
            )
            for k, e in enumerate(cf.edits, 1)
        ]
        rows.append({**row, "cf": cf, "pairs": pairs[:4], "marked": [p[0] for p in pairs], "more": len(pairs) - 4})
    return page("compare", rows=rows, view=view, version=version, side=SIDE)


def sliders(service: ExplorerService, view: View) -> list[dict[str, Any]]:
    """Return the sliders of a view; those without effect on its method are off, rarely used ones are folded away."""
    method, most = METHODS.get(view.method)(), len(service.distractor_indices(view))
    examples = f"Examples of {service.class_name(view.target or 0)}"
    edits, count = view.edits or UNLIMITED, min(view.distractors, most)
    # Name, title, setting of the method, least, most, step, value, default and its text, help.
    rows: list[tuple[str, str, str, float, float, float, float, float, str, str]] = [
        ("n", examples, "distractors", 1, most, 1, count, most, "", "Images that regions are taken from."),
        ("edits", "Most swaps", "max_edits", 1, UNLIMITED, 1, edits, UNLIMITED, "no limit", "Give up after so many."),
        ("lam", "Like for like", "lam", 0, 2, 0.05, view.lam, View.lam, "",
         "How much it counts that both show the same part."),
        ("tau", "Strictness", "tau", 0, 0.3, 0.01, view.tau or 0, 0, "auto", "Lower is stricter; auto suits the data."),
        ("beam", "Sets at once", "beam", 1, MOST_BEAM, 1, view.beam, View.beam, "",
         "How many sets of swaps are followed."),
    ]  # fmt: skip
    names = ("name", "title", "setting", "least", "most", "step", "value", "default", "default_text", "help")
    sliders: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
    for slider in sliders:
        slider |= {name: f"{slider[name]:g}" for name in ("value", "default")}
        slider["folded"] = slider["name"] in ("lam", "tau", "beam")
        slider["off"] = method.distractors == 1 if slider["name"] == "n" else not method.takes(slider["setting"])
    return sliders
