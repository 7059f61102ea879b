"""Elements that lie side by side, such as the two parts of complex numbers.

A nest that reads both parts of each number, in lanes, reads all elements of a stretch of memory. So it loads whole
vectors, and separates the parts in registers. And it stores whole vectors of parts that it has put side by side.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from scanjit.kinds import kind_of
from scanjit.schedule.nests import Access, Load, Nest, Store, walk_values
from scanjit.types import Dimension


class Part(NamedTuple):
    """An element of a pair of neighbours: where the first one lies, and which one it is (0 or 1)."""

    first: Access
    which: int


def loaded_in_pairs(nest: Nest) -> Mapping[object, Part]:
    """The places that a nest loads together with a neighbour, by `Access.where`."""
    stores = [*nest.stores, *nest.finals]
    alone = len(in_pairs(stores)) == 1 and len(stores) == 2  # both are stored when all is loaded
    written = set() if alone else {store.access.buffer for store in stores}
    loads = [value for value in walk_values(nest.values) if isinstance(value, Load)]
    found = [value.access for value in loads if value.when == 1 and not value.widens]
    return _neighbours(access for access in found if access.buffer not in written and _is_plain(access))


def in_pairs(stores: Sequence[Store]) -> list[tuple[Store, ...]]:
    """The stores of a nest in their order. Two that store neighbours are one pair, the first neighbour first."""
    found: list[tuple[Store, ...]] = []
    for store in stores:
        pair = _pair(found[-1][0], store) if found and len(found[-1]) == 1 else None
        if pair is None:
            found.append((store,))
        else:
            found[-1] = pair
    return found


def _pair(one: Store, other: Store) -> tuple[Store, Store] | None:
    """Two stores of neighbours, the first neighbour first; None if they store something else."""
    if one.indices or other.indices or one.add or other.add or not one.access.is_beside(other.access):
        return None
    if not _is_plain(one.access):
        return None
    return (one, other) if one.access.offset + 1 == other.access.offset else (other, one)


def _is_plain(access: Access) -> bool:
    """Whether vectors of an access, and of its neighbours, may be whole."""
    return access.panel is None and 2 in access.strides.values() and not kind_of(access.buffer.dtype).is_mask


def _neighbours(accesses: Iterable[Access]) -> dict[object, Part]:
    groups: dict[object, dict[Dimension, Access]] = {}
    for access in accesses:
        groups.setdefault((access.buffer, frozenset(access.strides.items())), {}).setdefault(access.offset, access)
    found: dict[object, Part] = {}
    for group in groups.values():
        for start in group:
            if start - 1 in group:
                continue
            run = [start]
            while run[-1] + 1 in group:
                run.append(run[-1] + 1)
            for low, high in list(pairwise(run))[::2]:
                found[group[low].where()], found[group[high].where()] = Part(group[low], 0), Part(group[low], 1)
    return found
