"""``partswap train ...``: classifiers, parts detectors, auxiliaries and words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partswap.cli.options import (
    Cache,
    Classes,
    Data,
    DataOptions,
    DataPath,
    Device,
    Model,
    Precision,
    Seed,
    Threads,
    Weights,
    calls,
    check_auxiliary_name,
    check_exists,
    checked,
    console,
    output_folder,
    resolve_precision,
    say_skipped,
    use_threads,
    with_groups,
    with_preparation,
)
from partswap.errors import SettingError
from partswap.utils.options import parse_options
from partswap.utils.progress import bars, step

if TYPE_CHECKING:
    from partswap.data.base import Dataset
    from partswap.training.loop import Recipe
    from partswap.training.plan import TrainingPlan


def _check_sources(start: str) -> None:
    for each in start.split(","):
        check_auxiliary_name(each)


app = typer.Typer(help="Train classifiers, parts detectors, auxiliaries and words.", no_args_is_help=True)

Out = Annotated[Path, output_folder("Folder for checkpoints and the result.")]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the images.")]


@dataclass(frozen=True)
class Images:
    """The images to learn from and to measure on."""

    data: Data
    path: DataPath = None
    option: DataOptions = None
    train_split: Annotated[str, typer.Option(help="Images to learn from.")] = "train"
    test_split: Annotated[str, typer.Option(help="Images to measure on, once, at the end.")] = "test"

    def open(self) -> tuple[Dataset, Dataset]:
        """Return the two splits."""
        from partswap.data.base import open_dataset

        options = parse_options(self.option)
        with step(bars, "opening the data set"):
            learn = open_dataset(self.data, self.path, self.train_split, **options)
            measure = open_dataset(self.data, self.path, self.test_split, **options)
        say_skipped(options, learn, measure)
        return learn, measure


@dataclass(frozen=True)
class StartFlags:
    """What a training starts from, and what of it is trained."""

    start: Annotated[
        str | None,
        checked(
            "Start from: a file of weights, a model (trained folder, hf:FOLDER, file.py:function, timm:NAME), "
            "'default' (official ImageNet weights), 'none'.",
            calls("partswap.models.open:check_start", "default", "none"),
        ),
    ] = "default"
    freeze: Annotated[
        str | None, typer.Option(help="Layer up to which nothing is trained and features are cached.")
    ] = None
    views: Annotated[int, typer.Option(min=1, help="Views of each image to cache behind the frozen layer.")] = 4
    resize: Annotated[
        int | None, typer.Option(min=1, help="Short side before the center is cropped; 256 for most networks.")
    ] = None
    freeze_norm: Annotated[bool, typer.Option(help="Batch norm keeps its statistics.")] = True

    @property
    def place(self) -> str | None:
        """What to start from, None for random weights."""
        return None if self.start in (None, "none") else self.start

    def plan(self, architecture: str, *, pooled_start: bool = False) -> TrainingPlan:
        """Return the plan of a training of an architecture."""
        from partswap.training.plan import TrainingPlan

        return TrainingPlan(
            architecture, self.place, self.freeze, self.views, self.freeze_norm, self.resize, pooled_start
        )


@dataclass(frozen=True)
class StepFlags:
    """How the weights change, and where it is computed."""

    batch: Annotated[int, typer.Option(min=1, help="Images per step.")] = 32
    optimizer: Annotated[str, typer.Option(help="sgd or adamw.")] = "sgd"
    schedule: Annotated[str, typer.Option(help="steps (at 70 % and 90 %) or cosine.")] = "steps"
    weight_decay: Annotated[float, typer.Option(help="Weight decay.")] = 1e-4
    precision: Precision = "auto"
    device: Device = None
    cache: Cache = None
    seed: Seed = 0
    threads: Threads = None

    def recipe(self, *, lr: float | None, **others: Any) -> Recipe:
        """Return the recipe of a training; a learning rate of None is that of `Recipe`."""
        from partswap.training.loop import Recipe

        values: dict[str, Any] = {name: getattr(self, name) for name in ("batch", "optimizer", "schedule", "seed")}
        values |= {"weight_decay": self.weight_decay, "precision": resolve_precision(self.precision), **others}
        return Recipe(**values if lr is None else {**values, "lr": lr})


@app.command("classifier")
@with_groups
def classifier(
    *,
    images: Images,
    out: Out,
    arch: Annotated[
        str | None,
        checked(
            "vgg16, resnet50, resnet50_v1, any torchvision or timm name, hf:FOLDER, file.py:function. If not "
            "given: that of the model in --start, else vgg16.",
            calls("partswap.models.open:check_architecture"),
        ),
    ] = None,
    start: StartFlags,
    pooled_start: Annotated[
        bool, typer.Option(help="New linear layers on a whole grid (VGG) start as if it were averaged; for few images.")
    ] = False,
    epochs: Epochs = 100,
    lr: Annotated[str, typer.Option(help="Learning rate, or 'auto' to try some for one epoch each.")] = "0.01",
    new_lr: Annotated[
        float | None, typer.Option(help="Of layers that start random; with --lr auto, in proportion to 0.01.")
    ] = None,
    label_smoothing: Annotated[float, typer.Option(help="Share of the target spread over all classes.")] = 0.0,
    mixup: Annotated[float, typer.Option(help="Beta parameter of mixup; 0 is none.")] = 0.0,
    steps: StepFlags,
    processes: Annotated[int, typer.Option(min=1, help="Devices to spread batches over (needs partswap[train]).")] = 1,
) -> None:
    """Fine-tune a classifier; a killed run goes on with the same command."""
    from partswap.models.open import start_of
    from partswap.training.classifier import train_classifier
    from partswap.training.devices import check_processes, launch

    device = steps.device
    _check(out, device)
    if device is not None and processes > 1:
        raise SettingError(f"device is {device} for {processes} processes.", "Each has its own: leave --device out.")
    check_processes(processes)
    use_threads(steps.threads)
    recipe = steps.recipe(lr=_learning_rate(lr), epochs=epochs, new_lr=new_lr, label_smoothing=label_smoothing,
                          mixup=mixup)  # fmt: skip
    plan = start.plan(arch or (start_of(start.place)[0] if start.place else None) or "vgg16", pooled_start=pooled_start)
    learn, measure = images.open()

    def run(accelerator: Any) -> None:
        train_classifier(
            learn, measure, plan, recipe, out, search=lr == "auto", cache=steps.cache, track=bars,
            console=console, accelerator=accelerator, device=device,
        )  # fmt: skip

    launch(processes, run)


@app.command("parts")
@with_groups
def parts(
    *,
    images: Images,
    out: Out,
    arch: Annotated[
        str,
        checked(
            "Backbone: resnet50, resnet50_v1, or any torchvision or timm name.",
            calls("partswap.models.open:check_architecture"),
        ),
    ] = "resnet50",
    layer: Annotated[str, typer.Option(help="Last layer of the backbone.")] = "layer4",
    start: StartFlags,
    epochs: Epochs = 50,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.001,
    new_lr: Annotated[float | None, typer.Option(help="Learning rate of the 1 x 1 convolution.")] = None,
    steps: StepFlags,
) -> None:
    """Train a parts detector on keypoints: an upper bound for auxiliaries, and what names parts."""
    from partswap.training.parts import train_parts

    _check(out, steps.device)
    use_threads(steps.threads)
    recipe = steps.recipe(lr=lr, epochs=epochs, new_lr=new_lr)
    learn, measure = images.open()
    train_parts(learn, measure, start.plan(arch), recipe, out, layer=layer, cache=steps.cache, track=bars,
                console=console, device=steps.device)  # fmt: skip


@app.command("auxiliary")
@with_groups
def auxiliary(
    *,
    images: Images,
    out: Out,
    start: Annotated[
        str,
        checked(
            "What to start from, NAME=WEIGHTS@LAYER+LAYER: an auxiliary, a torchvision or timm name, or your "
            "classifier (trained folder, hf:FOLDER, file.py:function). Without layers: three of its last stages. "
            "Two networks side by side, joined by a comma, know more than one.",
            _check_sources,
        ),
    ] = "imagenet_resnet50",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the optimizer.")] = 1000,
    width: Annotated[int, typer.Option(min=1, help="Channels of the result.")] = 256,
    neighbours: Annotated[int, typer.Option(min=1, help="An image's partner is one of so many most like it.")] = 15,
    both_ways: Annotated[
        bool, typer.Option(help="Look at the mirror image, too: better matches, twice the time per image.")
    ] = True,
    precision: Precision = "auto",
    cache: Cache = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Learn which regions of your images show the same part, without labels; minutes on two cores."""
    from partswap.analysis.matching import measure_auxiliary
    from partswap.training.auxiliary import MatchRecipe, train_auxiliary

    _check(out, None)
    use_threads(threads)
    recipe = MatchRecipe(
        steps=steps, width=width, neighbours=neighbours, both_ways=both_ways,
        precision=resolve_precision(precision), seed=seed,
    )  # fmt: skip
    learn, measure = images.open()
    trained = train_auxiliary(learn, start, recipe, out, cache=cache, track=bars, console=console)
    if measure.parts:
        table = measure_auxiliary(trained, measure, out, cache=cache, precision=recipe.precision, track=bars)
        console.print(table)


