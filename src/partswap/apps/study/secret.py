"""A study's secret: random, made by ``partswap study plan``.

The code is public, and so is its default seed. What a participant must not work out follows from the secret: orders,
who takes which lesson, and which class is called A.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import secrets


def new_secret() -> str:
    """Return a new secret: 32 random bytes, in hexadecimal."""
    return secrets.token_hex(32)


def random_from(secret: str, *purpose: str | int) -> random.Random:
    """Return random numbers for one purpose; they say nothing about those for another."""
    return random.Random(_derived(secret, "order", *purpose))


def token_from(secret: str, name: str) -> str:
    """Return the token of whoever joined with an id: the same whenever they come back, and nobody else can tell it."""
    return _derived(secret, "token", name).hex()


def _derived(secret: str, *purpose: str | int) -> bytes:
    # As JSON, so that two purposes never read alike ("1", "23" and "12", "3").
    return hmac.digest(bytes.fromhex(secret), json.dumps(purpose).encode(), hashlib.sha256)
