"""``partswap paper ...``: the paper's tables and figures, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import (
    Command,
    check_auxiliary_name,
    check_exists,
    checked,
    console,
    hush_warnings,
    on_device,
    output_folder,
    resolve_precision,
    say,
    say_notes,
    say_skipped,
    with_config,
)
from partswap.runs.config import RunConfig
from partswap.utils.options import AUXILIARY_HELP
from partswap.utils.progress import bars
from partswap.utils.registry import registered

app = typer.Typer(help="The paper's tables and figures.", no_args_is_help=True)

#: Every table with what it shows, the supplement's last.
SUMMARIES = dict(
    sorted(registered("partswap.analysis.paper").items(), key=lambda it: (it[1].startswith("Suppl"), it[1]))
)


def _command(name: str) -> Command:
    @with_config(
        "data", "model", "path", "options", "split", "weights", "classes", "layer", "distractors", "queries", "workers",
        "precision", "device", "cache", "seed",
    )  # fmt: skip
    def command(
        config: RunConfig,
        auxiliary: Annotated[
            list[str] | None,
            checked(
                f"{AUXILIARY_HELP} The table 'auxiliary' has a row for each; the others use the first.",
                check_auxiliary_name,
                show_default="auto",
            ),
        ] = None,
        out: Annotated[Path, output_folder("Folder for the table and figures.")] = Path("out/paper"),
        runs: Annotated[Path | None, output_folder("Folder of runs, shared by tables; OUT/runs if not given.")] = None,
        tuned: Annotated[
            list[Path] | None,
            checked(
                "A tune.json of partswap tune; the table 'sota' gets a row with what it chose. Repeat.", check_exists
            ),
        ] = None,
        words: Annotated[
            Path | None,
            checked("Folder of partswap train words, for the table 'language'.", check_exists),
        ] = None,
    ) -> None:
        from partswap.analysis.paper.context import TableContext, check_table, make_table
        from partswap.analysis.tune import read_choice
        from partswap.models.auxiliaries import AuxiliaryChoice

        auxiliaries = auxiliary or ["auto"]
        config = on_device(config).with_(auxiliary=auxiliaries[0], precision=resolve_precision(config.precision))
        check_table(name, config)
        chosen = [AuxiliaryChoice.parse(text) for text in auxiliaries if text != "none"]
        hush_warnings()
        lab = TableContext(
            config, runs or out / "runs", chosen, [read_choice(path) for path in tuned or ()], words, bars
        )
        say_skipped(config.options, lab.bench.data)
        say_notes(lab.bench.explainer)
        result = make_table(name, lab)
        console.print(result.table)
        for saved in result.save(out, name):
            say(f"saved {saved}")

    command.__doc__ = SUMMARIES[name]
    return command


for _name in SUMMARIES:
    app.command(_name)(_command(_name))
