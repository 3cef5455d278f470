"""Which layer do I pass? The places where a model can be cut, with their grids, and a good default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor, fx, nn

from partswap.cut.graph import clean_nodes
from partswap.cut.study import Study
from partswap.errors import LayerError
from partswap.grid import GridShape

if TYPE_CHECKING:
    from rich.table import Table

# A chain of plain layers no longer than this is one thing (a stem, a down-sampling) and not a network.
SHORT_CHAIN = 6
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_POINTWISE: tuple[type[nn.Module], ...] = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Mish)
_POINTWISE += (nn.Hardswish, nn.Sigmoid, nn.Tanh, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
_IDLE = (nn.Identity, nn.Dropout, nn.Dropout2d)  # give what they get


@dataclass(frozen=True)
class LayerInfo:
    """A place where a model can be cut."""

    name: str  #: what to pass as `layer`
    grid: GridShape
    channels: int
    kind: str  #: class of the module
    is_default: bool = False  #: whether `cut_network` cuts here when no layer is given
    note: str = ""  #: other names of the same place; prefix tokens, which stay with the query


def list_layers(model: nn.Module, *, probe: Tensor | None = None) -> list[LayerInfo]:
    """Return where `model` can be cut cleanly, in the order of the forward pass.

    Blocks are listed, not what is inside them; `partswap.cut_network` takes any layer where the cut is clean.

    Parameters
    ----------
    model : nn.Module
        An image classifier.
    probe : Tensor, optional
        Images ``(n, 3, H, W)``; by default random ones of the size the model says it takes.
    """
    study = Study(model, probe)
    places = find_places(study)
    default = choose_default(study, places)
    found = []
    for name, others in places.items():
        layout = study.layout(name)
        notes = [f"also {', '.join(others)}"] if others else []
        if layout.prefix:
            notes.append(f"+ {layout.prefix} prefix token{'s' * (layout.prefix > 1)}")
        kind = type(study.twin.get_submodule(name)).__name__
        found.append(LayerInfo(name, layout.grid, layout.channels, kind, name == default, "; ".join(notes)))
    return found


def default_layer(model: nn.Module, *, probe: Tensor | None = None) -> str:
    """Return the layer at which `cut_network` cuts when none is given.

    That is the first block after the last down-sampling; in a network that keeps one grid throughout (a
    vision transformer), the block after which two more blocks remain.
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


def choose_default(study: Study, places: Iterable[str] | None = None) -> str:
    """Return the default layer of a model that has been studied."""
    names = list(find_places(study) if places is None else places)
    if not names:
        raise LayerError(
            f"{type(study.twin).__name__} has no layer that gives a grid and can be cut cleanly.",
            "Use a model with feature maps or patch tokens, or pass larger images as `probe`.",
        )
    modules = {name: study.twin.get_submodule(name) for name in names}
    grids = {name: study.layout(name).grid for name in names}
    smallest = min(grid.cells for grid in grids.values())
    last = [name for name in names if grids[name].cells == smallest]
    blocks = [name for name in names if not _is_plain(modules[name])]
    kinds = Counter(type(modules[name]) for name in last if name in blocks)
    kind, count = kinds.most_common(1)[0] if kinds else (None, 0)
    # One grid throughout: most blocks have it, so "after the last down-sampling" would be one of the first.
    if count >= 3 and 2 * count > len(blocks):
        alike = [name for name in study.survey.shapes if type(study.twin.get_submodule(name)) is kind]
        return next((name for name in reversed(alike[:-2]) if name in last), last[0])
    return last[0]


def find_places(study: Study) -> dict[str, list[str]]:
    """Return the names of the places to cut, each with the other names of the same tensor."""
    trace = next(study.traces(), None)
    if trace is None:
        # No graph, so try: does the model give the same logits when it gets this layer's output and no image?
        units = [name for name in _units(study, None) if study.is_grid(name) and study.replays(name)]
        return _thinned(study.twin, {name: [] for name in units})
    clean = clean_nodes(trace)
    nodes = {name: trace.outputs[name] for name in study.survey.shapes if trace.outputs.get(name) in clean}
    places: dict[str, list[str]] = {}
    taken: set[fx.Node] = set()
    for name in _units(study, nodes):
        if name in nodes and nodes[name] not in taken and study.is_grid(name):
            idle = isinstance(study.twin.get_submodule(name), _IDLE) and taken & set(nodes[name].all_input_nodes)
            taken.add(nodes[name])
            if not idle:
                # A stage gives what its last block gives.
                places[name] = [n for n in nodes if nodes[n] is nodes[name] and name.startswith(n + ".")]
    for name in reversed(list(places)):
        if study.matters(name):
            break
        del places[name]
    return _thinned(study.twin, places)


def _units(study: Study, clean: Mapping[str, object] | None) -> list[str]:
    """Return blocks, and plain layers outside of blocks, in the order they finish."""
    stack: list[tuple[str, nn.Module]] = [("", study.twin)]
    units = set()
    while stack:
        name, module = stack.pop()
        for child_name, child in module.named_children():
            path = f"{name}.{child_name}" if name else child_name
            if path in study.survey.shapes and _is_unit(path, child, clean):
                units.add(path)
            else:
                stack.append((path, child))
    return [name for name in study.survey.shapes if name in units]


def _is_unit(path: str, module: nn.Module, clean: Mapping[str, object] | None) -> bool:
    """Tell whether a module is one thing to the reader: a plain layer, a short chain of them, or a block."""
    if _is_plain(module):
        return True
    if _is_chain(module):
        return len(module) <= SHORT_CHAIN
    if clean is not None:
        inside = {node for name, node in clean.items() if name.startswith(path + ".")}
        if not inside - {clean.get(path)}:  # it can only be cut at its end
            return path in clean
    return not isinstance(module, _CONTAINERS) and not any(_repeats(part) for part in module.modules())


def _repeats(module: nn.Module) -> bool:
    """Tell whether a module is a row of blocks of the same kind."""
    children = list(module.children())
    kinds = [type(child) for child in children if not _is_plain(child) and not _is_chain(child)]
    return len(set(kinds)) < len(kinds) and (isinstance(module, _CONTAINERS) or len(set(map(type, children))) == 1)


def _thinned(model: nn.Module, places: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out a plain layer that is followed by its own normalisation or activation."""
    hidden = set()
    for name, after in pairwise(places):
        siblings = after.rpartition(".")[0] == name.rpartition(".")[0]
        if siblings and _is_plain(model.get_submodule(name)) and isinstance(model.get_submodule(after), _POINTWISE):
            hidden.add(name)
    return {name: others for name, others in places.items() if name not in hidden}


def _is_plain(module: nn.Module) -> bool:
    """Tell whether a module has no parameters but its own: a layer, possibly with its activation inside."""
    return not any(next(child.parameters(), None) is not None for child in module.children())


def _is_chain(module: nn.Module) -> TypeGuard[nn.Sequential]:
    return isinstance(module, nn.Sequential) and all(_is_plain(child) for child in module)
