"""``partswap train auxiliary``: learn which cells show the same part from images alone, without any label.

Several layers of a network, centered and reduced (`partswap.models.multi_layer`), know parts, but also much that has
nothing to do with them. A linear map learns what to look at: of an image and one much like it, cells that are each
other's best match are taken to show the same part, all other cells of that image not to. What matches is decided half
by the features as they were and half by the map as it is, so that it cannot run away with its own mistakes. A second
round begins with what the first has learned, and listens most to cells that find their match in many images: background
seldom does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from partswap.data.base import Dataset
from partswap.errors import SettingError
from partswap.features.encode import BATCH, auxiliary_features, fitted_auxiliary, prefetch
from partswap.inputs.preprocess import Preprocess
from partswap.models.auxiliaries.base import Auxiliary
from partswap.models.auxiliaries.trained import (
    TrainedAuxiliary,
    absolute_networks,
    multi_layer_features_of,
    open_networks,
    record_training,
)
from partswap.models.fingerprint import weights_digest
from partswap.models.multi_layer import COMPONENTS, nearest_similarity
from partswap.models.precision import device_of
from partswap.training.session import finish, load_if_finished
from partswap.utils.files import locked, make_folder, write_json
from partswap.utils.progress import Advance, Track, no_progress, tracked

#: Fewer images cannot teach anything.
LEAST = 8
#: Images that are looked at in the mirror, at most.
MIRRORED = 128
#: Directions that stand for what the training images show.
KNOWN = 64


@dataclass(frozen=True)
class MatchRecipe:
    """How the map is learned."""

    components: int = COMPONENTS  #: principal components of the layers, which it starts from
    width: int = 256  #: channels of the result
    steps: int = 1000  #: of the optimiser
    again: int = 500  #: steps of the second round; 0 is none
    pairs: int = 32  #: pairs of images per step
    neighbours: int = 15  #: an image's partner is one of so many that are most like it
    temperature: float = 0.07  #: of the softmax over a partner's cells
    lr: float = 1e-3  #: learning rate of AdamW
    weight_decay: float = 0.01
    both_ways: bool = True  #: cells are the mean of the image's and its mirror image's: two passes, better matches
    smoothing: float = 0.4  #: how much of a cell is the mean of the 3 x 3 cells around it
    trust: float = 0.5  #: how much of the decision what matches is the features' as they were
    precision: str = "float32"  #: of the network's pass
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("components", "width", "steps", "pairs", "neighbours"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}.", "Use 1 or more.")
        if self.again < 0:
            raise SettingError(f"again is {self.again}.", "Use 0 or more.")
        for name in ("temperature", "lr"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} is {getattr(self, name)}.", "Use a number above 0.")
        for name in ("trust", "smoothing"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(f"{name} is {getattr(self, name)}.", "Use a share from 0 to 1.")


def train_auxiliary(
    data: Dataset,
    start: str,
    recipe: MatchRecipe,
    out: Path,
    *,
    canvas: Preprocess | None = None,
    cache: Path | None = None,
    track: Track = no_progress,
    console: Console | None = None,
) -> TrainedAuxiliary:
    """Train an auxiliary on images, save it to `out` and return it; a second call resumes, or returns the result.

    Parameters
    ----------
    data : Dataset
        The images; nothing but their pixels is used.
    start : str
        The network, and the layers, as ``"NAME=WEIGHTS@LAYER+LAYER"``; whatever names an auxiliary or a classifier.
        Without layers, three of its last stages (see `usual_layers`). Several networks are joined by commas.
    recipe : MatchRecipe
        How.
    out : Path
        Folder of the result.
    canvas : Preprocess, optional
        How the classifier to be explained sees images; by default the network's own size, cut out of images whose short
        side is an eighth longer, as most classifiers do.
    cache, track, console
        Where features are kept, and who shows progress and messages.
    """
    console = console or Console(quiet=True)
    if len(data) < LEAST:
        raise SettingError(f"there are {len(data)} images to learn from.", f"Give at least {LEAST}; hundreds are good.")
    settings = {
        "data": data.fingerprint(), "recipe": asdict(recipe), "start": start, "canvas": canvas and canvas.record()
    }  # fmt: skip
    done = load_if_finished(TrainedAuxiliary, out, settings)
    if done is not None:
        console.print(f"{out} is finished: {_told(done.record)}", highlight=False)
        return done
    make_folder(out, place="out")
    with locked(out, wait=True):
        write_json(out / "training.json", {"kind": TrainedAuxiliary.kind, **settings}, place="out")
        opened = open_networks(start)
        view = canvas or _view(opened.preprocess)
        known_images: dict[str, Any] = {"cache": cache, "track": track}
        fitted = fitted_auxiliary(data, opened, view, components=recipe.components, **known_images)
        blend = multi_layer_features_of(fitted).with_options(flip_average=recipe.both_ways, smoothing=recipe.smoothing)
        fitted = replace(fitted, model=blend)
        grids = auxiliary_features(data, fitted, view, blend.trunks.grid, precision=recipe.precision, **known_images)
        cells = torch.from_numpy(np.array(grids, np.float32)).flatten(2).transpose(1, 2)
        matrix, mutual = learn_map(cells, recipe, track=track)
        mapped = F.normalize(cells.flatten(0, 1) @ matrix.T, dim=1)
        known = typical(mapped, KNOWN, recipe.seed)
        model = blend.projected(matrix.T, known)
        one_way = replace(opened, model=model.with_options(smoothing=recipe.smoothing))  # both ways all are found again
        record = {
            **settings,
            "images": len(data),
            "mutual": mutual,
            "mirrored": mirrored(one_way, data, view, track=track),
            "familiar": float(nearest_similarity(mapped, known)),
        }
        made = TrainedAuxiliary(
            model,
            absolute_networks(start),
            blend.layers,
            weights_digest(blend.trunks),
            opened.preprocess,
            record=record,
        )
        finish(made, out)
    record_training(out, data.fingerprint(), cache)
    console.print(f"auxiliary: {_told(record)}, saved {out}", highlight=False)
    return made


def _told(record: Mapping[str, Any]) -> str:
    return (
        f"{record['images']} images, {100 * record['mutual']:.0f} % of their cells have a mutual match in a similar "
        f"image, {100 * record['mirrored']:.0f} % are found again in the mirror"
    )


def _view(usual: Preprocess) -> Preprocess:
    """Return the crop most classifiers see, for a network that only says the size it takes."""
    return usual if usual.resize is not None else replace(usual, resize=round(min(usual.shape) * 8 / 7))


def view_of(learned: TrainedAuxiliary) -> Preprocess:
    """Return how images were seen when an auxiliary was trained."""
    canvas = learned.record["canvas"]
    return _view(learned.preprocess) if canvas is None else Preprocess.of_record(canvas)


@torch.no_grad()
def mirrored(auxiliary: Auxiliary, data: Dataset, view: Preprocess, *, track: Track = no_progress) -> float:
    """Return how often the best match of a cell in the mirrored image is the cell itself, over some of the images."""
    device, right, count = device_of(auxiliary.model), 0, 0
    chosen = range(0, len(data), -(-len(data) // MIRRORED))
    chunks = [chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH)]
    for inputs in tracked(prefetch(chunks, auxiliary.reader(data, view)), "mirror", track, total=len(chosen), size=len):
        straight, flipped = (auxiliary.forward(x.to(device)) for x in (inputs, inputs.flip(3)))
        ours, theirs = (F.normalize(g.flatten(2).transpose(1, 2), dim=2) for g in (straight, flipped.flip(3)))
        best = (ours @ theirs.transpose(1, 2)).argmax(2)
        right += int((best == torch.arange(best.shape[1], device=device)).sum())
        count += best.numel()
    return right / count


def learn_map(cells: Tensor, recipe: MatchRecipe, *, track: Track = no_progress) -> tuple[Tensor, float]:
    """Return a map ``(width, e)`` learned from cells ``(images, cells, e)``, and how many cells had a mutual match."""
    generator = torch.Generator().manual_seed(recipe.seed)
    width = min(recipe.width, cells.shape[2])
    matrix = torch.nn.init.orthogonal_(torch.empty(width, cells.shape[2]), generator=generator)
    partners, usual = nearest_images(cells, recipe.neighbours), torch.ones(cells.shape[:2])
    with track("learning parts", recipe.steps + recipe.again) as advance:
        matrix, mutual = _round(cells, cells, partners, usual, matrix, recipe.steps, recipe, generator, advance)
        if recipe.again:
            mapped = cells @ matrix.T
            partners = nearest_images(mapped, recipe.neighbours)
            weights = recurrence(mapped, partners)
            matrix, mutual = _round(cells, mapped, partners, weights, matrix, recipe.again, recipe, generator, advance)
    return matrix, mutual


def _round(
    cells: Tensor,
    known: Tensor,
    partners: Tensor,
    weights: Tensor,
    start: Tensor,
    steps: int,
    recipe: MatchRecipe,
    generator: torch.Generator,
    advance: Advance,
) -> tuple[Tensor, float]:
    """Return a map, learned from `start` on, and how many cells had a mutual match; `known` is what cells were."""
    matrix = start.clone().requires_grad_()
    optimiser = torch.optim.AdamW([matrix], lr=recipe.lr, weight_decay=recipe.weight_decay)
    matched = torch.zeros(())
    with torch.enable_grad():
        for _ in range(steps):
            one = torch.randint(len(cells), (recipe.pairs,), generator=generator)
            which = torch.randint(partners.shape[1], (recipe.pairs,), generator=generator)
            images = (one, partners[one, which])
            new = [F.normalize(cells[side] @ matrix.T, dim=2) for side in images]
            cosine = new[0] @ new[1].transpose(1, 2)
            with torch.no_grad():
                old = [F.normalize(known[side], dim=2) for side in images]
                likeness = recipe.trust * old[0] @ old[1].transpose(1, 2) + (1 - recipe.trust) * cosine
            counts = (weights[images[0]], weights[images[1]])
            loss, share = match_loss(cosine, likeness, recipe.temperature, counts)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            matched = 0.95 * matched + 0.05 * share
            advance(1)
    # A running mean that began at zero.
    return matrix.detach(), float(matched / (1 - 0.95**steps))


@torch.no_grad()
def recurrence(cells: Tensor, partners: Tensor) -> Tensor:
    """Return in how many of its image's partners each cell has a mutual best match, as a share: ``(images, cells)``."""
    rows = F.normalize(cells, dim=2)
    shares = []
    for image, others in zip(rows, partners, strict=True):
        cosine = image @ rows[others].transpose(1, 2)
        shares.append(_mutual(cosine.argmax(2), cosine.argmax(1)).float().mean(0))
    return torch.stack(shares)


