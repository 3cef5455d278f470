"""What a network returns: logits, or what it is instead of an image classifier, and what to do about it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from partswap.errors import CutError, InputError, NonFiniteError, PartswapError

if TYPE_CHECKING:
    from partswap.cut.shadow_copy import ForwardRecord

ONLY = "partswap explains image classifiers, which return logits (images, classes)."
#: What models of transformers are for, by how their classes' names end; all else is told by what is returned.
TASKS = {
    "ForSemanticSegmentation": "segments images",
    "ForInstanceSegmentation": "segments images",
    "ForUniversalSegmentation": "segments images",
    "ForObjectDetection": "detects objects",
    "ForDepthEstimation": "estimates depth",
    "ForSequenceClassification": "reads text",
    "ForTokenClassification": "reads text",
    "ForQuestionAnswering": "reads text",
    "ForMaskedLM": "reads text",
    "ForCausalLM": "reads text",
    "ForAudioClassification": "listens to sound",
    "ForVideoClassification": "watches videos",
}
#: What models in folders of torchvision do.
LIBRARY_TASKS = {"detection": "detects objects", "segmentation": "segments images", "video": "watches videos"}
#: How to make a classifier of a model that does something else.
WAYS = {
    "segments images": "Wrap it in a module that returns one logit per class of the whole image, for example the mean "
    "or the maximum over all pixels: {logits}.",
    "detects objects": "Wrap it in a module that returns one logit per class of the whole image, for example of the "
    "surest box of each class.",
    "reads text": "Give a model of images; one of images and text needs a module around it that holds the texts and "
    "returns the logits of images.",
}
BOXES = {"boxes", "pred_boxes"}
FEATURES = {"last_hidden_state", "pooler_output", "image_embeds"}
_ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Tanh)


def check_logits(model: nn.Module, record: ForwardRecord) -> Tensor:
    """Return what a model gave for the probe if it is finite logits of shape ``(images, classes)``."""
    output, images = record.logits, record.image[0]
    if not isinstance(output, Tensor):
        raise _no_tensor(model, output, record)
    if output.shape in ((images,), (images, 1)):
        raise CutError(
            f"the model returns one logit per image, shape {tuple(output.shape)}: it has no two classes to compare.",
            wrapped("torch.cat([-z / 2, z / 2], 1) with z = self.model(images).reshape(-1, 1)"),
        )
    if output.ndim != 2 or output.shape[0] != images:
        raise _no_rows(model, output, record)
    if not output.is_floating_point():
        raise CutError(f"the model returns {output.dtype}, not logits.", "Return the scores before argmax.")
    if not bool(torch.isfinite(output).all()):
        raise NonFiniteError(
            "the model's logits on the probe hold NaN or infinity.",
            "Check the model's weights (a diverged training gives these; so does float16 that overflows).",
        )
    return output


def check_classifier(model: nn.Module, record: ForwardRecord) -> None:
    """Raise an error if a model's classifier was taken away: what it returns are features, and no classes."""
    output = record.logits
    if not isinstance(output, Tensor) or output.ndim < 2:
        return
    own = getattr(model, "num_classes", None)
    removed = isinstance(own, int) and not isinstance(own, bool) and own == 0
    if removed or (_ends_in_identity(model, record) and not has_classifier(model, record)):
        how = " (num_classes=0)" if removed else ", a torch.nn.Identity stands where it was"
        raise CutError(
            f"{type(model).__name__} has no classifier{how}: the {output.shape[1]} numbers it returns are features, "
            "and no classes.",
            "Pass it with its classifier, or with one that was trained on these features: "
            "torch.nn.Sequential(model, classifier).",
        )


