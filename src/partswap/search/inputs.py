"""What a search is given: checked, and brought into the form it works with."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from partswap.counterfactual import Step
from partswap.errors import ClassIndexError, NoDistractorsError, SettingError, ShapeError
from partswap.grid import GridShape, check_grid, resize_grid
from partswap.search.candidates import prefilter
from partswap.search.semantic import cosines, log_likeness


def check_grids(query: Tensor, distractors: Tensor) -> tuple[Tensor, Tensor]:
    """Return query and distractors in float32 after checking that they fit each other."""
    query = check_grid(query, "query", ndim=3)
    if isinstance(distractors, Tensor) and distractors.ndim == 4 and len(distractors) == 0:
        raise NoDistractorsError(
            "there are no distractors.",
            "Pass at least one image that the model predicts as the target class.",
        )
    distractors = check_grid(distractors, "distractors", ndim=4)
    if distractors.shape[1:] != query.shape:
        raise ShapeError(
            f"distractors have grids of shape {tuple(distractors.shape[1:])}, the query {tuple(query.shape)}.",
            "Compute both with the same features, from images of the same size.",
        )
    if distractors.device != query.device:
        raise ShapeError(f"query is on {query.device}, distractors on {distractors.device}.", "Move one of them.")
    return query, distractors


def class_index(target: Any, classes: int) -> int:
    """Return a class index as a plain integer; anything out of range is an error."""
    try:
        index = -1 if isinstance(target, bool) else operator.index(target)
    except TypeError:
        index = -1
    if not 0 <= index < classes:
        raise ClassIndexError(f"target {target!r} is not a class.", f"Use a number from 0 to {classes - 1}.")
    return index


def first_step(logits: Tensor, target: int) -> Step:
    """Return what the model says of the unedited query; the target already being said is an error."""
    predicted = int(logits.argmax())
    if predicted == target:
        raise ClassIndexError(
            f"the model already predicts class {target} for the query.",
            "Choose another target, or another query: there is nothing to change.",
        )
    return Step(float(logits.softmax(0)[target]), predicted)


def check_settings(
    lam: float,
    tau: float,
    objective: str,
    keep: float | None,
    screen: int | str | None,
    beam: int,
    max_edits: int | None,
    memory_mb: float,
) -> None:
    """Raise `SettingError` for the first setting that makes no sense."""
    rules = [
        (0 <= lam < float("inf"), f"lam is {lam}.", "Use 0 (no semantic term) or more."),
        (0 < tau < float("inf"), f"tau is {tau}.", "Use a temperature above 0, such as 0.1."),
        (objective in ("paper", "set"), f"objective is {objective!r}.", "Use 'set' or 'paper'."),
        (keep is None or 0 < keep <= 1, f"keep is {keep}.", "Use a fraction above 0 and at most 1, or None."),
        (
            screen in (None, "auto") or (_is_count(screen) and int(screen) >= 1),
            f"screen is {screen!r}.",
            "Use 'auto', a number of candidates, or None for all.",
        ),
        (_is_count(beam) and beam >= 1, f"beam is {beam!r}.", "Use 1 (greedy) or more."),
        (
            max_edits is None or (_is_count(max_edits) and max_edits >= 1),
            f"max_edits is {max_edits}.",
            "Use 1 or more, or None.",
        ),
        (0 < memory_mb < float("inf"), f"memory_mb is {memory_mb}.", "Use a number of megabytes above 0."),
    ]
    for fine, problem, fix in rules:
        if not fine:
            raise SettingError(problem, fix)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def semantics(
    query_aux: Tensor | None,
    distractor_aux: Tensor | None,
    shape: GridShape,
    count: int,
    lam: float,
    tau: float,
    keep: float | None,
    device: torch.device,
) -> tuple[Tensor | None, Tensor | None]:
    """Return ``log L_s`` and the prefilter's mask, None where there is none."""
    if (query_aux is None) != (distractor_aux is None):
        raise ShapeError("only one of query_aux and distractor_aux is given.", "Give both or neither.")
    filtered = keep is not None and keep < 1
    if query_aux is None or distractor_aux is None:
        if filtered:
            raise SettingError("keep needs auxiliary grids.", "Pass query_aux and distractor_aux, or keep=None.")
        return None, None
    query_aux = check_grid(query_aux, "query_aux", ndim=3)
    distractor_aux = check_grid(distractor_aux, "distractor_aux", ndim=4)
    if len(distractor_aux) != count or distractor_aux.shape[1] != query_aux.shape[0]:
        raise ShapeError(
            f"distractor_aux has shape {tuple(distractor_aux.shape)} for {count} distractors and a query_aux of shape "
            f"{tuple(query_aux.shape)}.",
            "Compute both with the same auxiliary, one grid per distractor.",
        )
    if lam == 0 and not filtered:
        return None, None  # nobody asks how alike cells are
    query_aux, distractor_aux = query_aux.to(device), distractor_aux.to(device)
    cosine = cosines(resize_grid(query_aux[None], shape)[0], resize_grid(distractor_aux, shape))
    mask = prefilter(cosine, keep) if filtered and keep is not None else None
    return (log_likeness(cosine, tau) if lam > 0 else None), mask
