"""Types of values: a dtype and a symbolic shape.

A *dimension* is a Python int or a `Dim`: a polynomial with integer coefficients over *atoms*. An atom is a named or
anonymous size ("T"), the value of a scalar integer node, or an integer function (`//`, `%`, `min`, `max`, `root`) of
other dimensions.

Two dimensions are compared with `==`, never with `is`. Python makes a new object for each int above 256, so `is` may be
false for two equal ints. Polynomials are kept in a normal form and interned, so `T + 1 - 1 == T`. Two dimensions for
which `==` is false may still have the same value in a call (see `equate`).
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, cast

import numpy as np

from scanjit import errors
from scanjit.interned import Interned
from scanjit.kinds import COMPLEX, KINDS, Kind, kind_of, named_dtype
from scanjit.signatures import DType, NodeBelow
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

    def __reduce__(self) -> tuple[object, ...]:
        # A pickler's memo keeps the identity of anonymous sizes within one pickle; named ones join those of their name.
        if self.kind != "size":
            raise TypeError("only sizes pickle without what they are made of; pickle a compiled function")
        return (_named_atom, (self.name,)) if is_named(self) else (Atom, ("size", label(self)))


Monomial = tuple[Atom, ...]
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "//": lambda a, b: a // b if b else 0,  # as integers do everywhere in this package
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "root": lambda a, b: math.isqrt(a - 1) + 1 if a > 0 else 0,  # of the order b, which is 2; rounded up
}
_named: dict[str, Atom] = {}
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
            return _interned(tuple([(m, c * int(other)) for m, c in self.terms])) if other else 0
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                key = tuple(sorted(left + right, key=attrgetter("serial"))) if left and right else left or right
                total[key] = total.get(key, 0) + a * b
        return _polynomial(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dimension) -> Dimension:
        if isinstance(other, int) and other > 0 and all(c % other == 0 for _, c in self.terms):
            return _polynomial({m: c // other for m, c in self.terms})
        if isinstance(other, Dim) and len(other.terms) == 1:
            ((divisor, factor),) = other.terms
            quotients = [(_without(m, divisor), c) for m, c in self.terms]
            if factor > 0 and all(m is not None and c % factor == 0 for m, c in quotients):
                return _polynomial({m: c // factor for m, c in quotients if m is not None})
        return 1 if other == self else _call("//", self, other)

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

    def __reduce__(self) -> tuple[object, ...]:
        functions = functions_in([self])
        places = {atom: i for i, atom in enumerate(functions)}

        def listed(dim: Dimension) -> Listed:
            return [([places.get(atom, atom) for atom in monomial], factor) for monomial, factor in terms(dim)]

        return _from_lists, ([(atom.kind, *map(listed, atom.args)) for atom in functions], listed(self))


Listed = list[tuple[list[Atom | int], int]]
"""The terms of a dimension, with the position of a function in place of the function."""


def _from_lists(functions: list[tuple[str, Listed, Listed]], terms: Listed) -> Dimension:
    known: list[Dimension] = []

    def dim(terms: Listed) -> Dimension:
        total: Dimension = 0
        for factors, number in terms:
            total = product([known[f] if isinstance(f, int) else dim_of(f) for f in factors]) * number + total
        return total

    for kind, left, right in functions:
        known.append(_apply(kind, dim(left), dim(right)))
    return dim(terms)


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


def _polynomial(terms: dict[Monomial, int]) -> Dimension:
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
    return _polynomial({tuple(sorted(factors, key=attrgetter("serial"))): number})


def _combine(left: Dimension, right: Dimension, factor: int) -> Dimension:
    if not isinstance(right, Dim) and not right:
        return left
    total = dict(terms(left))
    for monomial, c in terms(right):
        total[monomial] = total.get(monomial, 0) + factor * c
    return _polynomial(total)


def _call(kind: str, left: Dimension, right: Dimension) -> Dimension:
    if isinstance(left, int) and isinstance(right, int):
        return _FUNCTIONS[kind](left, right)
    key = (kind, left, right)
    atom = _calls.get(key)
    if atom is None:
        atom = _calls.known(key, Atom(kind, _call_text(kind, left, right), (left, right)))
    return _polynomial({(atom,): 1})


_LONGEST_TEXT = 500
"""A function of sizes is shown with at most this many characters: nested functions make texts of any length."""


def _call_text(kind: str, left: Dimension, right: Dimension) -> str:
    if kind in ("min", "max", "root"):
        text = f"{kind}({left}, {right})"
    else:
        text = "(" + f" {kind} ".join(f"({a})" if isinstance(a, Dim) else str(a) for a in (left, right)) + ")"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def minimum(left: Dimension, right: Dimension) -> Dimension:
    """The smaller of two dimensions: one of them if it is certainly the smaller one, else a `min` of both."""
    return _extreme("min", left, right)


def maximum(left: Dimension, right: Dimension) -> Dimension:
    """The larger of two dimensions: one of them if it is certainly the larger one, else a `max` of both."""
    return _extreme("max", left, right)


def upper_bound(dim: Dimension) -> int | None:
    """A number that a dimension of positive terms does not exceed, if it is known.

    Examples
    --------
    >>> upper_bound(16 * minimum(dim_of(Atom("size", "T")), 64)), upper_bound(7), upper_bound(dim_of(Atom("size", "T")))
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


