"""``python -m partswap`` is the command ``partswap``."""

from partswap.cli.main import main

main()
