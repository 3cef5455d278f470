"""Write docs/results from what tools/cub60.sh left in its folder: ``python tools/results_page.py OUT``."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1] / "docs" / "results"
PAGE = Path(__file__).with_suffix(".md").read_text()


def main(out: Path) -> None:
    """Read the folder, write the page."""
    times = {name: int(seconds) for name, seconds in (line.split() for line in (out / "times.txt").open())}
    about = {
        name: json.loads((out / name / "model.json").read_text())["record"] for name in ("vgg16", "resnet50", "parts")
    }
    script = (Path(__file__).parent / "cub60.sh").read_text()
    facts = {
        "minutes": f"{times['all'] / 60:.0f}",
        "vgg16": f"{about['vgg16']['accuracy']:.1%}",
        "resnet50": f"{about['resnet50']['accuracy']:.1%}",
        "parts": f"{100 * about['parts']['mean_ap']:.1f}",
        "by_part": ", ".join(f"{p} {100 * v:.0f}" for p, v in about["parts"]["average_precision"].items()),
        "script": script[script.index("set -eu") :].rstrip(),
        **{f"{name}_minutes": f"{times[name] / 60:.0f}" for name in about},
        "auxiliary": (out / "auxiliary" / "auxiliary.md").read_text().strip(),
    }
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / "README.md").write_text(re.sub(r"\{(\w+)\}", lambda match: facts[match[1]], PAGE))
    for suffix in ("md", "csv"):
        shutil.copy(out / "auxiliary" / f"auxiliary.{suffix}", DOCS)
    for name, source in (("imagenet", "imagenet_resnet50_v1"), ("classifier", "classifier")):
        picture = Image.open(out / "auxiliary" / f"clusters-{source}.png").convert("RGB")
        picture.thumbnail((1000, 1000))
        picture.save(DOCS / f"clusters-{name}.jpg", quality=82)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
