"""``partswap train words``: a linear classifier per attribute, on the pooled features of a classifier.

Attributes are those of classes: an image has what more than half of its class's images have. Classifiers that are no
better than chance on held-out images are left out, and named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from partswap.data.base import Dataset
from partswap.errors import SettingError
from partswap.explainer.explainer import Explainer
from partswap.features.encode import classifier_features
from partswap.models.checkpoints import Classifier
from partswap.models.fingerprint import weights_digest
from partswap.models.names import normalize_name, placeholder_names
from partswap.models.precision import device_of
from partswap.training.session import finish, load_if_finished
from partswap.utils.estimates import TAILS
from partswap.utils.files import locked, make_folder, write_json
from partswap.utils.progress import Track, no_progress, step, tracked
from partswap.words.linear import LinearHead, fit_linear_head, own_linear_head
from partswap.words.model import AttributeHeads, WordsModel
from partswap.words.parts import open_parts
from partswap.words.vocabulary import Vocabulary, vocabulary

#: Inverse strength of the regularisation, on features of unit variance.
C = 1.0
#: Draws of held-out images, to tell whether an attribute is better than chance.
RESAMPLES = 200
#: Images whose features are pooled at once.
CHUNK = 256


def train_words(
    learn: Dataset,
    measure: Dataset,
    classifier: Classifier,
    out: Path,
    *,
    layer: str | None = None,
    parts: str | Path | None = None,
    fit_head: bool = False,
    cache: Path | None = None,
    precision: str = "float32",
    track: Track = no_progress,
    console: Console | None = None,
) -> WordsModel:
    """Train attribute classifiers, save them to `out` and return them; finished ones are returned as they are.

    Parameters
    ----------
    learn, measure : Dataset
        Images to learn from, and others to measure on; their classes must have attributes.
    classifier : Classifier
        What is to be explained.
    out : Path
        Folder of the result.
    layer : str, optional
        Where it is cut; by default the last grid, where most heads are pooling and one linear layer.
    parts : str or Path, optional
        What tells the parts of cells: the folder of a detector, a file of named clusters. Without it the parts of the
        data set's keypoints are used, and must be given with every counterfactual.
    fit_head : bool
        Whether a linear classifier may stand in for a head that is not linear.
    cache, precision, track, console
        Where features are kept, how they are computed, and who shows progress and messages.
    """
    console = console or Console(quiet=True)
    place = None if parts is None else str(Path(parts).absolute())
    settings = {
        "data": learn.fingerprint(),
        "held_out": measure.fingerprint(),
        "classifier": weights_digest(classifier.model),
        "cut": layer,
        "parts_from": place,
        "fit_head": fit_head,
    }
    done = load_if_finished(WordsModel, out, settings)
    if done is not None:
        console.print(f"{out} is finished: {_told(done)}", highlight=False)
        return done
    _same_classes(classifier, learn)
    words = check_words(learn, place)
    with step(track, "cutting the network"):
        explainer = Explainer(classifier, layer or last_grid(classifier), auxiliary=None)
    linear = own_linear_head(explainer.cut)
    if linear is None and not fit_head:
        raise SettingError(
            f"behind {explainer.cut.layer!r} the model is not pooling and one linear layer, so its classes have no "
            "weights to take apart.",
            "Cut it at its last grid ({layer}), or let a linear classifier stand in: {fit_head}.",
        )
    make_folder(out, place="out")
    with locked(out, wait=True):
        write_json(out / "training.json", {"kind": WordsModel.kind, **settings}, place="out")
        known: dict[str, Any] = {"cache": cache, "precision": precision, "track": track}
        pooled, logits = pooled_features(learn, explainer, **known)
        other, other_logits = pooled_features(measure, explainer, **known)
        if linear is None:
            linear = fit_linear_head(pooled, logits, held_out=(other, other_logits))
        made = _made(words, linear, explainer, classifier, (learn, pooled), (measure, other), place, settings, track)
        finish(made, out)
    console.print(f"words: {_told(made)}, saved {out}", highlight=False)
    return made


def check_words(learn: Dataset, parts: str | Path | None) -> Vocabulary:
    """Return the attributes that can be words; none is an error, before any network runs."""
    told = open_parts(parts).names if parts is not None else set(learn.parts)
    return vocabulary(learn.attributes(), told)


def _made(
    words: Vocabulary,
    linear: LinearHead,
    explainer: Explainer,
    classifier: Classifier,
    learn: tuple[Dataset, Tensor],
    measure: tuple[Dataset, Tensor],
    parts: str | None,
    settings: Mapping[str, Any],
    track: Track,
) -> WordsModel:
    """Return the fitted classifiers of the attributes that are better than chance."""
    attributes = learn[0].attributes()
    assert attributes is not None  # they make the vocabulary
    has = attributes.present()[:, words.columns]
    rows, offsets, used, dropped = [], [], [], list(words.left_out)
    named = list(enumerate(zip(words.names, words.meanings, strict=True)))
    for k, (name, meaning) in tracked(named, "attributes", track):
        row, offset = fit_attribute(learn[1].numpy(), has[learn[0].labels(), k])
        truth = has[measure[0].labels(), k]
        precision, low = held_out_precision(measure[1].numpy() @ row, truth)
        about = {"name": name, **meaning._asdict(), "precision": precision, "chance": float(truth.mean())}
        if low > truth.mean():
            rows.append(row)
            offsets.append(offset)
            used.append(about)
        else:
            dropped.append({**about, "why": "no better than chance on held-out images"})
    if not used:
        raise SettingError(
            f"none of {len(words.columns)} attributes can be told from these features.",
            "Use more images, or another layer.",
        )
    heads = AttributeHeads(len(used), len(linear.weights), linear.weights.shape[1])
    heads.attributes.copy_(torch.from_numpy(np.stack(rows)).float())
    heads.bias.copy_(torch.tensor(offsets))
    heads.classes.copy_(linear.weights)
    heads.means.copy_(class_means(learn[1], learn[0].labels(), len(linear.weights)))
    return WordsModel(
        heads,
        classifier.architecture,
        explainer.cut.layer,
        explainer.cut.channels,
        weights_digest(explainer.model),
        list(learn[0].classes),
        used,
        dropped,
        parts,
        linear.agreement,
        classifier.preprocess,
        record={**settings, "images": len(learn[0]), "held_out_images": len(measure[0])},
    )


def _told(made: WordsModel) -> str:
    worse = sum("chance" in attribute for attribute in made.dropped)
    mean = np.mean([attribute["precision"] for attribute in made.attributes])
    chance = np.mean([attribute["chance"] for attribute in made.attributes])
    stand_in = "" if made.agreement is None else f"; the linear stand-in agrees with the model on {made.agreement:.1%}"
    return (
        f"{len(made.attributes)} attributes, mean average precision {100 * mean:.1f} on held-out images (chance "
        f"{100 * chance:.1f}), {worse} left out as no better than chance{stand_in}"
    )


def _same_classes(classifier: Classifier, data: Dataset) -> None:
    theirs, ours = ([normalize_name(name) for name in classes] for classes in (data.classes, classifier.classes))
    unnamed = list(classifier.classes) == placeholder_names(len(ours))
    if len(theirs) != len(ours) or (not unnamed and theirs != ours):
        raise SettingError(
            f"the {len(theirs)} classes with attributes are not the {len(ours)} of the classifier.",
            "Use the data set it was trained on, or a table with its classes.",
        )


def last_grid(classifier: Classifier) -> str:
    """Return the last layer that gives a grid."""
    from partswap.cut.layers import list_layers

    probe = torch.randn(2, 3, *classifier.preprocess.shape, generator=torch.Generator().manual_seed(0))
    return list_layers(classifier.model, probe=probe.to(device_of(classifier.model)))[-1].name


def pooled_features(
    data: Dataset, explainer: Explainer, *, cache: Path | None, precision: str, track: Track
) -> tuple[Tensor, Tensor]:
    """Return the pooled features ``(n, d)`` and the logits of a data set, from the cache where they are there."""
    store = classifier_features(data, explainer, cache=cache, precision=precision, track=track)
    grids = store.array("grids")
    parts = [grids[k : k + CHUNK].astype(np.float32).mean((2, 3)) for k in range(0, len(grids), CHUNK)]
    return torch.from_numpy(np.concatenate(parts)), torch.from_numpy(np.array(store.array("logits")))


def class_means(pooled: Tensor, labels: NDArray[np.int64], classes: int) -> Tensor:
    """Return the mean features of every class ``(classes, d)`` about the mean of all; 0 for a class without images."""
    means, middle = torch.zeros(classes, pooled.shape[1]), pooled.mean(0)
    for c in np.unique(labels).tolist():
        means[c] = pooled[torch.from_numpy(labels == c)].mean(0) - middle
    return means


def fit_attribute(pooled: NDArray[np.float32], has: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Return the direction ``(d,)`` of pooled features ``(n, d)`` that tells who has an attribute, and its bias."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = pooled.mean(0), pooled.std(0) + 1e-6
    # Rare attributes count as much as frequent ones, or their directions would say "no" and little else.
    fitted = LogisticRegression(C=C, class_weight="balanced", max_iter=300).fit((pooled - mean) / spread, has)
    row = np.asarray(fitted.coef_[0] / spread, np.float64)
    return row, float(fitted.intercept_[0] - row @ mean)


def held_out_precision(scores: NDArray[Any], has: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the average precision of scores, and the lower end of its 95 % interval; 0 if no image has it."""
    from sklearn.metrics import average_precision_score

    if not has.any():
        return 0.0, 0.0
    rng = np.random.default_rng(0)
    draws = [rng.integers(len(has), size=len(has)) for _ in range(RESAMPLES)]
    found = [average_precision_score(has[d], scores[d]) for d in draws if has[d].any()]
    return float(average_precision_score(has, scores)), float(np.quantile(found, TAILS[0]))