@app.command("words")
@with_groups
@with_preparation
def words(
    stated: Any,
    *,
    images: Images,
    model: Model,
    out: Out,
    weights: Weights = None,
    classes: Classes = None,
    layer: Annotated[
        str | None, typer.Option(help="Where the classifier is cut; its last grid, before the pooling, if not given.")
    ] = None,
    parts: Annotated[
        str | None,
        checked(
            "What tells parts: the folder of a detector (train parts) or named clusters (parts name).", check_exists
        ),
    ] = None,
    fit_head: Annotated[
        bool, typer.Option(help="Let a linear classifier stand in for a head that is more than pooling and linear.")
    ] = False,
    precision: Precision = "auto",
    cache: Cache = None,
    threads: Threads = None,
) -> None:
    """Learn the attributes of a data set as words for a classifier's counterfactuals."""
    from partswap.models.open import open_classifier
    from partswap.training.words import check_words, train_words

    _check(out, None)
    use_threads(threads)
    learn, measure = images.open()
    check_words(learn, parts)
    with step(bars, f"opening {model}"):
        opened = open_classifier(model, weights, classes, stated)
    train_words(
        learn, measure, opened, out, layer=layer, parts=parts, fit_head=fit_head, cache=cache,
        precision=resolve_precision(precision), track=bars, console=console,
    )  # fmt: skip


def _check(out: Path, device: str | None) -> None:
    """Raise an error if the folder is someone else's, or the device is not here, before images are read."""
    from partswap.models.precision import training_device
    from partswap.utils.files import ensure_own_folder

    ensure_own_folder(out, "training", ["model.json", "training.json"], ["*checkpoint-*", ".*.tmp"])
    training_device(device)


def _learning_rate(text: str) -> float | None:
    """Return the learning rate, None where it is to be searched for."""
    try:
        return None if text == "auto" else float(text)
    except ValueError as error:
        raise SettingError(f"the learning rate is {text!r}.", "Give a number, or auto.") from error
