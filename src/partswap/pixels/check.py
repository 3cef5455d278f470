"""The pixel check: the regions of a counterfactual are pasted into the query, and the whole network is run.

Edits live in feature space. What they claim of the image is put to the test here, in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from partswap.cut.network import Cut
from partswap.errors import SettingError
from partswap.evaluators import Activation, log_probabilities
from partswap.inputs.preprocess import Preprocess
from partswap.pixels.composite import DEFAULT_PASTE, Pair, Paste, Pixels, paste_cells, pixels_of
from partswap.results.counterfactual import Counterfactual, PixelCheck


class PixelChecker:
    """Runs the whole network on composites of one query.

    Parameters
    ----------
    cut : Cut
        The network: its features and its head, one after the other.
    preprocess : Preprocess
        How a picture becomes its input.
    query, distractors : image, sequence of image
        What the model sees of them, all of one size.
    target : int
        The class it should say.
    paste : Paste
        How regions are pasted.
    batch_size : int
        Composites that go through the network at once.
    activation : {"softmax", "sigmoid"}
        What makes probabilities of its logits.
    """

    def __init__(
        self,
        cut: Cut,
        preprocess: Preprocess,
        query: Image.Image,
        distractors: Sequence[Image.Image],
        target: int,
        *,
        device: torch.device | str = "cpu",
        paste: Paste = DEFAULT_PASTE,
        batch_size: int = 32,
        activation: Activation = "softmax",
    ) -> None:
        self.cut, self.preprocess, self.device = cut, preprocess, device
        self.paste, self.target, self.batch_size, self.activation = paste, target, batch_size, activation
        self.query = pixels_of(query)
        self.distractors = [pixels_of(image) for image in distractors]
        #: How many images went through the whole network.
        self.passes = 0

    @cached_property
    def before(self) -> float:
        """Probability of the target, of the query as it is."""
        return float(self._probabilities([self.query])[0, self.target])

    def __call__(self, sets: Sequence[Sequence[Pair]]) -> list[PixelCheck]:
        """Return the pixel check of each set of edits."""
        grid = self.cut.grid
        composites = [paste_cells(self.query, self.distractors, pairs, grid, self.paste) for pairs in sets]
        if not composites:
            return []
        probabilities = self._probabilities(composites)
        predicted = probabilities.argmax(1).tolist()
        after = probabilities[:, self.target].tolist()
        return [PixelCheck(self.before, p, k, k == self.target) for p, k in zip(after, predicted, strict=True)]

    def _probabilities(self, pictures: Sequence[Pixels]) -> Tensor:
        self.passes += len(pictures)
        rows = []
        with torch.inference_mode():
            for start in range(0, len(pictures), self.batch_size):
                inputs = [self.preprocess.tensor(Image.fromarray(p)) for p in pictures[start : start + self.batch_size]]
                logits = self.cut.head(self.cut.features(torch.stack(inputs).to(self.device)))
                rows.append(log_probabilities(logits.float(), self.activation).exp().cpu())
        return torch.cat(rows)


def pairs_of(cf: Counterfactual) -> list[Pair]:
    """Return the edits as pairs of cells."""
    return [(edit.query_cell, edit.distractor_cell) for edit in cf.edits]


def with_check(cf: Counterfactual, check: PixelCheck, names: Sequence[str] | None) -> Counterfactual:
    """Return the counterfactual with its pixel check, and the name of the class that the network then says."""
    source = cf.source
    if names and source.class_names:
        source = replace(source, class_names={**source.class_names, check.predicted: names[check.predicted]})
    return replace(cf, pixel=check, source=source)


def random_pairs(cf: Counterfactual, seed: int, *, cells: bool = True) -> list[Pair]:
    """Return a control: as many swaps as the counterfactual has, distractor cells drawn at random.

    With `cells`, the query's cells are drawn, too; without, they are the counterfactual's.
    """
    if seed < 0:
        raise SettingError(f"seed is {seed}.", "Use 0 or more.")
    rng = np.random.default_rng(seed)
    query_cells = [edit.query_cell for edit in cf.edits]
    if cells:
        query_cells = rng.choice(cf.grid.cells, len(cf), replace=False).tolist()
    distractor_cells = rng.integers(cf.grid.cells * cf.distractors, size=len(cf)).tolist()
    return list(zip(query_cells, distractor_cells, strict=True))
