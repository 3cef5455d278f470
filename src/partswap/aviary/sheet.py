"""A contact sheet of the aviary, to look at."""

from __future__ import annotations

from PIL import Image, ImageDraw

from partswap.aviary.pose import SIZE
from partswap.aviary.species import all_species
from partswap.aviary.world import Bird, draw


def contact_sheet(seed: int = 0, *, columns: int = 8, keypoints: bool = False) -> Image.Image:
    """Return one bird of every species, families side by side."""
    species = all_species()
    rows = -(-len(species) // columns)
    sheet = Image.new("RGB", (columns * SIZE, rows * SIZE), "white")
    for who in species:
        bird = draw(who.index, seed)
        picture = with_keypoints(bird) if keypoints else bird.image
        sheet.paste(picture, ((who.index % columns) * SIZE, (who.index // columns) * SIZE))
    return sheet


def with_keypoints(bird: Bird) -> Image.Image:
    """Return the picture with its visible keypoints marked and named."""
    picture = bird.image.copy()
    pen = ImageDraw.Draw(picture)
    for name, (x, y, visible) in bird.keypoints.items():
        if visible:
            pen.ellipse((x - 2, y - 2, x + 2, y + 2), fill="red", outline="white")
            pen.text((x + 3, y - 6), name, fill="white", stroke_width=1, stroke_fill="black")
    return picture
