"""What an auxiliary is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from PIL.Image import Image
from torch import Tensor, nn

from partswap.errors import ShapeError
from partswap.images import Preprocess
from partswap.registry import Registry


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
        What the model wants its images to be like; `size` also says how the classifier's canvas is enlarged.
    tau : float
        The temperature that suits its cosines.
    """

    name: str
    model: nn.Module
    preprocess: Preprocess
    tau: float = 0.1

    @torch.inference_mode()
    def grids(self, canvases: Sequence[Image], *, batch: int = 32) -> Tensor:
        """Return the auxiliary grids ``(n, e, h, w)`` of images as the classifier sees them."""
        device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
        out = []
        for start in range(0, len(canvases), batch):
            chunk = canvases[start : start + batch]
            inputs = torch.stack([self.preprocess.tensor(self.preprocess.canvas(c)) for c in chunk])
            out.append(self.model(inputs.to(device)))
        grids = torch.cat(out)
        if grids.ndim != 4:
            raise ShapeError(
                f"the auxiliary {self.name} returned {tuple(grids.shape)}.",
                "It must map images to a grid (n, channels, height, width); cut it before its pooling.",
            )
        return grids.clone()


AUXILIARIES: Registry[Callable[[], Auxiliary]] = Registry("auxiliary", "partswap.models.auxiliaries")
