"""A nest made ready for code: loops merged, lanes and register tile chosen, right operands packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed

from scanjit.schedule.lower.region import Region
from scanjit.schedule.nests import Apply, Blocks, Nest, Pack, Statement, Tile, counter, leaves_of, walk_values
from scanjit.schedule.threads.split import leaves_rest, split_of
from scanjit.schedule.tiles import lanes, strips
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.pack import pack_operands
from scanjit.schedule.tiles.products import reductions_of


def in_forms(region: Region, nest: Nest, shaped: Callable[[Nest], list[Statement]]) -> list[Statement]:
    """The statements that `shaped` makes of a nest. Where the best loop for lanes depends on a size, there is one form
    for each loop, in a `Blocks` that runs once or not at all."""
    merged = merge_loops(nest)
    forms = lanes.forms(merged, region.context.target) if region.parent is None else []
    if not forms:
        return shaped(nest)
    text = " or ".join(str(form.lane.size) for form in forms)
    region.context.notes.append(f"nest {nest.label}: lanes along {text}, whichever fills vectors")
    result: list[Statement] = []
    for form in forms:
        first, rows = counter("first"), counter("rows")
        made = shaped(changed(merged, lane=form.lane))
        packs = [pack for pack in made if isinstance(pack, Pack) and pack.target.fixed]
        inside = [statement for statement in made if statement not in packs]
        sometimes = set(leaves_of(inside))  # other nests must not read what only this form packs
        region.packed = [pack for pack in region.packed if pack not in sometimes]
        result += [*packs, Blocks(form.when, 1, first, rows, inside)]
    return result


def tile_nest(region: Region, nest: Nest) -> list[Statement]:
    """A nest with its tile, after the packs that it needs. Packs that are the same in all steps go before the loop."""
    if not nest.stores and not nest.finals:
        return []
    nest = lanes.lanes_last(merge_loops(nest), region.context.target)
    tile = choose_tile(nest, region.context.target, region.parent is None)
    split, unit = split_of(nest, tile)
    tile = changed(tile, split=split, unit=unit)
    tile = changed(tile, own=tile.rows, rest=True) if leaves_rest(tile) else tile
    packs, nest = pack_operands(region, changed(nest, tile=tile))
    region.context.notes.append(f"nest {nest.label}: {_described(nest)}")
    return [*packs, nest]


def _described(nest: Nest) -> str:
    """A nest in words, for `explain`."""
    tile = nest.tile or Tile()
    values = walk_values(nest.roots)
    reductions = reductions_of(nest)
    loops = " x ".join(str(loop.size) for loop in nest.space) or "one point"
    ops = sum(isinstance(value, Apply) for value in values)
    stored = len(nest.stores) + len(nest.finals)
    text = f"{ops} elementwise ops, {len(reductions)} reductions, {stored} stores over {loops}; "
    if nest.time is not None:
        text += f"{nest.time.size} steps {strips.described(nest, tile)}; "
    if tile.horizontal:
        tiles = f", tiles of {tile.row_block} rows x {tile.vectors} columns" if tile.rows is not None else ""
        return text + f"{tile.lanes} lanes along the reductions{tiles}"
    tiles = f", tiles of {tile.row_block} rows x {tile.vectors} vectors" if tile.rows is not None else ""
    return text + f"{tile.lanes} lanes{tiles}"
