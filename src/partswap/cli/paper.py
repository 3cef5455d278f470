"""``partswap paper ...``: the paper's tables and figures, one command each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from partswap.cli import options as common
from partswap.options import AUXILIARY_HELP, parse_options

paper_app = typer.Typer(help="The paper's tables and figures.", no_args_is_help=True)
console = Console()

Auxiliaries = Annotated[
    list[str] | None,
    typer.Option(help=f"{AUXILIARY_HELP} The table 'auxiliary' has a row for each; the others use the first."),
]

#: Every table with what it shows; `partswap.studies.paper` has one file for each.
TABLES = {
    "sota": "Table 2: SCOUT, Goyal et al., the paper's method and ours.",
    "components": "Table 3: what each component brings.",
    "auxiliary": "Table 4: Same-KP with one distractor and part clustering, one row per --auxiliary.",
    "temperature": "Figure 4: weight and temperature of the semantic term, Same-KP against edits.",
    "selection": "Supplement: classes by confusion matrix or by attributes.",
    "foreground": "Supplement: how often swapped cells lie on the object.",
    "hard-soft": "Supplement: soft weight or hard constraint.",
    "prefilter": "Supplement: the paper's prefilter.",
    "layers": "Supplement: where the network is cut.",
    "distractors": "Supplement: time and quality against the number of distractors.",
    "cost": "Supplement: multiply-adds of one edit.",
}


def _command(name: str) -> Callable[..., None]:
    def command(
        data: common.Data,
        model: common.Model,
        auxiliary: Auxiliaries = None,
        path: common.DataPath = None,
        option: common.DataOptions = None,
        split: common.SplitOption = "test",
        weights: common.Weights = None,
        layer: common.Layer = None,
        distractors: common.Distractors = 20,
        queries: Annotated[int | None, typer.Option(help="Explain only so many images, drawn at random.")] = None,
        out: Annotated[Path, typer.Option(help="Folder for the table and figures.")] = Path("out/paper"),
        runs: Annotated[
            Path | None, typer.Option(help="Folder of runs, shared by tables; OUT/runs if not given.")
        ] = None,
        workers: Annotated[int | None, typer.Option(help="Processes; one per core if not given.")] = None,
        precision: common.PrecisionOption = "auto",
        cache: common.Cache = None,
        seed: common.Seed = 0,
    ) -> None:
        from partswap.models.auxiliaries import AuxiliaryChoice
        from partswap.progress import bars
        from partswap.runs.config import RunConfig
        from partswap.studies.paper.lab import Lab, make_table

        options = parse_options(option)
        config = RunConfig(
            data=data, path=path, options=options, split=split, model=model, weights=weights, layer=layer,
            auxiliary=auxiliary[0] if auxiliary else None, distractors=distractors, queries=queries, seed=seed,
            precision=common.resolve_precision(precision), cache=cache, workers=workers,
        )  # fmt: skip
        lab = Lab(config, runs or out / "runs", [AuxiliaryChoice.parse(text) for text in auxiliary or ()], bars)
        common.say_skipped(options, lab.bench.data)
        result = make_table(name, lab)
        console.print(result.table.rich())
        for saved in result.save(out, name):
            console.print(f"saved {saved}", markup=False, highlight=False, soft_wrap=True)

    command.__doc__ = TABLES[name]
    return command


for _name in TABLES:
    paper_app.command(_name)(_command(_name))
