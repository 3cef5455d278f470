"""A page for those who plan a study: what the lessons look like, method by method. It is never served."""

from __future__ import annotations

import html
from pathlib import Path

from partswap.apps.study.folder import Lesson, Study
from partswap.apps.study.power import Power
from partswap.utils.files import write_text

CSS = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #4a5568; --ground: #f4f5f8; --line: #d5dae3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #aab3c2; --ground: #0f1216; --line: #343b46; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 32px 20px 60px; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 8px; }
h2 { font-size: 20px; margin: 40px 0 0; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 18px 0 8px; }
p { color: var(--soft); margin: 0 0 10px; max-width: 80ch; }
code { font: 0.9em ui-monospace, monospace; display: block; overflow-wrap: anywhere; }
.lesson { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 200px), 1fr)); gap: 12px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 3px; }
.tests { display: grid; grid-template-columns: repeat(auto-fill, minmax(96px, 1fr)); gap: 6px; }
img { width: 100%; height: auto; border-radius: 6px; display: block; }
@media print {
  :root { --ink: #000; --soft: #333; --ground: #fff; --line: #999; }
  body { max-width: none; padding: 0; font-size: 11pt; }
  h2, h3 { break-after: avoid; }
  .pair, .tests img { break-inside: avoid; }
  .lesson { grid-template-columns: repeat(5, 1fr); }
  .tests { grid-template-columns: repeat(10, 1fr); }
}
"""


def write_preview(folder: Path, study: Study, power: Power) -> Path:
    """Write ``preview.html`` beside the study: every picture of every lesson and test."""
    setups, methods = len(study.setups), len(study.methods)
    body = [
        f"<h1>{html.escape(study.title)}</h1><p>{html.escape(power.sentence())}</p>",
        f"<p>All {_count(len(study.pairs), 'pair')} of classes, {_count(methods, 'method')}, "
        f"{_count(setups, 'way')} of choosing image pairs.</p>",
        "<p>For your eyes only: this page names the classes. Participants see A and B, in random order, and get this "
        "folder's pictures one by one. To see it as they do, with nothing stored: "
        f"<code>partswap study serve {html.escape(folder.name)} --try 1</code></p>",
    ]
    for number, pair in enumerate(study.pairs):
        body.append(f"<h2>{number + 1}. {html.escape(pair.first)} and {html.escape(pair.second)}</h2>")
        body += [_lesson(study, lesson) for lesson in study.lessons if lesson.pair == number]
        tests = "".join(_image(q.image, pair.second if q.second else pair.first) for q in pair.questions)
        body.append(f'<h3>{_count(len(pair.questions), "test picture")}</h3><div class="tests">{tests}</div>')
    path = folder / "preview.html"
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(study.title)}: preview</title>"
        f"<style>{CSS}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )
    write_text(path, page, private=True)
    return path


def _lesson(study: Study, lesson: Lesson) -> str:
    pair = study.pairs[lesson.pair]
    title = html.escape(f"{study.titles[lesson.method]}, {lesson.setup}")
    shown = "".join(
        f'<div class="pair">{_image(two.query.image, pair.first)}{_image(two.distractor.image, pair.second)}</div>'
        for two in lesson.learning
    )
    return f'<h3>{title}: {_count(len(lesson.learning), "image pair")}</h3><div class="lesson">{shown}</div>'


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _image(name: str, title: str) -> str:
    return (
        f'<img src="images/{name}.jpg" alt="{html.escape(title)}" title="{html.escape(title)}" loading="lazy" '
        'width="480" height="480">'
    )
