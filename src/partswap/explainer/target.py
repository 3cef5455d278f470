"""Which class is the target of an explanation, and images of it; classes of data sets in a model's numbers."""

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
#: How many distractors are taken from a data set.
DISTRACTORS = 20
#: Of so many images of known classes, no more than this share predicted right is suspicious.
FEW, SUSPICIOUS = 4, 0.3


def classes_of(data: Dataset, names: Sequence[str] | None, count: int) -> dict[int, int]:
    """Return which of a model's `count` classes each class of a data set is: by name, else by number if as many."""
    if names:
        indices = {normalize_name(name): k for k, name in enumerate(names)}
        called = enumerate(map(normalize_name, data.classes))
        if matches := {k: indices[name] for k, name in called if name in indices}:
            return matches
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
    number = label_of(item)
    if number is None:
        return None
    if isinstance(distractors, Dataset):
        return classes_of(distractors, names, count).get(number)
    class_name = str(getattr(item, "class_name", "") or "")
    if class_name and names:
        matches = [k for k, name in enumerate(names) if normalize_name(name) == normalize_name(class_name)]
        return matches[0] if len(matches) == 1 else None
    return number if 0 <= number < count else None


def choose_target(
    logits: Tensor, target: int | str | None, truth: int | None, distractors: Tensor | None, names: Sequence[str] | None
) -> tuple[int, Note]:
    """Return the target class, and a note of where it comes from, of kind given, label, distractors or guess.

    `logits` are the query's, ``(classes,)``, `distractors` those of the distractors, ``(n, classes)``, if they are
    known; `truth` is the query's true class, if it is known.
    """
    if target is not None:
        return find_class(target, names, len(logits)), _given(target, names)
    predicted = int(logits.argmax())
    if truth is not None and truth != predicted:
        return truth, Note("label", "the true class")
    reason = "the model's second guess"
    classes = [] if distractors is None else distractors.argmax(1).tolist()
    if counts := Counter(k for k in classes if k != predicted):
        most_common, count = counts.most_common(1)[0]
        if 2 * count > len(classes):
            return most_common, Note("distractors", f"what {count} of {len(classes)} distractors are predicted as")
        name = names[most_common] if names else f"class {most_common}"
        reason += f"; no majority of the distractors is another class ({count} of {len(classes)} are {name})"
    return int(logits.topk(2).indices[1]), Note("guess", reason)


def _given(target: int | str, names: Sequence[str] | None) -> Note:
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
    targets: list[Any] = list(target) if several else [target] * count  # type: ignore[arg-type]
    if len(targets) != count:
        raise ShapeError(
            f"there are {len(targets)} targets for {count} queries.", "Give one per query, or one for all."
        )
    return [None if target is None else find_class(target, names, classes) for target in targets]


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

    wanted = [own for own, index in classes_of(data, names, count).items() if index == target]
    labels = data.labels()
    indices = [i for i in range(len(data)) if labels[i] in wanted and (not query or data.image_name(i) != query)]
    random.Random(0).shuffle(indices)
    if not indices:
        raise NoDistractorsError(
            f"the data set has no image of the target {name(target)}.", "Choose another target, or pass images."
        )
    right: list[int] = []
    batches: list[EncodedImages] = []
    logits: list[Tensor] = []
    for start in range(0, len(indices), DISTRACTORS):
        batch = encode([data[i] for i in indices[start : start + DISTRACTORS]])
        rows = [k for k, predicted in enumerate(batch.logits.argmax(1).tolist()) if predicted == target]
        right += [indices[start + k] for k in rows]
        batches += [batch.select(rows)] if rows else []
        logits.append(batch.logits)
        if len(right) >= DISTRACTORS:
            break
    if not right:
        raise NoDistractorsError(
            f"the model gets none of the {len(indices)} images of {name(target)} right; they are predicted as "
            f"{predicted_as(torch.cat(logits), name)}.",
            "Choose another target, or another data set.",
        )
    return encode([data[i] for i in right[:DISTRACTORS]]) if len(batches) > 1 else batches[0]


def suspicion(images: EncodedImages, names: Sequence[str] | None, classes: int) -> str:
    """Return a text that hardly any image of a known class is predicted as its class; empty if that is not so.

    The class is known of items of data sets, and of files in a folder with the name of a class.
    """
    indices = {normalize_name(name): k for k, name in enumerate(names or ())}
    right, count = 0, 0
    for k, name in enumerate(images.names):
        label = true_class(images.sources[k] if images.sources else None, None, None, names, classes)
        label = indices.get(normalize_name(Path(name).parent.name)) if label is None and name else label
        if label is not None:
            count += 1
            right += int(images.logits[k].argmax()) == label
    return few_right(right, count)


def few_right(right: int, count: int) -> str:
    """Return a text that `right` of `count` images predicted as their class are suspiciously few; empty if not."""
    if count < FEW or right > SUSPICIOUS * count:
        return ""
    return (
        f"{right or 'none'} of {count} images of known classes (by folder or label) "
        f"{'is' if right < 2 else 'are'} predicted as their class: are they prepared as the model was trained?"
    )


def predicted_as(logits: Tensor, name: Callable[[int], str]) -> str:
    """Return a text of the classes that images are predicted as, ``gull (3), tern (1)``."""
    counts = Counter(logits.argmax(1).tolist()).most_common()
    entries = [f"{name(k)} ({n})" for k, n in counts[:3]]
    return ", ".join(entries) + (f" and {len(counts) - 3} other classes" if len(counts) > 3 else "")