def square_root(dim: Dimension) -> Dimension:
    """The square root of a dimension, rounded up."""
    return _call("root", dim, 2)


def _extreme(kind: str, left: Dimension, right: Dimension) -> Dimension:
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
    return _call(kind, *sorted((left, right), key=_rank))


def _rank(dim: Dimension) -> tuple[int, int, list[tuple[list[int], int]]]:
    """A key that sorts the arguments of `min` and `max`, whose order does not matter. Ints come last."""
    if isinstance(dim, int):
        return (1, dim, [])
    return (0, len(dim.terms), [([atom.serial for atom in monomial], factor) for monomial, factor in dim.terms])


def _split(dim: Dimension, kinds: Sequence[str]) -> Iterator[tuple[Atom, Dimension]]:
    """The function atoms of these kinds that are terms of a dimension, each with the rest of the sum."""
    for monomial, factor in dim.terms if isinstance(dim, Dim) else ():
        if factor == 1 and len(monomial) == 1 and monomial[0].kind in kinds:
            yield monomial[0], dim - _polynomial({monomial: 1})


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
    rest = dim - _polynomial({(atom,): factor})
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


def _atom_not_negative(atom: Atom) -> bool:
    if atom.kind in ("size", "counter"):
        return True
    if atom.kind == "max":
        return any(map(not_negative, atom.args))
    if atom.kind == "%":
        return not_negative(atom.args[1])
    return atom.kind in ("min", "//", "root") and all(map(not_negative, atom.args))


def size(name: str | None = None) -> Dim:
    """The dimension of a name (the same for equal names), or a new anonymous one."""
    return anonymous_size() if name is None else dim_of(_named_atom(name))


def anonymous_size(label: str | None = None) -> Dim:
    """A new dimension. It is shown as the label, or as `n` and a number."""
    return dim_of(Atom("size", label))


def axis_size(tensor: str | None, axis: int) -> Dim:
    """A new dimension: the size of an axis of a tensor with this name.

    Examples
    --------
    >>> axis_size("x", 0)
    x.shape[0]
    """
    return anonymous_size(None if tensor is None else f"{tensor}.shape[{axis}]")


def counter(word: str) -> Dim:
    """A new dimension that changes while a program runs. It is shown as the word."""
    return dim_of(Atom("counter", word))


def dim_of(atom: Atom) -> Dim:
    """The dimension that consists of an atom."""
    return cast(Dim, _polynomial({(atom,): 1}))


def _named_atom(name: str) -> Atom:
    return _named.get(name) or _named.setdefault(name, Atom("size", name))


def is_named(atom: Atom) -> bool:
    """Whether an atom is a named size, rather than an anonymous one."""
    return _named.get(atom.name) is atom


def label(atom: Atom) -> str | None:
    """The text for an anonymous size; None if it is shown as a number."""
    return None if is_named(atom) or atom.name == f"n{atom.serial}" else atom.name


