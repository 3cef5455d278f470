"""``partswap run``: a whole split with several methods."""

from __future__ import annotations

from partswap.cli.options import console, hush_warnings, say, with_config
from partswap.runs.config import RunConfig
from partswap.utils.progress import bars


@with_config(*RunConfig.model_fields, file=True)
def run(config: RunConfig) -> None:
    """Explain a whole split with several methods; a killed run goes on with the same command."""
    from partswap.analysis.tables import metrics_table
    from partswap.runs.run import run as execute

    hush_warnings()  # the table has the notes below it
    finished = execute(config, track=bars)
    console.print(metrics_table(finished))
    say(f"run: {finished.folder}")
