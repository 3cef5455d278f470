"""Supplement: multiply-adds of one edit."""

from __future__ import annotations

import torch

from partswap.analysis.paper.context import TABLES, Result, TableContext
from partswap.evaluators.costs import module_macs
from partswap.grid import FeatureGrids
from partswap.search.screening import screen_size, screened_macs
from partswap.utils.tables import Cell, ResultTable

#: The paper's own figures for VGG-16, one distractor, in 1e9.
PUBLISHED = {"every candidate, the whole head": 318.8, "with the 10 % prefilter": 59.6, "semantic term": 8.2}


@TABLES.register("cost")
def cost(lab: TableContext) -> Result:
    """Return the cost of one edit, the authors' way and ours, for one distractor and for many."""
    bench = lab.bench
    cut, size = bench.explainer.cut, bench.classifier.preprocess.shape
    image = torch.randn(1, 3, *size).to(bench.explainer.device)
    with torch.no_grad():
        grids = cut.features(image)
    features = module_macs(cut.features, image)
    whole = module_macs(lambda values: cut.head(FeatureGrids(values, grids.context)), grids.values)
    cells = cut.grid.cells
    auxiliary = bench.explainer.auxiliary
    rows: list[list[Cell]] = []
    for count in (1, lab.config.distractors):
        candidates = count * cells * cells
        donors = grids.values.expand(count, -1, -1, -1)
        evaluator = bench.explainer.plan.evaluator(grids.values[0], donors, 2**30, grids.context)
        macs = evaluator.macs_per_candidate()
        screened = min(candidates, screen_size(evaluator, beam=1) or candidates)
        both = (1 + count) * features
        ways = {
            "every candidate, the whole head": both + candidates * whole,
            "with the 10 % prefilter": both + 0.1 * candidates * whole,
            "partswap, every candidate, exact": both + candidates * macs,
            "partswap, screened, first edit": both + screened_macs(evaluator, whole, screened),
        }
        if auxiliary is not None:
            inputs = auxiliary.inputs([bench.classifier.preprocess.crop(bench.data.image(0))])
            with torch.no_grad():
                channels = auxiliary.forward(inputs).shape[1]
            ways["semantic term"] = (1 + count) * module_macs(auxiliary.model, inputs) + candidates * channels
        for way, macs in ways.items():
            published = PUBLISHED.get(way) if lab.comparable and count == 1 else None
            rows.append([count, way, macs / 1e9, (macs - both) / 1e9 if way != "semantic term" else None, published])
    columns = ["distractors", "way", "1e9 multiply-adds", "without the features", "paper"]
    where = f"{bench.classifier.architecture} cut at {cut.layer}"
    note = f"{where}: features {features / 1e9:.2f}e9, head {whole / 1e9:.3f}e9."
    return Result(ResultTable("Multiply-adds of one edit", columns, rows, note, digits=2))
