"""Nobody should have to guess which layer to pass."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from networks import tm, tv
from partswap.cut.layers import default_layer, layers_table, list_layers
from partswap.cut.network import cut_network
from partswap.errors import LayerError
from partswap.models import shipped


@pytest.mark.parametrize(
    ("library", "name", "size", "expected"),
    [
        ("tv", "resnet50", 224, "layer4.0"),
        ("tv", "vgg16", 224, "features.30"),
        ("tv", "convnext_tiny", 64, "features.7.0"),
        ("tv", "efficientnet_b0", 64, "features.6.0"),
        ("tv", "mobilenet_v3_small", 64, "features.9"),
        ("tv", "inception_v3", 128, "Mixed_7b"),
        ("tv", "densenet121", 64, "features.denseblock4"),
        ("tv", "swin_t", 64, "features.7.0"),
        ("timm", "resnet50", 224, "layer4.0"),
        ("timm", "vgg16", 96, "features.30"),
        ("timm", "convnext_atto", 64, "stages.3.blocks.0"),
        ("timm", "tf_efficientnet_lite0", 64, "blocks.5.0"),
        ("timm", "mobilenetv3_small_050", 64, "blocks.4.0"),
        ("timm", "densenet121", 64, "features.denseblock4"),
        ("timm", "swin_tiny_patch4_window7_224", None, "layers.3.blocks.0"),
        ("timm", "regnetx_002", 64, "s4.b1"),
        ("timm", "pvt_v2_b0", 64, "stages.3.blocks.0"),
        ("timm", "poolformer_s12", 64, "stages.3.blocks.0"),
        ("timm", "efficientvim_m1", 128, "stages.0.blocks.0"),  # the later stages give their states to the logits, too
        ("timm", "selecsls42", 128, "features.4"),
        ("timm", "hrnet_w18_small", 128, "final_layer"),  # its branches cannot be cut, and layer1 is their beginning
        ("timm", "convmixer_1024_20_ks9_p14", 56, "blocks.17"),  # its blocks can be cut within
        ("timm", "efficientvit_m0", 224, "stages.2.blocks.0"),
        ("timm", "sequencer2d_s", 64, "stages.1.blocks.0"),  # three stages on one grid
        ("timm", "nest_tiny", None, "levels.2"),  # inside its stages cells are in windows
        ("timm", "hgnetv2_b0", 128, "stages.3.blocks.0"),
        ("timm", "legacy_xception", 128, "block12"),  # the layers after it are parts of a block
        ("timm", "xception41p", 128, "blocks.11"),
        ("timm", "coat_tiny:64", None, "serial_blocks2.0"),  # pixels reach the logits around the later stages
        ("timm", "twins_svt_small:64", None, "blocks.3.0"),
        ("timm", "visformer_tiny:64", None, "stage3.0"),
        ("timm", "vit_tiny_patch16_224", None, "blocks.9"),
        ("timm", "mixer_s32_224", None, "blocks.5"),
    ],
)
def test_default(library: str, name: str, size: int | None, expected: str) -> None:
    name, _, own = name.partition(":")  # the image size it is made for
    options = {"img_size": int(own)} if own else {"mlp_ratio": 1 / 64} if name == "vgg16" else {}
    model = tv(name) if library == "tv" else tm(name, **options)
    assert default_layer(model, probe=None if size is None else torch.randn(2, 3, size, size)) == expected


@pytest.mark.parametrize(("which", "expected"), [("vgg", "features.8"), ("resnet", "layer4.0")])
def test_default_of_the_shipped_networks(which: str, expected: str) -> None:
    assert default_layer(shipped.build(which)) == expected


def test_a_row_of_plain_layers_is_cut_after_its_last_down_sampling() -> None:
    layers: list[nn.Module] = [nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))]  # the only block
    for _ in range(3):
        layers += [nn.Conv2d(8, 8, 3, padding=1), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(5))
    probe = torch.randn(2, 3, 32, 48)
    model(probe)
    assert default_layer(model, probe=probe) == "6"


@pytest.mark.parametrize("wrap", ["head", "probabilities", "twice"])
def test_a_wrapped_network_is_cut_inside(wrap: str) -> None:
    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.ReLU())
            self.body = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            return self.body(self.stem(x)).mean((2, 3))

    heads = {
        "head": [nn.Linear(12, 5)],
        "probabilities": [nn.Linear(12, 5), nn.Softmax(1)],
        "twice": [nn.Linear(12, 5)],
    }
    model: nn.Module = nn.Sequential(Backbone(), *heads[wrap])
    model, name = (nn.Sequential(model), "0.0.body") if wrap == "twice" else (model, "0.body")
    assert default_layer(model, probe=torch.randn(2, 3, 64, 64)) == name


def test_default_of_a_small_transformer_is_no_patch_embedding() -> None:
    assert (
        default_layer(tm("vit_tiny_patch16_224", img_size=(32, 48), depth=2, class_token=False, global_pool="avg"))
        == "blocks.0"
    )


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
