"""Training: classifiers, parts detectors, and the small networks of the aviary."""
