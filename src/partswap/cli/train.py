"""``partswap train ...``: classifiers, parts detectors, auxiliaries and words."""

from __future__ import annotations

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
    check_helper,
    check_there,
    checked,
    console,
    output_folder,
    resolve_precision,
    say_skipped,
    use_threads,
    with_preparation,
)
from partswap.errors import SettingError
from partswap.utils.options import parse_options

if TYPE_CHECKING:
    from partswap.data.base import Dataset
    from partswap.training.loop import Recipe


def _check_start(start: str) -> None:
    from partswap.models.open import check_start

    if start not in ("default", "none"):
        check_start(start)


def _check_architecture(name: str) -> None:
    from partswap.models.open import check_architecture

    check_architecture(name)


def _check_parts(place: str) -> None:
    check_there(Path(place))


def _check_sources(start: str) -> None:
    for each in start.split(","):
        check_helper(each)


app = typer.Typer(help="Train classifiers, parts detectors, auxiliaries and words.", no_args_is_help=True)

Start = Annotated[
    str | None,
    checked(
        "Start from: a file of weights, a model (trained folder, hf:FOLDER, file.py:function, timm:NAME), "
        "'default' (official ImageNet weights), 'none'.",
        _check_start,
    ),
]
Resize = Annotated[
    int | None, typer.Option(min=1, help="Short side before the centre is cropped; 256 for most networks.")
]
Freeze = Annotated[str | None, typer.Option(help="Layer up to which nothing is trained and features are cached.")]
Views = Annotated[int, typer.Option(min=1, help="Views of each image to cache behind the frozen layer.")]
Out = Annotated[Path, output_folder("Folder for checkpoints and the result.")]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the images.")]
Batch = Annotated[int, typer.Option(min=1, help="Images per step.")]
Optimizer = Annotated[str, typer.Option(help="sgd or adamw.")]
Schedule = Annotated[str, typer.Option(help="steps (at 70 % and 90 %) or cosine.")]
WeightDecay = Annotated[float, typer.Option(help="Weight decay.")]
FreezeNorm = Annotated[bool, typer.Option(help="Batch norm keeps its statistics.")]
TrainSplit = Annotated[str, typer.Option(help="Images to learn from.")]
TestSplit = Annotated[str, typer.Option(help="Images to measure on, once, at the end.")]


@app.command("classifier")
def classifier(
    data: Data,
    out: Out,
    path: DataPath = None,
    option: DataOptions = None,
    arch: Annotated[
        str | None,
        checked(
            "vgg16, resnet50, resnet50_v1, any torchvision or timm name, hf:FOLDER, file.py:function. If not "
            "given: that of the model in --start, else vgg16.",
            _check_architecture,
        ),
    ] = None,
    start: Start = "default",
    freeze: Freeze = None,
    views: Views = 4,
    resize: Resize = None,
    pooled_start: Annotated[
        bool, typer.Option(help="New linear layers on a whole grid (VGG) start as if it were averaged; for few images.")
    ] = False,
    epochs: Epochs = 100,
    lr: Annotated[str, typer.Option(help="Learning rate, or 'auto' to try some for one epoch each.")] = "0.01",
    new_lr: Annotated[
        float | None, typer.Option(help="Of layers that start random; with --lr auto, in proportion to 0.01.")
    ] = None,
    batch: Batch = 32,
    optimizer: Optimizer = "sgd",
    schedule: Schedule = "steps",
    weight_decay: WeightDecay = 1e-4,
    label_smoothing: Annotated[float, typer.Option(help="Share of the target spread over all classes.")] = 0.0,
    mixup: Annotated[float, typer.Option(help="Beta parameter of mixup; 0 is none.")] = 0.0,
    freeze_norm: FreezeNorm = True,
    train_split: TrainSplit = "train",
    test_split: TestSplit = "test",
    precision: Precision = "auto",
    device: Device = None,
    cache: Cache = None,
    seed: Seed = 0,
    processes: Annotated[int, typer.Option(min=1, help="Devices to spread batches over (needs partswap[train]).")] = 1,
    threads: Threads = None,
) -> None:
    """Fine-tune a classifier; a killed run goes on with the same command."""
    from partswap.training.classifier import train_classifier
    from partswap.training.devices import check_processes, launch
    from partswap.training.plan import TrainingPlan
    from partswap.utils.progress import bars

    _check(out, device)
    if device is not None and processes > 1:
        raise SettingError(f"device is {device} for {processes} processes.", "Each has its own: leave --device out.")
    check_processes(processes)
    use_threads(threads)
    recipe = _recipe(epochs=epochs, batch=batch, lr=lr, new_lr=new_lr, optimizer=optimizer, schedule=schedule,
                     weight_decay=weight_decay, label_smoothing=label_smoothing, mixup=mixup, precision=precision,
                     seed=seed)  # fmt: skip
    start = None if start in (None, "none") else start
    if arch is None:
        from partswap.models.open import start_of

        arch = (start_of(start)[0] if start else None) or "vgg16"
    plan = TrainingPlan(arch, start, freeze, views, freeze_norm, resize, pooled_start)
    learn, measure = _open(data, path, option, train_split, test_split)

    def run(accelerator: Any) -> None:
        train_classifier(
            learn, measure, plan, recipe, out, search=lr == "auto", cache=cache, track=bars,
            console=console, accelerator=accelerator, device=device,
        )  # fmt: skip

    launch(processes, run)


