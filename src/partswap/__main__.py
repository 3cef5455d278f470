"""``python -m partswap`` is the command ``partswap``."""

from partswap.cli import main

main()
