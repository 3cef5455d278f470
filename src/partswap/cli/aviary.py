"""``partswap aviary ...``: the drawn birds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partswap.cli.options import one_of, output_file, say, writable_folder, writable_picture
from partswap.utils.progress import bars, step, tracked

app = typer.Typer(help="The drawn birds: look at them, train on them.", no_args_is_help=True)


@app.command()
def sheet(
    out: Annotated[Path, typer.Argument(help="PNG or JPEG to write.", callback=writable_picture)],
    seed: Annotated[int, typer.Option(min=0, help="Which individuals.")] = 0,
    keypoints: Annotated[bool, typer.Option(help="Draw the keypoints.")] = False,
) -> None:
    """Draw a contact sheet: one bird of every species."""
    from partswap.aviary.sheet import contact_sheet
    from partswap.inputs.images import save_image

    with step(bars, "drawing birds"):
        drawn = contact_sheet(seed, keypoints=keypoints)
    save_image(drawn, out, place="out")
    say(f"drew {out}")


@app.command()
def save(
    out: Annotated[Path, typer.Argument(help="Folder to write class folders into.", callback=writable_folder)],
    per_class: Annotated[int, typer.Option(min=1, help="Images per species.")] = 10,
    split: Annotated[str, typer.Option(help="train, test or unlabelled.")] = "test",
) -> None:
    """Write birds as files, one folder per species."""
    from partswap.data.sets.aviary import Aviary
    from partswap.inputs.images import save_image

    data = Aviary(split, per_class=per_class)
    for index in tracked(range(len(data)), "drawing birds", bars):
        folder = out / f"{data.label(index):03d}.{data.classes[data.label(index)].replace(' ', '_')}"
        save_image(data.bird(index).image, folder / f"{index // len(data.classes):04d}.png", place="out")
    say(f"{len(data)} birds in {out}")


@app.command()
def train(
    which: Annotated[
        str, typer.Argument(help="vgg, resnet or auxiliary.", callback=one_of("vgg", "resnet", "auxiliary"))
    ],
    out: Annotated[Path | None, output_file("Where to save; default aviary_WHICH.safetensors.")] = None,
    per_class: Annotated[int, typer.Option(min=1, help="Images per species to train on.")] = 200,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over them; the default made the shipped weights.")
    ] = None,
) -> None:
    """Train one of the small networks that ship with the package."""
    from partswap.training import aviary

    aviary.train(which, out or Path(f"aviary_{which}.safetensors"), per_class=per_class, epochs=epochs)
