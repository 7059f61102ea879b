"""Checks the nodes of a graph that was read from a file.

Generated code relies on types. So a graph that comes from outside, which may be anything, is compiled only if every
node of it was made by its op (which infers the type) and passed `check`.
"""

import inspect
import string
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import BOUND, CONSTANT, INPUT, PART, SHARED, SIZE, Data, Graph, Node, Op
from scanjit.ops import Elementwise, Reduction
from scanjit.ops.contraction import CONTRACT
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.roles import Roles
from scanjit.ops.scan import MOST_UNROLLED, SCAN, STORED, scan_node
from scanjit.types import Dim, Type

_MOST_AXES = 64  # NumPy's limit


def check(node: Node) -> None:
    """Raise a `FormatError` if no public function could have built this node. Its op has inferred its type."""
    _check_names(node)
    for name, value in node.params.items():
        allowed = _ALLOWED.get(name)
        if allowed is not None and not allowed(value):
            raise errors.FormatError(f"the parameter {name} of {node.op.name} is not what it may be", got=repr(value))
    if isinstance(node.op, Elementwise):
        _check_elementwise(node, node.op)
    elif isinstance(node.op, Reduction | ArgReduction) or node.op is CONTRACT:
        if node.args[0].dtype.name not in node.op.dtypes:
            raise errors.FormatError(f"{node.op.name} is not defined for {node.args[0].dtype}")
    elif node.op is SCAN:
        _check_scan(node)
    if "sizes" in node.params:
        _check_sizes(node)
    for type_ in node.types:
        _check_type(type_, node)


def _check_names(node: Node) -> None:
    """Raise an error if a parameter is missing, or is none of the op's. A parameter with a default may be missing: the
    file may be older than the parameter."""
    names = _names(node.op)
    if names is None:
        return
    needed, optional = names
    if not needed <= node.params.keys() <= needed | optional:
        raise errors.FormatError(
            f"{node.op.name} has other parameters than it should",
            got=sorted(node.params),
            expected=sorted(needed | optional),
        )


_LEAVES: dict[Op, set[str]] = {
    INPUT: {"type", "name", "serial"},
    SHARED: {"variable", "name"},
    BOUND: {"index", "type"},
    CONSTANT: {"data"},
    SIZE: {"dim"},
    PART: {"index"},
    SCAN: {"body", "length", "carries", "sequences"}
    | {name for name, kind in inspect.signature(scan_node).parameters.items() if kind.kind is kind.KEYWORD_ONLY}
    | {"sizes"},
}


def _names(op: Op) -> tuple[set[str], set[str]] | None:
    """The names of an op's parameters without and with a default; None if they cannot be known."""
    if op in _LEAVES:
        return _LEAVES[op], set()
    for function in (op.infer, op.reference):
        if isinstance(function, FunctionType):
            kinds = inspect.signature(function).parameters.values()
            if not any(kind.kind is kind.VAR_KEYWORD for kind in kinds):
                named = [kind for kind in kinds if kind.kind is kind.KEYWORD_ONLY]
                optional = {kind.name for kind in named if kind.default is not kind.empty}
                return {kind.name for kind in named} - optional, optional
    return (set(), set()) if isinstance(op, Elementwise) else None


def _check_elementwise(node: Node, op: Elementwise) -> None:
    if node.arity != len(op.domain):
        raise errors.FormatError(f"{op.name} has {len(op.domain)} operands", got=node.arity)
    last = node.args[node.arity - 1]
    if last.type.kind.family not in op.takes.replace("i", "iu"):
        raise errors.FormatError(f"{op.name} is not defined for {last.dtype}")


def _check_scan(node: Node) -> None:
    roles, params = Roles.of(node), node.params
    if roles.carries + roles.sequences > node.arity or roles.ys < 0:
        raise errors.FormatError("a scan has fewer operands or results than its carries and sequences")
    if roles.until and params["body"].outputs[-1].type != Type(np.dtype(bool)):
        raise errors.FormatError("the condition to end a scan is a bool", got=params["body"].outputs[-1].type)
    if any(i >= roles.carries for i in roles.lags) or len(roles.lags) < len(params["lags"]):
        raise errors.FormatError("a lag is that of a carry, which has no other", got=params["lags"])
    if any(i < roles.carries + roles.sequences for i, _ in params["sizes"]):
        raise errors.FormatError("a size inside a scan is that of a constant, not of what changes")


