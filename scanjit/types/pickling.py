"""How sizes pickle: anonymous ones keep their identity within one pickle, named ones join those of their name."""

import copyreg
from typing import cast

from scanjit.types.dims import Atom, Dim, Dimension, applied, dim_of, functions_in, product, terms
from scanjit.types.named import is_named, label, named_atom

Listed = list[tuple[list[Atom | int], int]]
"""The terms of a dimension, with the position of a function in place of the function."""


def _from_lists(functions: list[tuple[str, Listed, Listed]], terms: Listed) -> Dim:
    known: list[Dimension] = []

    def dim(terms: Listed) -> Dimension:
        total: Dimension = 0
        for factors, number in terms:
            total = product([known[f] if isinstance(f, int) else dim_of(f) for f in factors]) * number + total
        return total

    for kind, left, right in functions:
        known.append(applied(kind, dim(left), dim(right)))
    return cast(Dim, dim(terms))


def _reduced_atom(atom: Atom) -> tuple[object, ...]:
    if atom.kind != "size":
        raise TypeError("only sizes pickle without what they are made of; pickle a compiled function")
    return (named_atom, (atom.name,)) if is_named(atom) else (Atom, ("size", label(atom)))


def _reduced_dim(dim: Dim) -> tuple[object, ...]:
    functions = functions_in([dim])
    places = {atom: i for i, atom in enumerate(functions)}

    def listed(dim: Dimension) -> Listed:
        return [([places.get(atom, atom) for atom in monomial], factor) for monomial, factor in terms(dim)]

    return _from_lists, ([(atom.kind, *map(listed, atom.args)) for atom in functions], listed(dim))


copyreg.pickle(Atom, _reduced_atom)  # type: ignore[arg-type]  # which wants a `Callable[..., Any]` in the tuple
copyreg.pickle(Dim, _reduced_dim)  # type: ignore[arg-type]
