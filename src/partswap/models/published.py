"""Published weights: fetching them, and taking the backbone out of the file they come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import torch
from torch import Tensor, nn

from partswap.errors import PartswapError, SettingError
from partswap.models.weights import load_strictly, read_weights


@dataclass(frozen=True)
class PublishedWeights:
    """A file of weights as its authors lay it out; what is neither backbone nor head in it is an error."""

    url: str | None  #: where the official file is; None if there is none, so that a local one must be given
    prefix: str = ""  #: how the backbone's names begin, if they do (a file of the backbone alone is read, too)
    heads: tuple[str, ...] = ()  #: how the other names begin: projections, prototypes, queues, classifiers

    def load(
        self,
        model: nn.Module,
        weights: str | Path | None,
        adapt: Callable[[dict[str, Tensor], nn.Module], Mapping[str, Tensor]] | None = None,
    ) -> None:
        """Load the backbone from a file, by default the official one; every tensor must be there and fit."""
        if weights is None:
            if self.url is None:
                raise SettingError("there are no official weights of this auxiliary.", "Pass a file as weights.")
            weights = fetch(self.url)
        backbone = self.backbone(read_weights(weights))
        layout = f"in the layout of {self.url}" if self.url else "of that architecture"
        load_strictly(model, adapt(backbone, model) if adapt else backbone, str(weights), fix=f"Pass a file {layout}.")

    def backbone(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the backbone's tensors, in single precision."""
        named = {key.removeprefix(self.prefix): value for key, value in state.items()}
        tensors = {key: value for key, value in named.items() if not key.startswith(self.heads)}
        return {key: value.float() if value.is_floating_point() else value for key, value in tensors.items()}


def local_file(url: str | None) -> Path | None:
    """Return the file behind a URL if it is in torch hub's folder of checkpoints."""
    path = _place(url) if url else None
    return path if path is not None and path.is_file() else None


def _place(url: str) -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]


def fetch(url: str) -> Path:
    """Return the file behind a URL, from torch hub's folder of checkpoints or downloaded into it."""
    path = _place(url)
    if path.is_file():
        return path
    digest = torch.hub.HASH_REGEX.search(path.name)  # some names end with the start of the file's hash
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), hash_prefix=digest.group(1) if digest else None, progress=True)
    except (OSError, RuntimeError, HTTPException) as error:
        raise PartswapError(
            f"{url} could not be fetched ({type(error).__name__}: {error}).",
            "Without a network, download it elsewhere and pass the local file as weights.",
        ) from error
    return path