@app.command("parts")
def parts(
    data: Data,
    out: Out,
    path: DataPath = None,
    option: DataOptions = None,
    arch: Annotated[
        str,
        checked("Backbone: resnet50, resnet50_v1, or any torchvision or timm name.", _check_architecture),
    ] = "resnet50",
    layer: Annotated[str, typer.Option(help="Last layer of the backbone.")] = "layer4",
    start: Start = "default",
    freeze: Freeze = None,
    views: Views = 4,
    resize: Resize = None,
    epochs: Epochs = 50,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.001,
    new_lr: Annotated[float | None, typer.Option(help="Learning rate of the 1 x 1 convolution.")] = None,
    batch: Batch = 32,
    optimizer: Optimizer = "sgd",
    schedule: Schedule = "steps",
    weight_decay: WeightDecay = 1e-4,
    freeze_norm: FreezeNorm = True,
    train_split: TrainSplit = "train",
    test_split: TestSplit = "test",
    precision: Precision = "auto",
    device: Device = None,
    cache: Cache = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Train a parts detector on keypoints: an upper bound for auxiliaries, and what names parts."""
    from partswap.training.parts import train_parts
    from partswap.training.plan import TrainingPlan
    from partswap.utils.progress import bars

    _check(out, device)
    use_threads(threads)
    recipe = _recipe(epochs=epochs, batch=batch, lr=str(lr), new_lr=new_lr, optimizer=optimizer, schedule=schedule,
                     weight_decay=weight_decay, precision=precision, seed=seed)  # fmt: skip
    plan = TrainingPlan(arch, None if start in (None, "none") else start, freeze, views, freeze_norm, resize)
    learn, measure = _open(data, path, option, train_split, test_split)
    train_parts(learn, measure, plan, recipe, out, layer=layer, cache=cache, track=bars, console=console, device=device)


@app.command("auxiliary")
def auxiliary(
    data: Data,
    out: Out,
    path: DataPath = None,
    option: DataOptions = None,
    start: Annotated[
        str,
        checked(
            "What to start from, NAME=WEIGHTS@LAYER+LAYER: an auxiliary, a torchvision or timm name, or your "
            "classifier (trained folder, hf:FOLDER, file.py:function). Without layers: three of its last stages. "
            "Two networks side by side, joined by a comma, know more than one.",
            _check_sources,
        ),
    ] = "imagenet_resnet50",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the optimiser.")] = 1000,
    width: Annotated[int, typer.Option(min=1, help="Channels of the result.")] = 256,
    neighbours: Annotated[int, typer.Option(min=1, help="An image's partner is one of so many most like it.")] = 15,
    both_ways: Annotated[
        bool, typer.Option(help="Look at the mirror image, too: better matches, twice the time per image.")
    ] = True,
    train_split: TrainSplit = "train",
    test_split: TestSplit = "test",
    precision: Precision = "auto",
    cache: Cache = None,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Learn which regions of your images show the same part, without labels; minutes on two cores."""
    from partswap.analysis.matching import measure_auxiliary
    from partswap.training.auxiliary import MatchRecipe, train_auxiliary
    from partswap.utils.progress import bars

    _check(out, None)
    use_threads(threads)
    recipe = MatchRecipe(
        steps=steps, width=width, neighbours=neighbours, both_ways=both_ways,
        precision=resolve_precision(precision), seed=seed,
    )  # fmt: skip
    learn, measure = _open(data, path, option, train_split, test_split)
    made = train_auxiliary(learn, start, recipe, out, cache=cache, track=bars, console=console)
    if measure.parts:
        table = measure_auxiliary(made, measure, out, cache=cache, precision=recipe.precision, track=bars)
        console.print(table)


@app.command("words")
@with_preparation
def words(
    stated: Any,
    data: Data,
    model: Model,
    out: Out,
    path: DataPath = None,
    option: DataOptions = None,
    weights: Weights = None,
    classes: Classes = None,
    layer: Annotated[
        str | None, typer.Option(help="Where the classifier is cut; its last grid, before the pooling, if not given.")
    ] = None,
    parts: Annotated[
        str | None,
        checked(
            "What tells parts: the folder of a detector (train parts) or named clusters (parts name).", _check_parts
        ),
    ] = None,
    fit_head: Annotated[
        bool, typer.Option(help="Let a linear classifier stand in for a head that is more than pooling and linear.")
    ] = False,
    train_split: TrainSplit = "train",
    test_split: TestSplit = "test",
    precision: Precision = "auto",
    cache: Cache = None,
    threads: Threads = None,
) -> None:
    """Learn the attributes of a data set as words for a classifier's counterfactuals."""
    from partswap.models.open import open_classifier
    from partswap.training.words import check_words, train_words
    from partswap.utils.progress import bars, step

    _check(out, None)
    use_threads(threads)
    learn, measure = _open(data, path, option, train_split, test_split)
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
    from partswap.utils.store import ensure_own_folder

    ensure_own_folder(out, "training", ["model.json", "training.json"], ["*checkpoint-*", ".*.tmp"])
    training_device(device)


def _open(data: str, path: Path | None, option: list[str] | None, *splits: str) -> list[Dataset]:
    from partswap.data.base import open_dataset
    from partswap.utils.progress import bars, step

    options = parse_options(option)
    with step(bars, "opening the data set"):
        sets = [open_dataset(data, path, split, **options) for split in splits]
    say_skipped(options, *sets)
    return sets


def _recipe(*, lr: str, precision: str, **rest: Any) -> Recipe:
    from partswap.training.loop import Recipe

    if lr != "auto":
        try:
            rest["lr"] = float(lr)
        except ValueError as error:
            raise SettingError(f"the learning rate is {lr!r}.", "Give a number, or auto.") from error
    return Recipe(precision=resolve_precision(precision), **rest)  # type: ignore[arg-type]
