"""From what the demo found to a report."""

from __future__ import annotations

import hashlib

from PIL import Image

from partswap.analysis.demo import DemoResult
from partswap.apps.report.model import ModelMistakes, PictureNumbers, ReportData, ReportedMethod
from partswap.drawing.html import used_distractors
from partswap.metrics import score_all
from partswap.search import METHODS
from partswap.utils.estimates import RESAMPLES


def collect_demo(result: DemoResult, *, title: str = "partswap on the aviary") -> ReportData:
    """Return the demo's explanations as a report."""
    report = ReportData(title, result.note, mistakes=[ModelMistakes("", result.confusion)])

    def picture(image: Image.Image) -> int:
        return report.thumbnails.add(hashlib.sha1(image.tobytes(), usedforsecurity=False).digest(), image)

    for method, rows in result.explained.items():
        scores = score_all(rows, resamples=RESAMPLES)
        grid = rows[0][0].grid
        report.sources.append(ReportedMethod(METHODS.get(method).title, "", method, grid, scores, model=0))
        for number, (cf, evidence) in enumerate(rows):
            assert cf.pictures is not None
            used = set(used_distractors(cf))
            distractors = [picture(im) if k in used else None for k, im in enumerate(cf.pictures.distractors)]
            case = report.case(number, f"bird {number + 1}")
            numbers = PictureNumbers(picture(cf.pictures.query), distractors)
            report.add(len(report.sources) - 1, case, cf, evidence, numbers)
    return report
