"""One contract for every architecture, and one test for every refusal."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from networks import tm, tv
from partswap import _vision
from partswap.cut.layer_extractor import LayerExtractor
from partswap.cut.layout import find_layout
from partswap.cut.network import Cut, cut_network
from partswap.cut.shadow_copy import image_size
from partswap.errors import (
    CutError,
    LayerError,
    NondeterministicModelError,
    NonFiniteError,
    ShapeError,
)
from partswap.explainer.explainer import Explainer
from partswap.grid import FeatureGrids
from partswap.inputs.preprocess import Preprocess
from partswap.models.huggingface import adapt


def hf(kind: str) -> nn.Module:
    _vision.torchvision()  # transformers imports it
    transformers = pytest.importorskip("transformers")
    token = {
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
    }
    conv = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 2]}
    options = {
        "ViT": token,
        "Dinov2": token,
        "Dinov2WithRegisters": token | {"num_register_tokens": 4},
        "ConvNext": conv | {"image_size": 64},
        "ResNet": conv | {"embedding_size": 8},
    }[kind]
    config = getattr(transformers, f"{kind}Config")(**options, num_labels=10)
    return adapt(getattr(transformers, f"{kind}ForImageClassification")(config))


class Branching(nn.Module):
    """Reads a value to decide what to do: neither fx nor export can follow it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4, padding=1)
        self.body = nn.Sequential(nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Conv2d(8, 12, 3, padding=1))
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        if x.detach().float().numpy().max() > 1e6:
            x = x / 2
        return self.fc(self.body(x).relu_().mean((2, 3)))


class Gated(nn.Module):
    """Only its stem has control flow: fx leaves the stem whole."""

    class Stem(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, stride=4, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            if x.shape[1] != 3:
                raise ValueError(x.shape)
            return self.conv(x)

    def __init__(self) -> None:
        super().__init__()
        self.stem = self.Stem()
        self.conv = nn.Conv2d(8, 12, 3, padding=1)
        self.fc = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.conv(F.relu(self.stem(x), inplace=True)), inplace=True).mean((2, 3)))


def plain() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(4),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(4),
        nn.Dropout(),
        nn.Flatten(),
        nn.Linear(16 * 4, 10),
    )


