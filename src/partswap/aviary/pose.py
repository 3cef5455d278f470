"""How one bird stands: where it is, which way it faces, how it holds head, tail and wings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partswap.aviary.species import BodyPlan

#: Images are SIZE x SIZE pixels.
SIZE = 224


@dataclass(frozen=True)
class Pose:
    """One bird's pose.

    The *bird frame* has its origin at the body's centre, x towards the bill, y up, and half a body's length as
    unit; the bird always faces right in it. `to_pixels` places it on the canvas, mirrored if it faces left.
    """

    center: tuple[float, float]
    scale: float
    facing: int
    yaw: float
    pitch: float
    head_tilt: float
    head_back: bool
    neck_angle: float
    tail_angle: float
    wing_angle: float
    wing_droop: float
    leg_spread: float
    leg_lean: float

    @property
    def pixel(self) -> float:
        """One pixel in units of the bird frame."""
        return 1 / self.scale

    def to_pixels(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Map ``(n, 2)`` points of the bird frame to pixel coordinates."""
        x = self.center[0] + self.facing * self.yaw * self.scale * points[:, 0]
        y = self.center[1] - self.scale * points[:, 1]
        return np.stack([x, y], axis=1)

    def frame(self, rows: slice, cols: slice) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the bird-frame coordinates of the pixels' centres in a window, two ``(h, w)`` arrays."""
        x = (np.arange(cols.start, cols.stop) + 0.5 - self.center[0]) / (self.facing * self.yaw * self.scale)
        y = -(np.arange(rows.start, rows.stop) + 0.5 - self.center[1]) / self.scale
        grid = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
        return grid[0], grid[1]


def rotate(point: tuple[float, float], degrees: float) -> tuple[float, float]:
    """Rotate a point about the origin, anticlockwise in a frame whose y points up."""
    a = math.radians(degrees)
    return point[0] * math.cos(a) - point[1] * math.sin(a), point[0] * math.sin(a) + point[1] * math.cos(a)


def sample_pose(rng: np.random.Generator, plan: BodyPlan, tail_length: float) -> Pose:
    """Draw a pose: large or small, anywhere on the canvas as long as most of the bird is on it."""
    pitch = plan.pitch + rng.normal(0, 9)
    scale = rng.uniform(42, 66)
    facing = 1 if rng.random() < 0.5 else -1
    yaw = rng.uniform(0.80, 1.0)
    # The head may come to lie anywhere: large birds are centred, small ones wander.
    room = np.clip((70 - scale) * 1.4, 5, 36)
    tail_shift = 0.22 * (tail_length - 0.6) * scale * facing
    center = (SIZE / 2 + tail_shift + rng.uniform(-room, room), SIZE / 2 - 4 + rng.uniform(-room, room) * 0.7)
    return Pose(
        center=center,
        scale=float(scale),
        facing=facing,
        yaw=float(yaw),
        pitch=float(pitch),
        head_tilt=float(rng.normal(0, 13)),
        head_back=bool(rng.random() < 0.10),
        neck_angle=float(rng.normal(44, 10)),
        tail_angle=float(rng.normal(4, 11)),
        wing_angle=float(rng.normal(0, 5)),
        wing_droop=float(rng.uniform(-0.03, 0.10)),
        leg_spread=float(rng.uniform(0.16, 0.40)),
        leg_lean=float(rng.normal(0, 8)),
    )
