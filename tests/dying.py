"""A worker that dies at once; it imports nothing, so its processes start quickly."""

import os


def die(pipe):
    os._exit(9)
