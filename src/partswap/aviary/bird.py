"""Draw one bird: plumage, parts, keypoints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partswap.aviary.fields import (
    Field,
    Window,
    capsule,
    coverage,
    ellipse,
    noise,
    polygon,
    smooth_union,
    smoothstep,
    spline,
    window,
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
    "hooked": (0.55, 1.00, 0.85),
    "curved": (2.10, 0.34, 0.70),
}
#: Labels of the part map: 0 is no part, 1 + i is PARTS[i].
LABEL = {part: i + 1 for i, part in enumerate(PARTS)}
BODY = 255  # on the bird, but no named part

WHOLE: Window = (slice(None), slice(None))


@dataclass
class Canvas:
    """The drawing so far: colour (0-1) and the part on top, both views of the whole picture."""

    rgb: NDArray[np.float32]
    label: NDArray[np.uint8]

    def paint(self, where: Window, cover: Field, color: NDArray[np.floating], label: int) -> None:
        """Put a layer on top of a window; `color` is ``(3,)`` or ``(h, w, 3)``."""
        under = self.rgb[where]
        under += cover[..., None] * (color - under)
        self.label[where][cover > 0.5] = label


@dataclass(frozen=True)
class _Light:
    direction: tuple[float, float, float]
    ambient: float
    diffuse: float


def _rgb(name: str, tint: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.clip(np.asarray(COLORS[name], np.float32) / 255 * tint, 0, 1).astype(np.float32)


class BirdPainter:
    """Draws one species in one pose onto a canvas; `rng` gives the individual its feather noise and a slight tint."""

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
        self._place_head()
        # Everything is computed on the pixels the bird can cover, not on the whole picture.
        reach = np.array([self.head(3, 0), self.head(0, 1.7), self.head(-2, 1.7), self.body(-2.6, 0.8),
                          self.body(-2.6, -0.8), self.body(0.9, -0.8), *self.feet()])  # fmt: skip
        self.box = window(pose.to_pixels(reach), (SIZE, SIZE), margin=0.15 * pose.scale)
        self.shape = (self.box[0].stop - self.box[0].start, self.box[1].stop - self.box[1].start)
        self.keypoints: dict[str, Point] = {}
        self.x, self.y = pose.frame(*self.box)
        cos, sin = math.cos(math.radians(pose.pitch)), math.sin(math.radians(pose.pitch))
        self.u = self.x * cos + self.y * sin  # along the body, towards the head
        self.v = -self.x * sin + self.y * cos  # across it, towards the back
        self.feathers = noise(rng, self.shape, (60, 60)) * 0.6 + noise(rng, self.shape, (24, 24)) * 0.5
        px, py = self.x - self.head_center[0], self.y - self.head_center[1]
        cos, sin = math.cos(math.radians(self.head_angle)), math.sin(math.radians(self.head_angle))
        self.a = (px * cos + py * sin) * self.head_sign / self.radius  # along the head, towards the bill
        self.b = (-px * sin + py * cos) / self.radius  # across it, towards the crown

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

    # -- drawing ----------------------------------------------------------------------------------------------

    def draw(self, canvas: Canvas) -> None:
        """Draw the bird, back to front, and note its keypoints; the canvas is the whole picture."""
        canvas = Canvas(canvas.rgb[self.box], canvas.label[self.box])
        self._leg(canvas, near=False)
        self._leg(canvas, near=True)
        self._tail(canvas)
        self._bill(canvas)
        self._crest(canvas)
        self._torso(canvas)
        self._wing(canvas)
        self._eye(canvas)
        self._keypoints()

    def color(self, attribute: str) -> NDArray[np.float32]:
        """Return the colour an attribute names, with this individual's tint."""
        return _rgb(self.attributes[attribute], self.tint)

    def _pixels(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return points of the bird frame in pixels of this painter's window."""
        return self.pose.to_pixels(points) - (self.box[1].start, self.box[0].start)

    def _shape(self, points: NDArray[np.floating]) -> tuple[Window, Field]:
        return polygon(self._pixels(points), self.shape)

    def _near(self, points: list[Point], margin: float) -> Window:
        """Return the window around some points of the bird frame, `margin` in the same units."""
        return window(self._pixels(np.array(points)), self.shape, margin=margin * self.pose.scale)

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
        where = self._near([hip, foot], 0.25)
        x, y = self.x[where], self.y[where]
        distance = capsule(x, y, hip, knee, 0.075, 0.045)
        distance = np.minimum(distance, capsule(x, y, knee, foot, 0.045, 0.038))
        for toe in ((0.20, -0.035), (0.11, -0.07), (-0.13, -0.04)):
            end = (foot[0] + toe[0], foot[1] + toe[1])
            distance = np.minimum(distance, capsule(x, y, foot, end, 0.038, 0.024))
        cover = coverage(distance, self.pose.pixel)
        shade = 0.86 + 0.2 * smoothstep(0.05, -0.05, distance)
        canvas.paint(where, cover, color * shade[..., None], LABEL["leg"])
        side = "right" if (self.pose.facing > 0) == near else "left"
        self.keypoints[f"{side} leg"] = ((knee[0] + foot[0]) / 2, (knee[1] + foot[1]) / 2)

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
            where, cover = self._shape(points)
            cos, sin = math.cos(math.radians(direction)), math.sin(math.radians(direction))
            across = (self.y[where] - root[1]) * cos - (self.x[where] - root[0]) * sin
            edge = smoothstep(half * 0.55, half, np.abs(across))
            shade = (0.80 + 0.05 * k) * (1 + 0.10 * self.feathers[where]) - 0.22 * edge
            canvas.paint(where, cover, color * np.clip(shade, 0.2, 1.2)[..., None], LABEL["tail"])
        dx, dy = rotate((0.30 + 0.55 * length, 0), angle)
        self.keypoints["tail"] = (root[0] + dx, root[1] + dy)

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

        canvas.paint(*self._shape(outline(0.10, 0.5)), color * 0.74, LABEL["beak"])
        where, upper = self._shape(outline(0.5, 0.06))
        ridge = self.b[where] + curve * ((self.a[where] - 0.7) / length) ** 2
        shade = 0.92 + 0.55 * smoothstep(0.0, 0.5 * height, ridge)
        canvas.paint(where, upper, np.clip(color * shade[..., None] + 0.02, 0, 1), LABEL["beak"])
        self.keypoints["beak"] = self.head(0.80 + 0.45 * length, 0.02 - curve * 0.12)

    def _crest(self, canvas: Canvas) -> None:
        if self.attributes["crest"] == "none":
            return
        color = self.color("crown_color")
        for k, (length, lift) in enumerate(((0.62, 0.42), (0.78, 0.24), (0.56, 0.06))):
            points = [(0.1, 0.72), (-0.55, 0.98 + lift * 0.5), (-1.0 - length * 0.55, 0.86 + lift), (-0.72, 0.36)]
            curve = np.array([self.head(*p) for p in spline(points, steps=5)])
            canvas.paint(*self._shape(curve), color * (0.84 + 0.07 * k), LABEL["crown"])

    def _silhouette(self) -> Field:
        depth = self.plan.depth
        # An egg: the breast is deeper than the rump.
        swell = 1 + 0.16 * np.clip(self.u, -1, 1)
        body = ellipse(self.u, self.v / swell, 0.96, depth)
        rump = ellipse(self.u + 0.72, self.v - 0.04, 0.42, depth * 0.40)
        neck = capsule(self.x, self.y, self.shoulder, self.head_center, depth * 0.66, self.radius * 0.80)
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
        u, v = self.u + wave, self.v + wave * 0.8
        color = np.empty((*self.shape, 3), np.float32)
        color[:] = self.color("belly_color")
        label = np.full(self.shape, LABEL["belly"], np.uint8)

        def region(where: Window, weight: Field, paint: NDArray[np.floating], name: int) -> None:
            under = color[where]
            under += weight[..., None] * (paint - under)
            label[where][weight > 0.5] = name

        breast = smoothstep(0.10, 0.30, u + 0.25 * v)
        region(WHOLE, breast, self._patterned_breast(u, v), LABEL["breast"])
        back = smoothstep(0.16, 0.34, v / self.plan.depth - 0.10 * u)
        region(WHOLE, back, self._patterned_back(u), LABEL["back"])

        # From here on only the neck and the head. What is nearer to the head than to the shoulder is neck:
        # throat in front, nape behind.
        top = self._near([self.shoulder, self.head_center], 1.35 * self.radius)
        wave = wave[top]
        neck = (self.head_center[0] - self.shoulder[0], self.head_center[1] - self.shoulder[1])
        norm = math.hypot(*neck)
        dx, dy = self.x[top] - self.shoulder[0], self.y[top] - self.shoulder[1]
        on_neck = smoothstep(0.30 * norm, 0.62 * norm, (dx * neck[0] + dy * neck[1]) / norm + wave)
        side = (dx * neck[1] - dy * neck[0]) / norm
        region(top, on_neck * smoothstep(-0.02, 0.10, side), self.color("throat_color"), LABEL["throat"])
        region(top, on_neck * smoothstep(-0.02, -0.12, side), self.color("nape_color"), LABEL["nape"])
        a, b = self.a[top], self.b[top]
        on_head = smoothstep(1.25, 0.95, np.sqrt(a * a + b * b))
        a, b = a + wave, b + wave
        region(top, on_head, _rgb(self.plan.face_color, self.tint), BODY)
        throat = smoothstep(-0.22, -0.42, b + 0.18 * a)
        region(top, on_head * throat, self.color("throat_color"), LABEL["throat"])
        region(top, on_head * smoothstep(-0.42, -0.60, a), self.color("nape_color"), LABEL["nape"])
        region(top, on_head * smoothstep(0.34, 0.46, b + 0.10 * a), self.color("crown_color"), LABEL["crown"])
        forehead = smoothstep(0.30, 0.44, a) * smoothstep(0.08, 0.20, b)
        region(top, on_head * forehead, self.color("forehead_color"), LABEL["forehead"])

        lit = color * (shade * (1 + 0.07 * self.feathers))[..., None]
        canvas.paint(WHOLE, cover, np.clip(lit, 0, 1), BODY)
        on_bird = cover > 0.5
        canvas.label[on_bird] = label[on_bird]

    def _patterned_breast(self, u: Field, v: Field) -> NDArray[np.float32]:
        base, pattern = self.color("breast_color"), self.attributes["breast_pattern"]
        if pattern == "plain":
            return base
        ink = _rgb("umber", self.tint)
        mark: Field
        if pattern == "streaked":
            rows = np.sin(u * 17 + 1.5 * self.feathers)
            dashes = np.sin(v * 26 + 2.5 * np.floor(u * 17 / (2 * math.pi)))
            mark = smoothstep(0.35, 0.75, rows) * smoothstep(-0.7, -0.1, dashes)
        elif pattern == "spotted":
            row = np.floor(v * 6.5)
            mark = smoothstep(0.25, 0.6, np.abs(np.sin(u * 20 + row * 2.2) * np.sin(v * 6.5 * math.pi)))
        else:  # a band across the breast
            middle = u + 0.25 * v
            mark = smoothstep(0.46, 0.50, middle) * smoothstep(0.72, 0.66, middle)
        return np.asarray(base + 0.85 * mark[..., None] * (ink - base), np.float32)

    def _patterned_back(self, u: Field) -> NDArray[np.float32]:
        base = self.color("back_color")
        if self.attributes["back_pattern"] == "plain":
            return base
        bars = 0.9 * smoothstep(0.1, 0.5, np.sin(u * 19))
        return np.asarray(base + bars[..., None] * (_rgb("white", self.tint) - base), np.float32)

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
        # A soft shadow under the wing lifts it off the body.
        where, shadow = self._shape(points + np.array([0.03, -0.07]))
        canvas.rgb[where] *= (1 - 0.28 * shadow * (canvas.label[where] > 0))[..., None]
        where, cover = self._shape(points)
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        dx, dy = self.x[where] - root[0], self.y[where] - root[1]
        p = -(dx * cos + dy * sin)  # from the shoulder to the wing's tip
        q = dy * cos - dx * sin
        base = self.color("wing_color")
        # Scalloped coverts near the shoulder, long flight feathers behind.
        flight = smoothstep(0.66, 0.80, p + 0.25 * q)
        fan = np.sin((q + 0.12 * p) * 46)
        scallop = np.sin(p * 21) * np.cos(q * 24 + np.floor(p * 21 / math.pi) * 1.6)
        relief = flight * (0.16 * fan - 0.14) + (1 - flight) * (0.09 * scallop + 0.03)
        color = base * (1 + relief + 0.06 * self.feathers[where])[..., None]
        bars = self.attributes["wing_bars"]
        pale = _rgb("white", self.tint)
        mark: Field
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
        canvas.paint(where, cover, np.clip(color * light[..., None], 0, 1), LABEL["wing"])
        side = "right" if self.pose.facing > 0 else "left"
        self.keypoints[f"{side} wing"] = tuple(place([(-0.62, 0.0)])[0])

    def _eye(self, canvas: Canvas) -> None:
        center = (0.30, 0.16)
        where = self._near([self.head(*center)], 0.5 * self.radius)
        a, b = self.a[where] - center[0], self.b[where] - center[1]
        distance = np.sqrt(a * a + b * b)
        pixel = self.pose.pixel / self.radius
        ring = self.attributes["eye_ring"]
        if ring != "none":
            canvas.paint(where, coverage(distance - 0.33, pixel), _rgb(ring, np.ones(3)) * 0.97, LABEL["eye"])
        canvas.paint(where, coverage(distance - 0.19, pixel), self.color("eye_color") * 0.55, LABEL["eye"])
        glint = np.sqrt((a - 0.05) ** 2 + (b - 0.07) ** 2)
        canvas.paint(where, coverage(glint - 0.055, pixel), np.ones(3, np.float32), LABEL["eye"])
        shows_right = (self.pose.facing > 0) != self.pose.head_back
        self.keypoints[f"{'right' if shows_right else 'left'} eye"] = self.head(*center)

    def _keypoints(self) -> None:
        depth = self.plan.depth
        neck_x = 0.5 * (self.head_center[0] + self.shoulder[0])
        neck_y = 0.5 * (self.head_center[1] + self.shoulder[1])
        self.keypoints |= {
            "back": self.body(0.05, depth * 0.74),
            "belly": self.body(-0.22, -depth * 0.74),
            "breast": self.body(0.62, -depth * 0.42),
            "crown": self.head(-0.02, 0.74),
            "forehead": self.head(0.62, 0.36),
            "nape": self.head(-0.78, -0.02),
            "throat": self.head(0.32, -0.66) if not self.pose.head_back else (neck_x + self.radius * 0.6, neck_y),
        }
