"""Supplement: where the network is cut (conv5_1 against conv5_3, finer grids against coarser ones)."""

from __future__ import annotations

import torch

from partswap.analysis.paper.context import TABLES, Result, Row, TableContext
from partswap.cut.layers import list_layers

#: The paper says of ResNet-50 on CUB: #Edits 8.0 at conv5_3 and 3.2 at conv5_1.
PUBLISHED = {("cub", "layer4"): "8.0 edits", ("cub", "layer4.2"): "8.0 edits", ("cub", "layer4.0"): "3.2 edits"}


@TABLES.register("layers")
def layers(lab: TableContext) -> Result:
    """Return the metrics at the default cut, at the last one, and at the last one with a finer grid."""
    rows = []
    for layer, grid in places(lab):
        for method, title in (("paper", "Vandenhende et al."), ("partswap", "partswap")):
            published = lab.family == "resnet" and method == "paper"
            numbers = PUBLISHED.get((lab.config.data, layer)) if published else None
            rows.append(Row([layer, grid, title], lab.scores(method, layer=layer), numbers))
    metrics = ["near_kp", "same_kp", "edits", "flip_rate", "seconds"]
    first = ["layer", "grid", "method"]
    return lab.result("Where the network is cut, all edits", first, metrics, rows, note=lab.note(cut=False))


def places(lab: TableContext) -> list[tuple[str, str]]:
    """Return the layers to compare, each with its grid."""
    cut = lab.bench.explainer.cut
    size = lab.bench.classifier.preprocess.shape
    layers = list_layers(lab.bench.classifier.model, probe=torch.randn(2, 3, *size))
    finer = [place for place in layers if place.grid.cells > cut.grid.cells]
    # A layer without weights after another one of the same grid (a pooling that pools nothing) is no other place.
    weighted = {name for name, m in lab.bench.classifier.model.named_modules() if any(True for _ in m.parameters())}
    alike = [place for place in layers if place.grid == cut.grid and place.name in weighted]
    chosen = {cut.layer: str(cut.grid)}
    for place in (*alike[-1:], *finer[-1:]):
        chosen[place.name] = str(place.grid)
    return list(chosen.items())
