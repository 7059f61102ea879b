"""A nest made ready for code: loops merged, lanes and register tile chosen."""

from collections.abc import Callable, Collection, Sequence

from scanjit import types
from scanjit.records import replace
from scanjit.schedule.nests import Access, Apply, Blocks, Buffer, Nest, Pack, Program, Statement, Tile, TimeLoop
from scanjit.schedule.threads.split import with_split
from scanjit.schedule.tiles import few, lanes, strips
from scanjit.schedule.tiles.along import Kept, never
from scanjit.schedule.tiles.choose import choose_tile
from scanjit.schedule.tiles.guesses import in_forms, with_guesses
from scanjit.schedule.tiles.linear import lanewise
from scanjit.schedule.tiles.merge import merge_loops
from scanjit.schedule.tiles.products import reductions_of
from scanjit.schedule.tiles.still import still_lanes
from scanjit.target import Target

STEPS_OF_A_PACK = 3
"""To pack a matrix takes as long as so many steps save that multiply it by one vector each."""


def in_variants(
    nest: Nest, target: Target, notes: list[str], shaped: Callable[[Nest], list[Statement]]
) -> list[Statement]:
    """The statements that `shaped` makes of a nest. If the best variant depends on a size, the nest gets each of its
    variants, in a `Blocks` that runs once or not at all."""
    merged = merge_loops(nest) if reductions_of(nest) else nest
    variants = lanes.variants(merged, target, notes) or few.variants(merged, target, notes)
    if not variants:
        return shaped(nest)
    result: list[Statement] = []
    for variant in variants:
        made = shaped(variant.nest)
        packs = [statement for statement in made if isinstance(statement, Pack) and statement.target.fixed]
        inside = tuple(statement for statement in made if statement not in packs)
        result += [*packs, Blocks(variant.when, 1, types.counter("first"), types.counter("rows"), inside)]
    return result


def with_tiles(program: Program) -> Program:
    """The program in which every nest has its tile. Nests that store nothing are left out."""
    tiler = _Tiler(program.target)
    return program.with_suite(tiler.suite(program.suite, True, never, ()), tiler.notes)


class _Tiler:
    """Gives the nests of a program for a target their tiles, and keeps notes of them."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.notes: list[str] = []

    def suite(self, suite: Sequence[Statement], once: bool, kept: Kept, changed: Collection[Buffer]) -> list[Statement]:
        """These statements, with tiles: see `with_tile`."""
        result: list[Statement] = []
        for statement in suite:
            if not isinstance(statement, Nest):
                inner = once and isinstance(statement, Blocks)
                inside = _kept_in(statement) if isinstance(statement, TimeLoop) and not _is_brief(statement) else kept
                single = _changed_in(statement) if isinstance(statement, TimeLoop) else changed
                made = statement.with_suites(*(self.suite(each, inner, inside, single) for each in statement.suites))
                result.append(with_guesses(made) if isinstance(made, TimeLoop) else made)
            elif statement.stores or statement.finals:
                nest = with_tile(statement, self.target, once, kept, changed)
                self.notes.append(f"nest {nest.label}: {_described(nest)}")
                result.append(nest)
        return result


def _is_brief(loop: TimeLoop) -> bool:
    """Whether it takes longer to pack a matrix before the loop than the steps save."""
    return isinstance(loop.total, int) and loop.total <= STEPS_OF_A_PACK


def _kept_in(loop: TimeLoop) -> Kept:
    """Tells of the operands of a step whether they are the same in all steps."""
    written, counters = loop.written_buffers, set(types.atoms(*loop.counters))

    def kept(access: Access) -> bool:
        dims = (access.offset, *access.strides.values())
        return access.buffer not in written and counters.isdisjoint(types.atoms(*dims))

    return kept


def _changed_in(loop: TimeLoop) -> set[Buffer]:
    """The buffers of which a step changes single elements, at places that it computes."""
    nests = (nest for nest in loop.suite if isinstance(nest, Nest))
    return {store.access.buffer for nest in nests if not nest.space for store in nest.stores if store.indices}


def with_tile(nest: Nest, target: Target, once: bool, kept: Kept = never, changed: Collection[Buffer] = ()) -> Nest:
    """A nest with its tile. `once` says that it is in no step of a loop and in no branch; `kept`, which
    operands no step changes; `changed`, the buffers of which steps change single elements."""
    nest = lanes.lanes_last(merge_loops(nest), target)
    tile = with_split(nest, choose_tile(nest, target, once, kept, changed))
    if (solved := lanewise(nest, tile)) is not None:
        return replace(nest, tile=tile, lanewise=solved)
    nest = in_forms(nest, target)
    return replace(nest, tile=tile, still=still_lanes(nest, target))


def _described(nest: Nest) -> str:
    """A nest in words, for `explain`."""
    tile = nest.tile or Tile()
    values = nest.values
    reductions = reductions_of(nest)
    loops = " x ".join(str(loop.size) for loop in nest.space) or "one point"
    ops = sum(isinstance(value, Apply) for value in values)
    stored = len(nest.stores) + len(nest.finals)
    text = f"{ops} elementwise ops, {len(reductions)} reductions, {stored} stores over {loops}; "
    if nest.time is not None:
        steps = nest.time.size if nest.until is None else "any number of"
        text += f"{steps} steps {strips.described(nest, tile)}; "
    if tile.horizontal:
        tiles = f", tiles of {tile.row_block} rows x {tile.vectors} columns" if tile.rows is not None else ""
        along = "reductions" if reductions else "steps"
        return text + f"{tile.lanes} lanes along the {along}{tiles}"
    tiles = f", {tile.vectors} vectors side by side" if tile.vectors > 1 else ""
    if tile.rows is not None:
        tiles = f", tiles of {tile.row_block} rows x {tile.vectors} vectors"
    if tile.strips and nest.time is None:
        tiles += f", {tile.strips[-1]} columns a strip"
    return text + f"{tile.lanes} lanes{tiles}"
