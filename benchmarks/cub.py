"""Real birds for benchmarks: photographs in the CUB-200-2011 layout, VGG-16 features, a ResNet-50 as auxiliary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import track
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from partswap import Explainer, load_auxiliary, load_model
from partswap.data.base import Dataset, open_dataset
from partswap.features.encode import EncodedImages, encode_dataset
from partswap.inputs.preprocess import Preprocess
from partswap.models.precision import fast_precision
from partswap.runs.tasks import AnnotationCache
from partswap.utils.progress import bars

PREPROCESS = Preprocess(224, 224)


@dataclass(frozen=True)
class Birds:
    """Photographs of some classes, with features; the logits of the encodings are those of an untrained head."""

    train: EncodedImages
    test: EncodedImages
    train_data: Dataset
    facts: AnnotationCache  # of the test split

    @property
    def classes(self) -> int:
        return len(self.train_data.classes)


def load_birds(cub: Path, weights: Path, cache: Path) -> Birds:
    """Return the birds of a folder in the layout of CUB-200-2011; features are computed once."""
    torch.manual_seed(0)  # the head stays random, and is part of the cache's key
    classes = len(open_dataset("cub", cub, "train").classes)
    model = load_model("vgg16", start=weights / "vgg16_features_imagenet.safetensors", classes=classes)
    auxiliary = load_auxiliary(
        "imagenet_resnet50_v1", weights=weights / "resnet50_v1_imagenet.safetensors", layer="layer4.0"
    )
    data = [open_dataset("cub", cub, split) for split in ("train", "test")]
    # Training images only teach the head: they need no auxiliary.
    explainers = [Explainer(model, auxiliary=who, preprocess=PREPROCESS) for who in (None, auxiliary)]
    train, test = (
        encode_dataset(images, explainer, cache=cache, precision=fast_precision(), track=bars)
        for images, explainer in zip(data, explainers, strict=True)
    )
    return Birds(train, test, data[0], AnnotationCache(data[1], PREPROCESS, explainers[1].cut.grid))


def trained_head(birds: Birds, hidden: int, cache: Path, *, kind: str = "flattened", epochs: int = 14) -> nn.Module:
    """Return a head of width `hidden` trained on the training birds' features.

    "flattened" is VGG-like: three linear layers. "convolutional" is ResNet-like: two 3 x 3 convolutions, then pooling.
    """
    torch.manual_seed(0)
    if kind == "convolutional":
        head = nn.Sequential(
            nn.Conv2d(512, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(),
            nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1),
            nn.Linear(hidden, birds.classes),
        )  # fmt: skip
    else:
        head = nn.Sequential(
            nn.Flatten(1), nn.Linear(512 * 49, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, hidden),
            nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, birds.classes),
        )  # fmt: skip
    path = cache / f"head_{'' if kind == 'flattened' else f'{kind}_'}{hidden}.safetensors"
    if path.exists():
        head.load_state_dict(load_file(path))
        return head.eval()
    grids, labels = birds.train.grids, torch.from_numpy(birds.train_data.labels())
    optimiser = torch.optim.AdamW(head.parameters(), lr=3e-4, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [int(epochs * 0.7), int(epochs * 0.9)], 0.1)
    for _ in track(range(epochs), description=f"head {hidden}"):
        for batch in torch.randperm(len(grids)).split(64):
            x = grids[batch].float()
            flip = torch.rand(len(x)) < 0.5
            x[flip] = x[flip].flip(3)
            loss = F.cross_entropy(head(x), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    save_file(head.state_dict(), path)
    return head.eval()


def logits_of(head: nn.Module, encoded: EncodedImages) -> Tensor:
    """Return what a head says of all images."""
    with torch.inference_mode():
        return torch.cat([head(x.float()) for x in encoded.grids.split(64)])
