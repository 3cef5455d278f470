"""Table 2: SCOUT, Goyal et al., the paper's method and ours; first edits and all edits."""

from __future__ import annotations

from partswap.studies.paper.lab import PAPER, Lab, Result, cell
from partswap.studies.tables import Cell, ResultTable

#: (data, classifier, first or all edits, method): the paper's Near-KP, Same-KP, #Edits.
PUBLISHED = {
    ("cub", "vgg", "single", "scout"): "68.1 / 18.1",
    ("cub", "vgg", "single", "goyal"): "67.8 / 17.2",
    ("cub", "vgg", "single", "paper"): "73.5 / 39.6",
    ("cub", "vgg", "all", "goyal"): "54.6 / 8.3 / 5.5",
    ("cub", "vgg", "all", "paper"): "68.5 / 35.3 / 3.9",
    ("inaturalist", "vgg", "single", "scout"): "74.3 / 23.1",
    ("inaturalist", "vgg", "single", "goyal"): "78.3 / 29.4",
    ("inaturalist", "vgg", "single", "paper"): "83.6 / 51.0",
    ("inaturalist", "vgg", "all", "goyal"): "55.2 / 11.5 / 5.5",
    ("inaturalist", "vgg", "all", "paper"): "70.4 / 36.9 / 4.3",
    ("dogs", "vgg", "single", "scout"): "41.7 / 5.5",
    ("dogs", "vgg", "single", "goyal"): "42.6 / 6.8",
    ("dogs", "vgg", "single", "paper"): "49.8 / 23.5",
    ("dogs", "vgg", "all", "goyal"): "35.7 / 3.7 / 6.3",
    ("dogs", "vgg", "all", "paper"): "37.5 / 16.4 / 6.6",
    ("cub", "resnet", "single", "scout"): "43.0 / 4.4",
    ("cub", "resnet", "single", "goyal"): "61.4 / 11.5",
    ("cub", "resnet", "single", "paper"): "71.7 / 36.1",
    ("cub", "resnet", "all", "goyal"): "50.9 / 6.8 / 3.6",
    ("cub", "resnet", "all", "paper"): "60.3 / 30.2 / 3.2",
    ("inaturalist", "resnet", "single", "scout"): "53.9 / 8.8",
    ("inaturalist", "resnet", "single", "goyal"): "70.5 / 17.1",
    ("inaturalist", "resnet", "single", "paper"): "79.2 / 33.3",
    ("inaturalist", "resnet", "all", "goyal"): "56.3 / 10.4 / 3.3",
    ("inaturalist", "resnet", "all", "paper"): "70.9 / 32.1 / 2.6",
    ("dogs", "resnet", "single", "scout"): "35.3 / 3.1",
    ("dogs", "resnet", "single", "goyal"): "42.7 / 6.4",
    ("dogs", "resnet", "single", "paper"): "51.2 / 22.6",
    ("dogs", "resnet", "all", "goyal"): "34.9 / 3.6 / 4.3",
    ("dogs", "resnet", "all", "paper"): "37.2 / 16.7 / 4.8",
}
TITLES = {
    "scout": "SCOUT",
    "goyal": "Goyal et al., one distractor",
    "paper": "Vandenhende et al., k = 10 %",
    "partswap": "partswap (ours)",
}


@PAPER.register("sota")
def sota(lab: Lab) -> Result:
    """Return the comparison with the state of the art."""
    found = {
        "scout": lab.scores("scout"),
        "goyal": lab.scores("goyal"),
        "paper": lab.scores("paper", {"keep": 0.1}),
        "partswap": lab.scores("partswap"),
    }
    rows: list[list[Cell]] = []
    for which, title in (("single", "single edit"), ("all", "all edits")):
        for method, scores in found.items():
            if method == "scout" and which == "all":
                continue  # heat maps have no further edits
            row: list[Cell] = [title, TITLES[method], cell(scores, "near_kp", which), cell(scores, "same_kp", which)]
            row += [cell(scores, "edits"), cell(scores, "flip_rate")] if which == "all" else [None, None]
            row += [cell(scores, "seconds") if which == "all" else None]
            row.append(PUBLISHED.get((lab.config.data, lab.family, which, method)))
            rows.append(row)
    columns = ["", "method", "Near-KP", "Same-KP", "#Edits", "flipped", "seconds", "paper"]
    return Result(ResultTable("Comparison with the state of the art", columns, rows, lab.note(), digits=2))
