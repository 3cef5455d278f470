"""Train the small aviary networks whose weights ship with the package.

``partswap aviary train vgg | resnet | auxiliary`` runs these; each takes a few minutes on two cores. The auxiliary
never sees a label: it learns that a cell and the same spot of a recoloured, turned, cropped copy of the image
belong together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn

from partswap.data.on_grid import cell_facts
from partswap.data.sets.aviary import Aviary
from partswap.errors import SettingError
from partswap.grid import GridShape, resize_grid
from partswap.models.precision import autocast, fast_precision
from partswap.models.shipped import NORMALIZATION, build, normalize
from partswap.models.small import SmallResNet, SmallVGG
from partswap.models.weights import write_tensors

console = Console()


def train(which: str, out: Path, *, per_class: int = 200, epochs: int | None = None, seed: int = 0) -> float:
    """Train one of the shipped networks and save it in half precision.

    Parameters
    ----------
    which : {"vgg", "resnet", "auxiliary"}
        The network.
    out : pathlib.Path
        Where the safetensors file goes.
    per_class : int
        How many images of each species to draw.
    epochs : int, optional
        Passes over them; the default is what the shipped weights had.
    seed : int
        For weights, order and augmentation.

    Returns
    -------
    float
        Test accuracy of a classifier; for the auxiliary, how often a keypoint's nearest cell in another image
        holds the same part (labels serve for this number only).
    """
    torch.manual_seed(seed)
    model = build(which)
    if per_class < 10 or (epochs is not None and epochs < 1):
        raise SettingError(f"per_class={per_class}, epochs={epochs}.", "Use at least 10 images and 1 epoch.")
    classifier = which != "auxiliary"
    data = Aviary("train" if classifier else "unlabelled", per_class=per_class if classifier else per_class * 3 // 5)
    console.print(f"drawing {len(data):,} birds ...")
    images = _images(data)
    if isinstance(model, SmallVGG | SmallResNet):
        labels = torch.from_numpy(data.labels())
        _fit_classifier(model, images, labels, epochs or (18 if which == "vgg" else 12), seed)
    else:
        _fit_auxiliary(model, images, epochs or 8, seed)
    model.eval()
    half = {k: v.half() if v.is_floating_point() else v for k, v in model.state_dict().items()}
    write_tensors(out, half, place="out")
    score = _accuracy(model) if classifier else part_matching(model)
    console.print(f"{which}: {score:.1%}, saved {out} ({out.stat().st_size / 1e6:.2f} MB)")
    return score


def _images(data: Aviary) -> Tensor:
    """Draw all images, ``(n, 3, 224, 224)`` uint8, channels last in memory as convolutions like them."""
    return torch.from_numpy(data.pixels(workers=os.cpu_count() or 1)).permute(0, 3, 1, 2)


def _descend(
    model: nn.Module,
    more: Sequence[nn.Parameter],
    loss: Callable[[Tensor, float], Tensor],
    count: int,
    epochs: int,
    generator: torch.Generator,
    *,
    batch: int,
    peak: float,
    warm: float,
    decay: float,
) -> None:
    """Train a model and `more` parameters in one cycle of the learning rate.

    `loss` is given the numbers of the images of a step, and the share of all steps that are done.
    """
    per_epoch = count // batch
    steps = epochs * per_epoch
    optimiser = torch.optim.AdamW([*model.parameters(), *more], lr=1e-3, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, peak, total_steps=steps, pct_start=warm)
    model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    for epoch in range(epochs):
        order, total = torch.randperm(count, generator=generator), 0.0
        for step, chosen in enumerate(order[: per_epoch * batch].split(batch)):
            value = loss(chosen, (epoch * per_epoch + step) / steps)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()
            total += value.item()
        console.print(f"epoch {epoch + 1:3d}: loss {total / per_epoch:.3f}", highlight=False)


def _fit_classifier(model: SmallVGG | SmallResNet, images: Tensor, labels: Tensor, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # A linear classifier on the mean of the cells is trained beside the head and thrown away: a flattened head alone
    # takes long to teach the features that a crown is a crown wherever it is.
    coach = nn.Linear(96, int(labels.max()) + 1)

    def loss(chosen: Tensor, _: float) -> Tensor:
        pixels = images[chosen]
        flips = torch.rand(len(chosen), generator=generator) < 0.5
        pixels[flips] = pixels[flips].flip(3)
        pixels = _shifted(pixels, generator)
        gain = 0.85 + 0.3 * torch.rand(len(chosen), 1, 1, 1, generator=generator)
        with autocast(fast_precision()):
            grid = model.features(normalize(pixels).mul_(gain))
            logits, guess = model.classify(grid).float(), coach(grid.mean((2, 3))).float()
        own, coached = (F.cross_entropy(x, labels[chosen], label_smoothing=0.05) for x in (logits, guess))
        return own + 0.5 * coached

    _descend(model, list(coach.parameters()), loss, len(images), epochs, generator,
             batch=64, peak=4e-3, warm=0.2, decay=0.05)  # fmt: skip


def _shifted(pixels: Tensor, generator: torch.Generator, most: int = 20) -> Tensor:
    """Move every image ``(3, h, w)`` by a random number of pixels; the edge is repeated."""
    size = pixels.shape[-1]
    moves = torch.randint(-most, most + 1, (len(pixels), 2), generator=generator).tolist()
    at = torch.arange(size)
    out = torch.empty_like(pixels)
    for k, (dy, dx) in enumerate(moves):
        rows, cols = (at + dy).clamp(0, size - 1), (at + dx).clamp(0, size - 1)
        out[k] = pixels[k].permute(1, 2, 0)[rows][:, cols].permute(2, 0, 1)
    return out


@torch.inference_mode()
def _accuracy(model: nn.Module) -> float:
    data = Aviary("test", per_class=20)
    found = torch.cat([model(normalize(x)).argmax(1) for x in _images(data).split(64)])
    return float((found == torch.from_numpy(data.labels())).float().mean())


def _random_affine(count: int, generator: torch.Generator) -> Tensor:
    """Return ``(count, 2, 3)`` maps from a view's canvas to the image's, both in [-1, 1]."""

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    zoom, angle = uniform(0.55, 1.05), uniform(-0.5, 0.5)
    mirror = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    room = (1.05 - zoom).clamp(min=0.08)
    shift_x, shift_y = uniform(-1, 1) * room, uniform(-1, 1) * room
    cos, sin = torch.cos(angle) * zoom, torch.sin(angle) * zoom
    rows = [torch.stack([cos * mirror, -sin, shift_x], 1), torch.stack([sin * mirror, cos, shift_y], 1)]
    return torch.stack(rows, 1)


def _warp(x: Tensor, to_image: Tensor, size: int = 160) -> Tensor:
    where = F.affine_grid(to_image, [len(x), 3, size, size], align_corners=False)
    return F.grid_sample(x, where, padding_mode="reflection", align_corners=False)


def _recolour(x: Tensor, generator: torch.Generator) -> Tensor:
    """Change the colours of [0, 1] images so much that only shape and place identify a part."""
    n = len(x)
    mixed = torch.stack([image[torch.randperm(3, generator=generator)] for image in x])
    grey = x.mean(1, keepdim=True).expand_as(x)
    strength = torch.rand(n, 1, 1, 1, generator=generator)
    mixed = grey + (mixed - grey) * (0.2 + 1.1 * strength)
    negative = (torch.rand(n, 1, 1, 1, generator=generator) < 0.15).float()
    mixed = mixed * (1 - negative) + (1 - mixed) * negative
    gain = 0.6 + 0.8 * torch.rand(n, 3, 1, 1, generator=generator)
    lift = 0.4 * (torch.rand(n, 1, 1, 1, generator=generator) - 0.5)
    return ((mixed - 0.5) * gain + 0.5 + lift).clamp(0, 1)


def _fit_auxiliary(model: nn.Module, images: Tensor, epochs: int, seed: int) -> None:
    """Contrast cells within an image, and agree on shared prototypes across images.

    The first keeps the head of an image apart from its tail. The second (swapped assignments with equal use of all
    prototypes, as in SwAV, per cell) makes the heads of different images alike and never pushes two of them apart.
    """
    generator = torch.Generator().manual_seed(seed)
    prototypes = nn.Parameter(F.normalize(torch.randn(96, 64, generator=generator), dim=1))

    def loss(chosen: Tensor, done: float) -> Tensor:
        x = images[chosen].float() / 255
        maps = [_random_affine(len(x), generator) for _ in range(2)]
        views = [_recolour(_warp(x, m), generator) for m in maps]
        both = torch.cat(views).sub(NORMALIZATION[0]).div(NORMALIZATION[1])
        with autocast(fast_precision()):
            grids = model(both.contiguous(memory_format=torch.channels_last)).float()
        contrast, cluster = _auxiliary_losses(grids, maps, prototypes, generator)
        return contrast + min(1.0, done / 0.25) * cluster  # prototypes only mean something once cells do

    _descend(model, [prototypes], loss, len(images), epochs, generator,
             batch=32, peak=2e-3, warm=0.15, decay=0.02)  # fmt: skip


def _auxiliary_losses(
    grids: Tensor, maps: list[Tensor], prototypes: Tensor, generator: torch.Generator, points: int = 64
) -> tuple[Tensor, Tensor]:
    """Return the two losses on random spots that both views see."""
    count = len(grids) // 2
    spots = torch.rand(count, points * 3, 2, generator=generator) * 2 - 1  # on the image's canvas
    inside = torch.ones(count, points * 3, dtype=torch.bool)
    found = []
    for grid, to_image in zip(grids.split(count), maps, strict=True):
        linear, shift = to_image[:, :, :2], to_image[:, :, 2]
        at = torch.linalg.solve(linear, (spots - shift[:, None]).transpose(1, 2)).transpose(1, 2)
        inside &= (at.abs() < 0.96).all(2)
        sampled = F.grid_sample(grid, at[:, :, None], align_corners=False)[..., 0]
        found.append(F.normalize(sampled.transpose(1, 2), dim=2))
    # The same number of spots from every image: those both views see come first.
    order = inside.float().argsort(dim=1, descending=True, stable=True)[:, :points]
    a, b = (torch.gather(f, 1, order[..., None].expand(-1, -1, f.shape[2])) for f in found)
    valid = torch.gather(inside, 1, order)
    logits = torch.einsum("npd,nqd->npq", a, b) / 0.1
    logits = logits.masked_fill(~valid[:, None, :], -1e4)
    aim = torch.arange(points).expand(count, -1)
    both_ways = (logits, logits.transpose(1, 2).masked_fill(~valid[:, None, :], -1e4))
    contrast = torch.stack([F.cross_entropy(w[valid], aim[valid]) for w in both_ways]).mean()
    centres = F.normalize(prototypes, dim=1)
    scores = [f[valid] @ centres.T for f in (a, b)]
    with torch.no_grad():
        codes = [_sinkhorn(s) for s in scores]
    swapped = ((codes[0], scores[1]), (codes[1], scores[0]))
    cluster = torch.stack([-(q * F.log_softmax(s / 0.1, 1)).sum(1).mean() for q, s in swapped]).mean()
    return contrast, cluster


def _sinkhorn(scores: Tensor, *, sharpness: float = 0.05, rounds: int = 3) -> Tensor:
    """Return soft assignments that use all prototypes equally."""
    q = torch.exp((scores - scores.max()) / sharpness)
    for _ in range(rounds):
        q = q / q.sum(0, keepdim=True).clamp(min=1e-12) / q.shape[1]
        q = q / q.sum(1, keepdim=True).clamp(min=1e-12) / q.shape[0]
    return q * q.shape[0]


@torch.inference_mode()
def part_matching(model: nn.Module, *, count: int = 120, grid: int = 7) -> float:
    """Return how often the cell nearest to a keypoint's cell, in another bird, holds the same part."""
    data = Aviary("test", per_class=math.ceil(count / 40))
    samples = [data[i] for i in range(count)]
    images = torch.from_numpy(np.stack([np.asarray(s.image) for s in samples])).permute(0, 3, 1, 2)
    features = torch.cat([model(normalize(x)) for x in images.split(40)])
    shape = GridShape(grid, grid)
    cells = F.normalize(resize_grid(features, shape).flatten(2).transpose(1, 2), dim=2)
    held = [cell_facts(sample, shape).keypoints or () for sample in samples]
    right = total = 0
    for i in range(count):
        j = (i + 17) % count  # another family
        nearest = (cells[i] @ cells[j].T).argmax(1)
        for parts, there in zip(held[i], nearest.tolist(), strict=True):
            right += len(parts & held[j][there])
            total += len(parts)
    return right / total
