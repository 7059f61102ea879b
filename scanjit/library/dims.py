"""Dimensions in C: variables of a function, computed in 64 bits. An overflow sets the variable `wide`."""

from __future__ import annotations

from collections.abc import Mapping

from scanjit import types
from scanjit.types import Atom, Dimension

FUNCTIONS = {"//": "quotient", "%": "rest", "min": "smaller", "max": "larger", "root": "root"}
"""The C functions for the functions of dimensions."""
_CALLS = {kind: f"{name}({{0}}, {{1}})" for kind, name in FUNCTIONS.items()}

HELPERS = """\
/* Arithmetic of sizes. What is beyond LARGEST sets *wide, and counts as 0. */

#define LARGEST (INT64_C(1) << 62)

static int64_t sum(int64_t a, int64_t b, int *wide)
{
    if (b > 0 ? a > LARGEST - b : a < -LARGEST - b) {
        *wide = 1;
        return 0;
    }
    return a + b;
}

static int64_t product(int64_t a, int64_t b, int *wide)
{
    int64_t x = a < 0 ? -a : a, y = b < 0 ? -b : b;
    if ((x | y) >> 31 != 0 && x != 0 && y > LARGEST / x) {
        *wide = 1;
        return 0;
    }
    return a * b;
}

static int64_t quotient(int64_t a, int64_t b)
{
    int64_t found;
    if (b == 0)
        return 0;
    found = a / b;
    return found - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t rest(int64_t a, int64_t b)
{
    return b == 0 ? 0 : a - quotient(a, b) * b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The square root, rounded up. */
static int64_t root(int64_t a, int64_t order)
{
    int64_t low = 0, high = INT64_C(1) << 31;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (middle * middle < a)
            low = middle + 1;
        else
            high = middle;
    }
    return a > 0 && order == 2 ? low : 0;
}
"""


def expression(dim: Dimension, names: Mapping[Atom, str], functions: Mapping[str, str]) -> str:
    """A dimension as an expression of a programming language.

    Parameters
    ----------
    names : the texts of atoms, such as "sizes.n".
    functions : templates for functions of dimensions, with places for the texts of two arguments: "min({0}, {1})".
    """

    def named(atom: Atom) -> str:
        if atom in names:
            return names[atom]
        given = [f"({expression(arg, names, functions)})" for arg in atom.args]
        return functions[atom.kind].format(*_ordered(atom, given))

    return types.text(dim, named)


def _ordered(atom: Atom, texts: list[str]) -> list[str]:
    """The texts of the arguments of a function. The order of those of `min` and `max` does not depend on which size was
    made first."""
    return sorted(texts) if atom.kind in ("min", "max") else texts


class Sizes:
    """Writes the lines of C that compute dimensions from sizes, each only once. They do not depend on which size was
    made first.

    Parameters
    ----------
    known : the value of each size: a number, or an expression in C whose value is at most `LARGEST`.
    """

    def __init__(self, known: Mapping[Atom, str | int]) -> None:
        self.lines: list[str] = []
        self._fixed = {atom: value for atom, value in known.items() if isinstance(value, int)}
        self._names: dict[Atom, str] = {atom: text for atom, text in known.items() if isinstance(text, str)}
        self._sizes = dict(self._names)
        self._known: dict[Dimension, str] = {}

    def fixed(self, dim: Dimension) -> int | None:
        """The number that a dimension is in all calls; None if it differs between calls."""
        found = types.substitute(dim, self._fixed)
        return found if isinstance(found, int) else None

    def text(self, dim: Dimension) -> str:
        """A dimension in C: a number, or the variable that holds it, whose lines are added to `lines`."""
        dim = types.substitute(dim, self._fixed)
        if isinstance(dim, int):
            return number(dim)
        if dim not in self._known:
            for atom in sorted(types.functions_in([dim]), key=self._place):
                if atom not in self._names:
                    left, right = _ordered(atom, list(map(self.text, atom.args)))
                    self._names[atom] = self._variable(f"{FUNCTIONS[atom.kind]}({left}, {right})")
            named = [(sorted(self._names[atom] for atom in atoms), factor) for atoms, factor in types.terms(dim)]
            terms = [self._term(factor, names) for names, factor in sorted(named, key=lambda term: (not term[0], term))]
            total = terms[0]
            for term in terms[1:]:
                total = self._variable(f"sum({total}, {term}, &wide)")
            self._known[dim] = total
        return self._known[dim]

    def _place(self, atom: Atom) -> tuple[int, str]:
        """The place of a function among others: behind those in its arguments, whose texts are shorter."""
        text = expression(types.dim_of(atom), self._sizes, _CALLS)
        return len(text), text

    def _term(self, factor: int, names: list[str]) -> str:
        if factor != 1 or not names:
            names = [*names, number(factor)]
        found = names[0]
        for name in names[1:]:
            found = self._variable(f"product({found}, {name}, &wide)")
        return found

    def _variable(self, text: str) -> str:
        for line in self.lines:
            if line.endswith(f" = {text};"):
                return line.removeprefix("const int64_t ").partition(" ")[0]
        name = f"d{len(self.lines)}"
        self.lines.append(f"const int64_t {name} = {text};")
        return name


def number(value: int) -> str:
    """An integer as C writes it."""
    text = str(value) if abs(value) < 2**15 else f"INT64_C({value})"
    return f"({text})" if value < 0 else text
