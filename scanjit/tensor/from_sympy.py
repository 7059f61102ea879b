"""`elementwise_from_sympy`: a formula of sympy's as a function of symbols."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scanjit import errors, types
from scanjit.ir import Node, constant, is_number
from scanjit.ops.stretch import broadcast_to
from scanjit.tensor import elementwise as functions, questions
from scanjit.tensor.special import trigamma
from scanjit.tensor.variables import as_tensor

if TYPE_CHECKING:
    from sympy import Basic

__all__ = ["elementwise_from_sympy"]

Value = Any
"""A node, or a Python number, which is weak: it takes the dtype of the tensors that it meets."""

_MOST_MULTIPLIED = 64
"""Integer powers above this are left to `pow`."""


def elementwise_from_sympy(expr: Any, args: Sequence[Any] | None = None) -> Callable[..., Any]:
    """A function of symbols that computes a formula of sympy's, element by element.

    The function makes ordinary nodes, as if the formula had been written with this package's functions. They have
    derivatives of any order, and are vectorised and fused. A part of the formula that occurs several times is computed
    once.

    Parameters
    ----------
    expr : a sympy expression of real numbers (a condition too), or a list or tuple of them.
    args : the symbols of the formula (or their names), in the order of the function's arguments. By default all
        symbols that occur, in the order of their names.

    Returns
    -------
    callable
        Takes tensors, arrays or numbers, by position or by the names of the symbols. Returns one tensor for an
        expression, and a tuple of tensors for a list of expressions. Their shape is the one to which the arguments
        broadcast. Numbers in the formula are weak: float32 stays float32. It can be pickled.

    Raises
    ------
    ArgumentError
        If a symbol is not among the arguments, or one of them is given twice.
    NotSupportedError
        If a function has no counterpart here (the error names it), or a number is not real.

    Notes
    -----
    The functions: `exp log sqrt sin cos tan cot sec csc asin acos atan atan2 sinh cosh tanh coth sech csch Abs sign
    floor ceiling frac Mod Min Max Heaviside Piecewise ITE erf erfc gamma loggamma factorial beta digamma trigamma` (and
    `polygamma` of these orders), comparisons, `And Or Not Xor`, `log1p expm1 log2 log10 exp2 Cbrt hypot fma` of
    sympy.codegen, and undefined functions with the name of an elementwise function of this package, as
    `sympy.Function("sigmoid")`.

    Integer powers are products; half-integer powers use square roots. Where a formula is not real (`sqrt(-1)`), the
    result is NaN, as in NumPy. `gamma` is `exp(gammaln)` with its sign, so it is less accurate where it is large.

    All branches of a `Piecewise` are computed. If the derivative of a branch is infinite or NaN, the gradient is NaN,
    even where that branch is not taken. As with `where`, keep the argument inside of its domain: `log(Max(x, 1))`.

    Examples
    --------
    >>> import sympy, scanjit as sj
    >>> x, s = sympy.symbols("x s")
    >>> bump = sj.elementwise_from_sympy(sympy.exp(-(x / s) ** 2 / 2) / s, [x, s])
    >>> v = sj.vector("v", dtype="float32")
    >>> y = bump(v, 2.0)
    >>> f = sj.function([v], [y, sj.grad(y.sum(), v)], mode="reference")
    >>> [a.tolist() for a in f([-2.0, 2.0])]
    [[0.3032653331756592, 0.3032653331756592], [0.1516326665878296, -0.1516326665878296]]
    >>> sj.elementwise_from_sympy(sympy.zeta(x))
    Traceback (most recent call last):
        ...
    scanjit.errors.NotSupportedError: sympy's zeta has no counterpart here
      got:      zeta(x)
      ...
    """
    import sympy

    several = isinstance(expr, list | tuple)
    formulas = [_formula(item, sympy) for item in (expr if several else [expr])]
    symbols = _symbols(formulas, args, sympy)
    formula = functools.partial(_computed, symbols, formulas if several else formulas[0])
    formula.__doc__ = f"({', '.join(symbol.name for symbol in symbols)}) -> {', '.join(map(str, formulas))}"
    formula(*([0.0] * len(symbols)))  # what is not supported is said now
    return formula


def _computed(symbols: Sequence[Any], expr: Any, /, *values: Any, **named: Any) -> Any:
    """A formula, or a tuple of the formulas of a list, for these values of its symbols."""
    import sympy

    formulas = expr if isinstance(expr, list) else [expr]
    given = _as_nodes(_ordered([symbol.name for symbol in symbols], values, named))
    builder = _Builder(dict(zip(symbols, given, strict=True)), sympy)
    shape = types.broadcast([node.type.shape for node in given], "arguments of a formula")
    found = [broadcast_to(builder.node(one), shape) for one in formulas]
    return tuple(found) if isinstance(expr, list) else found[0]


# ---- what the user gave ----------------------------------------------------------------------------------------------


def _formula(expr: Any, sympy: Any) -> Basic:
    """The formula that a user gave: an expression or a condition. Derivatives, integrals and sums in it are computed
    by sympy."""
    try:
        found = sympy.sympify(expr, strict=True)
    except sympy.SympifyError:
        found = None
    if not isinstance(found, sympy.Expr | sympy.logic.boolalg.Boolean) or getattr(found, "is_Matrix", False):
        raise errors.ArgumentError(
            "a formula is an expression of sympy",
            got=f"{expr!r} ({type(expr).__name__})",
            fix="make texts sympy.sympify(text), and give matrices as lists of their elements",
        )
    return found.doit() if found.has(sympy.Derivative, sympy.Integral, sympy.Sum, sympy.Product) else found


def _symbols(formulas: Sequence[Basic], args: Sequence[Any] | None, sympy: Any) -> list[Any]:
    """The symbols in the order of the arguments."""
    free = {symbol for formula in formulas for symbol in formula.free_symbols}
    if args is None:
        args = sorted(free, key=str)
    elif isinstance(args, str | sympy.Basic):
        args = [args]
    named = {symbol.name: symbol for symbol in free}
    found = []
    for arg in args:
        symbol = named.get(arg, sympy.Symbol(arg)) if isinstance(arg, str) else arg
        if not isinstance(symbol, sympy.Symbol):
            raise errors.ArgumentError("the arguments of a formula are symbols or their names", got=repr(arg))
        found.append(symbol)
    names = [symbol.name for symbol in found]
    if len(set(names)) < len(names):
        raise errors.ArgumentError("two arguments of a formula have one name", got=names)
    missing = sorted(map(str, free - set(found)))
    if missing:
        raise errors.ArgumentError(
            f"the formula uses {', '.join(missing)}, which is not among its arguments",
            got=names,
            fix="add it to `args`",
        )
    return found


def _ordered(names: Sequence[str], values: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """One value for each argument, in order."""
    found = dict(zip(names, values, strict=False))
    twice_or_unknown = [name for name in named if name not in names or name in found]
    if len(values) > len(names) or twice_or_unknown or len(found) + len(named) < len(names):
        raise errors.ArgumentError(
            f"this formula takes {len(names)} argument{'' if len(names) == 1 else 's'}",
            got=f"{len(values)} by position" + (f", and {', '.join(named)}" if named else ""),
            expected=f"({', '.join(names)})",
        )
    return [{**found, **named}[name] for name in names]


def _as_nodes(values: Sequence[Any]) -> list[Node]:
    """The arguments as nodes. Python's numbers take the dtype of the others."""
    dtypes = [as_tensor(value).dtype for value in values if not is_number(value)]
    numbers = [value for value in values if is_number(value)]
    weak = types.promote(dtypes, numbers) if dtypes else None
    return [as_tensor(value, weak if is_number(value) else None) for value in values]


