"""The command line: one thin command per verb."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from partswap._version import __version__
from partswap.cli import check, data, paper, run, train
from partswap.cli import options as common
from partswap.errors import PartswapError
from partswap.options import AUXILIARY_HELP

app = typer.Typer(
    name="partswap",
    help="Which regions of an image would have to look like which for the model to say another class?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
aviary_app = typer.Typer(help="The drawn birds: look at them, train on them.", no_args_is_help=True)
app.add_typer(aviary_app, name="aviary")
app.add_typer(data.data_app, name="data")
app.add_typer(train.train_app, name="train")
app.command()(train.tune)
app.command()(train.encode)
app.add_typer(paper.paper_app, name="paper")
run.add_to(app)
app.add_typer(check.check_app, name="check")
console = Console()


def main() -> None:
    """Run the command line; a partswap error is one line on standard error and exit code 1."""
    try:
        app()
    except PartswapError as error:
        _complain(str(error))
        sys.exit(1)
    except OSError as error:
        _complain(f"{error.filename or ''}: {error.strerror or error}. Check the path, and that there is room.")
        sys.exit(1)


def _complain(message: str) -> None:
    Console(stderr=True).print(Text("error: ", "bold red").append(message, "not bold default"), soft_wrap=True)


def _say(message: str) -> None:
    """Print plain text as it is: paths and class names may look like markup."""
    console.print(message, markup=False, highlight=False, soft_wrap=True)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"partswap {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Counterfactual explanations of image classifiers."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/demo"),
    model: Annotated[str, typer.Option(help="Shipped classifier: vgg or resnet.")] = "vgg",
    queries: Annotated[int, typer.Option(help="How many birds to explain.")] = 40,
    distractors: Annotated[int, typer.Option(help="How many images to take regions from.")] = 10,
    seed: Annotated[int, typer.Option(help="Which birds.")] = 0,
) -> None:
    """Explain some birds with several methods, print a table, write a report to look at."""
    from partswap.apps.report import write_report
    from partswap.progress import bars
    from partswap.studies.demo import COLUMNS, results_table, run_demo

    result = run_demo(model=model, queries=queries, distractors=distractors, seed=seed, track=bars)
    console.print(results_table(result.scores, title=result.title))
    report = write_report(out / "report.html", title="partswap on the aviary", scores=result.scores, columns=COLUMNS,
                          examples=result.examples(), note=result.note)  # fmt: skip
    _say(f"report: {report}")


@app.command()
def layers(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder of a trained classifier, aviary:vgg, aviary:resnet, or a torchvision or timm name."
        ),
    ],
) -> None:
    """List where a model can be cut, with the grid each place gives."""
    from partswap.cut.layers import layers_table
    from partswap.models.open import open_classifier
    from partswap.models.zoo import load_model

    ready = model.startswith("aviary:") or Path(model).is_dir()
    console.print(layers_table(open_classifier(model).model if ready else load_model(model)))


@app.command()
def explain(
    query: Annotated[Path, typer.Argument(help="The image to explain.")],
    distractors: Annotated[list[Path], typer.Argument(help="Images of the other class, or folders of them.")],
    model: common.Model,
    weights: common.Weights = None,
    layer: common.Layer = None,
    auxiliary: Annotated[
        str | None, typer.Option(help=f"Who says which cells show the same part: {AUXILIARY_HELP}")
    ] = None,
    auxiliary_weights: Annotated[
        str | None, typer.Option(help="Path to its weights; the official ones are downloaded if not given.")
    ] = None,
    auxiliary_layer: Annotated[
        str | None, typer.Option(help="Its layer; the last before the pooling if not given.")
    ] = None,
    method: Annotated[str, typer.Option(help="goyal, scout, hard, paper or partswap.")] = "partswap",
    target: Annotated[
        int | None, typer.Option(help="Class the model should say; its second guess if not given.")
    ] = None,
    keep_misclassified: Annotated[bool, typer.Option(help="Use distractors the model gets wrong, too.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the counterfactual as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a figure (png, svg, pdf).")] = None,
) -> None:
    """Explain one image."""
    from partswap.cli.one import explain_files

    cf = explain_files(
        query,
        distractors,
        model=model,
        weights=weights,
        layer=layer,
        auxiliary=auxiliary,
        auxiliary_weights=auxiliary_weights,
        auxiliary_layer=auxiliary_layer,
        method=method,
        target=target,
        keep_misclassified=keep_misclassified,
    )
    _say(str(cf))
    if save:
        _say(f"saved {cf.save(save)}")
    if plot:
        cf.plot(plot)
        _say(f"drew {plot}")


@app.command()
def show(path: Annotated[Path, typer.Argument(help="A counterfactual that was saved as JSON.")]) -> None:
    """Print a saved counterfactual."""
    from partswap.counterfactual import Counterfactual

    _say(str(Counterfactual.load(path)))


@aviary_app.command("sheet")
def aviary_sheet(
    out: Annotated[Path, typer.Argument(help="PNG or JPEG to write.")],
    seed: Annotated[int, typer.Option(help="Which individuals.")] = 0,
    keypoints: Annotated[bool, typer.Option(help="Draw the keypoints.")] = False,
) -> None:
    """Draw a contact sheet: one bird of every species."""
    from partswap.aviary.sheet import contact_sheet

    contact_sheet(seed, keypoints=keypoints).save(out)
    _say(f"drew {out}")


@aviary_app.command("save")
def aviary_save(
    out: Annotated[Path, typer.Argument(help="Folder to write class folders into.")],
    per_class: Annotated[int, typer.Option(help="Images per species.")] = 10,
    split: Annotated[str, typer.Option(help="train, test or unlabelled.")] = "test",
) -> None:
    """Write birds as files, one folder per species."""
    from partswap.data.sets.aviary import Aviary

    data = Aviary(split, per_class=per_class)
    for index in range(len(data)):
        folder = out / f"{data.label(index):03d}.{data.classes[data.label(index)].replace(' ', '_')}"
        folder.mkdir(parents=True, exist_ok=True)
        data.bird(index).image.save(folder / f"{index // len(data.classes):04d}.png")
    _say(f"{len(data)} birds in {out}")


@aviary_app.command("train")
def aviary_train(
    which: Annotated[str, typer.Argument(help="vgg, resnet or auxiliary.")],
    out: Annotated[Path | None, typer.Option(help="Where to save; default aviary_WHICH.safetensors.")] = None,
    per_class: Annotated[int, typer.Option(help="Images per species to train on.")] = 200,
    epochs: Annotated[int | None, typer.Option(help="Passes over them; the default made the shipped weights.")] = None,
) -> None:
    """Train one of the small networks that ship with the package."""
    from partswap.progress import bars
    from partswap.training.aviary import train

    train(which, out or Path(f"aviary_{which}.safetensors"), per_class=per_class, epochs=epochs, track=bars)
