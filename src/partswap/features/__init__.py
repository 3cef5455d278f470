"""Features of images: of a few, in memory, and of a data set, computed once and cached on disk."""