# name: (maker, image size or None for the model's own, {layer: (grid, channels)}, route)
Case = tuple[Callable[[], nn.Module], tuple[int, int] | None, dict[str, tuple[tuple[int, int], int]], str]
CASES: dict[str, Case] = {
    "tv-vgg16": (
        lambda: tv("vgg16"),
        (64, 96),
        {"features.30": ((2, 3), 512), "features.23": ((4, 6), 512)},
        "fx",
    ),
    "tv-vgg11_bn": (lambda: tv("vgg11_bn"), (64, 64), {"features.28": ((2, 2), 512)}, "fx"),
    "tv-resnet18": (
        lambda: tv("resnet18"),
        (96, 160),
        {"layer4.0": ((3, 5), 512), "bn1": ((48, 80), 64), "layer4.1.relu": ((3, 5), 512)},
        "fx",
    ),
    "tv-resnet50": (
        lambda: tv("resnet50"),
        (64, 64),
        {"layer4.0": ((2, 2), 2048), "layer3": ((4, 4), 1024)},
        "fx",
    ),
    "tv-convnext_tiny": (
        lambda: tv("convnext_tiny"),
        (96, 64),
        {"features.6": ((3, 2), 768), "features.7.0": ((3, 2), 768)},
        "fx",
    ),
    "tv-efficientnet_b0": (lambda: tv("efficientnet_b0"), (96, 64), {"features.6.0": ((3, 2), 192)}, "fx"),
    "tv-mobilenet_v3_small": (
        lambda: tv("mobilenet_v3_small"),
        (96, 64),
        {"features.9": ((3, 2), 96)},
        "fx",
    ),
    "tv-densenet121": (
        lambda: tv("densenet121"),
        (64, 96),
        {"features.transition3": ((2, 3), 512), "features.denseblock3": ((4, 6), 1024)},
        "fx",
    ),
    "tv-swin_t": (
        lambda: tv("swin_t"),
        (96, 160),
        {"features.6": ((3, 5), 768), "features.5.1": ((6, 10), 384)},
        "fx",
    ),
    "tv-vit_b_16": (
        lambda: tv("vit_b_16", image_size=64),
        None,
        {"encoder.layers.encoder_layer_9": ((4, 4), 768)},
        "fx",
    ),
    "tv-inception_v3": (
        lambda: tv("inception_v3", init_weights=False),
        (96, 128),
        {"Mixed_7a": ((1, 2), 1280)},
        "fx",
    ),
    "timm-resnet26": (lambda: tm("resnet26"), (64, 96), {"layer4.0": ((2, 3), 2048)}, "fx"),
    "timm-tf_efficientnet_lite0": (
        lambda: tm("tf_efficientnet_lite0"),
        (64, 96),
        {"blocks.5.0": ((2, 3), 192)},
        "fx",
    ),
    "timm-convnext_atto": (
        lambda: tm("convnext_atto"),
        (64, 96),
        {"stages.3.downsample": ((2, 3), 320)},
        "fx",
    ),
    "timm-mobilenetv3_small_050": (
        lambda: tm("mobilenetv3_small_050"),
        (64, 96),
        {"blocks.4.0": ((2, 3), 48)},
        "fx",
    ),
    "timm-densenet121": (
        lambda: tm("densenet121"),
        (64, 96),
        {"features.transition3": ((2, 3), 512)},
        "fx",
    ),
    "timm-regnetx_002": (lambda: tm("regnetx_002"), (64, 96), {"s4.b1": ((2, 3), 368)}, "fx"),
    "timm-swin_tiny": (
        lambda: tm("swin_tiny_patch4_window7_224", img_size=(64, 96)),
        None,
        {"layers.3.downsample": ((2, 3), 768), "layers.2.blocks.1": ((4, 6), 384)},
        "fx",
    ),
    "timm-vit_tiny": (
        lambda: tm("vit_tiny_patch16_224", img_size=(64, 96)),
        None,
        {"blocks.9": ((4, 6), 192), "patch_embed": ((4, 6), 192)},
        "fx",
    ),
    "timm-deit_tiny_distilled": (
        lambda: tm("deit_tiny_distilled_patch16_224", img_size=64),
        None,
        {"blocks.9": ((4, 4), 192)},
        "fx",
    ),
    "timm-vit_dinov2": (
        lambda: tm("vit_small_patch14_dinov2", img_size=(70, 42)),
        None,
        {"blocks.9": ((5, 3), 384)},
        "fx",
    ),
    "timm-vit_reg4_dinov2": (
        lambda: tm("vit_small_patch14_reg4_dinov2", img_size=28),
        None,
        {"blocks.9": ((2, 2), 384), "blocks.0": ((2, 2), 384)},
        "fx",
    ),
    "timm-mixer": (lambda: tm("mixer_s32_224", img_size=128), None, {"blocks.5": ((4, 4), 512)}, "fx"),
    "timm-vit_dinov3": (
        lambda: tm("vit_small_patch16_dinov3", img_size=(64, 96)),
        None,
        {"blocks.9": ((4, 6), 384)},
        "fx",
    ),
    "hf-ViT": (lambda: hf("ViT"), None, {"model.vit.layers.1": ((4, 4), 32)}, "export"),
    "hf-Dinov2": (lambda: hf("Dinov2"), None, {"model.dinov2.encoder.layer.1": ((4, 4), 32)}, "fx"),
    "hf-Dinov2WithRegisters": (
        lambda: hf("Dinov2WithRegisters"),
        None,
        {"model.dinov2_with_registers.encoder.layer.1": ((4, 4), 32)},
        "fx",
    ),
    "hf-ConvNext": (
        lambda: hf("ConvNext"),
        None,
        {"model.convnext.encoder.stages.3.layers.0": ((2, 2), 32)},
        "fx",
    ),
    "hf-ResNet": (
        lambda: hf("ResNet"),
        (64, 96),
        {"model.resnet.encoder.stages.3.layers.0": ((2, 3), 32)},
        "fx",
    ),
    "sequential": (plain, (32, 32), {"6": ((2, 2), 16), "3": ((8, 8), 16), "4": ((8, 8), 16)}, "fx"),
    "partly-traceable": (Gated, (32, 48), {"stem": ((8, 12), 8), "conv": ((8, 12), 12)}, "fx"),
    "untraceable": (Branching, (32, 48), {"stem": ((8, 12), 8), "body": ((8, 12), 12)}, "replay"),
}