def has_classifier(model: nn.Module, record: ForwardRecord) -> bool:
    """Return whether a model seems to end in a classifier: what has weights last gives the logits themselves."""
    modules, ran = _leaves(model, record)
    # What is quantised keeps its weights where they are no parameters.
    weighted = [name for name in ran if hasattr(modules[name], "weight") or [*modules[name].parameters(recurse=False)]]
    if not weighted or not isinstance(record.logits, Tensor):
        return True  # nobody knows: it has an own way to its logits
    name, width = weighted[-1], record.logits.shape[-1]
    last, shape = modules[name], record.shapes[name]
    if "Linear" in type(last).__name__:
        activated = any(isinstance(modules[later], _ACTIVATIONS) for later in ran[ran.index(name) + 1 :])
        return len(shape) == 2 and shape[1] == width and not activated
    if "Conv" in type(last).__name__:
        return len(shape) == 4 and shape[1] == width
    return not type(last).__module__.startswith("torch.nn.modules.") and not _is_norm(last)


def failure(model: nn.Module, probe: Tensor, error: Exception) -> PartswapError:
    """Return what to tell of a model that fails on the probe."""
    task = _task(model, None, probe.shape[2:])
    if task is not None:
        return CutError(f"{type(model).__name__} {task}, and {ONLY}", WAYS.get(task, "Give a model of single images."))
    more = _more_inputs(model)
    if more:
        return CutError(
            f"{type(model).__name__}.forward wants {', '.join(map(repr, more))} besides the images.",
            wrapped(f"self.model(images, {', '.join(f'{name}=...' for name in more)})"),
        )
    dtype = str(probe.dtype).removeprefix("torch.")
    return InputError(
        f"the model fails on a batch of shape {tuple(probe.shape)} in {dtype}: {type(error).__name__}: {error}.",
        "Pass `probe`, a batch of at least two images of the size the model takes"
        + (", or model.float()." if probe.dtype in (torch.float16, torch.bfloat16) else "."),
    )


def wrapped(logits: str) -> str:
    """Return how to wrap a model so that it takes images and returns `logits`."""
    return (
        "Wrap it: class Wrapped(torch.nn.Module): def __init__(self, model): super().__init__(); self.model = model; "
        f"def forward(self, images): return {logits}"
    )


def _no_tensor(model: nn.Module, output: Any, record: ForwardRecord) -> CutError:
    """Return what to tell of a model that returns several things."""
    images, name, kind = record.image[0], type(model).__name__, type(output).__name__
    problem = f"the model returns a {kind}, not only the logits as one tensor"
    rows = {key: value for key, value in _items(output) if _is_rows(value, images) and key not in FEATURES}
    if isinstance(getattr(output, "logits", None), Tensor) and "logits" in rows:
        return CutError(f"{problem}.", "Wrap it with partswap.models.huggingface.adapt(model).")
    width = _classes(model, record)
    fits = [key for key, value in rows.items() if width in (None, value.shape[1])]
    if fits:
        return CutError(f"{problem}.", wrapped(f"self.model(images)[{fits[0]!r}]"))
    task = _task(model, output, record.image[1:])
    if task is not None:
        pixels = next((key for key, value in _items(output) if _is_map(value, record.image[1:])), None)
        fix = WAYS.get(task, "Give a model of single images.")
        return CutError(
            f"{name} {task} (it returns a {kind}), and {ONLY}",
            fix.replace("{logits}", f"return self.model(images)[{pixels!r}].mean((2, 3))"),
        )
    if any(key in FEATURES for key, _ in _items(output)):
        return CutError(
            f"{name} has no classifier: it returns {', '.join(str(key) for key, _ in _items(output))}, and {ONLY}",
            "Load the checkpoint with transformers.AutoModelForImageClassification, if it has a classifier.",
        )
    shapes = ", ".join(f"{key!r}: {_shape(value)}" for key, value in _items(output)[:6]) or "nothing"
    ought = f", of which the last linear layer has {width}" if width is not None and rows else ""
    return CutError(
        f"{problem}, and nothing in it looks like them, (images, classes){ought} ({shapes} for {images} images).",
        wrapped("...  # logits (images, classes)"),
    )


