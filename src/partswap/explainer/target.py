"""Which class an explanation aims at, which class of a model a class of a data set is, and images of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from partswap.data.base import Dataset
from partswap.errors import DataError, NoDistractorsError, ShapeError
from partswap.features.encode import EncodedImages
from partswap.inputs.images import label_of
from partswap.models.names import find_class, is_ambiguous, normalize_name
from partswap.utils.notes import Note

#: A target for all of several queries, or one for each; None is chosen (see `choose_target`).
Targets = int | str | None | Sequence[int | str | None]
#: How many distractors are looked for in a data set.
DISTRACTORS = 20
#: Where of this many images of known classes no more than this share is right, something else is wrong.
FEW, SUSPICIOUS = 4, 0.3


def classes_of(data: Dataset, names: Sequence[str] | None, count: int) -> dict[int, int]:
    """Return which of a model's `count` classes each class of a data set is: by name, else by number if as many."""
    if names:
        mine = {normalize_name(name): k for k, name in enumerate(names)}
        found = {k: mine[normalize_name(name)] for k, name in enumerate(data.classes) if normalize_name(name) in mine}
        if found:
            return found
    elif len(data.classes) == count:
        return {k: k for k in range(count)}
    raise DataError(
        f"the {len(data.classes)} classes of the data set are not the {count} of the model.",
        "Pass class_names, in the order of the logits and as the data set calls them.",
    )


def true_class(
    query: Any, label: int | str | None, distractors: Any, names: Sequence[str] | None, count: int
) -> int | None:
    """Return the true class of a query in the model's numbers, if it is known.

    A data set may number its classes otherwise than the model does: names decide where both have them.
    """
    if label is not None:
        return find_class(label, names, count)
    item = query if not isinstance(query, EncodedImages) else query.sources[0] if len(query.sources) == 1 else None
    found = label_of(item)
    if found is None:
        return None
    if isinstance(distractors, Dataset):
        return classes_of(distractors, names, count).get(found)
    called = str(getattr(item, "class_name", "") or "")
    if called and names:
        same = [k for k, name in enumerate(names) if normalize_name(name) == normalize_name(called)]
        return same[0] if len(same) == 1 else None
    return found if 0 <= found < count else None


def choose_target(
    logits: Tensor, target: int | str | None, truth: int | None, donors: Tensor | None, names: Sequence[str] | None
) -> tuple[int, Note]:
    """Return the class to aim at, and where it comes from: its kind is given, label, distractors or guess.

    `logits` are the query's, ``(classes,)``, `donors` those of the distractors, if they are known.
    """
    if target is not None:
        return find_class(target, names, len(logits)), _meant(target, names)
    said = int(logits.argmax())
    if truth is not None and truth != said:
        return truth, Note("label", "the true class")
    guess, why = int(logits.topk(2).indices[1]), "the model's second guess"
    counts = Counter() if donors is None else Counter(int(k) for k in donors.argmax(1) if int(k) != said)
    if donors is not None and counts:
        best, count = counts.most_common(1)[0]
        if 2 * count > len(donors):
            return best, Note("distractors", f"what {count} of {len(donors)} distractors are predicted as")
        called = names[best] if names else f"class {best}"
        why += f"; no majority of the distractors is another class ({count} of {len(donors)} are {called})"
    return guess, Note("guess", why)


def _meant(target: int | str, names: Sequence[str] | None) -> Note:
    """Return that a target was given; a number that could mean two classes says which it means."""
    if names is None or not is_ambiguous(target, names):
        return Note("given", "given")
    if isinstance(target, str):
        text = f"the class called {target!r}; 'class {target}' is the one at that index, {names[int(target)]!r}"
    else:
        text = f"the class at index {target}; {str(target)!r}, as text, is the one called so"
    return Note("ambiguous", text)


def each_target(target: Targets, count: int, names: Sequence[str] | None, classes: int) -> list[int | None]:
    """Return the target of each of `count` queries in the model's numbers; one that is no class is an error."""
    several = np.ndim(target) > 0  # type: ignore[arg-type]
    given: list[Any] = list(target) if several else [target] * count  # type: ignore[arg-type]
    if len(given) != count:
        raise ShapeError(f"there are {len(given)} targets for {count} queries.", "Give one per query, or one for all.")
    return [None if each is None else find_class(each, names, classes) for each in given]


def find_distractors(
    data: Dataset,
    target: int,
    query: str,
    encode: Callable[[Sequence[Any]], EncodedImages],
    names: Sequence[str] | None,
    count: int,
) -> EncodedImages:
    """Return images of the target class that a model of `count` classes gets right, from a data set.

    `query` is the name of an image that is left out, `encode` computes the features of images.
    """

    def name(index: int) -> str:
        return names[index] if names else f"class {index}"

    wanted = [theirs for theirs, mine in classes_of(data, names, count).items() if mine == target]
    labels = data.labels()
    places = [i for i in range(len(data)) if labels[i] in wanted and (not query or data.image_name(i) != query)]
    random.Random(0).shuffle(places)
    if not places:
        raise NoDistractorsError(
            f"the data set has no image of the target {name(target)}.", "Choose another target, or pass images."
        )
    right: list[int] = []
    parts: list[EncodedImages] = []
    wrong: list[Tensor] = []
    for start in range(0, len(places), DISTRACTORS):
        part = encode([data[i] for i in places[start : start + DISTRACTORS]])
        good = [k for k in range(len(part)) if int(part.logits[k].argmax()) == target]
        right += [places[start + k] for k in good]
        parts += [part.select(good)] if good else []
        wrong.append(part.logits)
        if len(right) >= DISTRACTORS:
            break
    if not right:
        raise NoDistractorsError(
            f"the model gets none of the {len(places)} images of {name(target)} right; they are predicted as "
            f"{predicted_as(torch.cat(wrong), name)}.",
            "Choose another target, or another data set.",
        )
    return encode([data[i] for i in right[:DISTRACTORS]]) if len(parts) > 1 else parts[0]


def suspicion(donors: EncodedImages, names: Sequence[str] | None, classes: int) -> str:
    """Return what is suspicious about the images of known classes, in words: hardly any is predicted as its class.

    A class is known of items of data sets, and of files in a folder that is called as a class is.
    """
    mine = {normalize_name(name): k for k, name in enumerate(names or ())}
    right, count = 0, 0
    for place, name in enumerate(donors.names):
        source = donors.sources[place] if donors.sources else None
        label = true_class(source, None, None, names, classes)
        label = mine.get(normalize_name(Path(name).parent.name)) if label is None and name else label
        if label is not None:
            count += 1
            right += int(donors.logits[place].argmax()) == label
    return few_right(right, count)


def few_right(right: int, count: int) -> str:
    """Return in words that hardly any of some images is predicted as its class; empty if that is not so."""
    if count < FEW or right > SUSPICIOUS * count:
        return ""
    return (
        f"{right or 'none'} of {count} images of known classes (by folder or label) "
        f"{'is' if right < 2 else 'are'} predicted as their class: are they prepared as the model was trained?"
    )


def predicted_as(logits: Tensor, name: Callable[[int], str]) -> str:
    """Return what images are predicted as, in words."""
    counts = Counter(int(k) for k in logits.argmax(1)).most_common()
    words = [f"{name(k)} ({n})" for k, n in counts[:3]]
    return ", ".join(words) + (f" and {len(counts) - 3} other classes" if len(counts) > 3 else "")