# ---- from expressions to nodes ---------------------------------------------------------------------------------------


class _Builder:
    """Makes nodes of expressions, given a node for each symbol. Equal expressions become one node."""

    def __init__(self, symbols: dict[Any, Node], sympy: Any) -> None:
        self.sympy = sympy
        self.done: dict[Any, Value] = dict(symbols)
        self.dtype = types.promote([node.dtype for node in symbols.values()], [1.0])

    def node(self, expr: Basic) -> Node:
        """The value of an expression as a node. A number takes the dtype of the arguments."""
        value = self.value(expr)
        if isinstance(value, Node):
            return value
        return constant(value, None if isinstance(value, bool) else self.dtype)

    def value(self, expr: Basic) -> Value:
        """The value of an expression: a number if it is known."""
        if expr not in self.done:
            self.done[expr] = self._new(expr)
        return self.done[expr]

    def _new(self, expr: Any) -> Value:
        if expr in (self.sympy.true, self.sympy.false):
            return bool(expr)
        if expr.is_number:
            return self._number(expr)
        for kind in type(expr).__mro__:
            rule = _RULES.get(kind.__name__)
            if rule is not None:
                return rule(self, expr)
        name = expr.func.__name__
        if isinstance(expr, self.sympy.core.function.AppliedUndef) and name in vars(functions)["__all__"]:
            return getattr(functions, name)(*map(self.node, expr.args))
        raise errors.NotSupportedError(
            f"sympy's {name} has no counterpart here", got=str(expr), fix="expr.rewrite(...) may express it by others"
        )

    def _number(self, expr: Any) -> Value:
        if expr is self.sympy.nan:
            return float("nan")
        if not expr.is_extended_real:
            raise errors.NotSupportedError("a formula has a number in it that is not real", got=str(expr))
        if expr.is_Integer and abs(int(expr)) < 2**53:
            return int(expr)
        return float(expr.evalf(30))


