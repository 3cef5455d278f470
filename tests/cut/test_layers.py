"""Nobody should have to guess which layer to pass."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from partswap import _vision
from partswap.cut.layers import default_layer, layers_table, list_layers
from partswap.cut.network import cut_network
from partswap.errors import LayerError


def tv(name: str) -> nn.Module:
    return _vision.torchvision().models.get_model(name, num_classes=10)


def tm(name: str, **options: object) -> nn.Module:
    return _vision.timm().create_model(name, num_classes=10, **options)


@pytest.mark.parametrize(
    ("library", "name", "size", "expected"),
    [
        ("tv", "resnet50", 224, "layer4.0"),
        ("tv", "vgg16", 224, "features.30"),
        ("tv", "convnext_tiny", 64, "features.6"),
        ("tv", "efficientnet_b0", 64, "features.6.0"),
        ("tv", "mobilenet_v3_small", 64, "features.9"),
        ("tv", "densenet121", 64, "features.transition3"),
        ("tv", "swin_t", 64, "features.6"),
        ("timm", "resnet50", 224, "layer4.0"),
        ("timm", "vgg16", 224, "features.30"),
        ("timm", "convnext_atto", 64, "stages.3.downsample"),
        ("timm", "tf_efficientnet_lite0", 64, "blocks.5.0"),
        ("timm", "mobilenetv3_small_050", 64, "blocks.4.0"),
        ("timm", "densenet121", 64, "features.transition3"),
        ("timm", "swin_tiny_patch4_window7_224", None, "layers.3.downsample"),
        ("timm", "regnetx_002", 64, "s4.b1"),
        ("timm", "vit_tiny_patch16_224", None, "blocks.9"),
        ("timm", "mixer_s32_224", None, "blocks.5"),
    ],
)
def test_default(library: str, name: str, size: int | None, expected: str) -> None:
    model = tv(name) if library == "tv" else tm(name)
    assert default_layer(model, probe=None if size is None else torch.randn(2, 3, size, size)) == expected


def test_default_of_a_vit_leaves_two_blocks() -> None:
    model = tm("vit_tiny_patch16_224", img_size=64, depth=8)
    assert default_layer(model) == "blocks.5"
    assert cut_network(model).layer == "blocks.5"


def test_every_listed_layer_can_be_cut() -> None:
    model, probe = tv("resnet18"), torch.randn(2, 3, 64, 64)
    listed = list_layers(model, probe=probe)
    names = [info.name for info in listed]
    assert names == ["relu", "maxpool", *(f"layer{i}.{j}" for i in range(1, 5) for j in range(2))]
    assert [info.name for info in listed if info.is_default] == ["layer4.0"]
    assert listed[-1].note == "also layer4"
    for info in listed:
        cut = cut_network(model, info.name, probe=probe)
        assert (cut.grid, cut.channels) == (info.grid, info.channels)


@pytest.mark.parametrize("name", ["densenet121", "swin_t", "mobilenet_v3_small"])
def test_listed_layers_can_be_cut_elsewhere_too(name: str) -> None:
    model, probe = tv(name), torch.randn(2, 3, 64, 64)
    listed = list_layers(model, probe=probe)
    assert len(listed) > 4
    for info in listed[::4]:
        assert cut_network(model, info.name, probe=probe).grid == info.grid


def test_listing_is_short() -> None:
    assert len(list_layers(tv("resnet50"))) == 18


def test_prefix_tokens_are_noted() -> None:
    listed = list_layers(tm("vit_tiny_patch16_224", img_size=32, depth=4))
    assert "+ 1 prefix token" in {info.note for info in listed}
    assert {info.grid for info in listed} == {(2, 2)}
    # After the last block only the class token is read, so nothing that happens to a cell there would matter.
    assert [info.name for info in listed] == ["patch_embed", "pos_drop", "blocks.0", "blocks.1", "blocks.2"]


class Untraceable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4)
        self.side = nn.Conv2d(8, 8, 1)
        self.down = nn.Conv2d(8, 8, 3, stride=2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        if x.detach().numpy().max() > 1e6:
            x = x / 2
        return self.fc(self.down(x + self.side(x)).mean((2, 3)))


def test_a_model_without_a_graph_is_listed_by_trying() -> None:
    listed = list_layers(Untraceable(), probe=torch.randn(2, 3, 32, 32))
    assert [(info.name, info.is_default) for info in listed] == [("stem", False), ("down", True)]


def test_no_grid_at_all() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))
    with pytest.raises(LayerError, match="no layer that gives a grid"):
        default_layer(model, probe=torch.randn(2, 3, 8, 8))


def test_table_marks_the_default() -> None:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(layers_table(tv("resnet18"), probe=torch.randn(2, 3, 64, 64)))
    text = capture.get()
    assert "Where ResNet can be cut" in text
    (line,) = [line for line in text.splitlines() if "default" in line]
    assert "layer4.0" in line
    assert "2 x 2" in line
