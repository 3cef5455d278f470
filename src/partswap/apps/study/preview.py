"""A page for those who plan a study: what the lessons look like, method by method. It is never served."""

from __future__ import annotations

import html
from pathlib import Path

from partswap.apps.study.folder import Study
from partswap.apps.study.power import Power
from partswap.store import make_private

CSS = """
body { margin: 0 auto; max-width: 1180px; padding: 32px 20px 60px; background: #f4f5f8; color: #1d2430;
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 30px 0 6px; }
p { color: #4a5568; margin: 0 0 10px; max-width: 80ch; }
.row { display: grid; grid-template-columns: 150px repeat(4, 1fr); gap: 10px; align-items: center; margin: 0 0 10px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 3px; }
img { width: 100%; border-radius: 6px; display: block; }
.tests { display: grid; grid-template-columns: repeat(10, 1fr); gap: 6px; }
"""


def write_preview(folder: Path, study: Study, power: Power, *, pairs: int = 8) -> Path:
    """Write ``preview.html`` beside the study."""
    body = [f"<h1>{html.escape(study.title)}</h1><p>{html.escape(power.sentence())}</p>"]
    body.append(
        "<p>For your eyes only: this page names the classes. Participants see A and B, in random order, and get this "
        "folder's pictures one by one.</p>"
    )
    for number, pair in enumerate(study.pairs[:pairs]):
        body.append(f"<h2>{html.escape(pair.first)} and {html.escape(pair.second)}</h2>")
        for lesson in study.lessons:
            if lesson.pair == number:
                sides = [
                    _image(p.query.image, pair.first) + _image(p.distractor.image, pair.second)
                    for p in lesson.learning[:4]
                ]
                shown = "".join(f'<div class="pair">{two}</div>' for two in sides)
                title = html.escape(f"{study.titles[lesson.method]}, {lesson.setup}")
                body.append(f'<div class="row"><div>{title}</div>{shown}</div>')
        tests = "".join(_image(q.image, pair.second if q.second else pair.first) for q in pair.questions)
        body.append(f'<p>Test pictures:</p><div class="tests">{tests}</div>')
    path = folder / "preview.html"
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(study.title)}: preview</title>'
        f"<style>{CSS}</style></head><body>{''.join(body)}</body></html>\n"
    )
    make_private(path)
    path.write_text(page, "utf-8")
    return path


def _image(name: str, title: str) -> str:
    return f'<img src="images/{name}.jpg" alt="{html.escape(title)}" title="{html.escape(title)}" loading="lazy">'