def build(name: str) -> tuple[nn.Module, Tensor | None]:
    torch.manual_seed(0)
    maker, size, _, _ = CASES[name]
    model = maker()
    # Freshly made networks start with branches that give zero; a cut that drops one would go unnoticed.
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d) and module.affine:
                module.weight.uniform_(0.5, 1.5)
                module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            if isinstance(module, nn.Linear) and not module.weight.any():
                module.weight.normal_(0, 0.1)
    return model, None if size is None else torch.randn(2, 3, *size)


def snapshot(model: nn.Module) -> dict[str, object]:
    """Everything about a model that a split might disturb."""
    found: dict[str, object] = {}
    for name, module in model.named_modules():
        found[f"{name} attributes"] = {k: id(v) for k, v in vars(module).items() if k != "training"}
        found[f"{name} training"] = module.training
        found[f"{name} inplace"] = getattr(module, "inplace", None)
        found[f"{name} hooks"] = [len(v) for k, v in vars(module).items() if "hooks" in k and v is not None]
        found[f"{name} tensors"] = [*module._parameters, *module._buffers]
    found["parameters"] = [(n, id(p), p.requires_grad, p.grad, p._version) for n, p in model.named_parameters()]
    found["buffers"] = [(n, id(b), b._version) for n, b in model.named_buffers()]
    return found


@pytest.mark.parametrize("name", CASES)
def test_contract(name: str) -> None:
    model, probe = build(name)
    next(model.parameters()).requires_grad_(False)
    images = torch.randn(2, 3, *(image_size(model) if probe is None else probe.shape[2:]))
    with torch.no_grad():
        expected = model.eval()(images)
    model.train()
    next(model.children()).eval()  # modes are mixed, as in fine-tuning
    before = snapshot(model)
    _, _, layers, route = CASES[name]
    for layer, (grid_shape, channels) in layers.items():
        randomness = torch.get_rng_state()
        cut = cut_network(model, layer, probe=probe)
        assert torch.equal(torch.get_rng_state(), randomness)
        assert (tuple(cut.grid), cut.channels, cut.classes) == (grid_shape, channels, 10)
        assert cut.route == route
        assert snapshot(model) == before
        check_parts(model, cut, images, expected)
        assert snapshot(model) == before


def check_parts(model: nn.Module, cut: Cut, images: Tensor, expected: Tensor) -> None:
    features, head = cut
    with torch.no_grad():
        grids = features(images)
        kept = grids.values.clone()
        assert kept.shape == (2, cut.channels, *cut.grid)
        torch.testing.assert_close(head(grids), expected, atol=1e-4, rtol=1e-4)
        assert torch.equal(grids.values, kept)  # the head does not write into its input
        # Another number of grids than of images, with the context of one query.
        assert head.needs_context == (grids.context is not None)
        query = grids.at([0]).context
        five = FeatureGrids(kept[:1].repeat(5, 1, 1, 1), query)
        torch.testing.assert_close(head(five), expected[:1].repeat(5, 1), atol=1e-4, rtol=1e-4)
        # Parts stay in eval mode, whatever anyone says.
        features.train()
        head.train()
        torch.testing.assert_close(head(features(images)), expected, atol=1e-4, rtol=1e-4)
    leaf = kept[:1].clone().requires_grad_()
    logits = head(FeatureGrids(leaf, query))
    (gradient,) = torch.autograd.grad(logits[0].square().sum(), leaf)
    assert gradient.abs().sum() > 0
    own = {id(p) for p in model.parameters()}
    assert all(id(p) in own for part in cut for p in part.parameters())