def _check_sizes(node: Node) -> None:
    """Check the sizes that an inner graph takes from outside. Each is named by the number of an input."""
    operands = node.operands[node.arity - len(node.params["body"].inputs) :]
    for i, dim in node.params["sizes"]:
        if i >= len(operands) or ir.as_dim(operands[i]) != dim:
            raise errors.FormatError(f"the sizes inside a {node.op.name} are not those of its operands")


def _check_type(type_: Any, node: Node) -> None:
    if not isinstance(type_, Type) or not types.is_in_memory(type_.dtype) or type_.ndim > _MOST_AXES:
        raise errors.FormatError(f"{node.op.name} gives what no node is", got=type_)
    if not all(isinstance(dim, Dim) or (type(dim) is int and 0 <= dim <= types.LARGEST) for dim in type_.shape):
        raise errors.FormatError(f"{node.op.name} gives a shape that there is not", got=type_)


# ---- parameters, by their names --------------------------------------------------------------------------------------


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _tuple_of(allowed: Callable[[Any], bool], distinct: bool = False) -> Callable[[Any], bool]:
    def check_all(value: Any) -> bool:
        fits = type(value) is tuple and all(map(allowed, value))
        return fits and (not distinct or len(set(value)) == len(value))

    return check_all


def _size(value: Any) -> bool:
    return type(value) is int or isinstance(value, Dim)


def _bool(value: Any) -> bool:
    return type(value) is bool


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.generic)


def _bound(value: Any) -> bool:
    """Check two sizes, and a text with places for them: `{left}` and `{right}`. Any other field is refused, as `format`
    would look up attributes for it. (Braces in names are escaped in such texts.)"""
    return (
        type(value) is tuple
        and len(value) == 3
        and all(map(_size, value[:2]))
        and isinstance(value[2], str)
        and all(
            field in (None, "left", "right") and not spec and not conversion
            for _, field, spec, conversion in string.Formatter().parse(value[2])
        )
    )


_WHOLE_NUMBERS = _tuple_of(_whole)
_LABELS = _tuple_of(_whole, distinct=True)
_SIZES = _tuple_of(_size)
_PLACED = _tuple_of(lambda pair: type(pair) is tuple and len(pair) == 2 and _whole(pair[0]) and _size(pair[1]))
_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "add": _bool,
    "axes": _WHOLE_NUMBERS,
    "axis": _whole,
    "body": lambda value: isinstance(value, Graph),
    "bounds": _tuple_of(_bound),
    "carries": _whole,
    "checkpoint": lambda value: value in (None, "sqrt", "all") or (type(value) is int and value > 0),
    "data": lambda value: isinstance(value, Data),
    "dilation": _WHOLE_NUMBERS,
    "dim": _size,
    "dtype": lambda value: isinstance(value, np.dtype) and types.is_in_memory(value),
    "error": lambda value: isinstance(value, str),
    "gradient": _bool,
    "high": _number,
    "index": _whole,
    "lags": _PLACED,
    "left": _LABELS,
    "length": lambda value: _size(value) or _SIZES(value),
    "low": _number,
    "lower": _bool,
    "message": lambda value: isinstance(value, str),
    "name": lambda value: value is None or isinstance(value, str),
    "order": _tuple_of(lambda axis: axis is None or _whole(axis)),
    "out": _LABELS,
    "reverse": _bool,
    "results": _whole,
    "right": _LABELS,
    "rule": lambda value: value is None,
    "sequences": _whole,
    "shape": _SIZES,
    "size": _SIZES,
    "sizes": _PLACED,
    "start": _SIZES,
    "step": _SIZES,
    "stored": lambda value: value is None or value in STORED,
    "trans": _bool,
    "truncate": lambda value: type(value) is int and value >= -1,
    "type": lambda value: isinstance(value, Type),
    "unit": _bool,
    "unroll": lambda value: _bool(value) or (type(value) is int and 0 < value <= MOST_UNROLLED),
    "until": _bool,
    "what": lambda value: isinstance(value, str),
    "where": _LABELS,
}
"""Maps the name of a parameter to the rule for its values. The rule is the same for all ops."""
