"""Write docs/results from what tools/cub60.sh and tools/cub60_tables.sh left in their folder.

``python tools/results_page.py OUT_FOLDER``
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

#: Tables of the second script by model, in the order of the page.
TABLES = {
    "vgg16": ["sota", "components", "foreground", "temperature", "hard-soft", "selection", "prefilter"],
    "resnet50": ["sota", "components"],
}
DOCS = Path(__file__).parents[1] / "docs" / "results"
PAGE = Path(__file__).with_suffix(".md").read_text()


def main(out: Path) -> None:
    """Read the folder, write the page."""
    # A step that was resumed has several lines; the last one of all is from the very beginning.
    times: dict[str, int] = {}
    for name, seconds in (line.split() for line in (out / "times.txt").open()):
        times[name] = int(seconds) + (0 if name == "all" else times.get(name, 0))
    about = {
        name: json.loads((out / name / "model.json").read_text())["record"] for name in ("vgg16", "resnet50", "parts")
    }
    script, tables = ((Path(__file__).parent / name).read_text() for name in ("cub60.sh", "cub60_tables.sh"))
    facts = {
        "minutes": f"{times['all'] / 60:.0f}",
        "vgg16": f"{about['vgg16']['accuracy']:.1%}",
        "resnet50": f"{about['resnet50']['accuracy']:.1%}",
        "parts": f"{100 * about['parts']['mean_ap']:.1f}",
        "by_part": ", ".join(f"{p} {100 * v:.0f}" for p, v in about["parts"]["average_precision"].items()),
        "script": script[script.index("set -eu") :].rstrip(),
        "tables_script": tables[tables.index("set -eu") :].rstrip(),
        **{f"{name}_minutes": f"{times[name] / 60:.0f}" for name in about},
        "auxiliary": (out / "auxiliary" / "auxiliary.md").read_text().strip(),
    }
    for model, names in TABLES.items():
        for name in names:
            made = out / f"tables-{model}" / f"{name}.md"
            shown = made.read_text().strip() if made.exists() else f"`partswap paper {name}`: not measured yet."
            facts[f"{model}_{name.replace('-', '_')}"] = shown
    figures = {"pareto": "Same-KP against the number of edits", "temperature": "weight and temperature"}
    facts["temperature_figures"] = "\n\n".join(
        f"![{text}]({name}.svg)" for name, text in figures.items() if (out / "tables-vgg16" / f"{name}.svg").exists()
    )
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / "README.md").write_text(re.sub(r"\{(\w+)\}", lambda match: facts[match[1]], PAGE))
    shutil.copy(out / "auxiliary" / "auxiliary.csv", DOCS)
    for model, names in TABLES.items():
        for name in names:
            _copy(out / f"tables-{model}" / f"{name}.csv", DOCS / f"{name}-{model}.csv")
    for figure in figures:
        _copy(out / "tables-vgg16" / f"{figure}.svg", DOCS / f"{figure}.svg")


def _copy(source: Path, target: Path) -> None:
    """Copy a file of the second script, which may not have come so far."""
    if source.exists():
        shutil.copy(source, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
