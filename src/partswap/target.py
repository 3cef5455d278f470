"""Which class an explanation aims at, and which class of a model a class of a data set is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from partswap.data.base import Dataset
from partswap.errors import DataError
from partswap.features import Encoded
from partswap.images import label_of
from partswap.models.names import find_class, plain


def classes_of(data: Dataset, names: Sequence[str] | None, count: int) -> dict[int, int]:
    """Return which of a model's `count` classes each class of a data set is: by name, else by number if as many."""
    if names:
        mine = {plain(name): k for k, name in enumerate(names)}
        found = {k: mine[plain(name)] for k, name in enumerate(data.classes) if plain(name) in mine}
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
    item = query if not isinstance(query, Encoded) else query.sources[0] if len(query.sources) == 1 else None
    found = label_of(item)
    if found is None:
        return None
    if isinstance(distractors, Dataset):
        return classes_of(distractors, names, count).get(found)
    called = str(getattr(item, "class_name", "") or "")
    if called and names:
        same = [k for k, name in enumerate(names) if plain(name) == plain(called)]
        return same[0] if len(same) == 1 else None
    return found if 0 <= found < count else None


def choose_target(
    logits: Tensor, target: int | str | None, truth: int | None, donors: Tensor | None, names: Sequence[str] | None
) -> tuple[int, str]:
    """Return the class to aim at, and where it comes from in words.

    `logits` are the query's, ``(classes,)``, `donors` those of the distractors, if they are known.
    """
    if target is not None:
        return find_class(target, names, len(logits)), "given"
    said = int(logits.argmax())
    if truth is not None and truth != said:
        return truth, "the true class"
    if donors is not None:
        counts = Counter(int(k) for k in donors.argmax(1) if int(k) != said)
        if counts:
            best, count = counts.most_common(1)[0]
            if 2 * count > counts.total():
                return best, f"what {count} of {len(donors)} distractors are predicted as"
    return int(logits.topk(2).indices[1]), "the model's second guess"


def predicted_as(logits: Tensor, name: Callable[[int], str]) -> str:
    """Return what images are predicted as, in words."""
    counts = Counter(int(k) for k in logits.argmax(1)).most_common()
    words = [f"{name(k)} ({n})" for k, n in counts[:3]]
    return ", ".join(words) + (f" and {len(counts) - 3} other classes" if len(counts) > 3 else "")
