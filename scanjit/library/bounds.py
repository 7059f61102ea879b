"""Upper bounds of dimensions that a function computes: counts of steps of loops with `until`, and lengths of slices."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scanjit import types
from scanjit.ir import most_steps
from scanjit.types import Atom, Dimension


def most(dim: Dimension, known: Collection[Atom]) -> Dimension | None:
    """An upper bound of a dimension, made of sizes in `known`; None if none is found.

    Examples
    --------
    >>> import scanjit as sj
    >>> x, n = sj.vector("x"), sj.iscalar("n")
    >>> (size,) = types.atoms(x.type.shape[0])
    >>> most(x[:n].type.shape[0], {size}), most(sj.arange(n).type.shape[0], {size})
    (x.shape[0], None)
    """
    total: Dimension = 0
    for atoms, factor in types.terms(dim):
        exact = types.monomial(atoms, factor)
        if all(atom in known for atom in types.atoms(exact)):
            total = total + exact
            continue
        if len(atoms) > 1 and not all(map(_not_negative, atoms)):
            return None
        if factor < 0:
            least = _least_of(atoms)
            if least is None:
                return None
            total = total + factor * least
            continue
        bounds = [_most_of(atom, known) for atom in atoms]
        term: Dimension = factor
        for each in bounds:
            if each is None:
                return None
            term = term * each
        total = total + term
    return total


def _most_of(atom: Atom, known: Collection[Atom]) -> Dimension | None:
    if atom in known:
        return types.dim_of(atom)
    if atom.kind == "value":
        length = most_steps(atom.node)
        return None if length is None else most(length, known)
    bounds = [most(each, known) for each in atom.args]
    some = [each for each in bounds if each is not None]
    if atom.kind == "min" and some:
        return some[0] if len(some) == 1 else types.minimum(*some)
    if atom.kind == "max" and len(some) == 2:
        return types.maximum(*some)
    if atom.kind == "//" and bounds[0] is not None and isinstance(atom.args[1], int) and atom.args[1] > 0:
        return bounds[0] // atom.args[1]
    return None


def _least_of(atoms: Sequence[Atom]) -> int | None:
    """A lower bound of a product of atoms, as a number; None if none is found."""
    if all(map(_not_negative, atoms)):
        return 0
    if len(atoms) > 1 or atoms[0].kind != "max":
        return None
    return max((arg for arg in atoms[0].args if isinstance(arg, int)), default=None)


def _not_negative(atom: Atom) -> bool:
    counted = atom.kind == "value" and most_steps(atom.node) is not None
    return counted or types.not_negative(types.dim_of(atom))
