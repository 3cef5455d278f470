"""Draw one bird: plumage, parts, keypoints."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partswap.aviary.fields import (
    Field,
    capsule,
    coverage,
    ellipse,
    noise,
    polygon,
    smooth_union,
    smoothstep,
    spline,
)
from partswap.aviary.pose import SIZE, Pose, rotate
from partswap.aviary.species import COLORS, PARTS, Species

Point = tuple[float, float]

TAIL_LENGTHS = {"short": 0.42, "medium": 0.78, "long": 1.25}
#: Bill shape -> (length, height at the base, downward curve), in units of the head's radius.
BILLS: dict[str, tuple[float, float, float]] = {
    "cone": (0.80, 0.80, 0.10),
    "dagger": (0.95, 0.36, 0.04),
    "long dagger": (1.85, 0.46, 0.02),
    "chisel": (1.25, 0.44, 0.00),
    "stout": (1.00, 0.56, 0.14),
    "hooked": (0.72, 0.88, 0.95),
    "curved": (2.10, 0.34, 0.70),
}
#: Labels of the part map: 0 is no part, 1 + i is PARTS[i].
LABEL = {part: i + 1 for i, part in enumerate(PARTS)}
BODY = 255  # on the bird, but no named part


@dataclass
class Canvas:
    """What is drawn so far: colour (0-1), the bird's coverage and which part is on top."""

    rgb: NDArray[np.float32]
    alpha: Field
    label: NDArray[np.uint8]
    keypoints: dict[str, Point] = field(default_factory=dict)

    def paint(self, cover: Field, color: NDArray[np.floating], label: int) -> None:
        """Put a layer on top; `color` is ``(3,)`` or ``(h, w, 3)``."""
        c = cover[..., None]
        self.rgb += c * (color - self.rgb)
        self.alpha = np.maximum(self.alpha, cover)
        self.label[cover > 0.5] = label


@dataclass(frozen=True)
class _Light:
    direction: tuple[float, float, float]
    ambient: float
    diffuse: float


