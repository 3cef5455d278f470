"""Make the README's pictures: ``python tools/readme_images.py``."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from partswap.analysis.demo import run_demo
from partswap.aviary.sheet import contact_sheet

OUT = Path(__file__).parents[1] / "docs" / "images"


def main() -> None:
    """Write docs/images/demo.png and docs/images/aviary.jpg."""
    OUT.mkdir(parents=True, exist_ok=True)
    contact_sheet(7).resize((1120, 700), Image.Resampling.LANCZOS).save(OUT / "aviary.jpg", quality=82)
    cf = run_demo(methods=("partswap",)).clearest()
    print(cf)
    cf.plot(OUT / "demo.png")
    picture = Image.open(OUT / "demo.png").convert("RGB")
    picture.quantize(255, method=Image.Quantize.MEDIANCUT).save(OUT / "demo.png", optimize=True)


if __name__ == "__main__":
    main()
