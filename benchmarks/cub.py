"""Real birds for benchmarks: photographs in the CUB-200-2011 layout, VGG-16 features, a ResNet-50 as auxiliary.

Everything slow is computed once and kept as safetensors in a cache folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from rich.progress import track
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from partswap._vision import torchvision
from partswap.data.base import Sample
from partswap.data.on_grid import CellFacts, cell_facts
from partswap.grid import GridShape
from partswap.images import Preprocess, read_image

GRID = GridShape(7, 7)
PREPROCESS = Preprocess(224, 224)


@dataclass
class Birds:
    """Photographs of some classes, with features."""

    paths: list[Path]
    labels: Tensor
    train: Tensor  # bool
    facts: list[CellFacts]
    grids: Tensor  # (n, 512, 7, 7), half precision
    aux: Tensor  # (n, 2048, 7, 7), half precision


def load_birds(reference: Path, cache: Path) -> Birds:
    """Return the birds below ``reference/data/cub60``, features through ``reference/weights``."""
    root = reference / "data" / "cub60"
    ids, paths = zip(*(line.split() for line in (root / "images.txt").read_text().splitlines()), strict=True)
    classes = _column(root / "image_class_labels.txt")
    known = sorted(set(classes.values()))
    labels = torch.tensor([known.index(classes[i]) for i in ids])
    split = _column(root / "train_test_split.txt")
    train = torch.tensor([split[i] == 1 for i in ids])
    files = [root / "images" / p for p in paths]
    facts = _facts(root, ids, files)
    cache.mkdir(parents=True, exist_ok=True)
    grids = _features(files, cache / "vgg16.safetensors", lambda: _vgg(reference))
    aux = _features(files, cache / "resnet50.safetensors", lambda: _resnet(reference))
    return Birds(files, labels, train, facts, grids, aux)


def _column(path: Path) -> dict[str, int]:
    return {line.split()[0]: int(line.split()[1]) for line in path.read_text().splitlines()}


def _facts(root: Path, ids: tuple[str, ...], files: list[Path]) -> list[CellFacts]:
    names = {}
    for line in (root / "parts" / "parts.txt").read_text().splitlines():
        number, name = line.split(maxsplit=1)
        names[number] = name.removeprefix("left ").removeprefix("right ")
    points: dict[str, list[tuple[str, float, float]]] = {}
    for line in (root / "parts" / "part_locs.txt").read_text().splitlines():
        image, part, x, y, visible = line.split()
        if visible == "1":
            points.setdefault(image, []).append((names[part], float(x), float(y)))
    found = []
    canvas = Image.new("RGB", (224, 224))
    for image, path in zip(ids, files, strict=True):
        with Image.open(path) as picture:
            width, height = picture.size
        scale = 224 / min(width, height)
        left, top = (round(width * scale) - 224) // 2, (round(height * scale) - 224) // 2
        keypoints: dict[str, list[tuple[float, float]]] = {}
        for part, x, y in points.get(image, []):
            keypoints.setdefault(part, []).append((x * scale - left, y * scale - top))
        found.append(cell_facts(Sample(image, canvas, 0, keypoints), GRID))
    return found


def _vgg(reference: Path) -> nn.Module:
    model = torchvision().models.vgg16().features
    state = load_file(reference / "weights" / "vgg16_features_imagenet.safetensors")
    model.load_state_dict({k.removeprefix("features."): v.float() for k, v in state.items()})
    return model.eval()


def _resnet(reference: Path) -> nn.Module:
    model = torchvision().models.resnet50()
    for stage in (model.layer2, model.layer3, model.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    state = load_file(reference / "weights" / "resnet50_v1_imagenet.safetensors")
    model.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
    stem = (model.conv1, model.bn1, model.relu, model.maxpool)
    return nn.Sequential(*stem, model.layer1, model.layer2, model.layer3, model.layer4[0]).eval()


@torch.inference_mode()
def _features(files: list[Path], path: Path, build: object) -> Tensor:
    if path.exists():
        return load_file(path)["grids"]
    model = build().to(memory_format=torch.channels_last)  # type: ignore[operator]
    out = []
    for start in track(range(0, len(files), 16), description=path.stem):
        batch = torch.stack([PREPROCESS(read_image(f))[0] for f in files[start : start + 16]])
        with torch.autocast("cpu", torch.bfloat16):
            out.append(model(batch.contiguous(memory_format=torch.channels_last)).half().contiguous())
    grids = torch.cat(out)
    save_file({"grids": grids}, path)
    return grids


def trained_head(birds: Birds, hidden: int, cache: Path, *, epochs: int = 14) -> nn.Module:
    """Return a VGG-like head trained on the training birds' features: three linear layers of width `hidden`."""
    classes = int(birds.labels.max()) + 1
    torch.manual_seed(0)
    head = nn.Sequential(
        nn.Flatten(1), nn.Linear(512 * 49, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(hidden, classes),
    )  # fmt: skip
    path = cache / f"head_{hidden}.safetensors"
    if path.exists():
        head.load_state_dict(load_file(path))
        return head.eval()
    chosen = birds.train.nonzero().flatten()
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-4 if hidden > 1000 else 3e-4, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [int(epochs * 0.7), int(epochs * 0.9)], 0.1)
    for _ in track(range(epochs), description=f"head {hidden}"):
        for batch in chosen[torch.randperm(len(chosen))].split(64):
            x = birds.grids[batch].float()
            flip = torch.rand(len(x)) < 0.5
            x[flip] = x[flip].flip(3)
            loss = F.cross_entropy(head(x), birds.labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    save_file(head.state_dict(), path)
    return head.eval()
