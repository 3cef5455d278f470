"""Random weights in the layouts that published files have, and the networks that hold them."""

from __future__ import annotations

import argparse
import copy
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from partswap import _vision
from partswap.models.zoo import load_model

State = dict[str, Tensor]
FILES = {
    "deepcluster": "deepclusterv2_800ep_pretrain.pth.tar",
    "swav": "swav_800ep_pretrain.pth.tar",
    "moco": "moco_v2_800ep_pretrain.pth.tar",
    "dino_resnet50": "dino_resnet50_pretrain.pth",
    "dino_vits16": "dino_deitsmall16_pretrain.pth",
    "dinov2_vits14": "dinov2_vits14_pretrain.pth",
    "imagenet_resnet50": "resnet50-0676ba61.pth",
    "imagenet_resnet50_v1": "resnet50_v1.pth",
    "efficientnet_lite0": "tf_efficientnet_lite0-0aa007d2.pth",
}

#: Those that are no ResNet-50 of torchvision.
OTHERS = ("dino_vits16", "dinov2_vits14", "efficientnet_lite0", "imagenet_resnet50_v1")


def network(name: str) -> nn.Module:
    """The reference network of an auxiliary, with random weights and batch statistics, in eval mode."""
    return copy.deepcopy(_network(name if name in OTHERS else "imagenet_resnet50"))


@lru_cache(maxsize=2)
def _network(name: str) -> nn.Module:
    torch.manual_seed(0)
    timm, models = _vision.timm(), _vision.torchvision().models
    if name == "dino_vits16":
        model = timm.create_model("vit_small_patch16_224", num_classes=0)
    elif name == "dinov2_vits14":
        model = timm.create_model("vit_small_patch14_dinov2", img_size=518, num_classes=0)
    elif name == "efficientnet_lite0":
        model = timm.create_model("tf_efficientnet_lite0")
    else:
        model = load_model("resnet50_v1") if name == "imagenet_resnet50_v1" else models.resnet50()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.3, 0.6)  # so that fifty layers do not overflow
    return model.eval()


def published(name: str, model: nn.Module, *, full: bool = False) -> object:
    """What the published file of an auxiliary holds, around the backbone of `model`."""
    state = model.state_dict()
    body = {key: value for key, value in state.items() if not key.startswith(("fc.", "head."))}
    if name in ("deepcluster", "swav"):
        heads = {f"projection_head.{key}": torch.randn(8, 8) for key in ("0.weight", "1.running_mean", "3.bias")}
        several = name == "deepcluster"
        heads |= {f"prototypes.{'prototypes0.' * several}weight": torch.randn(30, 8)}
        return _prefixed("module.", body | heads)
    if name == "moco":
        query = body | {f"fc.{key}": torch.randn(8, 8) for key in ("0.weight", "0.bias", "2.weight", "2.bias")}
        key = {name: torch.zeros_like(value) for name, value in query.items()}
        rest = {"queue": torch.randn(128, 16), "queue_ptr": torch.zeros(1, dtype=torch.long)}
        both = _prefixed("encoder_q.", query) | _prefixed("encoder_k.", key) | rest
        optimizer = {"state": {}, "param_groups": [{"lr": 0.03}]}
        return {"epoch": 800, "arch": "resnet50", "state_dict": _prefixed("module.", both), "optimizer": optimizer}
    if name.startswith("dino_") and full:
        teacher = _prefixed("backbone.", body) | {"head.mlp.0.weight": torch.randn(8, 8)}
        student = _prefixed("module.", {key: torch.zeros_like(value) for key, value in teacher.items()})
        args = argparse.Namespace(arch="resnet50", lr=0.03)
        return {"student": student, "teacher": teacher, "epoch": 800, "args": args}
    if name == "dinov2_vits14":
        return body | {"mask_token": torch.zeros(1, 384)}
    return state if name in ("imagenet_resnet50", "imagenet_resnet50_v1", "efficientnet_lite0") else body


def write(name: str, folder: Path, *, full: bool = False) -> tuple[Path, nn.Module]:
    """Write such a file; return it with the network that holds the same weights."""
    model, path = network(name), folder / FILES[name]
    # MoCo's file is from before torch's zip format.
    torch.save(published(name, model, full=full), path, _use_new_zipfile_serialization=name != "moco")
    return path, model


def _prefixed(prefix: str, state: State) -> State:
    return {prefix + key: value for key, value in state.items()}
