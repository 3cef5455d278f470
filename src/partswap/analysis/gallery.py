"""A gallery: every kind of figure, of explanations that a rule chooses, on one page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL.Image import Image

from partswap.drawing.figures import FIGURES
from partswap.drawing.palette import INK, INK_DARK, LINE, LINE_DARK, NOTE, NOTE_DARK, PALE, PALE_DARK
from partswap.inputs.images import save_image
from partswap.metrics.clarity import CRITERIA, RULE, clarity, clearest_first
from partswap.results.counterfactual import Counterfactual, Pictures
from partswap.runs.config import RunConfig
from partswap.runs.context import RunContext
from partswap.runs.run import plan_run
from partswap.runs.tasks import Task, explain_task
from partswap.search import METHODS
from partswap.utils.files import make_folder, write_text
from partswap.utils.progress import Track, no_progress, step, tracked
from partswap.utils.registry import registered

#: Order on the page; kinds that are not named follow.
ORDER = ("edits", "best", "methods", "trace", "heat", "clusters", "sheet", "failures")
#: What is compared with the configuration's own method.
COMPARED = ("paper", "goyal")
CSS = f"""
:root {{ color-scheme: light dark; --ink: {INK}; --note: {NOTE}; --line: {LINE}; --pale: {PALE}; --ground: #f6f7f9; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: {INK_DARK}; --note: {NOTE_DARK}; --line: {LINE_DARK}; --pale: {PALE_DARK}; --ground: #101216; }}
}}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0; }}
main {{ max-width: 1180px; margin: 0 auto; padding: 24px 16px 64px; }}
h1 {{ font-size: 26px; margin: 8px 0; }} h2 {{ font-size: 18px; margin: 36px 0 2px; }}
p {{ margin: 0 0 10px; color: var(--note); }}
img {{ max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line); border-radius: 10px; }}
code {{ background: var(--pale); padding: 1px 5px; border-radius: 4px; }}
"""


def make_gallery(config: RunConfig, bench: RunContext, folder: Path, track: Track = no_progress) -> Path:
    """Explain some images, draw every kind of figure into a folder, and return the page that shows them."""
    tasks = plan_run(config, bench)[0].tasks
    explainer, data = bench.explainer, bench.data
    auxiliary = explainer.auxiliary

    @lru_cache(256)
    def picture(index: int) -> Image:
        return explainer.preprocess.crop(data.image(index))

    def explained(task: Task, method: str) -> Counterfactual:
        built = config.with_(methods=(method,)).build_methods()[method]
        cf = explain_task(explainer, task, built, bench.encodings, bench.facts.parts, picture)
        donors = tuple(picture(k) for k in task.distractors[: cf.distractors])
        return replace(cf, pictures=Pictures(picture(task.query), donors))

    method = config.methods[0]
    examples = [explained(task, method) for task in tracked(tasks, "explanations", track)]
    evidence = [bench.facts.evidence(task, cf.query_class) for task, cf in zip(tasks, examples, strict=True)]
    at = clearest_first(examples, evidence)[0]
    cf, task = examples[at], tasks[at]
    compared = [m for m in COMPARED if m != method and (auxiliary or not METHODS.get(m).needs_semantic)]
    with step(track, "other methods"):
        several = [explained(task, m) for m in compared]
    options: dict[str, dict[str, Any]] = {
        "edits": {"parts": _parts(bench, task, cf)},
        "methods": {"others": several, "titles": [METHODS.get(m).title for m in (method, *compared)]},
        "heat": {"explainer": explainer},
        "clusters": {"explainer": explainer},
        "failures": {"others": [example for k, example in enumerate(examples) if k != at]},
    }
    kinds = [kind for kind in (*ORDER, *(k for k in FIGURES if k not in ORDER)) if kind != "clusters" or auxiliary]
    make_folder(folder, place="out")
    for kind in tracked(kinds, "figures", track):
        cf.plot(folder / f"{kind}.png", kind=kind, **options.get(kind, {}))
    for name, drawn in (("image", cf.outlined(blur=True)), ("composite", cf.composite())):
        save_image(drawn.resize((2 * drawn.width, 2 * drawn.height)), folder / f"{name}.png", place="out")
    cf.save(folder / "counterfactual.json")
    where = f"{len(examples)} images of {config.data} {config.split}, {bench.classifier.architecture}."
    criteria = clarity(cf, evidence[at]).criteria
    rule = f"The explanation is the clearest of them. {RULE} It meets {criteria} of {CRITERIA} criteria."
    page = folder / "index.html"
    write_text(page, page_of(kinds, options, f"{where} {rule}"), place="out")
    return page


def page_of(kinds: Sequence[str], options: Mapping[str, Mapping[str, Any]], note: str) -> str:
    """Return the page; the note says what is drawn, and why this."""
    descriptions = registered("partswap.drawing.figures")
    parts = []
    for kind in kinds:
        names = "".join(f", {name}=..." for name in options.get(kind, {}))
        call = html.escape(f'cf.plot(kind="{kind}"{names})')
        text = html.escape(descriptions[kind].partition(": ")[2])
        parts.append(
            f'<h2 id="{kind}">{kind}</h2><p>{text[:1].upper()}{text[1:]} <code>{call}</code></p>'
            f'<img src="{kind}.png" alt="{text}" loading="lazy">'
        )
    for name, call, text in (
        ("image", "cf.outlined(blur=True)", "The query with the swapped regions outlined, the rest blurred."),
        ("composite", "cf.composite()", "The query with the regions pasted in: what the pixel check looks at."),
    ):
        parts.append(f'<h2 id="{name}">{name}</h2><p>{text} <code>{call}</code></p><img src="{name}.png" alt="{text}">')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>partswap: figures</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{CSS}</style></head><body><main>'
        f"<h1>Figures</h1><p>{html.escape(note)}</p>{''.join(parts)}</main></body></html>\n"
    )


def _parts(bench: RunContext, task: Task, cf: Counterfactual) -> list[str | None]:
    """Return the annotated part of each edit: what both cells hold, else what the query's does."""
    query_parts = bench.facts.parts(task.query)
    names: list[str | None] = []
    for edit in cf.edits:
        distractor_parts = bench.facts.parts(task.distractors[edit.distractor_image])[edit.image_cell]
        held = query_parts[edit.query_cell]
        names.append(", ".join(sorted(held & distractor_parts or held)[:2]) or None)
    return names