def value_dim(node: NodeBelow, name: str, not_negative: bool = False) -> Dim:
    """The dimension that stands for the value of a scalar integer node, which may be known not to be negative. It holds
    a reference to the node."""
    atom = node.dim_atom
    if atom is None:
        atom = Atom("value", name, node=node, not_negative=not_negative)
        node.dim_ref = weakref.ref(atom)
    return dim_of(atom)


def text(dim: Dimension, name: Callable[[Atom], str]) -> str:
    """A dimension as people write it; `name` gives the names of its sizes and functions."""
    result = ""
    for monomial, factor in sorted(terms(dim), key=lambda term: (not term[0], -term[1])):
        body = "*".join(map(name, monomial))
        number = "" if abs(factor) == 1 and body else str(abs(factor)) + ("*" if body else "")
        sign = "-" if factor < 0 else "+"
        result += f" {sign} {number}{body}" if result else ("-" if factor < 0 else "") + number + body
    return result or "0"


def atoms(dim: Dimension) -> Iterator[Atom]:
    """All atoms of a dimension that are no functions, also those inside of its functions."""
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


def remainder(dim: Dimension, divisor: Dimension) -> Dimension:
    """A dimension without the terms that are certainly multiples of a divisor. For an int, the remainder of the
    division; by 0, the int itself."""
    if divisor == 0:
        return dim
    parts = [monomial(atoms, factor) for atoms, factor in terms(dim)]
    rest: Dimension = 0
    for part in parts:
        if part // divisor * divisor != part:
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
            product = _polynomial({tuple([atom for atom in monomial if atom not in known]): factor})
            for atom in monomial:
                if atom in known:
                    product = product * known[atom]
            total = total + product
        return total

    for atom in functions_in([dim]):
        if atom not in known:
            known[atom] = _apply(atom.kind, *map(replaced, atom.args))
    return replaced(dim)


def _apply(kind: str, left: Dimension, right: Dimension) -> Dimension:
    if kind in ("min", "max"):
        return _extreme(kind, left, right)
    return _call("root", left, right) if kind == "root" else left // right if kind == "//" else left % right


def evaluate(dim: Dimension, env: Mapping[Atom, int]) -> int:
    """The value of a dimension, given the values of its atoms."""
    return dim if isinstance(dim, int) else Numbers(env)(dim)


class Numbers:
    """The values of dimensions in a call. Each is computed once.

    Parameters
    ----------
    sizes : the values of sizes.

    Examples
    --------
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
                    self._functions[atom] = _FUNCTIONS[atom.kind](*map(self._sum, atom.args))
            found = self._dims[dim] = self._sum(dim)
        return found

    def learn(self, sizes: Mapping[Atom, int]) -> None:
        """Know more sizes."""
        self.sizes = {**self.sizes, **sizes}

    def _sum(self, dim: Dimension) -> int:
        total = 0
        for monomial, factor in terms(dim):
            for atom in monomial:
                factor *= self._functions[atom] if atom.args else self.sizes[atom]
            total += factor
        return total


# ---- conditions on dimensions ----------------------------------------------------------------------------------------


class Condition(NamedTuple):
    """A condition that type inference cannot decide, so that a run must check it: `left == right` or `left <= right`.

    For `==`, `what` says what the two dimensions are. For `<=`, `what` is the text of the error, with `{left}` and
    `{right}` for the values. `shapes` holds the two shapes that the dimensions belong to, if the error should show
    them.
    """

    kind: str
    left: Dimension
    right: Dimension
    what: str
    error: type[errors.ScanjitError] = errors.ShapeError
    shapes: Shapes | None = None


Shapes = tuple[tuple[Dimension, ...], tuple[Dimension, ...]]
"""The shape that a tensor has, and the shape that it should have."""


def shape_text(shape: Sequence[object]) -> str:
    """A shape as Python writes it: `(n, 3)`, `(n,)`."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def other_shape(what: str, shapes: Sequence[Sequence[object]], where: str | None = None) -> errors.ShapeError:
    """The error for a tensor that should have another shape."""
    got, expected = map(shape_text, shapes)
    return errors.ShapeError(f"{what} has another shape than it should", got=got, expected=expected, where=where)


_collector: contextvars.ContextVar[list[Condition] | None] = contextvars.ContextVar("collector", default=None)


@contextlib.contextmanager
def collecting() -> Iterator[list[Condition]]:
    """Collect the conditions that inference relies on without being able to decide them."""
    found: list[Condition] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)


