"""What an auxiliary is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from PIL.Image import Image, Resampling
from torch import Tensor, nn

from partswap._cut_mirror import mirror
from partswap.errors import ShapeError
from partswap.images import Preprocess
from partswap.registry import Registry

BILINEAR = Resampling.BILINEAR


@dataclass(frozen=True)
class Auxiliary:
    """A model whose cells can be compared across images.

    Parameters
    ----------
    name : str
        For records.
    model : torch.nn.Module
        From images ``(n, 3, H, W)`` to a grid ``(n, e, h, w)``.
    preprocess : Preprocess
        What the model wants its images to be like: the size the classifier's canvas is brought to, mean and std.
    tau : float
        The temperature that suits its cosines.
    """

    name: str
    model: nn.Module
    preprocess: Preprocess
    tau: float = 0.1

    def __post_init__(self) -> None:
        # The same weights in eval mode: batch statistics would make a grid depend on what is encoded beside it.
        object.__setattr__(self, "model", mirror(self.model))

    @torch.no_grad()
    def grids(self, canvases: Sequence[Image], *, batch: int = 32) -> Tensor:
        """Return the auxiliary grids ``(n, e, h, w)`` of images as the classifier sees them."""
        device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
        side = self.preprocess.size
        out = []
        for start in range(0, len(canvases), batch):
            chunk = canvases[start : start + batch]
            # Resized, never cropped: cells of both grids must show the same places.
            inputs = torch.stack([self.preprocess.tensor(c.resize((side, side), BILINEAR)) for c in chunk])
            grids = self.model(inputs.to(device))
            if not isinstance(grids, Tensor) or grids.ndim != 4:
                got = tuple(grids.shape) if isinstance(grids, Tensor) else f"a {type(grids).__name__}"
                raise ShapeError(
                    f"the auxiliary {self.name} returned {got}.",
                    "It must map images to a grid (n, channels, height, width); cut it before its pooling.",
                )
            out.append(grids)
        return torch.cat(out)


AUXILIARIES: Registry[Callable[[], Auxiliary]] = Registry("auxiliary", "partswap.models.auxiliaries")