def _call(function: Callable[..., Node]) -> Rule:
    """The rule of an expression that is a function of its arguments."""
    return lambda builder, expr: function(*map(builder.node, expr.args))


def _inverse(function: Callable[[Node], Node]) -> Rule:
    return lambda builder, expr: 1 / function(builder.node(expr.args[0]))


def _folded(function: Callable[[Any, Any], Node]) -> Rule:
    """The rule of an expression with any number of arguments: a function of two joins them from the left."""
    return lambda builder, expr: functools.reduce(function, map(builder.node, expr.args))


def _add(builder: _Builder, expr: Any) -> Value:
    """A sum. Terms with a minus are subtracted, after the other terms are added."""
    terms = sorted(expr.args, key=lambda term: bool(term.as_coeff_Mul()[0].is_negative))
    total = builder.value(terms[0])
    for term in terms[1:]:
        minus = term.as_coeff_Mul()[0].is_negative
        total = total - builder.value(-term) if minus else total + builder.value(term)
    return total


def _mul(builder: _Builder, expr: Any) -> Value:
    """A product: one product of factors divided by another one."""
    number, factors = expr.as_coeff_mul()
    above = [f for f in factors if not _is_below(f)]
    below = [builder.value(f.base**-f.exp) for f in factors if _is_below(f)]
    if number.is_Rational and abs(number.p) == 1 and number.q != 1:
        below, number = [int(number.q), *below], number * number.q
    values = [builder.value(f) for f in above]
    if abs(number) != 1 or not values:
        values = [builder.value(number), *values]
    elif number == -1:
        values = [-values[0], *values[1:]]
    product = functools.reduce(operator.mul, values)
    return product / functools.reduce(operator.mul, below) if below else product


def _is_below(factor: Any) -> bool:
    return factor.is_Pow and bool(factor.exp.as_coeff_Mul()[0].is_negative)


def _pow(builder: _Builder, expr: Any) -> Value:
    base, exponent = expr.base, expr.exp
    if exponent.as_coeff_Mul()[0].is_negative:
        return 1 / builder.node(base**-exponent)
    if exponent.is_Rational and exponent.q in (1, 2) and exponent.p <= 2 * _MOST_MULTIPLIED:
        x = builder.node(base)
        whole, half = divmod(int(2 * exponent), 2)
        if half:
            return _multiplied(x, whole) * functions.sqrt(x) if whole else functions.sqrt(x)
        return _multiplied(x, whole)
    if base == 2:
        return functions.exp2(builder.node(exponent))
    return functions.power(builder.value(base), builder.value(exponent))