def equate(left: Dimension, right: Dimension, what: str, shapes: Shapes | None = None) -> Dimension:
    """Require two dimensions to be equal: an error if they cannot be, a condition to check at run time if they may be.

    Returns the more specific of the two. `what` names the dimensions in the error. With `shapes`, `what` names the
    tensor that has the first shape.
    """
    if left == right:
        return left
    if isinstance(left - right, int):  # the same symbols, another constant: never equal
        if shapes is not None:
            raise other_shape(what, shapes)
        raise errors.ShapeError(f"{what} must be equal", got=f"{left} and {right}")
    found = _collector.get()
    if found is not None:
        found.append(Condition("==", left, right, what, shapes=shapes))
    if isinstance(left, int) or isinstance(right, int):
        return left if isinstance(left, int) else right
    return min(left, right, key=_rank)


def require(
    left: Dimension, right: Dimension, what: str, error: type[errors.ScanjitError] = errors.OutOfBoundsError
) -> None:
    """Require `left <= right`: an error if it cannot hold, a condition to check at run time if it may.

    `what` is the text of the error, with `{left}` and `{right}` for the values. Names that users chose are `escaped` in
    it.
    """
    if not_negative(right - left):
        return
    if not_negative(left - right - 1):
        raise error(what.format(left=left, right=right))
    found = _collector.get()
    if found is not None:
        found.append(Condition("<=", left, right, what, error))