@pytest.mark.parametrize(
    ("name", "layer", "size"),
    [
        ("tv-resnet18", "layer3", (96, 160)),
        ("tv-convnext_tiny", "features.5.8", (96, 160)),
        ("tv-swin_t", "features.1.0", (96, 160)),
        ("tv-swin_t", "features.3.1", (96, 160)),
        ("tv-vit_b_16", "encoder.layers.encoder_layer_9", (64, 64)),
        ("timm-swin_tiny", "layers.1.blocks.1", (64, 96)),
        ("timm-vit_tiny", "blocks.9", (64, 96)),
        ("timm-vit_dinov2", "blocks.9", (70, 42)),
        ("timm-vit_reg4_dinov2", "blocks.9", (28, 28)),
        ("hf-ViT", "model.vit.layers.1", (32, 32)),
        ("hf-ConvNext", "model.convnext.encoder.stages.2.layers.0", (64, 64)),
        ("untraceable", "stem", (32, 48)),
    ],
)
def test_cells_are_where_their_pixels_are(name: str, layer: str, size: tuple[int, int]) -> None:
    model, _ = build(name)
    cut = cut_network(model, layer, probe=torch.randn(2, 3, *size))
    for corner in ("bottom right", "top right"):
        check_a_corner(cut, size, corner)


def check_a_corner(cut: Cut, size: tuple[int, int], corner: str) -> None:
    patch = size[0] // cut.grid.h, size[1] // cut.grid.w
    rows = slice(-patch[0], None) if "bottom" in corner else slice(None, patch[0])
    cols = slice(-patch[1], None) if "right" in corner else slice(None, patch[1])
    images = torch.randn(4, 3, *size)
    changed = images.clone()
    changed[:, :, rows, cols] += 2 * torch.randn(4, 3, *patch)
    with torch.no_grad():
        moved = (cut.features(images).values - cut.features(changed).values).square().sum((0, 1))
    row, col = cut.grid.row_col(int(moved.argmax()))
    # A strided convolution is centred beside its cell, so a change may peak one cell further in.
    slack = 0 if cut.head.layout.kind == "tokens" else 1
    assert abs(row - (cut.grid.h - 1 if "bottom" in corner else 0)) <= slack * (cut.grid.h > 3)
    assert abs(col - (cut.grid.w - 1 if "right" in corner else 0)) <= slack * (cut.grid.w > 3)