def _no_rows(model: nn.Module, output: Tensor, record: ForwardRecord) -> CutError:
    """Return what to tell of a model whose tensor is no row of logits per image."""
    shape, size = tuple(output.shape), record.image[1:]
    task = _task(model, output, size)
    if task is not None:
        fix = WAYS.get(task, "Give a model of single images.")
        return CutError(
            f"{type(model).__name__} {task} (it returns a tensor of shape {shape}), and {ONLY}",
            fix.replace("{logits}", "return self.model(images).mean((2, 3))"),
        )
    problem = f"the model returns a tensor of shape {shape} for {record.image[0]} images"
    if output.ndim in (3, 4) and not has_classifier(model, record):
        return CutError(
            f"{problem}: features, as of a network without its classifier.",
            f"Pass the whole network: {ONLY}",
        )
    return CutError(f"{problem}.", "partswap needs logits of shape (images, classes), with at least two classes.")


def _task(model: nn.Module, output: Any, size: Sequence[int]) -> str | None:
    """Return what a model does instead of classifying images, None if that is not known."""
    name = type(model).__name__
    named = next((task for ending, task in TASKS.items() if name.endswith(ending)), None)
    library, *place = type(model).__module__.split(".")
    named = next((LIBRARY_TASKS[part] for part in place if part in LIBRARY_TASKS), named)
    if named is not None and (library == "torchvision" or name.endswith(tuple(TASKS))):
        return named
    keys = {key for key, _ in _items(output)}
    keys |= {key for _, value in _items(output) if isinstance(value, Mapping) for key in value}
    if keys & BOXES:
        return "detects objects"
    maps = [value for _, value in _items(output) if isinstance(value, Tensor) and value.ndim == 4]
    if _is_map(output, size) or (len({value.shape[2:] for value in maps}) == 1 and _is_map(maps[0], size)):
        return "segments images"
    if output is not None:
        return None
    first = next(iter(inspect.signature(model.forward).parameters), "")
    layers = {type(module) for module in model.modules()}
    if first == "input_ids" or (nn.Embedding in layers and nn.Conv2d not in layers):
        return "reads text"
    if nn.Conv2d not in layers and nn.Conv1d in layers:
        return "listens to sound"
    return "watches videos" if nn.Conv2d not in layers and nn.Conv3d in layers else None


def _items(output: Any) -> list[tuple[Any, Any]]:
    if isinstance(output, Mapping):
        return list(output.items())
    return list(enumerate(output)) if isinstance(output, Sequence) and not isinstance(output, str) else []


def _is_rows(value: Any, images: int) -> bool:
    return isinstance(value, Tensor) and value.ndim == 2 and len(value) == images and value.shape[1] > 1


def _is_map(value: Any, size: Sequence[int]) -> bool:
    """Return whether a tensor holds scores of pixels: of a quarter of the image's side or more."""
    if not isinstance(value, Tensor) or value.ndim != 4:
        return False
    return all(4 * cells >= side for cells, side in zip(value.shape[2:], size, strict=True))


def _classes(model: nn.Module, record: ForwardRecord) -> int | None:
    """Return how many classes the last linear layer that ran tells apart, None if there is none."""
    modules = dict(model.named_modules())
    layers = [modules[name] for name in record.shapes if isinstance(modules.get(name), nn.Linear)]
    return int(layers[-1].out_features) if layers and isinstance(layers[-1], nn.Linear) else None


def _ends_in_identity(model: nn.Module, record: ForwardRecord) -> bool:
    modules, ran = _leaves(model, record)
    if not ran or not isinstance(modules[ran[-1]], nn.Identity | nn.Sequential):
        return False
    return bool(record.shapes[ran[-1]] == tuple(record.logits.shape))


def _leaves(model: nn.Module, record: ForwardRecord) -> tuple[dict[str, nn.Module], list[str]]:
    """Return all modules, and the names of those without parts that ran, in order; a quantised layer is one."""
    modules = dict(model.named_modules())
    whole = {
        name for name, m in modules.items() if not any(m.children()) or type(m).__module__.startswith("torch.ao.nn.")
    }
    return modules, [name for name in record.shapes if name in whole]


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _more_inputs(model: nn.Module) -> list[str]:
    """Return the arguments that a model's forward needs besides the first."""
    wanted = list(inspect.signature(model.forward).parameters.values())[1:]
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in wanted if p.default is p.empty and p.kind not in optional]
