"""Small heads of every kind, in the layouts of the golden cases."""

from __future__ import annotations

from torch import nn


def make_head(kind: str, channels: int, classes: int, cells: int = 49, hidden: int = 48) -> nn.Module:
    """A small head of each kind, in the layouts of the golden cases."""
    if kind == "pooled":
        layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(channels, classes)]
    elif kind == "flattened":
        layers = [nn.Flatten(1), nn.Linear(cells * channels, hidden), nn.ReLU(), nn.Dropout()]
        layers += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes)]
    else:
        layers = [nn.Conv2d(channels, 24, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
        layers += [nn.Conv2d(24, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
        layers += [nn.Conv2d(24, channels, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
        layers += [nn.Linear(channels, classes)]
    return nn.Sequential(*layers).eval()
