"""Left and right in the names of parts."""

SWAPPED = {"left": "right", "right": "left"}


def merge_sides(name: str) -> str:
    """Return the part a keypoint belongs to when left and right count as one.

    Examples
    --------
    >>> merge_sides("left eye"), merge_sides("tail")
    ('eye', 'tail')
    """
    return name.removeprefix("left ").removeprefix("right ")


def swap_sides(name: str) -> str:
    """Return what a part is called in the mirror.

    Examples
    --------
    >>> swap_sides("left eye"), swap_sides("tail")
    ('right eye', 'tail')
    """
    side, _, rest = name.partition(" ")
    return f"{SWAPPED[side]} {rest}" if rest and side in SWAPPED else name
