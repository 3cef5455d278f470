"""``partswap explain``: images of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    check_auxiliary_name,
    check_exists,
    check_method,
    checked,
    hush_warnings,
    say,
    say_notes,
    say_skipped,
    with_groups,
    with_preparation,
)
from partswap.errors import ImageError, PartswapError, SettingError
from partswap.runs.config import DATASET_NAMES, METHOD_NAMES
from partswap.utils.notes import Note
from partswap.utils.options import AUXILIARY_HELP, parse_options
from partswap.utils.progress import bars, step

if TYPE_CHECKING:
    from partswap.data.base import Dataset
    from partswap.explainer.explainer import Explainer
    from partswap.models.auxiliaries import AuxiliaryChoice
    from partswap.models.preprocess_options import PreprocessOptions
    from partswap.results.counterfactual import Counterfactual


@dataclass(frozen=True)
class ModelFlags:
    """The classifier, the auxiliary and the method."""

    model: Model
    weights: Weights = None
    classes: Classes = None
    layer: Layer = None
    activation: Annotated[
        str, typer.Option(help="What makes probabilities of logits: softmax, or sigmoid (several labels per image).")
    ] = "softmax"
    auxiliary: Annotated[str, checked(AUXILIARY_HELP, check_auxiliary_name)] = "auto"
    auxiliary_weights: Annotated[
        str | None, typer.Option(help="Path to its weights; the official ones are downloaded if not given.")
    ] = None
    auxiliary_layer: Annotated[
        str | None, typer.Option(help="Its layer; the last before the pooling if not given.")
    ] = None
    method: Annotated[str, checked(f"Method: {METHOD_NAMES}.", check_method)] = "partswap"
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE for the method (beam=4, lam=0.2); repeat.")
    ] = None
    max_edits: Annotated[int | None, typer.Option(min=1, help="Give up after so many edits.")] = None
    device: Annotated[
        str | None, typer.Option(help="Where to compute: cpu, cuda, mps, or auto; where the model is, if not given.")
    ] = None

    def open(self, stated: PreprocessOptions | None, words: Path | None) -> Explainer:
        """Return the explainer, cut where `words` were learned if no layer is given."""
        from partswap.explainer.explainer import Explainer
        from partswap.models.open import open_classifier
        from partswap.models.precision import check_device
        from partswap.search import METHODS
        from partswap.search.settings import changed
        from partswap.utils.options import check_options

        layer = self.layer
        if words is not None and layer is None:
            from partswap.words.model import layer_of

            layer = layer_of(words)
            say(f"note: cut at {layer}, where the words were learned.")
        with step(bars, f"opening {self.model}"):
            method, auxiliary = METHODS.get(self.method), self._auxiliary()
            settings = parse_options(self.settings) | ({} if self.max_edits is None else {"max_edits": self.max_edits})
            settings = check_options(method, settings, what=f"the method {self.method}", word="setting")
            # What makes no sense is refused before the model is opened.
            changed(method(), **settings).check_auxiliary(auxiliary is not None)
            device = None if self.device is None else check_device(self.device)
            classifier = open_classifier(self.model, self.weights, self.classes, stated)
            activation: Any = self.activation
            explainer = Explainer(
                classifier, layer, auxiliary=auxiliary, method=self.method, device=device, activation=activation,
                track=bars,
            )  # fmt: skip
            explainer.method = changed(explainer.method, **settings)
        return explainer

    def _auxiliary(self) -> AuxiliaryChoice | None:
        from partswap.models.auxiliaries import AuxiliaryChoice

        weights, layer = self.auxiliary_weights, self.auxiliary_layer
        if self.auxiliary in ("auto", "none") and (weights is not None or layer is not None):
            raise SettingError("weights or a layer of an auxiliary, and no auxiliary.", "Name it with --auxiliary.")
        if self.auxiliary == "none":
            return None
        choice = AuxiliaryChoice.parse(self.auxiliary)
        return replace(choice, weights=weights or choice.weights, layer=layer or choice.layer)


@dataclass(frozen=True)
class DistractorFlags:
    """Images to take regions from: named one by one, or found in a data set."""

    distractors: Annotated[
        list[str] | None, typer.Argument(help="Images of the other class, or folders of them; or name --data.")
    ] = None
    data: Annotated[str | None, typer.Option(help=f"Find the distractors in a data set: {DATASET_NAMES}.")] = None
    path: DataPath = None
    option: DataOptions = None
    split: Annotated[str, typer.Option(help="Which images of the data set.")] = "test"
    fetch: Annotated[bool, typer.Option(help="Images may be addresses (https://...), at most 20 MB each.")] = False

    def open(self) -> list[Any] | Dataset:
        """Return the images, or the data set to find them in."""
        from partswap.data.base import open_dataset
        from partswap.inputs.images import list_images

        if not self.distractors and self.data is None:
            raise SettingError("there are no images to take regions from.", "Name some, or a data set with --data.")
        if self.data is None:
            images = [_image(place, self.fetch) for place in self.distractors or ()]
            list_images(images)  # a folder without images is refused before the model is opened
            return images
        if self.distractors:
            raise SettingError(f"images and the data set {self.data} are given.", "Name one of them.")
        data = open_dataset(self.data, self.path, self.split, **parse_options(self.option))
        say_skipped({}, data)
        return data


@dataclass(frozen=True)
class OutputFlags:
    """Where results go: of one query files, of several folders."""

    save: Annotated[Path | None, typer.Option(help="Write the counterfactual as JSON; of several, a folder.")] = None
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure (png, svg, pdf, jpg or html); of several, a folder.")
    ] = None

    def check(self, count: int) -> None:
        """Raise an error, before anything is computed, if the results of `count` queries cannot be written there."""
        from partswap.drawing.figures import check_format
        from partswap.utils.files import check_writable

        for flag, place in (("--save", self.save), ("--plot", self.plot)):
            if place is not None and count > 1 and (place.suffix or place.is_file()):
                raise SettingError(f"there are {count} images to explain, and {flag} is {place}.", "Give a folder.")
            if place is not None and count == 1 and place.is_dir():
                raise SettingError(f"{flag} is {place}, a folder.", "Give a file.")
            if place is not None:
                check_writable(place, folder=count > 1)
        if self.plot is not None and count == 1:
            check_format(self.plot)

    def write(self, cf: Counterfactual, stem: str | None) -> None:
        """Save and draw a counterfactual; `stem` names its files in the folders for several."""
        if self.save:
            say(f"saved {cf.save(self.save / f'{stem}.json' if stem else self.save)}")
        if self.plot:
            picture = self.plot / f"{stem}.png" if stem else self.plot
            cf.plot(picture)
            say(f"drew {picture}")


@with_groups
@with_preparation
def explain(
    stated: Any,
    query: Annotated[str, typer.Argument(help="The image to explain, or a folder of images.")],
    *,
    model: ModelFlags,
    source: DistractorFlags,
    more: Annotated[list[str] | None, typer.Option("--query", help="Another image to explain; repeat.")] = None,
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
    keep_misclassified: Annotated[bool, typer.Option(help="Use distractors the model gets wrong, too.")] = False,
    words: Annotated[
        Path | None,
        checked("Say it in words, too: the folder that partswap train words made.", check_exists),
    ] = None,
    pixel: Annotated[
        bool,
        typer.Option(
            help="Check it in pixels, too: paste the regions and run the whole network; prefer edits that hold there."
        ),
    ] = False,
    output: OutputFlags,
) -> None:
    """Explain an image: which regions would have to look like which for the model to say another class?"""
    from partswap.inputs.images import list_images, unread_text
    from partswap.models.names import find_class

    places = [_image(place, source.fetch) for place in (query, *(more or []))]
    queries = list_images(places)
    if unread := unread_text(places):
        say(f"note: {unread}.")
    output.check(len(queries))
    hush_warnings()
    distractors = source.open()
    explainer = model.open(stated, words)
    for name in (target, label):
        if name is not None:
            find_class(name, explainer.class_names, explainer.cut.classes)
    options = {"label": label, "keep_misclassified": keep_misclassified, "words": words, "pixel": pixel}
    _explain_each(explainer, queries, distractors, output, target=target, **options)


def _explain_each(
    explainer: Explainer, queries: Sequence[Any], distractors: Any, output: OutputFlags, **options: Any
) -> None:
    """Explain queries one by one, print and write the results; one that fails does not stop the others."""
    printed = say_notes(explainer)
    count = None  # of distractors, where they were named
    if isinstance(distractors, list):
        distractors = explainer.encode(distractors)
        count = len(distractors)
    failures = 0
    for query in queries:
        try:
            with step(bars, f"explaining {query}"):
                cf = explainer.explain(query, distractors, **options)
        except PartswapError as error:
            if len(queries) == 1:
                say_notes(explainer, printed)
                raise
            failures += 1
            say(f"\n{query}\nnot explained: {error.in_flags()}")
            continue
        printed = say_notes(explainer, printed)
        if len(queries) > 1:
            say(f"\n{cf.source.query or 'query'}")
        _print(cf, explainer, count)
        output.write(cf, _stem(cf, queries, query) if len(queries) > 1 else None)
    if failures:
        raise PartswapError(f"{failures} of {len(queries)} images could not be explained.", "See above.")


def _image(place: str, fetch: bool) -> Any:
    """Return an image to be read: a path that exists, or an address."""
    is_address = place.lower().startswith(("http://", "https://"))
    if fetch and is_address:
        from partswap.inputs.images import fetch_image

        return fetch_image(place)
    if not is_address and not Path(place).exists():
        raise ImageError(f"there is no image or folder {place}.", "Check the path.")
    return place


def _stem(cf: Counterfactual, queries: Sequence[Any], query: Any) -> str:
    """Return the stem of the names of a query's files; images of one name in two folders get their number too."""
    name = Path(cf.source.query or "query").stem
    stems = [Path(str(q)).stem for q in queries if isinstance(q, str | Path)]
    return f"{name}-{queries.index(query)}" if stems.count(name) > 1 else name


def _print(cf: Counterfactual, explainer: Explainer, count: int | None) -> None:
    """Print a counterfactual and what is to be known of it; `count` distractors were named, None: a data set."""
    say(str(cf))
    target_note = cf.source.target_from or Note("given", "given")
    if target_note.kind != "given":
        say(f"target: {cf.class_name(cf.target)}, {target_note}")
    if cf.source.label == cf.query_class:
        say(f"note: the model is right, this is {cf.class_name(cf.query_class)}; explained is what would make it err.")
    most = explainer.method.distractors
    if count is not None and most is not None and count > most:
        say(f"note: {explainer.method.name} takes regions from one image: the first that will do of {count}.")
    elif count is not None and cf.distractors < count and target_note.kind != "distractors":
        say(
            f"note: {count - cf.distractors} of {count} distractors are left out, the model does not call them "
            f"{cf.class_name(cf.target)}; --keep-misclassified uses them."
        )
    if cf.lacks_auxiliary:
        say("note: no auxiliary, so nothing says which regions show the same part; name one with --auxiliary.")
