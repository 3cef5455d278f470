"""Heads at real size, with random weights, and features that look like theirs (non-negative, sparse)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from partswap._vision import timm, torchvision
from partswap.cut.network import cut_network
from partswap.evaluators import HeadPlan, SwapEvaluator
from partswap.grid import FeatureGrids, GridShape

CLASSES = 200


def make(name: str) -> tuple[nn.Module, tuple[int, int, int]]:
    """Return a head and the shape ``(d, h, w)`` of its grid."""
    torch.manual_seed(0)
    if name == "vgg16":
        model = torchvision().models.vgg16(num_classes=CLASSES)
        return nn.Sequential(model.avgpool, nn.Flatten(1), model.classifier).eval(), (512, 7, 7)
    if name.startswith("resnet50"):
        model = torchvision().models.resnet50(num_classes=CLASSES)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.running_var, 0.5, 1.5)
        pool = (model.avgpool, nn.Flatten(1), model.fc)
        if name == "resnet50_pooled":
            return nn.Sequential(*pool).eval(), (2048, 7, 7)
        side = 14 if name == "resnet50_14x14" else 7
        return nn.Sequential(model.layer4[1], model.layer4[2], *pool).eval(), (2048, side, side)
    if name == "vit_small":
        model = timm().create_model("vit_small_patch16_224", num_classes=CLASSES).eval()
        cut = cut_network(model, "blocks.9")
        context = cut.features(torch.randn(1, 3, 224, 224)).context
        return WithContext(cut.head, context), (cut.channels, *cut.grid)
    raise ValueError(name)


class WithContext(nn.Module):
    """A transformer's head with the class token of one query, as a plain module from grids to logits."""

    def __init__(self, head: nn.Module, context: Tensor) -> None:
        super().__init__()
        self.head, self.context = head, context

    def forward(self, grids: Tensor) -> Tensor:
        return self.head(FeatureGrids(grids, self.context))


def given(head: nn.Module, query: Tensor) -> tuple[nn.Module, Tensor | FeatureGrids]:
    """Return head and query as partswap takes them: the context travels with the query."""
    return (head.head, FeatureGrids(query[None], head.context)) if isinstance(head, WithContext) else (head, query)


def evaluator_of(head: nn.Module, query: Tensor, distractors: Tensor) -> tuple[str, SwapEvaluator]:
    """Return the kind of evaluator that partswap chooses, and the evaluator."""
    plain, _ = given(head, query)
    plan = HeadPlan(plain, GridShape(*query.shape[1:]))
    evaluator = plan.evaluator(query, distractors, 2**30, getattr(head, "context", None))
    return plan.kind, evaluator


def features(shape: tuple[int, int, int], count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return query, distractors and their auxiliary grids."""
    g = torch.Generator().manual_seed(seed)
    d, h, w = shape
    query = torch.randn(d, h, w, generator=g).clamp(min=0)
    distractors = torch.randn(count, d, h, w, generator=g).clamp(min=0)
    return query, distractors, torch.randn(256, h, w, generator=g), torch.randn(count, 256, h, w, generator=g)
