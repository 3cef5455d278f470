"""The aviary: a world of drawn birds in which the right answer is known.

Photographs never say which parts of two species truly differ. Here every bird is drawn from a list of part
attributes, so for any two classes the differing parts are known exactly, beside keypoints, masks and part masks.
Images are made from a seed; nothing is stored.

>>> from partswap import aviary
>>> bird = aviary.draw(species=3, seed=0)
>>> bird.image.size
(224, 224)
"""

from partswap.aviary.species import ATTRIBUTE_PARTS, KEYPOINTS, PARTS, Species, all_species, differing_parts
from partswap.aviary.world import Bird, draw

__all__ = ["ATTRIBUTE_PARTS", "KEYPOINTS", "PARTS", "Bird", "Species", "all_species", "differing_parts", "draw"]
