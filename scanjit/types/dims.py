"""Dimensions: the sizes of axes, known or not, with their arithmetic.

A *dimension* is a Python int or a `Dim`: a polynomial with integer coefficients over *atoms*. An atom is a named or
anonymous size ("T"), the value of a scalar integer node, or an integer function (`//`, `%`, `min`, `max`, `root`) of
other dimensions.

Two dimensions are compared with `==`, never with `is`. Python makes a new object for each int above 256, so `is` may be
false for two equal ints. Polynomials are kept in a normal form and interned, so `T + 1 - 1 == T`. Two dimensions for
which `==` is false may still have the same value in a call (see `equate`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import cast

from scanjit import errors
from scanjit.interned import Interned
from scanjit.signatures import NodeBelow
from scanjit.walks import bottom_up

_serial = itertools.count()


class Atom:
    """A variable of the polynomials that dimensions are: a size, a value, a counter or a function.

    Atoms are compared by identity. `name` is shown to people; several anonymous sizes may have the same name.
    """

    __slots__ = ("__weakref__", "args", "bases", "kind", "name", "node", "not_negative", "serial")

    args: tuple[Dimension, ...]
    """The arguments of a function atom."""
    node: NodeBelow
    """The scalar integer node whose value a value atom is."""
    bases: tuple[Atom, ...]
    """The atoms that a function atom depends on and that are no functions; empty for any other atom."""
    not_negative: bool
    """Whether the atom is certainly >= 0."""

    def __init__(
        self,
        kind: str,
        name: str | None,
        args: tuple[Dimension, ...] = (),
        node: NodeBelow = None,
        not_negative: bool = False,
    ) -> None:
        self.kind, self.args, self.node, self.serial = kind, args, node, next(_serial)
        self.name = f"n{self.serial}" if name is None else name
        self.bases = tuple(dict.fromkeys(atom for arg in args for atom in atoms(arg)))
        self.not_negative = not_negative or _atom_not_negative(self)

    def __repr__(self) -> str:
        return self.name


Monomial = tuple[Atom, ...]
FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "//": lambda a, b: a // b if b else 0,  # as integers do everywhere in this package
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "root": lambda a, b: math.isqrt(a - 1) + 1 if a > 0 else 0,  # of the order b, which is 2; rounded up
}
_calls: Interned[tuple[str, Dimension, Dimension], Atom] = Interned()
_dims: Interned[tuple[tuple[Monomial, int], ...], Dim] = Interned()


class Dim:
    """A symbolic dimension in normal form. Made by arithmetic on `size` and `value_dim`; never constant."""

    __slots__ = ("__weakref__", "terms")

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dimension) -> Dimension:
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dimension) -> Dimension:
        return _combine(self, other, -1)

    def __rsub__(self, other: Dimension) -> Dimension:
        return _combine(self * -1, other, 1)

    def __neg__(self) -> Dimension:
        return self * -1

    def __mul__(self, other: Dimension) -> Dimension:
        if not isinstance(other, Dim):
            if other == 1:
                return self
            return _interned(tuple([(m, c * int(other)) for m, c in self.terms])) if other else 0
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                key = tuple(sorted(left + right, key=attrgetter("serial"))) if left and right else left or right
                total[key] = total.get(key, 0) + a * b
        return polynomial(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dimension) -> Dimension:
        found = exact_quotient(self, other)
        return _call("//", self, other) if found is None else found

    def __rfloordiv__(self, other: Dimension) -> Dimension:
        return _call("//", other, self)

    def __mod__(self, other: Dimension) -> Dimension:
        if isinstance(other, int) and other > 0 and all(c % other == 0 for _, c in self.terms):
            return 0
        return _call("%", self, other)

    def __rmod__(self, other: Dimension) -> Dimension:
        return _call("%", other, self)

    def __repr__(self) -> str:
        return text(self, repr)


Dimension = int | Dim
"""A size: an int if it is known, else a symbolic `Dim`."""


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The quotient of two products of atoms; None if it is no such product."""
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def terms(dim: Dimension) -> Iterable[tuple[Monomial, int]]:
    """The terms of a dimension, which is their sum: each a product of atoms and its factor."""
    return dim.terms if isinstance(dim, Dim) else (((), int(dim)),)


