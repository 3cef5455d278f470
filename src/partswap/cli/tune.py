"""``partswap tune``: choose lam and tau."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import (
    check_auxiliary_name,
    check_method,
    checked,
    console,
    open_context,
    output_folder,
    say,
    with_config,
)
from partswap.errors import SettingError
from partswap.runs.config import RunConfig
from partswap.utils.options import AUXILIARY_HELP
from partswap.utils.progress import bars


@with_config(
    "data", "model", "path", "options", "weights", "classes", "layer", "precision", "device", "cache", "seed",
    queries=100, distractors=20,
)  # fmt: skip
def tune(
    config: RunConfig,
    auxiliary: Annotated[str, checked(AUXILIARY_HELP, check_auxiliary_name)] = "auto",
    split: Annotated[
        str, typer.Option(help="Images to tune on, such as train:validation: not those you report results on.")
    ] = "train",
    method: Annotated[str, checked("partswap or paper.", check_method)] = "partswap",
    lam: Annotated[
        list[float] | None, typer.Option(help="Weights to try; repeat the flag. Default 0, 0.1, 0.2, 0.4, 0.8.")
    ] = None,
    tau: Annotated[
        list[float] | None, typer.Option(help="Temperatures to try; repeat the flag. Default 0.03, 0.1, 0.3.")
    ] = None,
    out: Annotated[Path, output_folder("Folder for the table and the plot.")] = Path("out/tune"),
) -> None:
    """Choose lam and tau for a classifier and an auxiliary: Same-KP against the number of edits."""
    from partswap.analysis.tune import LAMBDAS, TAUS, trials
    from partswap.analysis.tune import tune as run
    from partswap.utils.files import write_json

    config = config.with_(auxiliary=auxiliary, split=split)
    trials(method, lam or LAMBDAS, tau or TAUS)  # before anything is opened
    if config.auxiliary is None:
        raise SettingError("there is no auxiliary to tune for.", "Name one with {auxiliary}.")
    context = open_context(config)
    tuning = run(context, method=method, lambdas=lam or LAMBDAS, taus=tau or TAUS, queries=config.queries,
                 distractors=config.distractors, seed=config.seed, track=bars)  # fmt: skip
    console.print(tuning.table())
    tuning.table().save(out, "tune")
    write_json(out / "tune.json", tuning.record(), place="out")
    picture = tuning.plot(out / "tune.png")
    say(f"lam = {tuning.best.lam:g}, tau = {tuning.best.tau:g}; plot: {picture}")
