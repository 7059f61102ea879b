"""Whether the lanes of a nest run along its sums: a vector then holds terms of one sum, which are added at the end."""

from collections.abc import Callable, Sequence

from scanjit.schedule.nests import Access, Fetch, Load, Nest, NestLoop, Reduce, loops_of, walk_values
from scanjit.schedule.tiles.products import factors, is_packed, near_steps, packable

Kept = Callable[[Access], bool]
"""Tells whether an operand is the same in all steps of the loop around."""


def never(access: Access) -> bool:
    """The answer outside of loops."""
    return False


def horizontal(nest: Nest, reductions: Sequence[Reduce], kept: Kept = never) -> bool:
    """Whether lanes run along the reductions, because more loads are contiguous there than along the space. An operand
    that can be packed for all rows, steps or calls counts as contiguous."""
    if not nest.space:
        return True
    lane = nest.space[-1]
    along_space = along_reduction = 0
    for reduction in reductions:
        shared = row_loop(nest, [reduction]) is not None
        matrix = packable(reduction, lane)
        for load in walk_values([reduction.term]):
            if isinstance(load, Load | Fetch):
                packed = factors(reduction) is not None and (shared or load.access.buffer.fixed)
                packed = packed or (matrix is not None and load is matrix.right and kept(load.access))
                along_space += not _is_contiguous(load, lane) and not packed
                along_reduction += not _is_contiguous(load, reduction.loops[-1], near_steps(reduction))
    return along_space > along_reduction or (along_space > 0 and along_space == along_reduction and lane.size == 1)


def thin(nest: Nest, reductions: Sequence[Reduce], lanes: int) -> bool:
    """Whether lanes run along sums of products because the last loop of the space does not fill a vector. An example is
    the gradient of small filters of a few channels. The sums must be longer than that loop, and read every element or
    every second element."""
    size = nest.space[-1].size
    if nest.time is not None or not isinstance(size, int) or not 1 < size < lanes:
        return False
    for reduction in reductions:
        loads, along = factors(reduction), reduction.loops[-1]
        if (
            loads is None
            or is_packed(reduction, nest.space[-1])
            or (isinstance(along.size, int) and along.size <= size)
        ):
            return False
        if any(load.access.strides.get(along, 0) not in (0, 1, 2) for load in loads):
            return False
    return True


def row_loop(nest: Nest, reductions: Sequence[Reduce]) -> NestLoop | None:
    """The innermost loop whose iterations share loads: an operand along the lanes does not depend on it. None if there
    is none."""
    for loop in reversed(nest.space[:-1]):
        for reduction in reductions:
            loads = factors(reduction)
            if loads and any(
                nest.space[-1] in load.access.strides and loop not in load.access.strides for load in loads
            ):
                return loop
    return None


def _is_contiguous(load: Load | Fetch, loop: NestLoop, near: tuple[int, ...] = (0, 1)) -> bool:
    """Whether a load reads, from turn to turn of a loop, elements that lie `near` apart. By default: the same element,
    or neighbours."""
    return load.access.strides.get(loop, 0) in near and not any(loop in loops_of(v) for v in load.operands)