def exact_quotient(dim: Dimension, divisor: Dimension) -> Dimension | None:
    """The quotient of two dimensions if it certainly has no remainder, whatever the sizes are; else None. A negative
    divisor divides itself and numbers alone.

    Examples
    --------
    >>> from scanjit.types import size
    >>> n = size("n")
    >>> exact_quotient(6 * n, 2 * n), exact_quotient(6 * n, 4), exact_quotient(6, n)
    (3, None, None)
    """
    if not isinstance(dim, Dim):
        return None if isinstance(divisor, Dim) or not divisor or dim % divisor else dim // divisor
    if isinstance(divisor, Dim):
        if len(divisor.terms) == 1:
            ((factors, number),) = divisor.terms
            quotients = [(_without(m, factors), c) for m, c in dim.terms]
            if number > 0 and all(m is not None and c % number == 0 for m, c in quotients):
                return polynomial({m: c // number for m, c in quotients if m is not None})
    elif divisor > 0 and all(c % divisor == 0 for _, c in dim.terms):
        return polynomial({m: c // divisor for m, c in dim.terms})
    return 1 if divisor == dim else None


def polynomial(terms: dict[Monomial, int]) -> Dimension:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    if len(kept) == 1:
        return _interned(tuple(kept.items()))
    return _interned(tuple(sorted(kept.items(), key=lambda term: [atom.serial for atom in term[0]])))


def _interned(key: tuple[tuple[Monomial, int], ...]) -> Dim:
    """The dimension of these terms, which are in normal form."""
    found = _dims.get(key)
    if found is None:
        made = Dim.__new__(Dim)
        made.terms = key
        found = _dims.known(key, made)
    return found


def as_int(dim: Dimension) -> int:
    """The dimension as an int. The caller knows that it is one."""
    if isinstance(dim, Dim):
        raise errors.InternalError("a size must be known here", got=dim)
    return dim


def as_ints(shape: Iterable[Dimension]) -> tuple[int, ...]:
    """The shape as ints. The caller knows that all of its dimensions are ints."""
    return tuple(map(as_int, shape))


def monomial(factors: Iterable[Atom], number: int = 1) -> Dimension:
    """The product of atoms and a number."""
    return polynomial({tuple(sorted(factors, key=attrgetter("serial"))): number})


def dim_of(atom: Atom) -> Dim:
    """The dimension that consists of an atom."""
    return cast(Dim, polynomial({(atom,): 1}))


def product(dims: Iterable[Dimension]) -> Dimension:
    """The product of dimensions."""
    total: Dimension = 1
    for dim in dims:
        total = dim * total
    return total


def _combine(left: Dimension, right: Dimension, factor: int) -> Dimension:
    if not isinstance(right, Dim) and not right:
        return left
    total = dict(terms(left))
    for monomial, c in terms(right):
        total[monomial] = total.get(monomial, 0) + factor * c
    return polynomial(total)


def _call(kind: str, left: Dimension, right: Dimension) -> Dimension:
    if isinstance(left, int) and isinstance(right, int):
        return FUNCTIONS[kind](left, right)
    key = (kind, left, right)
    atom = _calls.get(key)
    if atom is None:
        atom = _calls.known(key, Atom(kind, _call_text(kind, left, right), (left, right)))
    return polynomial({(atom,): 1})


_LONGEST_TEXT = 500
"""A function of sizes is shown with at most this many characters: nested functions make texts of any length."""


def _call_text(kind: str, left: Dimension, right: Dimension) -> str:
    if kind in ("min", "max", "root"):
        text = f"{kind}({left}, {right})"
    else:
        text = "(" + f" {kind} ".join(f"({a})" if isinstance(a, Dim) else str(a) for a in (left, right)) + ")"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def square_root(dim: Dimension) -> Dimension:
    """The square root of a dimension, rounded up."""
    return _call("root", dim, 2)


def applied(kind: str, left: Dimension, right: Dimension) -> Dimension:
    if kind in ("min", "max"):
        return _extreme(kind, left, right)
    return _call("root", left, right) if kind == "root" else left // right if kind == "//" else left % right


def minimum(left: Dimension, right: Dimension) -> Dimension:
    """The smaller of two dimensions: one of them if it is certainly the smaller one, else a `min` of both."""
    return _extreme("min", left, right)


def maximum(left: Dimension, right: Dimension) -> Dimension:
    """The larger of two dimensions: one of them if it is certainly the larger one, else a `max` of both."""
    return _extreme("max", left, right)


def _extreme(kind: str, left: Dimension, right: Dimension) -> Dimension:
    for known in (_calls.get((kind, left, right)), _calls.get((kind, right, left))):
        if known is not None:  # neither was certainly smaller when this atom was made
            return dim_of(known)
    upper = kind == "max"
    if not_negative(left - right):
        return left if upper else right
    if not_negative(right - left):
        return right if upper else left
    for one, other in ((left, right), (right, left)):  # max(max(n - 1, 0) - 1, 0) is max(n - 2, 0)
        for inner, rest in _split(one, (kind,)):
            for kept, lost in (inner.args, inner.args[::-1]):
                gap = other - (rest + lost) if upper else rest + lost - other
                if not_negative(gap):
                    return _extreme(kind, rest + kept, other)
    return _call(kind, *sorted((left, right), key=rank))


def rank(dim: Dimension) -> tuple[int, int, list[tuple[list[int], int]]]:
    """A key that sorts the arguments of `min` and `max`, whose order does not matter. Ints come last."""
    if isinstance(dim, int):
        return (1, dim, [])
    return (0, len(dim.terms), [([atom.serial for atom in monomial], factor) for monomial, factor in dim.terms])


def _split(dim: Dimension, kinds: Sequence[str]) -> Iterator[tuple[Atom, Dimension]]:
    """The function atoms of these kinds that are terms of a dimension, each with the rest of the sum."""
    for monomial, factor in dim.terms if isinstance(dim, Dim) else ():
        if factor == 1 and len(monomial) == 1 and monomial[0].kind in kinds:
            yield monomial[0], dim - polynomial({monomial: 1})


_MOST_TRIED = 50
"""The number of dimensions that `not_negative` looks at before it gives up: the cases of nested functions are
exponentially many."""


def not_negative(dim: Dimension) -> bool:
    """Whether the dimension is certainly >= 0. Uses that sizes are >= 0, and the meaning of `min`, `max`, `//` and
    `%`."""
    return _not_negative(dim, {})


def _not_negative(dim: Dimension, tried: dict[Dimension, bool]) -> bool:
    """As `not_negative`. `tried` maps each dimension that was asked about to its answer (False while it is not
    known)."""
    if isinstance(dim, int):
        return dim >= 0
    if all(factor > 0 and all(atom.not_negative for atom in monomial) for monomial, factor in dim.terms):
        return True
    if dim not in tried and len(tried) < _MOST_TRIED:
        tried[dim] = False
        tried[dim] = _by_functions(dim, tried)
    return tried.get(dim, False)


def _by_functions(dim: Dim, tried: dict[Dimension, bool]) -> bool:
    """Whether a dimension is >= 0, decided by replacing one function in it, such as `max(a, b)`, by its arguments.

    A function whose two cases give the exact answer is replaced first. Example: `a - max(b, c)` is >= 0 exactly if both
    `a - b` and `a - c` are. The other case: `max(a, b) - c` is >= 0 if `a - c` or `b - c` is; if neither is certain, it
    may still be. Among several such functions the newest is replaced, because it is an argument of none of the others.
    """
    terms = [(m[0], c) for m, c in dim.terms if len(m) == 1 and m[0].args]
    if not terms:
        return False
    both = {"min": 1, "max": -1}
    _, _, atom, factor = max((both.get(atom.kind, 0) * c > 0, atom.serial, atom, c) for atom, c in terms)
    rest = dim - polynomial({(atom,): factor})
    left, right = atom.args
    cases: list[Dimension] = []
    if atom.kind in both:
        cases = [rest + factor * left, rest + factor * right]
        if both[atom.kind] * factor > 0:
            return all(_not_negative(case, tried) for case in cases)
    elif atom.kind == "//" and isinstance(right, int) and right > 0:
        cases = [right * rest + factor * (left - right + 1 if factor > 0 else left)]
    elif atom.kind == "%" and factor < 0 and _not_negative(right - 1, tried):
        cases = [rest + factor * (right - 1)]
    if factor > 0 and atom.not_negative:
        cases.append(rest)
    return any(_not_negative(case, tried) for case in cases)


def upper_bound(dim: Dimension) -> int | None:
    """A number that a dimension of positive terms does not exceed, if it is known.

    Examples
    --------
    >>> from scanjit.types import size
    >>> upper_bound(16 * minimum(size("T"), 64)), upper_bound(7), upper_bound(size("T"))
    (1024, 7, None)
    """
    total = 0
    for monomial, factor in terms(dim):
        for most in map(_atom_bound, monomial):
            if factor < 0 or most is None:
                return None
            factor *= most
        total += factor
    return total


def _atom_bound(atom: Atom) -> int | None:
    found = [upper_bound(arg) for arg in atom.args] if atom.kind in ("min", "max") else [None]
    known = [most for most in found if most is not None]
    if atom.kind == "max":
        return max(known) if len(known) == len(found) else None
    return min(known, default=None)


def _atom_not_negative(atom: Atom) -> bool:
    if atom.kind in ("size", "counter"):
        return True
    if atom.kind == "max":
        return any(map(not_negative, atom.args))
    if atom.kind == "%":
        return not_negative(atom.args[1])
    return atom.kind in ("min", "//", "root") and all(map(not_negative, atom.args))


def text(dim: Dimension, name: Callable[[Atom], str]) -> str:
    """A dimension as people write it; `name` gives the names of its sizes and functions. Names decide about the order,
    and not which sizes were made first."""
    result = ""
    named = [(sorted((bool(atom.args), name(atom)) for atom in monomial), factor) for monomial, factor in terms(dim)]
    for factors, factor in sorted(named, key=lambda term: (not term[0], -term[1], term[0])):
        body = "*".join(text for _, text in factors)
        number = "" if abs(factor) == 1 and body else str(abs(factor)) + ("*" if body else "")
        sign = "-" if factor < 0 else "+"
        result += f" {sign} {number}{body}" if result else ("-" if factor < 0 else "") + number + body
    return result or "0"


def atoms(*dims: Dimension) -> Iterator[Atom]:
    """All atoms of dimensions that are no functions, also those inside of their functions."""
    for dim in dims:
        for monomial, _ in dim.terms if isinstance(dim, Dim) else ():
            for atom in monomial:
                if atom.args:
                    yield from atom.bases
                else:
                    yield atom


def functions_in(dims: Iterable[Dimension]) -> list[Atom]:
    """The function atoms in these dimensions. Each is listed once, after the functions among its arguments."""
    return bottom_up(_functions_at(dims), lambda atom: _functions_at(atom.args))


def _functions_at(dims: Iterable[Dimension]) -> list[Atom]:
    """The functions in these dimensions, without those inside them."""
    found = [atom for dim in dims if isinstance(dim, Dim) for monomial, _ in dim.terms for atom in monomial]
    return [atom for atom in found if atom.args]


def as_atom(dim: Dimension) -> Atom | None:
    """The atom, if the dimension is a single atom; else None."""
    if isinstance(dim, Dim) and len(dim.terms) == 1:
        ((monomial, factor),) = dim.terms
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None
