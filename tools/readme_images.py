"""Make the README's pictures: ``python tools/readme_images.py`` (needs Chromium for the first)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from partswap.aviary.sheet import contact_sheet
from partswap.pictures import CSS, counterfactual_html
from partswap.search import METHODS
from partswap.studies.demo import run_demo

OUT = Path(__file__).parents[1] / "docs" / "images"
#: Which of the demo's queries to show, by species.
SHOWN = ("Fox-tailed Banded Thrush", "Plain Finch")


def main() -> None:
    """Write docs/images/demo.png and docs/images/aviary.jpg."""
    OUT.mkdir(parents=True, exist_ok=True)
    contact_sheet(7).resize((1120, 700), Image.Resampling.LANCZOS).save(OUT / "aviary.jpg", quality=82)
    with tempfile.TemporaryDirectory() as folder:
        result = run_demo()
        cards = []
        for species in SHOWN:
            cards.append("<section>")
            for method in ("goyal", "partswap"):
                found = [cf for cf, _ in result.explained[method]]
                cf = next(cf for cf in found if cf.class_name(cf.query_class) == species)
                title = f"{METHODS.get(method).title}: {cf.class_name(cf.query_class)} → {cf.class_name(cf.target)}"
                cards.append(counterfactual_html(cf, style=False, title=title))
            cards.append("</section>")
        page = Path(folder) / "page.html"
        style = (
            f"body{{margin:14px;background:#f5f6f9}}main{{display:grid;grid-template-columns:1fr 1fr;gap:0 14px}}{CSS}"
        )
        style += ".ps-card{margin:0 0 14px}.ps-row svg.ps-image{width:142px}"
        style += ".ps-row figcaption{max-width:142px}"
        page.write_text(f"<meta charset=utf-8><style>{style}</style><main>{''.join(cards)}</main>")
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            raise SystemExit("no Chromium here: docs/images/demo.png was not made")
        shot = Path(folder) / "shot.png"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        flags += ["--disable-background-networking", f"--user-data-dir={folder}/profile", "--window-size=1360,1400"]
        subprocess.run([chromium, *flags, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True)
        picture = Image.open(shot).convert("RGB")
        rows = [y for y in range(picture.height) if picture.crop((0, y, 1360, y + 1)).getcolors(1) is None]
        picture = picture.crop((0, 0, 1360, max(rows) + 14))
        picture.quantize(255, method=Image.Quantize.MEDIANCUT).save(OUT / "demo.png", optimize=True)


if __name__ == "__main__":
    main()
