"""Table 4: which auxiliary finds the same parts? Same-KP of counterfactuals, and clustering into parts."""

from __future__ import annotations

import re

from partswap.analysis.clustering import cluster_parts, draw_clusters
from partswap.analysis.paper.context import TABLES, Result, TableContext, cell
from partswap.models.auxiliaries import AuxiliaryChoice
from partswap.utils.progress import tracked
from partswap.utils.tables import Cell, ResultTable

CLUSTERS = (15, 50, 250)
#: What the auxiliary learned from.
ANNOTATIONS = {
    "classifier": "class labels",
    "imagenet_resnet50": "class labels (ImageNet)",
    "imagenet_resnet50_v1": "class labels (ImageNet)",
    "efficientnet_lite0": "class labels (ImageNet)",
    "parts": "keypoints",
}
#: The paper's Same-KP and clustering accuracies on the full CUB-200-2011 with VGG-16.
PUBLISHED = {
    "classifier": "10.1 / 18.0 19.3 21.6",
    "imagenet_resnet50": "19.3 / 42.0 49.5 57.1",
    "imagenet_resnet50_v1": "19.3 / 42.0 49.5 57.1",
    "moco": "18.1 / 33.8 44.1 52.2",
    "swav": "22.1 / 45.3 54.2 62.6",
    "deepcluster": "22.0 / 45.3 54.9 63.5",
    "parts": "22.2 / 46.0 59.2 75.4",
}


@TABLES.register("auxiliary")
def auxiliary(lab: TableContext) -> Result:
    """Return each auxiliary's Same-KP with one distractor, its clustering accuracy, and pictures of clusters."""
    bench = lab.bench
    facts = [bench.facts[index] for index in tracked(range(len(bench.data)), "annotations", lab.track)]
    rows: list[list[Cell]] = []
    figures = {}
    for choice in lab.auxiliaries:
        with_choice = bench.with_auxiliary(choice)
        opened, aux = with_choice.explainer.auxiliary, with_choice.encodings.aux
        assert opened is not None  # there is an auxiliary
        assert aux is not None
        scores = lab.scores("paper", auxiliary=str(choice), distractors=1)
        counts = tracked(CLUSTERS, f"clusters of {choice.name}", lab.track)
        clustered = [cluster_parts(aux, facts, k, seed=lab.config.seed) for k in counts]
        preprocess, grid = bench.classifier.preprocess, bench.explainer.cut.grid
        figures[picture_name(choice)] = draw_clusters(bench.data, preprocess, clustered[1], grid)
        if choice.name == "auto":  # what it stands for
            choice = AuxiliaryChoice.parse(opened.name)
        label = choice.name + (f" ({choice.layer})" if choice.layer else "")
        row: list[Cell] = [label, ANNOTATIONS.get(choice.name, "none")]
        row += [cell(scores, name) for name in ("same_kp", "near_kp", "edits")]
        row += [100 * c.accuracy for c in clustered]
        rows.append([*row, lab.published(PUBLISHED.get(choice.name))])
    columns = ["auxiliary", "annotations", "Same-KP", "Near-KP", "#Edits", *(f"K={k}" for k in CLUSTERS)]
    note = (
        f"{scores['flip_rate'].count} images of {len(bench.data)}, {bench.classifier.architecture} cut at "
        f"{bench.explainer.cut.layer}, the paper's greedy search with one distractor, all edits. "
        "K: part clustering accuracy."
    )
    if lab.comparable:
        note += " Last column: Same-KP / K=15, 50, 250 as published, VGG-16 on all 200 classes."
    return Result(ResultTable("Auxiliary models", [*columns, "paper (CUB-200)"], rows, note), figures)


def picture_name(choice: AuxiliaryChoice) -> str:
    """Return the name of the file of an auxiliary's clusters; a trained auxiliary is named by its folder."""
    name = "-".join(["clusters", choice.name, *([choice.layer] if choice.layer else [])])
    return re.sub(r"[^\w.+-]+", "-", name)
