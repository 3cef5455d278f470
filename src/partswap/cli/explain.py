"""``partswap explain``: images of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partswap.cli.options import (
    Classes,
    DataOptions,
    DataPath,
    Layer,
    Model,
    Weights,
    check_helper,
    check_method,
    check_there,
    checked,
    hush_warnings,
    say,
    say_notes,
    say_skipped,
    with_preparation,
)
from partswap.errors import PartswapError, SettingError
from partswap.runs.config import DATASET_NAMES, METHOD_NAMES
from partswap.utils.notes import Note
from partswap.utils.options import AUXILIARY_HELP, parse_options

if TYPE_CHECKING:
    from partswap.explainer.explainer import Explainer
    from partswap.models.stated import Stated
    from partswap.results.counterfactual import Counterfactual


@with_preparation
def explain(
    stated: Any,
    query: Annotated[str, typer.Argument(help="The image to explain, or a folder of images.")],
    model: Model,
    distractors: Annotated[
        list[str] | None, typer.Argument(help="Images of the other class, or folders of them; or name --data.")
    ] = None,
    more: Annotated[list[str] | None, typer.Option("--query", help="Another image to explain; repeat.")] = None,
    weights: Weights = None,
    classes: Classes = None,
    layer: Layer = None,
    activation: Annotated[
        str, typer.Option(help="What makes probabilities of logits: softmax, or sigmoid (several labels per image).")
    ] = "softmax",
    auxiliary: Annotated[str, checked(AUXILIARY_HELP, check_helper)] = "auto",
    auxiliary_weights: Annotated[
        str | None, typer.Option(help="Path to its weights; the official ones are downloaded if not given.")
    ] = None,
    auxiliary_layer: Annotated[
        str | None, typer.Option(help="Its layer; the last before the pooling if not given.")
    ] = None,
    method: Annotated[str, checked(f"Method: {METHOD_NAMES}.", check_method)] = "partswap",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE for the method (beam=4, lam=0.2); repeat.")
    ] = None,
    max_edits: Annotated[int | None, typer.Option(min=1, help="Give up after so many edits.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Class the model should say, by name or number. If not given: --label, else what more than half of "
            "the distractors are predicted as, else the model's second guess."
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The true class of the image, to see why the model got it wrong.")
    ] = None,
    data: Annotated[str | None, typer.Option(help=f"Find the distractors in a data set: {DATASET_NAMES}.")] = None,
    path: DataPath = None,
    option: DataOptions = None,
    split: Annotated[str, typer.Option(help="Which images of the data set.")] = "test",
    keep_misclassified: Annotated[bool, typer.Option(help="Use distractors the model gets wrong, too.")] = False,
    words: Annotated[
        Path | None,
        checked("Say it in words, too: the folder that partswap train words made.", check_there),
    ] = None,
    pixel: Annotated[
        bool,
        typer.Option(
            help="Check it in pixels, too: paste the regions and run the whole network; prefer edits that hold there."
        ),
    ] = False,
    fetch: Annotated[bool, typer.Option(help="Images may be addresses (https://...), at most 20 MB each.")] = False,
    device: Annotated[
        str | None, typer.Option(help="Where to compute: cpu, cuda, mps, or auto; where the model is, if not given.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the counterfactual as JSON; of several, a folder.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure (png, svg, pdf, jpg or html); of several, a folder.")
    ] = None,
) -> None:
    """Explain an image: which regions would have to look like which for the model to say another class?"""
    from partswap.inputs.images import list_images, unread_text
    from partswap.models.names import find_class
    from partswap.utils.progress import bars, step

    places = [_image(place, fetch) for place in (query, *(more or []))]
    queries = list_images(places)
    if unread := unread_text(places):
        say(f"note: {unread}.")
    check_outputs(len(queries), save, plot)
    hush_warnings()
    if not distractors and data is None:
        raise SettingError("there are no images to take regions from.", "Name some, or a data set with --data.")
    donors: Any
    if data is not None:
        from partswap.data.base import open_dataset

        if distractors:
            raise SettingError(f"images and the data set {data} are given.", "Name one of them.")
        donors = open_dataset(data, path, split, **parse_options(option))
        say_skipped({}, donors)
    else:
        donors = [_image(place, fetch) for place in distractors or ()]
        list_images(donors)  # a folder without images is refused before the model is opened
    if words is not None and layer is None:
        from partswap.words.model import layer_of

        layer = layer_of(words)
        say(f"note: cut at {layer}, where the words were learned.")
    with step(bars, f"opening {model}"):
        explainer = open_explainer(
            model, weights, classes, stated, layer, device,
            _choice(auxiliary, auxiliary_weights, auxiliary_layer), method,
            {**parse_options(settings), **({} if max_edits is None else {"max_edits": max_edits})}, activation,
        )  # fmt: skip
    said = say_notes(explainer)
    for called in (target, label):
        if called is not None:
            find_class(called, explainer.class_names, explainer.cut.classes)
    if data is None:
        donors = explainer.encode(donors)
    failed = 0
    for each in queries:
        try:
            with step(bars, f"explaining {each}"):
                cf = explainer.explain(
                    each, donors, target, label=label, keep_misclassified=keep_misclassified, words=words, pixel=pixel
                )
        except PartswapError as error:  # of one image; the others can still be explained
            if len(queries) == 1:
                say_notes(explainer, said)
                raise
            failed += 1
            say(f"\n{each}\nnot explained: {error.in_flags()}")
            continue
        said = say_notes(explainer, said)
        given = None if data is not None else len(donors)
        _tell(cf, explainer, _stem(cf, queries, each), save, plot, given=given, several=len(queries) > 1)
    if failed:
        raise PartswapError(f"{failed} of {len(queries)} images could not be explained.", "See above.")


def open_explainer(
    model: str,
    weights: str | None,
    classes: str | None,
    stated: Stated | None,
    layer: str | None,
    device: str | None,
    auxiliary: Any,
    method: str,
    settings: dict[str, Any],
    activation: Any = "softmax",
) -> Explainer:
    """Return the explainer that flags describe."""
    from partswap.explainer.explainer import Explainer
    from partswap.models.open import open_classifier
    from partswap.models.precision import check_device
    from partswap.search import METHODS
    from partswap.search.settings import changed
    from partswap.utils.options import check_options
    from partswap.utils.progress import bars

    given = check_options(METHODS.get(method), settings, what=f"the method {method}", word="setting")
    # What makes no sense is refused before the model is opened.
    changed(METHODS.get(method)(), **given).check_auxiliary(auxiliary is not None)
    where = None if device is None else check_device(device)
    classifier = open_classifier(model, weights, classes, stated)
    explainer = Explainer(
        classifier, layer, auxiliary=auxiliary, method=method, device=where, activation=activation, track=bars
    )
    explainer.method = changed(explainer.method, **given)
    return explainer


def check_outputs(count: int, save: Path | None, plot: Path | None) -> None:
    """Raise an error, before anything is computed, if what is asked for cannot be written."""
    from partswap.drawing.figures import check_format
    from partswap.utils.store import check_writable

    for flag, place in (("--save", save), ("--plot", plot)):
        if place is not None and count > 1 and (place.suffix or place.is_file()):
            raise SettingError(f"there are {count} images to explain, and {flag} is {place}.", "Give a folder.")
        if place is not None and count == 1 and place.is_dir():
            raise SettingError(f"{flag} is {place}, a folder.", "Give a file.")
        if place is not None:
            check_writable(place, folder=count > 1)
    if plot is not None and count == 1:
        check_format(plot)


def _image(place: str, fetch: bool) -> Any:
    if fetch and place.lower().startswith(("http://", "https://")):
        from partswap.inputs.images import fetch_image

        return fetch_image(place)
    from partswap.errors import ImageError

    if not place.lower().startswith(("http://", "https://")) and not Path(place).exists():
        raise ImageError(f"there is no image or folder {place}.", "Check the path.")
    return place


def _choice(auxiliary: str, weights: str | None, layer: str | None) -> Any:
    from partswap.models.auxiliaries import AuxiliaryChoice

    if auxiliary in ("auto", "none") and (weights is not None or layer is not None):
        raise SettingError("weights or a layer of an auxiliary, and no auxiliary.", "Name it with --auxiliary.")
    if auxiliary == "none":
        return None
    told = AuxiliaryChoice.parse(auxiliary)
    return replace(told, weights=weights or told.weights, layer=layer or told.layer)


def _stem(cf: Counterfactual, queries: Sequence[Any], each: Any) -> str:
    """Return what the files of a query are called; images of one name in two folders get their number too."""
    name = Path(str(cf.source.get("query") or "query")).stem
    stems = [Path(str(q)).stem for q in queries if isinstance(q, str | Path)]
    return f"{name}-{queries.index(each)}" if stems.count(name) > 1 else name


def _tell(
    cf: Counterfactual,
    explainer: Explainer,
    stem: str,
    save: Path | None,
    plot: Path | None,
    *,
    given: int | None,
    several: bool,
) -> None:
    if several:
        say(f"\n{cf.source.get('query') or 'query'}")
    say(str(cf))
    why = cf.source.get("target_from", Note("given", "given"))
    if why.kind != "given":
        say(f"target: {cf.class_name(cf.target)}, {why}")
    if cf.source.get("label") == cf.query_class:
        say(f"note: the model is right, this is {cf.class_name(cf.query_class)}; explained is what would make it err.")
    one = explainer.method.distractors
    if given is not None and one is not None and given > one:
        say(f"note: {explainer.method.name} takes regions from one image: the first that will do of {given}.")
    elif given is not None and cf.distractors < given and why.kind != "distractors":
        say(
            f"note: {given - cf.distractors} of {given} distractors are left out, the model does not call them "
            f"{cf.class_name(cf.target)}; --keep-misclassified uses them."
        )
    if cf.lacks_auxiliary:
        say("note: no auxiliary, so nothing says which regions show the same part; name one with --auxiliary.")
    if save:
        say(f"saved {cf.save(save / f'{stem}.json' if several else save)}")
    if plot:
        drawn = plot / f"{stem}.png" if several else plot
        cf.plot(drawn)
        say(f"drew {drawn}")
