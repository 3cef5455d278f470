"""torchvision and timm import whatever build is installed; models load by name."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from partswap import _vision
from partswap.errors import (
    FileFormatError,
    MissingDependencyError,
    PartswapError,
    SettingError,
    UnknownNameError,
)
from partswap.models.open import open_classifier
from partswap.models.zoo import load_model, model_names


def test_models_can_be_made() -> None:
    assert _vision.torchvision().models.resnet18
    assert _vision.timm().create_model
    assert _vision.torchvision() is sys.modules["torchvision"]


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, partswap.cut.network, partswap.cut.layers, partswap.models.zoo, partswap.models.huggingface; "
        "print(sorted({'torchvision', 'timm', 'transformers', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_missing_package_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> types.ModuleType:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(_vision, "importlib", types.SimpleNamespace(import_module=absent))
    with pytest.raises(MissingDependencyError, match="pip install torchvision"):
        _vision.torchvision.__wrapped__()


def test_a_healthy_torchvision_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = types.ModuleType("torchvision")
    monkeypatch.setattr(_vision, "importlib", types.SimpleNamespace(import_module=lambda _: healthy))
    monkeypatch.setattr(_vision, "_declare_placeholders", lambda: pytest.fail("not needed"))
    assert _vision.torchvision.__wrapped__() is healthy


def test_other_failures_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    _vision.torchvision()  # its operators are there

    def broken(name: str) -> types.ModuleType:
        raise RuntimeError("CUDA major versions differ")

    monkeypatch.setattr(_vision, "importlib", types.SimpleNamespace(import_module=broken))
    with pytest.raises(RuntimeError, match="CUDA major"):
        _vision.torchvision.__wrapped__()
    importlib.invalidate_caches()


@pytest.mark.parametrize("name", ["resnet18", "torchvision:resnet18", "timm:resnet18"])
def test_by_name(name: str) -> None:
    model = load_model(name, classes=7)
    assert not model.training
    assert model.fc.out_features == 7
    assert type(model).__module__.startswith("timm" if name.startswith("timm") else "torchvision")


def test_bare_names_are_looked_up_in_timm_too() -> None:
    assert type(load_model("convnext_atto", classes=3)).__module__.startswith("timm")
    assert "resnet50" in model_names("torchvision")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet51", "Did you mean .*'resnet50'"),
        ("timm:resnet51", "resnet50"),
        ("keras:vgg16", "no library 'keras'.* Did you mean 'vgg16'"),
        ("resnet18:default", "name 'resnet18', and default as weights"),
        ("", "the name of the model is empty"),
        ("hf:", "names no folder"),
        ("aviary", "no model called 'aviary'. Did you mean 'aviary:resnet' or 'aviary:vgg'"),
        ("aviary:vg", "no model called 'aviary:vg'. Did you mean .*'aviary:vgg'"),
        ("models/resnet", "no folder of that name. Check the path; .* hf:models/resnet"),
        ("../resnet", "no folder of that name. Check the path.$"),
        ("gone.pth", "no file of that name. Name the architecture, and pass the file as weights"),
        ("gone.py", "no file gone.py"),
        ("resnet50.a1_in1", "no weights called 'resnet50.a1_in1' .* Did you mean 'resnet50.a1_in1k'"),
        ("fcn_resnet50", "fcn_resnet50 of torchvision is a model for segmentation"),
        ("torchvision:ssdlite320_mobilenet_v3_large", "is a model for detection"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        open_classifier(name)


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".safetensors"])
def test_weights_from_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    state = load_model("resnet18", classes=4).state_dict()
    if suffix == ".safetensors":
        save_file(state, path)
    elif suffix == ".pth":
        torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}, "epoch": 3}, path)
    else:
        torch.save(state, path)
    for classes in (4, None):
        model = load_model("resnet18", weights=path, classes=classes)
        assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(load_model("resnet18", classes=4).state_dict(), path)
    with pytest.raises(FileFormatError, match=r"fc\.weight is \(4, 512\) in the file and \(9, 512\).*classes="):
        load_model("resnet18", weights=path, classes=9)
    with pytest.raises(FileFormatError, match=r"missing: features.*architecture"):
        load_model("vgg11", weights=path)


def test_files_that_hold_no_weights(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no weights file"):
        load_model("resnet18", weights=tmp_path / "nowhere.pt")
    for suffix in (".pt", ".safetensors"):
        path = tmp_path / f"noise{suffix}"
        path.write_bytes(b"\x07 this is no checkpoint")
        with pytest.raises(FileFormatError, match="noise"):
            load_model("resnet18", weights=path)
    torch.save({"epoch": 3}, tmp_path / "empty.pt")
    with pytest.raises(FileFormatError, match="no state dict"):
        load_model("resnet18", weights=tmp_path / "empty.pt")


@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18"])
def test_no_network(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", offline)
    library = _vision.timm() if name.startswith("timm") else _vision.torchvision()
    if name.startswith("timm"):
        monkeypatch.setattr(library, "create_model", offline)
    else:
        monkeypatch.setattr(library.models, "get_model", offline)
    with pytest.raises(PartswapError, match="pass a local file"):
        load_model(name, weights="default")


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(SettingError, match="at least two"):
        load_model("resnet18", classes=1)
    with pytest.raises(SettingError, match="own number of classes"):
        load_model("torchvision:resnet18", weights="default", classes=5)