def _rgb(name: str, tint: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.clip(np.asarray(COLORS[name], np.float32) / 255 * tint, 0, 1).astype(np.float32)


class BirdPainter:
    """Draws one species in one pose onto a canvas.

    Parameters
    ----------
    species : Species
        Whom to draw.
    pose : Pose
        How it stands.
    rng : numpy.random.Generator
        Individual variation: feather noise, a slight tint.
    """

    def __init__(self, species: Species, pose: Pose, rng: np.random.Generator) -> None:
        self.attributes = species.attributes
        self.plan = species.plan
        self.pose = pose
        self.rng = rng
        self.tint = np.clip(rng.normal(1, 0.035, 3) * rng.normal(1, 0.03), 0.88, 1.12)
        angle = rng.uniform(35, 145)
        self.light = _Light(
            (math.cos(math.radians(angle)), math.sin(math.radians(angle)), 0.75),
            float(rng.uniform(0.50, 0.62)),
            float(rng.uniform(0.44, 0.58)),
        )
        self.x, self.y = pose.frame()
        cos, sin = math.cos(math.radians(pose.pitch)), math.sin(math.radians(pose.pitch))
        self.u = self.x * cos + self.y * sin  # along the body, towards the head
        self.v = -self.x * sin + self.y * cos  # across it, towards the back
        self.feathers = noise(rng, (SIZE, SIZE), (75, 75)) * 0.6 + noise(rng, (SIZE, SIZE), (30, 30)) * 0.5
        self._place_head()

    # -- skeleton ---------------------------------------------------------------------------------------------

    def body(self, u: float, v: float) -> Point:
        """Return a point of the body frame in the bird frame."""
        return rotate((u, v), self.pose.pitch)

    def head(self, a: float, b: float) -> Point:
        """Return a point of the head frame (units of the head's radius) in the bird frame."""
        dx, dy = rotate((a * self.head_sign * self.radius, b * self.radius), self.head_angle)
        return self.head_center[0] + dx, self.head_center[1] + dy

    def _place_head(self) -> None:
        self.radius = self.plan.head
        # The neck leaves the body at an angle to the horizon, whatever the body's pitch.
        along = self.plan.neck + 0.28
        shoulder = self.body(0.62, 0.16)
        dx, dy = rotate((along, 0), self.pose.neck_angle + 0.35 * self.pose.pitch)
        self.shoulder = shoulder
        self.head_center = (shoulder[0] + dx, shoulder[1] + dy)
        self.head_sign = -1.0 if self.pose.head_back else 1.0
        self.head_angle = self.pose.head_tilt * self.head_sign
        px, py = self.x - self.head_center[0], self.y - self.head_center[1]
        c, s = math.cos(math.radians(self.head_angle)), math.sin(math.radians(self.head_angle))
        self.a = (px * c + py * s) * self.head_sign / self.radius
        self.b = (-px * s + py * c) / self.radius

    # -- drawing ----------------------------------------------------------------------------------------------

    def draw(self, canvas: Canvas) -> None:
        """Draw the bird, back to front, and note its keypoints."""
        self._leg(canvas, near=False)
        self._leg(canvas, near=True)
        self._tail(canvas)
        self._bill(canvas)
        self._crest(canvas)
        self._torso(canvas)
        self._wing(canvas)
        self._eye(canvas)
        self._keypoints(canvas)

    def color(self, attribute: str) -> NDArray[np.float32]:
        """Return the colour an attribute names, with this individual's tint."""
        return _rgb(self.attributes[attribute], self.tint)

    def _shape(self, points: NDArray[np.floating]) -> Field:
        return polygon(self.pose.to_pixels(points), (SIZE, SIZE))

    def feet(self) -> tuple[Point, Point]:
        """Return where the near and the far foot stand, in the bird frame."""
        spread, length = self.pose.leg_spread, self.plan.leg
        lean = math.tan(math.radians(self.pose.leg_lean)) * length
        hip = self.body(-0.12, -self.plan.depth * 0.80)
        ground = hip[1] - length
        return (hip[0] + spread / 2 + lean, ground), (hip[0] - spread / 2 + lean, ground)

    def _leg(self, canvas: Canvas, *, near: bool) -> None:
        foot = self.feet()[0 if near else 1]
        hip = self.body(-0.08 if near else -0.2, -self.plan.depth * 0.72)
        color = self.color("leg_color") * (1.0 if near else 0.78)
        knee = ((hip[0] + foot[0]) / 2 - 0.07, (hip[1] + foot[1]) / 2 + 0.02)
        distance = capsule(self.x, self.y, hip, knee, 0.075, 0.045)
        distance = np.minimum(distance, capsule(self.x, self.y, knee, foot, 0.045, 0.038))
        for toe in ((0.20, -0.035), (0.11, -0.07), (-0.13, -0.04)):
            end = (foot[0] + toe[0], foot[1] + toe[1])
            distance = np.minimum(distance, capsule(self.x, self.y, foot, end, 0.038, 0.024))
        cover = coverage(distance, self.pose.pixel)
        shade = 0.86 + 0.2 * smoothstep(0.05, -0.05, distance)
        canvas.paint(cover, color * shade[..., None], LABEL["leg"])
        side = "right" if (self.pose.facing > 0) == near else "left"
        canvas.keypoints[f"{side} leg"] = ((knee[0] + foot[0]) / 2, (knee[1] + foot[1]) / 2)

    def _tail(self, canvas: Canvas) -> None:
        length = TAIL_LENGTHS[self.attributes["tail_length"]]
        shape = self.attributes["tail_shape"]
        angle = 180 + self.pose.pitch + self.pose.tail_angle
        root = self.body(-0.72, 0.04)
        color = self.color("tail_color")
        # Feathers fan out; the shape is which of them are longest.
        spread = {"square": 4.5, "rounded": 7.0, "forked": 9.0, "pointed": 4.0}[shape]
        lengths = {
            "square": (1.0, 1.0, 1.0, 1.0, 1.0),
            "rounded": (0.74, 0.93, 1.0, 0.93, 0.74),
            "forked": (1.12, 0.82, 0.52, 0.82, 1.12),
            "pointed": (0.50, 0.76, 1.12, 0.76, 0.50),
        }[shape]
        half = 0.10 if shape != "pointed" else 0.085
        for k in (0, 4, 1, 3, 2):
            direction = angle + (k - 2) * spread
            reach = 0.30 + length * lengths[k]
            tip = 0.55 if shape in ("forked", "pointed") else 0.95
            quill = [
                (0.0, half * 0.8), (reach * 0.55, half), (reach * 0.93, half * tip), (reach, 0.0),
                (reach * 0.93, -half * tip), (reach * 0.55, -half), (0.0, -half * 0.8),
            ]  # fmt: skip
            points = np.array([rotate(p, direction) for p in spline(quill, closed=False, steps=4)]) + root
            cover = self._shape(points)
            across = (self.x - root[0]) * -math.sin(math.radians(direction)) + (self.y - root[1]) * math.cos(
                math.radians(direction)
            )
            shade = (0.80 + 0.05 * k) * (1 + 0.10 * self.feathers) - 0.22 * smoothstep(
                half * 0.55, half, np.abs(across)
            )
            canvas.paint(cover, color * np.clip(shade, 0.2, 1.2)[..., None], LABEL["tail"])
        dx, dy = rotate((0.30 + 0.55 * length, 0), angle)
        canvas.keypoints["tail"] = (root[0] + dx, root[1] + dy)

    def _bill(self, canvas: Canvas) -> None:
        length, height, curve = BILLS[self.attributes["bill_shape"]]
        color = self.color("bill_color")
        reach = 0.86 + length

        def outline(top: float, bottom: float) -> NDArray[np.float64]:
            ups, downs = [], []
            for t in np.linspace(0, 1, 9):
                a = 0.72 + t * (reach - 0.72)
                taper = (1 - t) ** 0.75 if self.attributes["bill_shape"] != "chisel" else (1 - t) ** 0.9 + 0.05
                bend = -curve * t * t
                ups.append((a - (0.25 * t * t if curve > 0.9 else 0), 0.02 + bend + top * height * taper))
                downs.append((a - (0.25 * t * t if curve > 0.9 else 0), 0.02 + bend - bottom * height * taper))
            return np.array([self.head(*p) for p in ups + downs[::-1]])

        canvas.paint(self._shape(outline(0.10, 0.5)), color * 0.74, LABEL["beak"])
        upper = self._shape(outline(0.5, 0.06))
        shade = 0.92 + 0.55 * smoothstep(0.0, 0.5 * height, self.b + curve * ((self.a - 0.7) / length) ** 2)
        canvas.paint(upper, np.clip(color * shade[..., None] + 0.02, 0, 1), LABEL["beak"])
        canvas.keypoints["beak"] = self.head(0.80 + 0.45 * length, 0.02 - curve * 0.12)

    def _crest(self, canvas: Canvas) -> None:
        if self.attributes["crest"] == "none":
            return
        color = self.color("crown_color")
        for k, (length, lift) in enumerate(((0.62, 0.42), (0.78, 0.24), (0.56, 0.06))):
            points = [(0.1, 0.72), (-0.55, 0.98 + lift * 0.5), (-1.0 - length * 0.55, 0.86 + lift), (-0.72, 0.36)]
            curve = np.array([self.head(*p) for p in spline(points, steps=5)])
            canvas.paint(self._shape(curve), color * (0.84 + 0.07 * k), LABEL["crown"])

    def _silhouette(self) -> Field:
        depth = self.plan.depth
        # An egg: the breast is deeper than the rump.
        body = ellipse(self.u, self.v - 0.02, 0.98, 1.0) * 0
        swell = 1 + 0.16 * np.clip(self.u, -1, 1)
        body = ellipse(self.u, self.v / swell, 0.96, depth)
        rump = ellipse(self.u + 0.72, self.v - 0.04, 0.42, depth * 0.40)
        neck = capsule(
            self.x, self.y, self.shoulder, self.head_center, depth * 0.66, self.radius * 0.80
        )
        skull = ellipse(self.a * self.radius, self.b * self.radius, self.radius * 1.03, self.radius * 0.97)
        whole = smooth_union(body, rump, 0.22)
        whole = smooth_union(whole, neck, 0.20)
        return smooth_union(whole, skull, 0.08)

    def _shading(self, distance: Field, roundness: float) -> Field:
        """Return the light on a surface that bulges towards the viewer inside its outline."""
        inside = np.clip(-distance, 0, roundness)
        height = np.sqrt(np.clip(2 * roundness * inside - inside * inside, 0, None))
        gy, gx = np.gradient(height * self.pose.scale)
        nx, ny = -gx * self.pose.facing, gy
        norm = np.sqrt(nx * nx + ny * ny + 1)
        lx, ly, lz = self.light.direction
        lambert = np.clip((nx * lx + ny * ly + lz) / (norm * math.sqrt(lx * lx + ly * ly + lz * lz)), 0, 1)
        return np.asarray(self.light.ambient + self.light.diffuse * lambert, np.float32)

    def _torso(self, canvas: Canvas) -> None:
        distance = self._silhouette()
        cover = coverage(distance, self.pose.pixel)
        shade = self._shading(distance, self.plan.depth * 0.95)
        wave = self.feathers * 0.05
        a, b, u, v = self.a + wave, self.b + wave, self.u + wave, self.v + wave * 0.8
        reach = np.sqrt(self.a**2 + self.b**2)
        on_head = smoothstep(1.25, 0.95, reach)
        # The neck: whatever is nearer to the head than the body's own egg, front for the throat, back for the nape.
        neck_x, neck_y = self.head_center[0] - self.shoulder[0], self.head_center[1] - self.shoulder[1]
        norm = math.hypot(neck_x, neck_y)
        along = ((self.x - self.shoulder[0]) * neck_x + (self.y - self.shoulder[1]) * neck_y) / norm
        side = ((self.x - self.shoulder[0]) * neck_y - (self.y - self.shoulder[1]) * neck_x) / norm
        on_neck = smoothstep(0.30 * norm, 0.62 * norm, along + wave)

        color = np.empty((SIZE, SIZE, 3), np.float32)
        color[:] = self.color("belly_color")
        label = np.full((SIZE, SIZE), LABEL["belly"], np.uint8)

        def region(weight: Field, paint: NDArray[np.floating], name: int) -> None:
            np.add(color, weight[..., None] * (paint - color), out=color)
            label[weight > 0.5] = name

        breast = smoothstep(0.10, 0.30, u + 0.25 * v)
        region(breast, self._patterned_breast(u, v), LABEL["breast"])
        back = smoothstep(0.16, 0.34, v / self.plan.depth - 0.10 * u)
        region(back, self._patterned_back(u, v), LABEL["back"])
        region(on_neck * smoothstep(-0.02, 0.10, side), self.color("throat_color"), LABEL["throat"])
        region(on_neck * smoothstep(-0.02, -0.12, side), self.color("nape_color"), LABEL["nape"])
        face = _rgb(self.plan.face_color, self.tint)
        region(on_head, face, BODY)
        region(on_head * smoothstep(-0.22, -0.42, b + 0.18 * a), self.color("throat_color"), LABEL["throat"])
        region(on_head * smoothstep(-0.42, -0.60, a), self.color("nape_color"), LABEL["nape"])
        region(on_head * smoothstep(0.34, 0.46, b + 0.10 * a), self.color("crown_color"), LABEL["crown"])
        forehead = smoothstep(0.30, 0.44, a) * smoothstep(0.08, 0.20, b)
        region(on_head * forehead, self.color("forehead_color"), LABEL["forehead"])

        lit = color * (shade * (1 + 0.07 * self.feathers))[..., None]
        canvas.paint(cover, np.clip(lit, 0, 1), BODY)
        on_bird = cover > 0.5
        canvas.label[on_bird] = label[on_bird]

    def _patterned_breast(self, u: Field, v: Field) -> NDArray[np.float32]:
        base, pattern = self.color("breast_color"), self.attributes["breast_pattern"]
        out = np.empty((SIZE, SIZE, 3), np.float32)
        out[:] = base
        if pattern == "plain":
            return out
        ink = _rgb("umber", self.tint)
        if pattern == "streaked":
            rows = np.sin(u * 17 + 1.5 * self.feathers)
            dashes = np.sin(v * 26 + 2.5 * np.floor(u * 17 / (2 * math.pi)))
            mark = smoothstep(0.35, 0.75, rows) * smoothstep(-0.7, -0.1, dashes)
        elif pattern == "spotted":
            row = np.floor(v * 6.5)
            mark = smoothstep(0.25, 0.6, np.sin(u * 20 + row * 2.2) * np.sin(v * 6.5 * math.pi))
            mark = np.maximum(mark, smoothstep(0.25, 0.6, -np.sin(u * 20 + row * 2.2) * np.sin(v * 6.5 * math.pi)))
        else:  # a band across the breast
            middle = u + 0.25 * v
            mark = smoothstep(0.46, 0.50, middle) * smoothstep(0.72, 0.66, middle)
        return np.asarray(out + 0.85 * mark[..., None] * (ink - out), np.float32)

    def _patterned_back(self, u: Field, v: Field) -> NDArray[np.float32]:
        out = np.empty((SIZE, SIZE, 3), np.float32)
        out[:] = self.color("back_color")
        if self.attributes["back_pattern"] == "barred":
            mark = smoothstep(0.1, 0.5, np.sin(u * 19))
            out += 0.9 * mark[..., None] * (_rgb("white", self.tint) - out)
        return out

    def _wing(self, canvas: Canvas) -> None:
        depth, droop = self.plan.depth, self.pose.wing_droop
        angle = self.pose.pitch + self.pose.wing_angle
        root = self.body(0.50, 0.08 - droop)

        def place(points: list[Point] | NDArray[np.floating]) -> NDArray[np.float64]:
            return np.array([rotate((p[0], p[1]), angle) for p in points]) + root

        outline = spline(
            [
                (0.10, 0.02), (-0.10, depth * 0.42), (-0.60, depth * 0.46), (-1.10, depth * 0.26), (-1.62, -0.02),
                (-1.15, -depth * 0.28), (-0.60, -depth * 0.52), (-0.10, -depth * 0.40),
            ],
            steps=6,
        )  # fmt: skip
        points = place(outline)
        cover = self._shape(points)
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        p = -((self.x - root[0]) * c + (self.y - root[1]) * s)  # from the shoulder to the wing's tip
        q = -(self.x - root[0]) * s + (self.y - root[1]) * c
        # A soft shadow under the wing lifts it off the body.
        shadow = self._shape(points + (0.03, -0.07))
        canvas.rgb *= (1 - 0.28 * shadow * (canvas.alpha > 0.5))[..., None]
        base = self.color("wing_color")
        color = np.empty((SIZE, SIZE, 3), np.float32)
        color[:] = base
        # Scalloped coverts near the shoulder, long flight feathers behind.
        flight = smoothstep(0.66, 0.80, p + 0.25 * q)
        fan = np.sin((q + 0.12 * p) * 46)
        scallop = np.sin(p * 21) * np.cos(q * 24 + np.floor(p * 21 / math.pi) * 1.6)
        relief = flight * (0.16 * fan - 0.14) + (1 - flight) * (0.09 * scallop + 0.03)
        color *= (1 + relief + 0.06 * self.feathers)[..., None]
        bars = self.attributes["wing_bars"]
        pale = _rgb("white", self.tint)
        if bars == "two":
            bend = p + 0.30 * q + 0.012 * fan
            mark = smoothstep(0.34, 0.37, bend) * smoothstep(0.47, 0.44, bend)
            mark = np.maximum(mark, smoothstep(0.60, 0.63, bend) * smoothstep(0.73, 0.70, bend))
        elif bars == "patch":
            mark = coverage(ellipse(p - 0.52, q + 0.02, 0.26, 0.17), 0.03)
        else:
            mark = np.zeros_like(p)
        color += mark[..., None] * (pale - color)
        rim = smoothstep(0.0, 0.5, cover) * smoothstep(-0.35, 0.45, q)
        light = self.light.ambient + self.light.diffuse * (0.42 + 0.46 * rim)
        canvas.paint(cover, np.clip(color * light[..., None], 0, 1), LABEL["wing"])
        side = "right" if self.pose.facing > 0 else "left"
        canvas.keypoints[f"{side} wing"] = tuple(place([(-0.62, 0.0)])[0])

    def _eye(self, canvas: Canvas) -> None:
        center = (0.30, 0.16)
        distance = np.sqrt((self.a - center[0]) ** 2 + (self.b - center[1]) ** 2)
        pixel = self.pose.pixel / self.radius
        ring = self.attributes["eye_ring"]
        if ring != "none":
            canvas.paint(coverage(distance - 0.33, pixel), _rgb(ring, np.ones(3)) * 0.97, LABEL["eye"])
        canvas.paint(coverage(distance - 0.19, pixel), self.color("eye_color") * 0.55, LABEL["eye"])
        glint = np.sqrt((self.a - center[0] - 0.05) ** 2 + (self.b - center[1] - 0.07) ** 2)
        canvas.paint(coverage(glint - 0.055, pixel), np.ones(3, np.float32), LABEL["eye"])
        shows_right = (self.pose.facing > 0) != self.pose.head_back
        canvas.keypoints[f"{'right' if shows_right else 'left'} eye"] = self.head(*center)

    def _keypoints(self, canvas: Canvas) -> None:
        depth = self.plan.depth
        neck_x = 0.5 * (self.head_center[0] + self.shoulder[0])
        neck_y = 0.5 * (self.head_center[1] + self.shoulder[1])
        canvas.keypoints |= {
            "back": self.body(0.05, depth * 0.74),
            "belly": self.body(-0.22, -depth * 0.74),
            "breast": self.body(0.62, -depth * 0.42),
            "crown": self.head(-0.02, 0.74),
            "forehead": self.head(0.62, 0.36),
            "nape": self.head(-0.78, -0.02),
            "throat": self.head(0.32, -0.66) if not self.pose.head_back else (neck_x + self.radius * 0.6, neck_y),
        }
