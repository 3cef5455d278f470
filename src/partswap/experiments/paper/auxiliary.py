"""Table 4: which auxiliary finds the same parts? Same-KP of counterfactuals, and clustering into parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from partswap.experiments.clustering import cluster_parts, draw_clusters
from partswap.experiments.explaining import explain_tasks, plan_tasks
from partswap.experiments.setting import AuxiliaryChoice, Setting
from partswap.experiments.tables import Cell, ResultTable
from partswap.metrics import score_all
from partswap.progress import Track, no_progress
from partswap.search.paper import Paper

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


def auxiliary_table(
    setting: Setting,
    auxiliaries: Sequence[AuxiliaryChoice],
    *,
    clusters: Sequence[int] = CLUSTERS,
    queries: int | None = None,
    seed: int = 0,
    pictures: Path | None = None,
    track: Track = no_progress,
) -> ResultTable:
    """Return Table 4: each auxiliary's Same-KP with one distractor, and its part clustering accuracy.

    Parameters
    ----------
    setting : Setting
        Data and classifier; its own auxiliary is not used.
    auxiliaries : sequence of AuxiliaryChoice
        The rows.
    clusters : sequence of int
        Numbers of clusters.
    queries : int, optional
        Explain only so many images.
    pictures : Path, optional
        Folder for a picture of each auxiliary's clusters.
    """
    plain = setting.with_auxiliary(None)
    tasks = plan_tasks(plain.encodings, distractors=1, seed=seed).first(queries, seed=seed)
    facts = [setting.facts[i] for i in range(len(setting.data))]
    rows: list[Sequence[Cell]] = []
    for choice in auxiliaries:
        chosen = setting.with_auxiliary(choice)
        encodings, explainer = chosen.encodings, chosen.explainer
        assert encodings.aux is not None
        assert explainer.auxiliary is not None
        method = Paper(tau=explainer.auxiliary.tau)
        found = explain_tasks(
            explainer, encodings, tasks.tasks, method, track=track, title=f"explain with {choice.name}"
        )
        explained = [(cf, setting.facts.evidence(task)) for task, cf in found]
        scores = score_all(explained, ["near_kp", "same_kp", "edits"])
        accuracies: list[float] = []
        for k in clusters:
            clustered = cluster_parts(encodings.aux, facts, k, seed=seed)
            accuracies.append(100 * clustered.accuracy)
            if pictures is not None and k == clusters[min(1, len(clusters) - 1)]:
                draw_clusters(
                    setting.data,
                    setting.classifier.preprocess,
                    clustered,
                    explainer.split.grid,
                    pictures / f"clusters-{choice.name.replace(':', '-')}.png",
                )
        rows.append(
            [
                choice.name + (f" ({choice.layer})" if choice.layer else ""),
                ANNOTATIONS.get(choice.name, "none"),
                _percent(scores["same_kp"].all),
                _percent(scores["near_kp"].all),
                scores["edits"].all,
                *accuracies,
                PUBLISHED.get(choice.name),
            ]
        )
    return ResultTable(
        "Auxiliary models",
        ["auxiliary", "annotations", "Same-KP", "Near-KP", "#Edits", *(f"K={k}" for k in clusters), "paper (CUB-200)"],
        rows,
        f"{len(tasks)} images of {len(setting.data)}, {setting.classifier.architecture} cut at "
        f"{setting.explainer.split.layer}, the paper's greedy search with one distractor, all edits. "
        f"K: part clustering accuracy. Last column: Same-KP / K=15, 50, 250 as published, VGG-16 on all 200 classes.",
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
