"""Which layer do I pass? The places where a model can be cut, with their grids, and a good default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn, TypeGuard

from torch import Tensor, fx, nn

from partswap.cut.graph import clean_nodes
from partswap.cut.inspection import ModelInspection
from partswap.errors import LayerError
from partswap.grid import GridShape

if TYPE_CHECKING:
    from partswap.utils.tables import ResultTable

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
    inspection = _inspected(model, probe)
    inspection.fall_back_to_in_place()
    places = find_places(inspection)
    default = choose_default(inspection)
    layers = []
    for name, others in places.items():
        layout = inspection.layout(name)
        notes = [f"also {', '.join(others)}"] if others else []
        if layout.prefix:
            notes.append(f"+ {layout.prefix} prefix token{'s' * (layout.prefix > 1)}")
        kind = type(inspection.shadow.get_submodule(name)).__name__
        is_default = default in (name, *others)
        layers.append(LayerInfo(name, layout.grid, layout.channels, kind, is_default, "; ".join(notes)))
    return layers


def default_layer(model: nn.Module, *, probe: Tensor | None = None) -> str:
    """Return the layer at which `cut_network` cuts when none is given.

    That is the first block after the last down-sampling; in a network that keeps one grid throughout (a
    vision transformer), the block after which two more blocks remain. A network without blocks is cut after its last
    down-sampling itself (VGG's last pooling).
    """
    return choose_default(_inspected(model, probe))


def layers_table(model: nn.Module, *, probe: Tensor | None = None) -> ResultTable:
    """Return `list_layers` as a table for the terminal, with the default marked."""
    from partswap.utils.tables import ResultTable

    rows = []
    for info in list_layers(model, probe=probe):
        note = "; ".join(filter(None, ["default" if info.is_default else "", info.note]))
        rows.append((info.name, str(info.grid), info.channels, info.kind, note))
    columns = ("layer", "grid", "channels", "kind", "note")
    return ResultTable(f"Where {type(model).__name__} can be cut", columns, rows)


def _inspected(model: nn.Module, probe: Tensor | None) -> ModelInspection:
    inspection = ModelInspection(model, probe)
    inspection.check_logits()
    return inspection


def choose_default(inspection: ModelInspection) -> str:
    """Return the default layer of an inspected model."""
    for name in default_layers(inspection):
        if (inspection.has_graph or inspection.can_replay(name)) and inspection.logits_depend_on(name):
            return name
    return choose_default(inspection) if inspection.fall_back_to_in_place() else no_default(inspection)


def default_layers(inspection: ModelInspection) -> Iterator[str]:
    """Yield the layers to cut at by default, the best first.

    Without a graph they were not tried; and a ViT may not read its cells any more. Trying costs a pass or two each.
    """
    names = _block_ends(inspection, find_places(inspection, all_used=False))
    while names:
        name = _preferred(inspection, names)
        yield name
        names.remove(name)


def no_default(inspection: ModelInspection) -> NoReturn:
    """Raise the error that there is no layer to cut at."""
    raise LayerError(
        f"{type(inspection.shadow).__name__} has no layer that gives a grid and can be cut cleanly.",
        "Use a model with feature maps or patch tokens, or pass larger images as `probe`.",
    )


def _block_ends(inspection: ModelInspection, places: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the places, with a block in place of its parts where it can be cut within."""
    grids = {name: inspection.layout(name).grid for name in places}
    modules = {n: inspection.shadow.get_submodule(n) for name in places for n in (name, *places[name])}
    row = Counter((_parent(n), type(modules[n]), grids[name]) for name in places for n in (name, *places[name]))
    blocks = {}
    for name, others in places.items():
        known = [n for n in (name, *others) if _mixers(modules[n]) > 1]
        # One of several alike that stand in a row on one grid, which stages do not; else one in a row; else the
        # innermost.
        rows = (n for n in known if row[_parent(n), type(modules[n]), grids[name]] > 1)
        whole = next((n for n in rows if _in_row(inspection.shadow, n)), None)
        if whole is None:
            whole = next((n for n in known if _in_row(inspection.shadow, n)), (*known, name)[0])
            inside = [n for n in places if n.startswith(whole + ".") and _mixers(modules[n]) > 1]
            if any(row[_parent(n), type(modules[n]), grids[n]] > 1 for n in inside):  # it is the whole network
                continue
        if all(grids[n] == grids[name] for n in places if n.startswith(whole + ".")):  # else it is a row of stages
            blocks[name] = whole
    parts = tuple(f"{whole}." for name, whole in blocks.items() if whole != name)
    ends = [blocks.get(name, name) for name in places]
    return [name for name in ends if not name.startswith(parts)]


def _preferred(inspection: ModelInspection, names: Sequence[str]) -> str:
    """Return the place among `names` at which to cut."""
    modules = {name: inspection.shadow.get_submodule(name) for name in names}
    cells = {name: inspection.layout(name).grid.cells for name in names}
    blocks = [name for name in names if _mixers(modules[name]) > 1]
    # Where most layers are in blocks, those outside are stem, down-sampling and classifier, which may go on to coarser
    # grids than any block; else the network is a row of plain layers, or most of it lies between places (the branches
    # of an HRNet), and what comes after is better than a stage before.
    inside, total = (sum(_mixers(modules[name]) for name in some) for some in (blocks, names))
    reached = 4 * total > _mixers(inspection.shadow)
    coarsest = min(cells[name] for name in (blocks if reached and 2 * inside > total else names))
    last = [name for name in names if cells[name] == coarsest]
    kinds = Counter(type(modules[name]) for name in blocks)
    here = Counter(type(modules[name]) for name in last if name in blocks)
    if not here:
        return last[0]
    # What commoner blocks are made of is a part (the last separable convolutions of an Xception).
    inner = ((modules[name], part) for name in last if name in blocks for part in modules[name].modules())
    parts = {type(part) for block, part in inner if kinds[type(part)] < kinds[type(block)]}
    # The kind a stage is made of; a down-sampling with several layers in it stands before it, and alone.
    kind = max((kind for kind in here if kind not in parts), key=lambda kind: (here[kind], kinds[kind]))
    # One grid throughout: "after the last down-sampling" would be one of the first blocks.
    if here[kind] >= 3 and here[kind] == kinds[kind] and 2 * here[kind] > len(blocks):
        alike = [name for name in names if type(modules[name]) is kind]
        with_two_behind = next((name for name in reversed(alike[:-2]) if name in last), None)
        if with_two_behind is not None:
            return with_two_behind
    return next(name for name in last if type(modules[name]) is kind)


def find_places(inspection: ModelInspection, *, all_used: bool = True) -> dict[str, list[str]]:
    """Return the names of the places to cut, each with the other names of the same tensor.

    Without `all_used`, places whose cells the logits may not depend on are among them: telling takes a pass each.
    """
    trace = next(inspection.traces(), None)
    if trace is None:
        # No graph, so try: does the model give the same logits when it gets this layer's output and no image?
        units = [name for name in _units(inspection, None) if inspection.is_grid(name)]
        return _thinned(inspection.shadow, {name: [] for name in units if not all_used or inspection.can_replay(name)})
    clean = clean_nodes(trace)
    nodes = {name: trace.outputs[name] for name in inspection.record.shapes if trace.outputs.get(name) in clean}
    places: dict[str, list[str]] = {}
    taken: set[fx.Node] = set()
    for name in _units(inspection, nodes):
        if name in nodes and nodes[name] not in taken and inspection.is_grid(name):
            idle = isinstance(inspection.shadow.get_submodule(name), _IDLE) and taken & set(nodes[name].all_input_nodes)
            taken.add(nodes[name])
            if not idle:
                # A stage gives what its last block gives.
                places[name] = [n for n in nodes if nodes[n] is nodes[name] and name.startswith(n + ".")]
    for name in reversed(list(places) if all_used else []):
        if inspection.logits_depend_on(name):
            break
        del places[name]
    return _thinned(inspection.shadow, places)


def _units(inspection: ModelInspection, clean: Mapping[str, object] | None) -> list[str]:
    """Return blocks, and plain layers outside of blocks, in the order they finish."""
    stack: list[tuple[str, nn.Module]] = [("", inspection.shadow)]
    units = set()
    while stack:
        name, module = stack.pop()
        for child_name, child in module.named_children():
            path = f"{name}.{child_name}" if name else child_name
            if (
                path in inspection.record.shapes
                and _is_unit(path, child, clean)
                and not _is_most(inspection, path, child)
            ):
                units.add(path)
                continue
            stack.append((path, child))
            if clean is not None and path in clean and not isinstance(child, _CONTAINERS):
                units.add(path)  # a stage that does something after its last block; else it gives the same tensor
    return [name for name in inspection.record.shapes if name in units]


def _is_unit(path: str, module: nn.Module, clean: Mapping[str, object] | None) -> bool:
    """Return whether a module is one thing to the reader: a plain layer, a short chain of them, or a block."""
    if _is_plain(module):
        return True
    if _is_chain(module):
        return len(module) <= SHORT_CHAIN
    if clean is not None:
        inside = {node for name, node in clean.items() if name.startswith(path + ".")}
        if not inside - {clean.get(path)}:  # it can only be cut at its end
            return path in clean
    return not isinstance(module, _CONTAINERS) and not any(_repeats(part) for part in module.modules())


def _is_most(inspection: ModelInspection, path: str, module: nn.Module) -> bool:
    """Return whether a module is most of the network, down to pooled features or logits; it is wrapped, then."""
    return 2 * _mixers(module) > _mixers(inspection.shadow) and not _is_plain(module) and not inspection.is_grid(path)


def _repeats(module: nn.Module) -> bool:
    """Return whether a module is a row of blocks of the same kind."""
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
    """Return whether a module has no parameters but its own: a layer, possibly with its activation inside."""
    return not any(next(child.parameters(), None) is not None for child in module.children())


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _in_row(model: nn.Module, name: str) -> bool:
    """Return whether a module, no container itself, is one of a container's."""
    plain = not isinstance(model.get_submodule(name), _CONTAINERS)
    return plain and isinstance(model.get_submodule(_parent(name)), _CONTAINERS)


def _mixers(module: nn.Module) -> int:
    """Return how many layers in a module mix channels or cells; a block has several, a down-sampling one."""
    return sum(sum(size > 1 for size in parameter.shape) > 1 for parameter in module.parameters())


def _is_chain(module: nn.Module) -> TypeGuard[nn.Sequential]:
    return isinstance(module, nn.Sequential) and all(_is_plain(child) for child in module)
