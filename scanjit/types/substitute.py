"""Dimensions with others, or with numbers, in place of their atoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from scanjit.types.dims import (
    FUNCTIONS,
    Atom,
    Dim,
    Dimension,
    applied,
    as_atom,
    atoms,
    exact_quotient,
    functions_in,
    polynomial,
    terms,
    text,
)


def remainder(dim: Dimension, divisor: Dimension) -> Dimension:
    """A dimension without the terms that are certainly multiples of a divisor. For an int, the remainder of the
    division; by 0, the int itself."""
    if divisor == 0:
        return dim
    rest: Dimension = 0
    for monomial, factor in terms(dim):
        part = polynomial({monomial: factor})
        if exact_quotient(part, divisor) is None:
            rest = (part % divisor if isinstance(part, int) and isinstance(divisor, int) else part) + rest
    return rest


def substitute(dim: Dimension, mapping: Mapping[Atom, Dimension]) -> Dimension:
    """The dimension with atoms replaced. These may be functions."""
    if isinstance(dim, int) or not mapping:
        return dim
    single = as_atom(dim)
    if single is not None and not single.args:
        return mapping.get(single, dim)
    if not any(atom in mapping for atom in atoms(dim)) and not any(atom.args for atom in mapping):
        return dim
    known: dict[Atom, Dimension] = dict(mapping)

    def replaced(dim: Dimension) -> Dimension:
        total: Dimension = 0
        for monomial, factor in terms(dim):
            product = polynomial({tuple([atom for atom in monomial if atom not in known]): factor})
            for atom in monomial:
                if atom in known:
                    product = product * known[atom]
            total = total + product
        return total

    for atom in functions_in([dim]):
        if atom not in known:
            known[atom] = applied(atom.kind, *map(replaced, atom.args))
    return replaced(dim)


def evaluate(dim: Dimension, env: Mapping[Atom, int]) -> int:
    """The value of a dimension, given the values of its atoms."""
    return dim if isinstance(dim, int) else Numbers(env)(dim)


def formula(dim: Dimension) -> Callable[[Mapping[Atom, int]], int]:
    """A function that computes what `evaluate` does of this dimension, in a tenth of the time. To make it takes as
    long as twenty evaluations.

    Examples
    --------
    >>> from scanjit.types import size
    >>> n = size("n")
    >>> formula(2 * n + n // 2)({n.terms[0][0][0]: 5})
    12
    """
    functions = functions_in([dim])
    names = {atom: f"f{i}" for i, atom in enumerate(functions)}
    space: dict[str, object] = {"of": FUNCTIONS}

    def name(atom: Atom) -> str:
        if atom not in names:
            place = f"a{len(names)}"
            names[atom], space[place] = f"sizes[{place}]", atom
        return names[atom]

    written = lambda atom: f"of[{atom.kind!r}]({', '.join(text(arg, name) for arg in atom.args)})"
    lines = [f"{names[atom]} = {written(atom)}" for atom in functions]
    exec("\n    ".join(["def found(sizes):", *lines, f"return {text(dim, name)}"]), space)
    return cast("Callable[[Mapping[Atom, int]], int]", space.pop("found"))  # else it would refer to itself


class Numbers:
    """The values of dimensions in a call. Each is computed once.

    Parameters
    ----------
    sizes : the values of sizes.

    Examples
    --------
    >>> from scanjit.types import size
    >>> n = size("n")
    >>> number = Numbers({n.terms[0][0][0]: 5})
    >>> number(2 * n + 1), number(n // 2)
    (11, 2)
    """

    def __init__(self, sizes: Mapping[Atom, int]) -> None:
        self.sizes = sizes
        self._functions: dict[Atom, int] = {}
        self._dims: dict[Dim, int] = {}

    def __call__(self, dim: Dimension) -> int:
        if isinstance(dim, int):
            return dim
        found = self._dims.get(dim)
        if found is None:
            for atom in functions_in([dim]):
                if atom not in self._functions:
                    self._functions[atom] = FUNCTIONS[atom.kind](*map(self._sum, atom.args))
            found = self._dims[dim] = self._sum(dim)
        return found

    def with_more(self, sizes: Mapping[Atom, int]) -> Numbers:
        """The values for these and more sizes. What is computed already is not computed again."""
        found = Numbers({**self.sizes, **sizes})
        found._functions, found._dims = dict(self._functions), dict(self._dims)
        return found

    def _sum(self, dim: Dimension) -> int:
        total = 0
        for monomial, factor in terms(dim):
            for atom in monomial:
                factor *= self._functions[atom] if atom.args else self.sizes[atom]
            total += factor
        return total
