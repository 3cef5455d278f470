"""Table 2: SCOUT, Goyal et al., the paper's method and ours; first edits and all edits."""

from __future__ import annotations

from partswap.analysis.paper.context import TABLES, Result, TableContext, cell
from partswap.utils.tables import Cell, ResultTable

METHODS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("scout", "SCOUT", {}),
    ("goyal", "Goyal et al., one distractor", {}),
    ("paper", "Vandenhende et al., k = 10 %", {"keep": 0.1}),
    ("partswap", "partswap (ours)", {}),
)
#: (data, classifier, method): the paper's Near-KP / Same-KP of first edits, and Near-KP / Same-KP / #Edits of all.
PUBLISHED = {
    ("cub", "vgg", "scout"): {"single": "68.1 / 18.1"},
    ("cub", "vgg", "goyal"): {"single": "67.8 / 17.2", "all": "54.6 / 8.3 / 5.5"},
    ("cub", "vgg", "paper"): {"single": "73.5 / 39.6", "all": "68.5 / 35.3 / 3.9"},
    ("inaturalist", "vgg", "scout"): {"single": "74.3 / 23.1"},
    ("inaturalist", "vgg", "goyal"): {"single": "78.3 / 29.4", "all": "55.2 / 11.5 / 5.5"},
    ("inaturalist", "vgg", "paper"): {"single": "83.6 / 51.0", "all": "70.4 / 36.9 / 4.3"},
    ("dogs", "vgg", "scout"): {"single": "41.7 / 5.5"},
    ("dogs", "vgg", "goyal"): {"single": "42.6 / 6.8", "all": "35.7 / 3.7 / 6.3"},
    ("dogs", "vgg", "paper"): {"single": "49.8 / 23.5", "all": "37.5 / 16.4 / 6.6"},
    ("cub", "resnet", "scout"): {"single": "43.0 / 4.4"},
    ("cub", "resnet", "goyal"): {"single": "61.4 / 11.5", "all": "50.9 / 6.8 / 3.6"},
    ("cub", "resnet", "paper"): {"single": "71.7 / 36.1", "all": "60.3 / 30.2 / 3.2"},
    ("inaturalist", "resnet", "scout"): {"single": "53.9 / 8.8"},
    ("inaturalist", "resnet", "goyal"): {"single": "70.5 / 17.1", "all": "56.3 / 10.4 / 3.3"},
    ("inaturalist", "resnet", "paper"): {"single": "79.2 / 33.3", "all": "70.9 / 32.1 / 2.6"},
    ("dogs", "resnet", "scout"): {"single": "35.3 / 3.1"},
    ("dogs", "resnet", "goyal"): {"single": "42.7 / 6.4", "all": "34.9 / 3.6 / 4.3"},
    ("dogs", "resnet", "paper"): {"single": "51.2 / 22.6", "all": "37.2 / 16.7 / 4.8"},
}


@TABLES.register("sota")
def sota(lab: TableContext) -> Result:
    """Return the comparison with the state of the art."""
    # Ours has settings that were chosen on other images; so may the others, beside what they published.
    methods = list(METHODS)
    for method, best in lab.tuned:
        at = max(k for k, (name, *_) in enumerate(methods) if name == method)
        title, settings = next((title, settings) for name, title, settings in METHODS if name == method)
        title = f"{title}, tuned: lam = {best['lam']:g}, tau = {best['tau']:g}"
        methods.insert(at + 1, (method, title, {**settings, **best}))
    scored = [(method, title, lab.scores(method, settings)) for method, title, settings in methods]
    rows: list[list[Cell]] = []
    for which, edits in (("single", "single edit"), ("all", "all edits")):
        for method, title, scores in scored:
            if method == "scout" and which == "all":
                continue  # heat maps have no further edits
            numbers = PUBLISHED.get((lab.config.data, lab.family, method), {})
            row = [edits, title, *(cell(scores, name, which) for name in ("near_kp", "same_kp"))]
            row += [cell(scores, name) if which == "all" else None for name in ("edits", "flip_rate", "seconds")]
            rows.append([*row, numbers.get(which)])
    columns = ["", "method", "Near-KP", "Same-KP", "#Edits", "flipped", "seconds", "paper"]
    return Result(ResultTable("Comparison with the state of the art", columns, rows, lab.note(), digits=2))