def _multiplied(x: Node, count: int) -> Node:
    """`x` to the power of a positive integer, as products."""
    return x if count == 1 else _multiplied(x, count // 2) * _multiplied(x, count - count // 2)


def _piecewise(builder: _Builder, expr: Any) -> Value:
    result: Value = float("nan")
    for value, condition in reversed(expr.args):
        result = _chosen(builder, builder.value(condition), builder.value(value), result)
    return result


def _chosen(builder: _Builder, condition: Value, a: Value, b: Value) -> Value:
    if isinstance(condition, bool):
        return a if condition else b
    if not isinstance(a, Node) and not isinstance(b, Node):
        a = constant(a, None if isinstance(a, bool) else builder.dtype)
    return functions.where(condition, a, b)


def _ite(builder: _Builder, expr: Any) -> Value:
    return _chosen(builder, *map(builder.value, expr.args))


def _heaviside(builder: _Builder, expr: Any) -> Value:
    x, middle = builder.node(expr.args[0]), builder.value(expr.args[1])
    ends = _chosen(builder, x > 0, 1, 0)
    return functions.where(functions.equal(x, 0), middle, ends)


def _negative_gamma(x: Node) -> Node:
    """Whether the gamma function is negative: between -1 and 0, -3 and -2, and so on."""
    return questions.logical_and(x < 0, functions.equal(functions.mod(functions.floor(x), 2), 1))


def _gamma(builder: _Builder, expr: Any) -> Node:
    x = builder.node(expr.args[0])
    if expr.func.__name__ == "factorial":
        x = x + 1.0
    size = functions.exp(functions.gammaln(x))
    return functions.where(_negative_gamma(x), -size, size)


def _beta(builder: _Builder, expr: Any) -> Node:
    a, b = map(builder.node, expr.args)
    size = functions.exp(functions.gammaln(a) + functions.gammaln(b) - functions.gammaln(a + b))
    negative = functools.reduce(questions.logical_xor, map(_negative_gamma, (a, b, a + b)))
    return functions.where(negative, -size, size)


def _polygamma(builder: _Builder, expr: Any) -> Node:
    order, x = expr.args
    if order not in (0, 1):
        raise errors.NotSupportedError("sympy's polygamma has a counterpart here for the orders 0 and 1", got=str(expr))
    return (trigamma if order == 1 else functions.digamma)(builder.node(x))


def _comparison(function: Callable[[Any, Any], Node]) -> Rule:
    """The rule of a comparison. One side may be a number."""
    return lambda builder, expr: function(*map(builder.value, expr.args))


Rule = Callable[[_Builder, Any], Value]
_SAME = ("sign floor exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh erf erfc digamma").split()
"""Functions with one name in sympy and here."""
_RULES: dict[str, Rule] = {
    **{name: _call(getattr(functions, name)) for name in _SAME},
    "trigamma": _call(trigamma),
    "Add": _add,
    "Mul": _mul,
    "Pow": _pow,
    "Piecewise": _piecewise,
    "ITE": _ite,
    "Heaviside": _heaviside,
    "gamma": _gamma,
    "factorial": _gamma,
    "beta": _beta,
    "polygamma": _polygamma,
    "cot": _inverse(functions.tan),
    "sec": _inverse(functions.cos),
    "csc": _inverse(functions.sin),
    "coth": _inverse(functions.tanh),
    "sech": _inverse(functions.cosh),
    "csch": _inverse(functions.sinh),
    "frac": lambda builder, expr: builder.node(expr.args[0]) - functions.floor(builder.node(expr.args[0])),
    "hypot": lambda builder, expr: functions.sqrt(sum(builder.node(arg) * builder.node(arg) for arg in expr.args)),
    "fma": lambda builder, expr: builder.node(expr.args[0]) * builder.node(expr.args[1]) + builder.node(expr.args[2]),
    "Equality": _comparison(functions.equal),
    "Unequality": _comparison(functions.not_equal),
    "StrictLessThan": _comparison(functions.less),
    "LessThan": _comparison(functions.less_equal),
    "StrictGreaterThan": _comparison(functions.greater),
    "GreaterThan": _comparison(functions.greater_equal),
    "And": _folded(questions.logical_and),
    "Or": _folded(questions.logical_or),
    "Xor": _folded(questions.logical_xor),
    "Not": _call(questions.logical_not),
    "Min": _folded(functions.minimum),
    "Max": _folded(functions.maximum),
    "Mod": _call(functions.mod),
    "Abs": _call(functions.abs),
    "ceiling": _call(functions.ceil),
    "Cbrt": _call(functions.cbrt),
    "Sqrt": _call(functions.sqrt),
    "asin": _call(functions.arcsin),
    "acos": _call(functions.arccos),
    "atan": _call(functions.arctan),
    "atan2": _call(functions.arctan2),
    "loggamma": _call(functions.gammaln),
}
"""Rules by the names of sympy's classes. An expression takes the rule of the first of its base classes that has one.
"""
