"""Write docs/results from what tools/cub60.sh left in its folder: ``python tools/results_page.py OUT``."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1] / "docs" / "results"
PAGE = """# Results on real birds

60 of the 200 classes of CUB-200-2011 (whole families, so they are confusable: gulls, terns, kingfishers, woodpeckers,
...), 1,797 training and 1,708 test photographs by the official split, 256 pixels on the short side. ImageNet weights for
VGG-16 (convolutions only), ResNet-50 (the strides of He et al. 2016) and EfficientNet-Lite0. Two CPU cores, no GPU.

One script makes everything on this page, here in {minutes} minutes from an empty cache:

```sh
tools/cub60.sh CUB_FOLDER WEIGHTS_FOLDER OUT_FOLDER
python tools/results_page.py OUT_FOLDER
```

Two chains run side by side, one thread each (VGG-16; ResNet-50, parts detector and auxiliaries), then the table for VGG-16
on both cores. Killed at any moment, the script goes on. The commands it runs are at the end.

## Classifiers and parts detector

| what | result | minutes, one thread |
|---|---:|---:|
| VGG-16, last block and classifier trained | {vgg16} of test images right | {vgg16_minutes} |
| ResNet-50, last stage and classifier trained | {resnet50} of test images right | {resnet50_minutes} |
| parts detector, ResNet-50, last stage trained | mean AP {parts} | {parts_minutes} |

The trunk is frozen up to `features.23` (VGG-16) or `layer3` (ResNet-50); its output is computed once for some views of each
training image, one as at test time and the others random crops, and the rest is trained on them. Minutes include that. The
detector shares the ResNet's cached views. Test images serve for one measurement at the end of a training. The settings were
chosen beforehand in shorter experiments that did look at test accuracy (learning rates, mixup, batch norm), as the official
split has no third part.

Average precision by part: {by_part}.

## Auxiliary models

{auxiliary_vgg16}

What clusters look like (K = 50, the clusters that hold most keypoints), with the ImageNet ResNet-50 and with the classifier
itself:

![clusters of the ImageNet ResNet-50](clusters-imagenet.jpg)

![clusters of the classifier](clusters-classifier.jpg)

With ResNet-50 as the classifier (`auxiliary-resnet50.md`), from fewer images:

{auxiliary_resnet50}

## The commands

```sh
{script}
```
"""


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
        **{
            f"auxiliary_{n}": (out / f"auxiliary-{n}" / "auxiliary.md").read_text().strip()
            for n in ("vgg16", "resnet50")
        },
    }
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / "README.md").write_text(re.sub(r"\{(\w+)\}", lambda match: facts[match[1]], PAGE))
    for name in ("vgg16", "resnet50"):
        for suffix in ("md", "csv"):
            shutil.copy(out / f"auxiliary-{name}" / f"auxiliary.{suffix}", DOCS / f"auxiliary-{name}.{suffix}")
    for name, source in (("imagenet", "imagenet_resnet50_v1"), ("classifier", "classifier")):
        picture = Image.open(out / "auxiliary-vgg16" / f"clusters-{source}.png").convert("RGB")
        picture.thumbnail((1000, 1000))
        picture.save(DOCS / f"clusters-{name}.jpg", quality=82)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