SIZES = [
    (channels, size, stride)
    for channels in (6, 8, 49, 96, 768)
    for size in ((224, 224), (256, 256), (96, 160))
    for stride in (4, 8, 16, 32)
    if channels not in (size[0] // stride, size[1] // stride)  # in doubt a wider image decides; see the next test
]


@pytest.mark.parametrize(("channels", "size", "stride"), SIZES)
def test_channels_first_or_last(channels: int, size: tuple[int, int], stride: int) -> None:
    h, w = size[0] // stride, size[1] // stride
    for kind, shape in (("nchw", (2, channels, h, w)), ("nhwc", (2, h, w, channels))):
        layout = find_layout(shape, "layer", (2, *size), model=nn.Identity())
        assert (layout.kind, layout.grid, layout.channels) == (kind, (h, w), channels)


@pytest.mark.parametrize("shape", [(2, 16, 196, 96), (2, 4, 196, 192), (2, 1, 196, 384), (2, 1, 16, 384)])
def test_windows_are_no_grid(shape: tuple[int, ...]) -> None:
    with pytest.raises(LayerError, match="no two of its axes"):
        find_layout(shape, "levels.0", (2, 224, 224), model=nn.Identity(), hints=[(56, 56), (28, 28)])


class Cube(nn.Module):
    """As many channels as rows and columns, channels first or last."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, stride=4)
        self.norm = nn.LayerNorm(8) if last else nn.Identity()
        self.fc = nn.Linear(8, 10)
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = self.norm(x.permute(0, 2, 3, 1) if self.last else x)
        return self.fc(x.mean((1, 2) if self.last else (2, 3)))


@pytest.mark.parametrize("last", [False, True])
def test_as_many_channels_as_rows_and_columns(last: bool) -> None:
    cut = cut_network(Cube(last), "norm", probe=torch.randn(2, 3, 32, 32))
    assert cut.head.layout.kind == ("nhwc" if last else "nchw")


def test_head_is_a_readable_graph_of_the_models_own_modules() -> None:
    body = cut_network(tv("vgg11_bn"), "features.28", probe=torch.randn(2, 3, 64, 64)).head.body
    assert isinstance(body, fx.GraphModule)
    called = [str(node.target) for node in body.graph.nodes if node.op == "call_module"]
    assert called == ["avgpool", *(f"classifier.{i}" for i in range(7))]
    assert isinstance(body.get_submodule("classifier.0"), nn.Linear)


def test_features_stop_at_the_cut() -> None:
    body = cut_network(tv("resnet18"), "layer3", probe=torch.randn(2, 3, 64, 64)).features.body
    assert isinstance(body, fx.GraphModule)
    assert not any("layer4" in str(node.target) for node in body.graph.nodes)


def test_parts_ignore_a_later_train_and_follow_new_weights() -> None:
    model = plain().eval()
    images = torch.randn(4, 3, 32, 32)
    features, head = cut_network(model, "2", probe=images)
    model.train()
    with torch.no_grad():
        assert torch.equal(head(features(images)), head(features(images)))
        assert int(model[4].num_batches_tracked) == 0
        model[9].bias += 1
        expected = copy.deepcopy(model).eval()(images)
        torch.testing.assert_close(head(features(images)), expected)


def test_context_of_one_query_or_of_every_grid() -> None:
    model, _ = build("timm-vit_reg4_dinov2")
    features, head = cut_network(model)
    values, context = features(torch.randn(3, 3, 28, 28))
    assert context.shape == (3, 5, 384)
    each = torch.cat([head(FeatureGrids(values[[k]], context[[k]])) for k in range(3)])
    torch.testing.assert_close(head(FeatureGrids(values, context)), each)
    torch.testing.assert_close(head(FeatureGrids(values, context[:1]))[:1], each[:1])
    for alone in (values, FeatureGrids(values)):
        with pytest.raises(CutError, match="came without"):
            head(alone)
    with pytest.raises(ShapeError, match="context of 2 images"):
        head(FeatureGrids(values, context[:2]))
    with pytest.raises(ShapeError, match="context is"):
        head(FeatureGrids(values, context[:, :1]))


@pytest.mark.parametrize("layer", ["blocks.11", "norm"])
def test_cells_that_nothing_reads(layer: str) -> None:
    model, _ = build("timm-vit_reg4_dinov2")
    with pytest.raises(LayerError, match="reads only its class token"):
        cut_network(model, layer)


def test_hooks_that_record_are_not_shown_a_tracers_proxies() -> None:
    model, seen = plain(), []
    model[2].register_forward_hook(lambda module, args, output: seen.append(type(output)))
    assert cut_network(model, "2", probe=torch.randn(2, 3, 32, 32)).route == "fx"
    assert set(seen) == {Tensor}


def test_hooks_that_change_the_output_are_part_of_the_model() -> None:
    model = plain().eval()
    model[6].register_forward_hook(lambda module, args, output: output * 2)
    images = torch.randn(2, 3, 32, 32)
    features, head = cut_network(model, "2", probe=images)
    torch.testing.assert_close(head(features(images)), model(images))


def test_hooks_that_a_model_cannot_do_without_are_part_of_it() -> None:
    class Pair(nn.Identity):
        def forward(self, x: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            return x, None

    model = nn.Sequential(Pair(), *plain()).eval()
    model[0].register_forward_hook(lambda module, args, output: output[0])
    images = torch.randn(2, 3, 32, 32)
    features, head = cut_network(model, "3", probe=images)
    torch.testing.assert_close(head(features(images)), model(images))


def test_wrapped_models() -> None:
    images = torch.randn(2, 3, 32, 32)
    assert cut_network(nn.DataParallel(plain()), "module.2", probe=images).grid == (8, 8)
    assert cut_network(torch.compile(plain()), "_orig_mod.2", probe=images).grid == (8, 8)


def test_torchscript_is_refused() -> None:
    with pytest.raises(CutError, match="TorchScript"):
        cut_network(torch.jit.trace(plain().eval(), torch.randn(1, 3, 32, 32)), "2")


DTYPES = [torch.float16, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sequential", "timm-vit_tiny", "untraceable", "hf-ViT"])
def test_other_precisions(name: str, dtype: torch.dtype) -> None:
    model, probe = build(name)
    model = model.eval().to(dtype)
    images = torch.randn(3, 3, *(image_size(model) if probe is None else probe.shape[2:]))
    cut = cut_network(model, next(iter(CASES[name][2])), probe=probe)
    assert cut.route == CASES[name][3]
    with torch.no_grad():
        grids = cut.features(images)  # float32 in, float32 out, whatever the model computes in
        logits = cut.head(grids)
        assert (grids.values.dtype, logits.dtype) == (torch.float32, torch.float32)
        expected = model(images.to(dtype)).float()
    torch.testing.assert_close(logits, expected, atol=1e-6 if dtype == torch.float64 else 0.02, rtol=0.02)


class Mixed(nn.Module):
    """A half body on images in half precision, and a head that is kept in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.conv = nn.Conv2d(3, 8, 4, stride=4).bfloat16()
        self.act = nn.ReLU()
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.act(self.conv(x)).mean((2, 3)).float()) * self.scale