def escaped(text: str) -> str:
    """A text with its braces doubled, to be put into a text with placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


# ---- types -----------------------------------------------------------------------------------------------------------


class Type:
    """A dtype and a shape (a tuple of dimensions). Immutable and interned: equal types are the same object."""

    __slots__ = ("__weakref__", "dtype", "is_half", "shape")

    dtype: DType
    shape: tuple[Dimension, ...]
    is_half: bool
    """Whether its elements are floats of 16 bits."""

    def __new__(cls, dtype: DType, shape: tuple[Dimension, ...] = ()) -> Type:
        found = _types.get((dtype, shape))
        if found is None:
            made = object.__new__(cls)
            made.dtype, made.shape, made.is_half = dtype, shape, kind_of(dtype).is_half
            check_memory(1, made)
            found = _types.known((dtype, shape), made)
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return Type, (self.dtype, self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def kind(self) -> Kind:
        """The kind in which its elements are computed. It says whether these are floats, integers or bools."""
        return kind_of(self.dtype)

    @property
    def in_memory(self) -> Type:
        """The type of the array that holds values of this type. Complex numbers lie in an array of floats with one more
        axis of size 2, the last one, for their two parts."""
        kind = self.kind
        return Type(kind_of(kind.moved).dtype, (*self.shape, 2)) if kind.is_complex else self

    def with_shape(self, shape: Sequence[Dimension]) -> Type:
        """The same dtype with another shape."""
        return Type(self.dtype, tuple(shape))

    def __repr__(self) -> str:
        return f"{self.dtype}({', '.join(map(str, self.shape))})"


_types: Interned[tuple[DType, tuple[Dimension, ...]], Type] = Interned()


def agree(a: Type, b: Type, what: str) -> None:
    """Require two types to be equal. `what` names the thing that has them. Sizes may be equal at run time only
    (`equate`). Another dtype or rank is a fault of the compiler."""
    if a.dtype != b.dtype or a.ndim != b.ndim:
        raise errors.InternalError(f"{what} must have one type", got=f"{a} and {b}")
    for left, right in zip(a.shape, b.shape, strict=True):
        equate(left, right, what)


LARGEST = 2**62
"""A tensor has at most this many elements, and at most this many bytes: generated code counts both with an int64."""


def check_memory(nbytes: int, type_: Type, where: str | None = None) -> None:
    """Raise an error if a tensor needs more bytes than any memory has. Counts the sizes that are known."""
    known = [dim if isinstance(dim, int) else dim.terms[0][1] if len(dim.terms) == 1 else 1 for dim in type_.shape]
    if math.prod([factor for factor in known if factor]) * nbytes > LARGEST:
        raise errors.ShapeError("a tensor of this shape is larger than any memory", got=type_, where=where)


DTYPES = tuple(kind.dtype for kind in KINDS.values())
"""The dtypes of arrays in memory. Complex numbers lie there as pairs of floats."""


def dtype_of(name: object) -> DType:
    """A supported dtype from its name, or an error that lists them."""
    try:
        return kind_of(named_dtype(cast(str, name))).dtype
    except ImportError:
        raise errors.NotSupportedError(
            "NumPy has no bfloat16: that of the package ml_dtypes is used, which is not installed",
            fix='pip install "scanjit[bfloat16]"',
        ) from None
    except (TypeError, ValueError):
        known = (*DTYPES, "bfloat16", *(kind.dtype for kind in COMPLEX))
        expected = "one of " + ", ".join(map(str, known))
        raise errors.DtypeError("this dtype is not supported", got=repr(name), expected=expected) from None


def is_in_memory(dtype: object) -> bool:
    """Whether arrays in memory may have a dtype."""
    return dtype in DTYPES or any(dtype == kind.dtype for kind in list(KINDS.values()) if kind.is_half)


class DtypeName(str):
    """The name of a dtype that serves as the dtype itself: it has its attributes, and `==` compares dtypes.

    Examples
    --------
    >>> import numpy as np
    >>> dtype = DtypeName("float32")
    >>> dtype.startswith("float"), dtype == np.float32, dtype.itemsize
    (True, True, 4)
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        return getattr(np.dtype(str(self)), name)

    def __eq__(self, other: object) -> bool:
        return np.dtype(str(self)) == (str(other) if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def broadcast(shapes: Sequence[tuple[Dimension, ...]], what: str = "operands") -> tuple[Dimension, ...]:
    """The shape to which shapes broadcast, as in NumPy. Only a dimension known to be 1 is stretched."""
    ndim = max(map(len, shapes), default=0)
    result: list[Dimension] = [1] * ndim
    for shape in shapes:
        for axis, dim in enumerate(shape, start=ndim - len(shape)):
            if result[axis] == 1:
                result[axis] = dim
            elif dim != 1:
                try:
                    result[axis] = equate(result[axis], dim, f"dimension {axis} of the {what}")
                except errors.ShapeError as error:
                    listed = " and ".join(f"({', '.join(map(str, s))})" for s in shapes)
                    raise errors.ShapeError(
                        f"the shapes of the {what} do not broadcast", got=listed, expected=str(error)
                    ) from None
    return tuple(result)


_SCALARS = {"b": bool | np.bool_, "i": int, "f": float, "c": complex}
"""The kinds of Python's numbers. A bool is an int too."""


def promote(dtypes: Sequence[DType], scalars: Sequence[bool | int | float | complex] = ()) -> DType:
    """The dtype of an operation, as NumPy 2 finds it: Python scalars are weak. Floats stay within float64."""
    kinds = {next(k for k, t in _SCALARS.items() if isinstance(s, t)) for s in scalars}
    if "c" in kinds:
        return np.result_type(promote(dtypes, [0.0]) if dtypes else np.float64, np.complex64)
    if not dtypes:
        return np.dtype("float64" if "f" in kinds else "int64" if "i" in kinds else "bool")
    dtype = dtypes[0] if len(set(dtypes)) == 1 else _common(dtypes)
    if "f" in kinds and not kind_of(dtype).inexact:
        return np.dtype("float64")
    if "i" in kinds and kind_of(dtype).is_mask:
        return np.dtype("int64")
    return dtype


def _common(dtypes: Sequence[DType]) -> DType:
    """The dtype that can hold the values of several dtypes, as NumPy finds it. With integers, a bfloat16 counts as a
    float16. With a float16, both become float32."""
    halves = {dtype for dtype in dtypes if kind_of(dtype).is_half}
    if not halves:
        return np.result_type(*dtypes)
    of_numpy = np.dtype("float32" if len(halves) > 1 else "float16")
    found = np.result_type(*(of_numpy if dtype in halves else dtype for dtype in dtypes))
    return halves.pop() if kind_of(found).is_half else found


def product(dims: Iterable[Dimension]) -> Dimension:
    """The product of dimensions."""
    total: Dimension = 1
    for dim in dims:
        total = dim * total
    return total
