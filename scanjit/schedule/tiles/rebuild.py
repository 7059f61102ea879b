"""A nest rebuilt: the same nest over other accesses, loops or values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed

from scanjit.schedule.lower import maps
from scanjit.schedule.nests import Access, Nest, NestLoop, Register, Store, Value


def rebuild_nest(
    nest: Nest,
    access: Callable[[Access], Access],
    loops: Callable[[NestLoop], NestLoop] = lambda loop: loop,
    space: list[NestLoop] | None = None,
    replace: dict[Value, Value] | None = None,
) -> Nest:
    """The nest with accesses, loops and values changed."""
    get = maps.substitute(nest.roots, replace or {}, access, loops)

    def store(old: Store) -> Store:
        indices = tuple(changed(index, value=get(index.value)) for index in old.indices)
        return Store(access(old.access), get(old.value), indices, old.add, old.code)

    return changed(
        nest,
        space=nest.space if space is None else space,
        stores=[store(s) for s in nest.stores],
        finals=[store(s) for s in nest.finals],
        registers=[r for r in map(get, nest.registers) if isinstance(r, Register)],
        updates=list(map(get, nest.updates)),
        carried=list(map(access, nest.carried)),
    )