def test_weights_of_mixed_precision() -> None:
    model, images = Mixed(), torch.randn(2, 3, 16, 16)
    cut = cut_network(model, "act", probe=images)
    with torch.no_grad():
        torch.testing.assert_close(cut.head(cut.features(images)), model(images.bfloat16()))


def test_the_meta_device() -> None:
    with torch.device("meta"):
        model = plain()
    with pytest.raises(CutError, match=r"meta device.*[Ll]oad its weights"):
        cut_network(model, "2", probe=torch.randn(2, 3, 32, 32))


def test_a_layer_given_as_a_module() -> None:
    model, probe = tv("resnet18"), torch.randn(2, 3, 64, 96)
    assert cut_network(model, model.layer4[0], probe=probe).layer == "layer4.0"
    assert cut_network(model, model.layer4, probe=probe).grid == (2, 3)
    assert LayerExtractor(model, model.layer3, size=(64, 96)).layer == "layer3"
    compiled = torch.compile(plain())
    assert cut_network(compiled, compiled._orig_mod[2], probe=torch.randn(2, 3, 32, 32)).layer == "2"
    with pytest.raises(LayerError, match="BasicBlock given as layer is no part"):
        cut_network(model, tv("resnet18").layer4[0], probe=probe)
    with pytest.raises(LayerError, match="ResNet given as layer is no part"):
        cut_network(model, model, probe=probe)
    with pytest.raises(LayerError, match="layer is a int"):
        cut_network(model, 4, probe=probe)  # type: ignore[arg-type]
    pool = nn.MaxPool2d(2)
    twice = nn.Sequential(nn.Conv2d(3, 4, 1), pool, nn.Conv2d(4, 4, 1), pool, nn.Flatten(), nn.Linear(64, 3))
    with pytest.raises(LayerError, match=r"2 names.*'1', '3'"):
        cut_network(twice, pool, probe=torch.randn(2, 3, 16, 16))


