"""Which names of partswap a piece of Python uses that are not public."""

import ast
import importlib

import partswap


def private_uses(code: str) -> list[str]:
    """Return imports from partswap, and attributes of it, that are in no list of public names or modules."""
    private = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            private += [name for name in names if name.startswith("partswap.") and name not in partswap.MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "partswap":
            private += [f"{node.module}.{a.name}" for a in node.names if not _is_public(node.module or "", a.name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "partswap":
            private += [] if node.attr in partswap.__all__ else [f"partswap.{node.attr}"]
    return private


def _is_public(module: str, name: str) -> bool:
    if module == "partswap":
        return name in partswap.__all__
    return module in partswap.MODULES and hasattr(importlib.import_module(module), name)
