"""Image classifiers of Hugging Face transformers: from a folder, with its image processor and names of classes.

Only `load_folder` imports transformers; a caller that has such a model has imported it already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL.Image import Image
from torch import Tensor, nn

from partswap import _vision
from partswap.errors import CutError, MissingDependencyError, PartswapError, UnknownNameError
from partswap.inputs.preprocess import Preprocess
from partswap.inputs.transforms import CustomPreprocess


class HuggingFaceClassifier(nn.Module):
    """Images to logits; layers keep the names they have in the transformers model, after ``model.``."""

    preprocess: Preprocess | None = None

    def __init__(
        self,
        model: nn.Module,
        preprocess: Preprocess | None = None,
        unprepared: str = "",
        untrained: tuple[str, ...] = (),
        kind: str = "",
    ) -> None:
        super().__init__()
        self.model = model
        self.untrained, self.kind = untrained, kind  #: weights that its files do not have, and what they are of
        self.preprocess = preprocess  #: of its image processor, if that is known
        self.unprepared = unprepared  #: the folder it is from, if that has no image processor
        self.train(model.training)

    @property
    def config(self) -> Any:
        """The transformers configuration; it says which image size the model takes."""
        return self.model.config

    @property
    def class_names(self) -> list[str] | None:
        """The names of its classes, if it has any but LABEL_0, LABEL_1, ..."""
        labels = getattr(self.config, "id2label", None)
        if not isinstance(labels, Mapping) or not labels:
            return None
        names = [str(labels.get(k, labels.get(str(k), k))) for k in range(len(labels))]
        return None if all(name == f"LABEL_{k}" for k, name in enumerate(names)) else names

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(n, classes)``."""
        logits: Tensor = self.model(pixel_values=images).logits
        return logits


def adapt(hf_model: nn.Module) -> HuggingFaceClassifier:
    """Return a transformers image classifier as a module from images to logits that partswap can cut.

    Its image processor is read from the folder it was loaded from, if that is still there.

    Parameters
    ----------
    hf_model : transformers.PreTrainedModel
        A ``...ForImageClassification``; it is wrapped, not copied.

    Examples
    --------
    ``model = adapt(transformers.AutoModelForImageClassification.from_pretrained("path/to/vit"))``, then
    ``features, head = partswap.cut_network(model)``.
    """
    if isinstance(hf_model, HuggingFaceClassifier):
        return hf_model
    if not isinstance(hf_model, nn.Module) or not hasattr(hf_model, "config"):
        raise CutError(
            f"{type(hf_model).__name__} is not a transformers model.",
            "Pass a model of a ...ForImageClassification class.",
        )
    if not is_classifier(hf_model):
        raise CutError(
            f"{type(hf_model).__name__} has no classification head.",
            "Load the checkpoint with transformers.AutoModelForImageClassification.",
        )
    source = Path(str(getattr(hf_model.config, "_name_or_path", "") or ""))
    has_processor = source.is_dir() and (source / "preprocessor_config.json").exists()
    return HuggingFaceClassifier(hf_model, read_processor(str(source)) if has_processor else None)


def is_classifier(model: nn.Module) -> bool:
    """Tell whether a model is an image classifier of transformers that `adapt` takes."""
    return "ForImageClassification" in type(model).__name__ and hasattr(model, "config")


def load_folder(source: str, classes: int | None = None) -> HuggingFaceClassifier:
    """Return the classifier of a folder that ``save_pretrained`` wrote, or of a name on the Hugging Face hub.

    With another number of `classes` its last layer starts anew.
    """
    if not source:
        raise UnknownNameError("hf: names no folder.", "Give hf:FOLDER, or a name of the hub: hf:owner/name.")
    transformers = _transformers()
    folder = Path(source)
    if folder.exists() and not (folder / "config.json").exists():
        raise PartswapError(
            f"{folder} holds no Hugging Face model (config.json is missing).",
            "Give the folder that save_pretrained wrote.",
        )
    local = folder.exists()
    if not local and (source.startswith((".", "/", "~")) or source.count("/") != 1):
        raise PartswapError(f"there is no folder {source}.", "Check the path, or give a name of the hub: owner/name.")
    kind = "model"
    try:
        options: dict[str, Any] = {"local_files_only": local}
        config = transformers.AutoConfig.from_pretrained(source, **options)
        kind = (config.architectures or [kind])[0]
        if classes is not None and classes != config.num_labels:
            options |= {"num_labels": classes, "ignore_mismatched_sizes": True}
        options["output_loading_info"] = True
        with _quiet(transformers):  # what it says of layers that start anew was asked for, or is said by us
            model, loaded = transformers.AutoModelForImageClassification.from_pretrained(source, **options)
    except Exception as error:  # a folder may be damaged in any way, and the network may fail in any way
        raise PartswapError(
            f"the {kind} in hf:{source} cannot be loaded as an image classifier ({_first_line(error)}).",
            "Give a folder with config.json and model.safetensors of a ...ForImageClassification model.",
        ) from error
    missing = sorted(loaded["missing_keys"]) if classes is None else []  # to be trained otherwise
    about: dict[str, Any] = {"untrained": tuple(missing), "kind": kind}
    if local and not (folder / "preprocessor_config.json").exists():
        return HuggingFaceClassifier(model.eval(), unprepared=source, **about)
    return HuggingFaceClassifier(model.eval(), read_processor(source, local), **about)


def read_processor(source: str, local: bool = True) -> Preprocess:
    """Return the preprocessing of the image processor in a folder, or of a name on the hub."""
    transformers = _transformers()
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(source, local_files_only=local)
    except Exception as error:
        raise PartswapError(
            f"the image processor of {source} cannot be loaded ({_first_line(error)}).",
            "Save it again: processor.save_pretrained(folder).",
        ) from error
    return preprocess_of_processor(processor)


def is_processor(thing: Any) -> bool:
    """Tell whether something is an image processor of transformers, or holds one."""
    return hasattr(getattr(thing, "image_processor", thing), "model_input_names") and hasattr(thing, "save_pretrained")


def preprocess_of_processor(processor: Any) -> Preprocess:
    """Return what an image processor makes of images, exactly."""
    image_processor = getattr(processor, "image_processor", processor)

    def prepare(image: Image) -> Tensor:
        pixels: Tensor = image_processor(images=image, return_tensors="pt")["pixel_values"]
        return pixels

    return CustomPreprocess.of(prepare, type(image_processor).__name__)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Let transformers show neither progress nor remarks."""
    logging = transformers.utils.logging
    level, progress_shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if progress_shown:
            logging.enable_progress_bar()


def _transformers() -> Any:
    _vision.torchvision()  # transformers imports it, and needs it to be whole
    try:
        import transformers
    except ImportError as error:
        raise MissingDependencyError(
            "models of Hugging Face need the package transformers.", "Install it: pip install 'partswap[hf]'."
        ) from error
    return transformers


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
