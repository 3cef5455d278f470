"""Small networks for the aviary: 224 x 224 images, 7 x 7 grids, well under a million weights.

They stand in for the paper's VGG-16 (flattened head) and ResNet-50 (convolutional head), so that the demo and the
tests run anywhere within seconds.
"""

from __future__ import annotations

from torch import Tensor, nn


def _conv(d_in: int, d_out: int, *, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(d_in, d_out, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(d_out),
        nn.ReLU(inplace=True),
    )


class SmallVGG(nn.Module):
    """Plain convolutions and pooling, then a flattened head of three linear layers, like VGG-16."""

    def __init__(self, classes: int, *, width: int = 96, hidden: int = 160) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _conv(3, 24, stride=4, kernel=7),
            _conv(24, 32),
            nn.MaxPool2d(2),
            _conv(32, 48),
            _conv(48, 64),
            nn.MaxPool2d(2),
            _conv(64, width),
            _conv(width, width),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(1),
            nn.Linear(width * 49, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(0.1),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(0.1),
            nn.Linear(hidden, classes),
        )

    def classify(self, grid: Tensor) -> Tensor:
        """Map grids ``(n, d, 7, 7)`` to logits ``(n, classes)``."""
        logits: Tensor = self.classifier(grid)
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Map images ``(n, 3, 224, 224)`` to logits ``(n, classes)``."""
        return self.classify(self.features(x))


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, d_in: int, d_out: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(d_in, d_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(d_out)
        self.conv2 = nn.Conv2d(d_out, d_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(d_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or d_in != d_out:
            self.shortcut = nn.Sequential(nn.Conv2d(d_in, d_out, 1, stride, bias=False), nn.BatchNorm2d(d_out))

    def forward(self, x: Tensor) -> Tensor:
        """Map a grid to a grid."""
        y = self.relu(self.bn1(self.conv1(x)))
        out: Tensor = self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))
        return out


class SmallResNet(nn.Module):
    """Residual blocks, pooling, one linear layer: cut at `layer4.0` the head is convolutional, like ResNet-50's."""

    def __init__(self, classes: int, *, width: int = 96) -> None:
        super().__init__()
        self.stem = _conv(3, 24, stride=4, kernel=7)
        self.layer1 = nn.Sequential(Block(24, 32))
        self.layer2 = nn.Sequential(Block(32, 48, stride=2))
        self.layer3 = nn.Sequential(Block(48, 64, stride=2), Block(64, 64))
        self.layer4 = nn.Sequential(Block(64, width, stride=2), Block(width, width))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.fc = nn.Linear(width, classes)

    def features(self, x: Tensor) -> Tensor:
        """Map images ``(n, 3, 224, 224)`` to the last grid ``(n, d, 7, 7)``."""
        grid: Tensor = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return grid

    def classify(self, grid: Tensor) -> Tensor:
        """Map grids ``(n, d, 7, 7)`` to logits ``(n, classes)``."""
        logits: Tensor = self.fc(self.flatten(self.avgpool(grid)))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Map images ``(n, 3, 224, 224)`` to logits ``(n, classes)``."""
        return self.classify(self.features(x))


class SmallAuxiliary(nn.Module):
    """A trunk whose cells are embedded so that the same part looks alike in every bird."""

    def __init__(self, dim: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            _conv(3, 24, stride=4, kernel=7),
            Block(24, 48, stride=2),
            Block(48, 64, stride=2),
            Block(64, 96),
            Block(96, 96),
        )
        self.embed = nn.Sequential(nn.Conv2d(96, 96, 1), nn.ReLU(inplace=True), nn.Conv2d(96, dim, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Map images ``(n, 3, 224, 224)`` to a grid of embeddings ``(n, dim, 14, 14)``."""
        grid: Tensor = self.embed(self.trunk(x))
        return grid
