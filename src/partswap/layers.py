"""Which layer do I pass? The places where a model can be cut cleanly, with their grids, and a good default."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from partswap._cut_graph import clean_nodes
from partswap._cut_study import Study
from partswap.errors import LayerError
from partswap.grid import GridShape

if TYPE_CHECKING:
    from rich.table import Table

# A chain of plain layers that is no longer than this is one thing (a down-sampling, a stem) and not a network.
SHORT_CHAIN = 6
_ELEMENTWISE = (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Hardswish, nn.LeakyReLU, nn.ELU, nn.Sigmoid, nn.Tanh)
_ELEMENTWISE += (nn.Identity, nn.Dropout, nn.Dropout2d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)  # type: ignore[assignment]


@dataclass(frozen=True)
class LayerInfo:
    """A place where a model can be cut.

    Parameters
    ----------
    name : str
        What to pass as `layer`.
    grid : GridShape
        Cells of the grid there.
    channels : int
        Channels of every cell.
    kind : str
        Class of the module.
    is_default : bool
        Whether `split` cuts here when no layer is given.
    note : str
        Other names of the same place, prefix tokens.
    """

    name: str
    grid: GridShape
    channels: int
    kind: str
    is_default: bool = False
    note: str = ""


def list_layers(model: nn.Module, *, probe: Tensor | None = None) -> list[LayerInfo]:
    """Return where `model` can be cut cleanly, in the order of the forward pass.

    Blocks are listed, not what is inside them; `partswap.split.split` takes any layer where the cut is clean.

    Parameters
    ----------
    model : nn.Module
        An image classifier.
    probe : Tensor, optional
        Images ``(n, 3, H, W)``; by default random ones of the size the model says it takes.
    """
    study = Study(model, probe)
    default = choose_default(study)
    found = []
    for name, others in _places(study).items():
        layout = study.layout(name)
        notes = [f"also {', '.join(others)}"] if others else []
        if layout.prefix:
            notes.append(f"{layout.prefix} prefix token{'s' * (layout.prefix > 1)} stay with the query")
        kind = type(study.twin.get_submodule(name)).__name__
        note = "; ".join(notes)
        found.append(LayerInfo(name, layout.grid, layout.channels, kind, name == default, note))
    return found


def default_layer(model: nn.Module, *, probe: Tensor | None = None) -> str:
    """Return the layer at which `split` cuts when none is given.

    That is the first block after the last down-sampling; in a network that keeps one grid throughout (a vision
    transformer), the block after which two more blocks remain.
    """
    return choose_default(Study(model, probe))


def layers_table(model: nn.Module, *, probe: Tensor | None = None) -> Table:
    """Return `list_layers` as a table for the terminal, with the default marked."""
    from rich.table import Table

    table = Table(title=f"Where {type(model).__name__} can be cut")
    for title in ("layer", "grid", "channels", "kind", "note"):
        table.add_column(title, justify="right" if title == "channels" else "left")
    for info in list_layers(model, probe=probe):
        note = "; ".join(filter(None, ["default" if info.is_default else "", info.note]))
        row = (info.name, str(info.grid), str(info.channels), info.kind, note)
        table.add_row(*row, style="bold green" if info.is_default else None)
    return table


def choose_default(study: Study) -> str:
    """Return the default layer of a model that has been studied."""
    names = list(_places(study))
    if not names:
        raise LayerError(
            f"{type(study.twin).__name__} has no layer that gives a grid and can be cut cleanly.",
            "Use a model with feature maps or patch tokens, or pass larger images as `probe`.",
        )
    grids = {name: study.layout(name).grid for name in names}
    smallest = min(grid.cells for grid in grids.values())
    last = [name for name in names if grids[name].cells == smallest]
    kinds = {name: type(study.twin.get_submodule(name)) for name in names}
    blocks = [name for name in names if _has_children(study.twin.get_submodule(name))]
    kind, count = Counter(kinds[name] for name in last if name in blocks).most_common(1)[0] if blocks else (None, 0)
    # One grid throughout: nearly all blocks have it, so "after the last down-sampling" would be the first of them.
    if count >= 3 and 2 * count > len(blocks):
        return [name for name in last if kinds[name] is kind][-3]
    return last[0]


def _places(study: Study) -> dict[str, list[str]]:
    """Return the names of the places to cut, each with the other names of the same tensor."""
    units = [name for name in _units(study.twin, study) if study.is_grid(name)]
    for trace in study.traces():
        clean = clean_nodes(trace)
        units = [name for name in units if trace.outputs.get(name) in clean]
        same: dict[object, list[str]] = {}
        for name in study.survey.shapes:
            if trace.outputs.get(name) in clean:
                same.setdefault(trace.outputs[name], []).append(name)
        places: dict[str, list[str]] = {}
        taken = set()
        for name in units:
            node = trace.outputs[name]
            if node not in taken:
                taken.add(node)
                places[name] = [n for n in same[node] if n != name and name.startswith(n + ".")]
        return _thinned(study.twin, places)
    # Without a graph, try: does the model give the same logits when it sees this layer's output and no image?
    return _thinned(study.twin, {name: [] for name in units if study.replays(name)})


def _units(model: nn.Module, study: Study) -> list[str]:
    """Return blocks, and plain layers outside of blocks, in the order they finish."""
    inside: set[str] = set()
    stack = [("", model)]
    units = set()
    while stack:
        name, module = stack.pop()
        for child_name, child in module.named_children():
            path = f"{name}.{child_name}" if name else child_name
            if _is_unit(path, child, study):
                units.add(path)
            else:
                stack.append((path, child))
    del inside
    return [name for name in study.survey.shapes if name in units]


def _is_unit(path: str, module: nn.Module, study: Study) -> bool:
    """Tell whether a module is one thing to the reader: a plain layer, a short chain of them, or a block."""
    children = list(module.children())
    if not children:
        return True
    if path not in study.survey.shapes:
        return False
    if isinstance(module, nn.Sequential) and not any(_has_children(child) for child in children):
        return len(children) <= SHORT_CHAIN
    # A stage repeats a kind of block; a block does not.
    for part in module.modules():
        if isinstance(part, (nn.Sequential, nn.ModuleList, nn.ModuleDict)):
            kinds = Counter(type(c) for c in part.children() if _has_children(c) and type(c) not in _CHAINS(c))
            if any(count > 1 for count in kinds.values()):
                return False
    return not isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))


def _CHAINS(module: nn.Module) -> tuple[type, ...]:
    return (type(module),) if isinstance(module, nn.Sequential) else ()


def _thinned(model: nn.Module, places: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out a plain layer that is followed by its own normalisation or activation."""
    names = list(places)
    kept = {}
    for name, after in zip(names, [*names[1:], ""], strict=True):
        sibling = after.rpartition(".")[0] == name.rpartition(".")[0]
        plain = not _has_children(model.get_submodule(name))
        if after and sibling and plain and isinstance(model.get_submodule(after), _ELEMENTWISE):
            continue
        kept[name] = places[name]
    return kept


def _has_children(module: nn.Module) -> bool:
    return next(module.children(), None) is not None