def _mutual(there: Tensor, back: Tensor) -> Tensor:
    """Tell which cells ``(pairs, cells)`` are the best match of their best match."""
    return back.gather(1, there) == torch.arange(there.shape[1], device=there.device)


def match_loss(
    cosine: Tensor, likeness: Tensor, temperature: float, weights: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Return the loss of pairs of images, and the share of cells with a mutual match.

    Parameters
    ----------
    cosine : Tensor
        Of every cell of one image with every cell of the other, ``(pairs, cells, cells)``, by the map.
    likeness : Tensor
        The same shape: what decides who matches whom. The best match of a cell, if it is mutual, is its positive.
    temperature : float
        Of the softmax, which runs over the other image's cells, in both directions.
    weights : (Tensor, Tensor), optional
        How much the cells of the one and of the other image count, ``(pairs, cells)`` each; alike by default.
    """
    there, back = likeness.argmax(2), likeness.argmax(1)
    ones = torch.ones_like(there, dtype=cosine.dtype)
    losses, share = [], likeness.new_zeros(())
    for rows, mine, theirs, weight in (
        (cosine, there, back, weights[0] if weights else ones),
        (cosine.transpose(1, 2), back, there, weights[1] if weights else ones),
    ):
        mutual = _mutual(mine, theirs)
        counts = weight * mutual
        each = F.cross_entropy(rows.flatten(0, 1) / temperature, mine.flatten(), reduction="none").view_as(mine)
        losses.append((each * counts).sum() / counts.sum().clamp(min=1e-3))
        share = mutual.float().mean()
    return (losses[0] + losses[1]) / 2, share


def nearest_images(cells: Tensor, count: int) -> Tensor:
    """Return the `count` images most like each, ``(images, count)``, by their mean cell."""
    pooled = F.normalize(cells.mean(1), dim=1)
    found = []
    for start in range(0, len(pooled), 1024):  # not all pairs at once
        likeness = pooled[start : start + 1024] @ pooled.T
        rows = torch.arange(len(likeness))
        likeness[rows, start + rows] = -torch.inf  # itself
        found.append(likeness.topk(min(count, len(pooled) - 1), 1).indices)
    return torch.cat(found)


def typical(cells: Tensor, count: int, seed: int) -> Tensor:
    """Return directions ``(count, e)`` that stand for cells ``(m, e)`` of length 1."""
    from sklearn.cluster import MiniBatchKMeans

    some = cells[:: max(1, len(cells) // 20_000)].numpy()
    fitted = MiniBatchKMeans(min(count, len(some)), random_state=seed, n_init=1, batch_size=4096).fit(some)
    return F.normalize(torch.from_numpy(fitted.cluster_centers_).float(), dim=1)