def test_progress_is_told() -> None:
    told: list[tuple[str, int]] = []

    @contextmanager
    def track(title: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
        steps: list[int] = []
        yield steps.append
        told.append((title, total - sum(steps)))

    cut_network(plain(), "2", probe=torch.randn(2, 3, 32, 32), track=track)
    assert told == [("inspecting Sequential", 0)]


@pytest.fixture
def images_seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of images that reach convolutions of three channels, pass by pass."""
    seen, convolve = [], nn.Conv2d.forward

    def forward(module: nn.Conv2d, x: Tensor) -> Tensor:
        if type(x) is Tensor and x.shape[1] == 3:  # and no tracer's
            seen.append(len(x))
        return convolve(module, x)

    monkeypatch.setattr(nn.Conv2d, "forward", forward)
    return seen


@pytest.mark.parametrize(
    ("inspection", "passes"),
    [
        (cut_network, 2),  # one to see what the layers give, one to check the cut
        # One more: do the logits of an image depend on the others in its batch?
        (lambda model, probe: Explainer(model, auxiliary=None, preprocess=Preprocess(64)), 3),
    ],
)
@pytest.mark.parametrize(
    "maker",
    [
        lambda: tm("vit_tiny_patch16_224", img_size=64, class_token=False, global_pool="avg"),
        lambda: tm("vit_tiny_patch16_224", img_size=64),  # do cells matter beside the class token?
        lambda: tm("swin_tiny_patch4_window7_224", img_size=64),
        lambda: tm("coat_tiny", img_size=64),  # shapes from before the cut are needed after it
        lambda: tm("resnet26"),  # is it the same without in-place activations?
    ],
)
def test_inspection_costs_few_passes(
    maker: Callable[[], nn.Module], inspection: Callable[..., object], passes: int, images_seen: list[int]
) -> None:
    inspection(maker(), probe=torch.randn(2, 3, 64, 64))
    assert images_seen == [2] * passes


class Overwriting(nn.Module):
    """Its activation changes what was there before, which is used once more."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.stem, self.act = nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(inplace=True)
        self.conv, self.fc = nn.Conv2d(8, 12, 3), nn.Linear(12, 5)
        self.reads = reads

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.act(x)
        if self.reads and y.detach().numpy().max() > 1e6:
            y = y / 2
        return self.fc((self.conv(y) + self.conv(x)).relu_().mean((2, 3)))


@pytest.mark.parametrize(("reads", "route"), [(False, "fx"), (True, "replay")])
def test_activations_that_have_to_work_in_place(reads: bool, route: str) -> None:
    model, images = Overwriting(reads).eval(), torch.randn(3, 3, 32, 32)
    cut = cut_network(model, "stem", probe=torch.randn(2, 3, 32, 32))
    assert cut.route == route
    with torch.no_grad():
        torch.testing.assert_close(cut.head(cut.features(images)), model(images))


class Undecided(nn.Module):
    """Neither tracer can follow it: what it does depends on a number."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()) for _ in range(8))
        self.pool, self.fc = nn.AvgPool2d(4), nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        if bool((x > 1e6).any()):
            x = x / 2
        return self.fc(self.pool(x).mean((2, 3)))


def test_a_default_without_a_graph_is_not_sought_at_every_layer(
    capsys: pytest.CaptureFixture[str], images_seen: list[int]
) -> None:
    cut = cut_network(Undecided(), probe=torch.randn(2, 3, 16, 24))
    assert (cut.layer, cut.route) == ("pool", "replay")
    # Its blocks take three channels each: eight of them in a pass. The study, and the check with 2 + 3.
    assert images_seen == [2] * 8 * 2 + [3] * 8
    assert capsys.readouterr() == ("", "")


def test_repr_names_the_route() -> None:
    assert "route='fx'" in repr(cut_network(plain(), "2", probe=torch.randn(2, 3, 32, 32)))
    assert "slow" in repr(cut_network(Branching(), "stem", probe=torch.randn(2, 3, 32, 32)))


def test_images_of_another_size() -> None:
    cut = cut_network(tv("resnet18"), "layer3", probe=torch.randn(2, 3, 64, 64))
    with pytest.raises(ShapeError, match="6 x 6 cells, not 4 x 4"):
        cut.features(torch.randn(1, 3, 96, 96))
    with pytest.raises(ShapeError, match="256, 4, 4"):
        cut.head(torch.randn(1, 256, 5, 5))


PROBE = torch.randn(2, 3, 64, 64)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("layer4.7", "Did you mean 'layer4.1'"),
        ("", "no layer ''"),
        ("layer4.0.conv1", "bypass it.*nearest clean cut is 'layer4.0'"),
        ("layer4.0.downsample", "bypass it.*nearest clean cut is 'layer4.0'"),
        ("avgpool", "1 x 1 grid"),
        ("fc", "no grid"),
    ],
)
def test_layers_that_cannot_be_cut(layer: str, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        cut_network(tv("resnet18"), layer, probe=PROBE)


def test_dense_layers_cannot_be_cut() -> None:
    with pytest.raises(LayerError, match=r"nearest clean cut is 'features\.denseblock4'"):
        cut_network(tv("densenet121"), "features.denseblock4.denselayer3", probe=PROBE)


def test_a_container_does_not_run() -> None:
    with pytest.raises(LayerError, match="does not run by itself"):
        cut_network(hf("Dinov2"), "model.dinov2.encoder.layer")


def returning(change: Callable[[Tensor], object]) -> nn.Module:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, stride=2)
            self.fc = nn.Linear(4, 5)

        def forward(self, x: Tensor) -> object:
            return change(self.fc(self.conv(x).mean((2, 3))))

    return Odd()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda y: (y, y), CutError, r"returns a tuple.*Wrap it: .*return self\.model\(images\)\[0\]"),
        (lambda y: {"loss": y.sum(), "out": y}, CutError, r"returns a dict.*self\.model\(images\)\['out'\]"),
        (lambda y: y[:, None], CutError, r"shape \(2, 1, 5\)"),
        (lambda y: y[:, :1], CutError, r"one logit.*torch\.cat\(\[-z / 2, z / 2\], 1\)"),
        (lambda y: y[:, 0], CutError, r"one logit.*torch\.cat\(\[-z / 2, z / 2\], 1\)"),
        (lambda y: y.argmax(1, keepdim=True).expand(-1, 3), CutError, "returns torch.int64"),
        (lambda y: y / 0, NonFiniteError, "NaN"),
        (lambda y: y + torch.rand(5), NondeterministicModelError, "different logits"),
    ],
)
def test_models_that_are_no_classifiers(
    change: Callable[[Tensor], object], error: type[Exception], message: str
) -> None:
    model = returning(change)
    state = torch.get_rng_state()
    with pytest.raises(error, match=message):
        cut_network(model, "conv", probe=PROBE)
    assert torch.equal(torch.get_rng_state(), state)


def test_several_inputs() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, mask: Tensor, *, scale: float, flag: bool = False) -> Tensor:
            return (x * mask * scale).mean((2, 3))

    with pytest.raises(
        CutError, match=r"wants 'mask', 'scale' besides.*self\.model\(images, mask=\.\.\., scale=\.\.\.\)"
    ):
        cut_network(Two(), probe=PROBE)


def test_an_unadapted_hugging_face_model() -> None:
    with pytest.raises(CutError, match=r"huggingface\.adapt"):
        cut_network(hf("ViT").model, "vit.layers.1")


def test_adapt_refuses_what_it_cannot_adapt() -> None:
    with pytest.raises(CutError, match="not a transformers model"):
        adapt(plain())
    with pytest.raises(CutError, match="no classification head"):
        adapt(hf("ViT").model.vit)


def test_wrong_image_size_names_the_probe() -> None:
    with pytest.raises(CutError, match=r"fails on a batch of shape.*Pass `probe`"):
        cut_network(plain(), "2")
    with pytest.raises(ShapeError, match="probe is"):
        cut_network(plain(), "2", probe=torch.randn(3, 32, 32))
    with pytest.raises(CutError, match=r"torch\.nn\.Module"):
        cut_network("resnet18")  # type: ignore[arg-type]


def test_the_first_convolution_need_not_see_the_images() -> None:
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    shuffled = nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(48, 8, 1), *pooled)
    assert cut_network(shuffled, "1").grid == (56, 56)
    many = nn.Sequential(nn.Conv2d(13, 8, 8, 8), *pooled)
    assert cut_network(many, "0").grid == (28, 28)


def test_one_probe_image_is_enough() -> None:
    assert cut_network(plain(), "2", probe=torch.randn(1, 3, 32, 32)).grid == (8, 8)


class Bypass(nn.Module):
    """Untraceable, and pixels reach the logits around the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        scale = float(x.detach().numpy().std())
        return self.fc(self.conv(x).mean((2, 3))) * scale


def test_no_route_reproduces_the_model() -> None:
    with pytest.raises(CutError, match=r"no cut at 'conv' reproduces.*replay: logits differ"):
        cut_network(Bypass(), "conv", probe=PROBE)
