"""The NumPy expression of each op. Most ops need no entry in the table below, because their reference is a function of
NumPy, or a function of this package, which is copied into the exported module."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from scanjit import errors, types
from scanjit.ir import CONSTANT, Node
from scanjit.kinds import kind_of
from scanjit.ops import Elementwise
from scanjit.ops.elementwise import FLOORDIV, MOD, ROUND
from scanjit.ops.extremes import SUPREMUM
from scanjit.ops.index import GATHER
from scanjit.ops.prod import PROD
from scanjit.ops.shape import SLICE
from scanjit.ops.stretch import SUM, constant_value
from scanjit.show.operators import ATOM, INFIX, UNARY, Text, infix, matrix_product, subscripts
from scanjit.types import Dimension


class Enclosing(Protocol):
    """The methods of `NumPyDraft` that an expression calls."""

    def value(self, node: Node) -> Text:
        """The text of an operand."""

    def is_inlined(self, node: Node) -> bool:
        """Whether the expression of an operand stands where it is used, and has no name."""

    def dim(self, dim: Dimension) -> str:
        """A dimension as text."""

    def shape(self, dims: Iterable[Dimension]) -> str:
        """Dimensions as the text of a tuple."""

    def helper(self, name: str) -> str:
        """The name of a function of `helpers.py`, which is copied into the module."""

    def copied(self, module: str, name: str, new: str = "") -> str:
        """The name in the exported module of a function of another module, which is copied."""


Writer = Callable[[Enclosing, Node], Text]


def expression(draft: Enclosing, node: Node) -> Text:
    """The expression of a node.

    Raises
    ------
    NotSupportedError
        If neither NumPy nor this package has a function for the op.
    """
    writer = _WRITERS.get(node.op.name)
    if writer is not None:
        return writer(draft, node)
    if node.op in INFIX and node.op not in (FLOORDIV, MOD):  # of integers by 0, NumPy's operators would warn
        return infix(node.op, *operands(draft, node))
    if isinstance(node.op.reference, np.ufunc):
        return call(f"np.{node.op.reference.__name__}", *(x.text for x in operands(draft, node)))
    reference: Any = node.op.reference
    module, source = getattr(reference, "__module__", ""), getattr(reference, "__qualname__", "<lambda>")
    if not str(module).startswith("scanjit.") or not source.isidentifier():
        raise errors.NotSupportedError(
            f"the op {node.op.name} cannot be exported to NumPy", got=repr(node), where=node.where, fix="leave it out"
        )
    function = draft.copied(module, source, source.strip("_").removesuffix("_reference"))
    params = [f"{key}={literal(value)}" for key, value in node.params.items()]
    return call(function, *(draft.value(x).text for x in node.operands), *params)


def call(function: str, *arguments: str) -> Text:
    """A function of arguments."""
    return Text(f"{function}({', '.join(arguments)})", ATOM)


def literal(value: Any) -> str:
    """A parameter of an op as a literal of Python."""
    return f"np.dtype({value.name!r})" if isinstance(value, np.dtype) else repr(value)


def scalar(value: np.ndarray | np.generic, weak: bool) -> Text:
    """The text of a number. With `weak` it is a Python number, which takes on the dtype of the other operands."""
    array = np.asarray(value)
    number = array.item()
    if kind_of(array.dtype).floating:
        text = (
            "np.nan" if np.isnan(number) else ("-" * (number < 0) + "np.inf") if np.isinf(number) else _shortest(array)
        )
    else:
        text = repr(number)
    if weak:
        return Text(text, UNARY if text.startswith("-") else ATOM)
    return call(dtype_text(array.dtype), text)


def _shortest(array: np.ndarray) -> str:
    """The shortest text that Python reads as the same float."""
    large = abs(float(array)) >= 1e16 or 0 < abs(float(array)) < 1e-4
    text = np.format_float_scientific(float(array)) if large else str(array[()])
    return text if array.dtype.type(float(text)) == array and "e+" not in text else repr(float(array))


ML_DTYPES = "ml_dtypes.bfloat16"
"""The text of the dtype bfloat16, which NumPy lacks."""


def dtype_text(dtype: np.dtype) -> str:
    """The text of a dtype, such as `np.float32`."""
    if dtype.name == "bfloat16":
        return ML_DTYPES
    return "np.bool" if kind_of(dtype).is_mask else f"np.{dtype.name}"


def operands(draft: Enclosing, node: Node) -> list[Text]:
    """The texts of the operands of an elementwise op. A constant number beside operands of its dtype is written as a
    Python number."""
    nodes = node.operands
    known = [_number(x, node) for x in nodes]
    mixed = isinstance(node.op, Elementwise) and node.op.mixed
    strong = any(k is None for k in known[mixed:])
    found = []
    for i, (x, k) in enumerate(zip(nodes, known, strict=True)):
        weak = strong and k is not None and not (mixed and i == 0) and x.dtype.name != "bfloat16"
        found.append(scalar(k, True) if weak and k is not None else draft.value(x))
    return found


def _number(x: Node, node: Node) -> np.ndarray | None:
    """The value of an operand that is a constant number; None if the result takes its shape from this operand."""
    value = constant_value(x)
    if value is None or value.ndim:
        return None
    others = [other for other in node.operands if other is not x]
    fits = x.op is CONSTANT or any(other.type.shape == node.type.shape for other in others if other.op is not CONSTANT)
    return value if fits else None


# ---- elementwise -----------------------------------------------------------------------------------------------------


def _cast(draft: Enclosing, node: Node) -> Text:
    (x,), dtype = node.operands, node.params["dtype"]
    if x.type.kind.floating and kind_of(dtype).integral:
        function = draft.copied("scanjit.ops.promotion", "_cast_reference", "to_integers")
        return call(function, draft.value(x).text, f"dtype={literal(dtype)}")
    return Text(f"{draft.value(x).within(ATOM)}.astype({dtype_text(dtype)})", ATOM)


def _pow(draft: Enclosing, node: Node) -> Text:
    if node.type.kind.floating:
        return infix(node.op, *operands(draft, node))
    function = draft.copied("scanjit.ops.functions", "_pow_reference", "integer_power")
    return call(function, *(draft.value(x).text for x in node.operands))


def _clip(draft: Enclosing, node: Node) -> Text:
    x, low, high = (x.text for x in operands(draft, node))
    return Text(f"np.minimum(np.maximum({x}, {low}), {high})", ATOM)


def _log_sigmoid(draft: Enclosing, node: Node) -> Text:
    function = draft.copied("scanjit.ops.special", "softplus")
    return Text(f"-{function}(-{draft.value(node.args[0]).within(UNARY + 1)})", UNARY)


def _rounded(draft: Enclosing, node: Node) -> Text:
    x = draft.value(node.args[0])
    name = "rint" if node.op is ROUND else node.op.name
    return x if node.type.kind.integral else call(f"np.{name}", x.text)


# ---- reductions and products -----------------------------------------------------------------------------------------


def _reduced(draft: Enclosing, node: Node) -> Text:
    x, axes = draft.value(node.args[0]), node.params["axes"]
    if len(axes) == node.args[0].ndim and axes:
        arguments = []
    else:
        arguments = [f"axis={axes[0] if len(axes) == 1 else axes}"]
    if node.op in (SUM, PROD) and node.dtype not in (np.float64, np.int64):
        arguments += [f"dtype={dtype_text(node.dtype)}"]
    name = node.op.name
    if node.op is SUPREMUM:
        name, lowest = "max", np.asarray(SUPREMUM.initial(node.dtype), node.dtype)
        arguments += [f"initial={scalar(lowest, True).text}"]
    return Text(f"{x.within(ATOM)}.{name}({', '.join(arguments)})", ATOM)


def _position(draft: Enclosing, node: Node) -> Text:
    return call(f"np.{node.op.name}", draft.value(node.args[0]).text, f"axis={node.params['axis']}")


def _contract(draft: Enclosing, node: Node) -> Text:
    a, b = (draft.value(x) for x in node.operands)
    labels = [node.params[name] for name in ("left", "right", "out")]
    letters = subscripts("a", *labels)
    if node.type.kind.is_mask:
        return Text(f"(np.einsum({letters!r}, {a.text}, {b.text}, dtype=int) > 0)", ATOM)
    return matrix_product(a, b, *labels) or call("np.einsum", repr(letters), a.text, b.text)


def _determinant(draft: Enclosing, node: Node) -> Text:
    x = draft.value(node.args[0]).text
    part = {"det": "np.linalg.det({})", "logabsdet": "np.linalg.slogdet({})[1]", "det_sign": "np.linalg.slogdet({})[0]"}
    return call("np.asarray", part[node.op.name].format(x), dtype_text(node.dtype))


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _dimshuffle(draft: Enclosing, node: Node) -> Text:
    (x,), order = node.operands, node.params["order"]
    kept = [axis for axis in order if axis is not None]
    dropped = [axis for axis in range(x.ndim) if axis not in kept]
    if dropped and None not in order and kept == sorted(kept) and x.op is SLICE and draft.is_inlined(x):
        entry = _plain_slice(draft, x, dropped)
        if entry is not None:
            return entry
    text = draft.value(x)
    if dropped:
        text = call("np.squeeze", text.text, f"axis={tuple(dropped)}")
    order = tuple(None if axis is None else sorted(kept).index(axis) for axis in order)
    moved = [axis for axis in order if axis is not None]
    if moved != sorted(moved):
        turned = Text(f"{text.within(ATOM)}.transpose({tuple(moved)})", ATOM)
        text = text.transposed() if moved == [1, 0] else turned
    return text.indexed([":" if axis is not None else "None" for axis in order]) if None in order else text


def _broadcast(draft: Enclosing, node: Node) -> Text:
    (x,) = node.operands
    shape, value = draft.shape(node.type.shape), constant_value(x)
    if value is not None and not value.ndim:
        if value == 0 and not np.signbit(value):
            return call("np.zeros", shape, dtype_text(node.dtype))
        return call("np.full", shape, scalar(value, True).text, dtype_text(node.dtype))
    return call("np.broadcast_to", draft.value(x).text, shape)


def _slice(draft: Enclosing, node: Node) -> Text:
    plain = _plain_slice(draft, node, ())
    if plain is not None:
        return plain
    p, window = node.params, draft.helper("window")
    return call(window, draft.value(node.args[0]).text, *(draft.shape(p[key]) for key in ("start", "length", "step")))


def _plain_slice(draft: Enclosing, node: Node, dropped: Sequence[int]) -> Text | None:
    """The text of a slice, if for all sizes no entry lies outside; otherwise None. Axes in `dropped` are indexed by
    numbers."""
    (x,), p = node.operands, node.params
    with types.collecting() as found:
        node.op.infer(x.type, **p)
    if any(not _holds(item) for item in found):
        return None
    parts = []
    for axis, size in enumerate(x.type.shape):
        start, length, step = (p[key][axis] for key in ("start", "length", "step"))
        if axis in dropped:
            parts.append("-1" if start == size - 1 and size != 1 else draft.dim(start))
        elif start == 0 and step == 1 and length == size:
            parts.append(":")
        elif step == -1 and length == size and start == size - 1:
            parts.append("::-1")
        elif isinstance(step, int) and step > 0:
            first = "" if start == 0 else draft.dim(start)
            end = start + length * step
            parts.append(f"{first}:{'' if step == 1 and end == size else draft.dim(end)}" + f":{step}" * (step != 1))
        else:
            return None
    source = draft.value(x)
    return source if all(part == ":" for part in parts) else source.indexed(parts)


def _holds(item: types.Condition) -> bool:
    """Whether a condition is known to hold for all sizes."""
    difference = item.right - item.left
    return operator.eq(difference, 0) if item.kind == "==" else types.not_negative(difference)


def _set_slice(draft: Enclosing, node: Node) -> Text:
    x, value = (draft.value(one).text for one in node.operands)
    return call(draft.helper("set_window"), x, value, *(draft.shape(node.params[k]) for k in ("start", "step")))


def _reshape(draft: Enclosing, node: Node) -> Text:
    return Text(f"{draft.value(node.args[0]).within(ATOM)}.reshape({draft.shape(node.params['shape'])})", ATOM)


def _concatenate(draft: Enclosing, node: Node) -> Text:
    parts = ", ".join(draft.value(x).text for x in node.operands)
    return call("np.concatenate", f"[{parts}]", f"axis={node.params['axis']}")


def _windows(draft: Enclosing, node: Node) -> Text:
    function = draft.copied("scanjit.ops.windows", "_reference", "windows")
    p = node.params
    given = [f"axes={p['axes']}", f"size={draft.shape(p['size'])}", f"step={p['step']}", f"dilation={p['dilation']}"]
    return call(function, draft.value(node.args[0]).text, *given)


# ---- indexing, probes ------------------------------------------------------------------------------------------------


def _indexed(draft: Enclosing, node: Node) -> Text:
    first = 1 if node.op is GATHER else 2
    given = [draft.value(x).text for x in node.operands]
    index = ", ".join(given[first:]) + ","
    params = [f"{key}={value}" for key, value in node.params.items()]
    return call(draft.helper(node.op.name), *given[:first], f"({index})", *params)


def _print(draft: Enclosing, node: Node) -> Text:
    return call(draft.helper("printed"), draft.value(node.args[0]).text, repr(node.params["message"]))


def _assert(draft: Enclosing, node: Node) -> Text:
    given = [draft.value(x).text for x in node.operands]
    return call(draft.helper("make_sure"), *given, repr(node.params["message"]))


# ---- the table -------------------------------------------------------------------------------------------------------


def _of_operand(write: Callable[[Enclosing, Text], Text]) -> Writer:
    """A rule for an op of one operand: `write` makes the text of the op from that of the operand."""
    return lambda draft, node: write(draft, draft.value(node.args[0]))


def _special(name: str) -> Writer:
    """A rule for an op whose function in `ops/special.py` is copied into the module."""
    return _of_operand(lambda draft, x: call(draft.copied("scanjit.ops.special", name), x.text))


_same = _of_operand(lambda draft, x: x)
_WRITERS: dict[str, Writer] = {
    **dict.fromkeys(("all", "any", "max", "min", "prod", "sum", "supremum"), _reduced),
    **dict.fromkeys(("ceil", "floor", "round", "trunc"), _rounded),
    **dict.fromkeys(("det", "det_sign", "logabsdet"), _determinant),
    **dict.fromkeys(
        ("clip_gradient", "copy", "expect", "remark", "round_gradient", "specify_shape", "stop_gradient", "via"), _same
    ),
    **dict.fromkeys(("argmax", "argmin"), _position),
    **dict.fromkeys(("gather", "scatter"), _indexed),
    **{name: _special(name) for name in ("digamma", "erf", "erfc", "erfinv", "gammaln", "i0e", "i1e")},
    "assert_": _assert,
    "broadcast_to": _broadcast,
    "cast": _cast,
    "keep": _cast,
    "clip": _clip,
    "concatenate": _concatenate,
    "contract": _contract,
    "dimshuffle": _dimshuffle,
    "invert": _of_operand(lambda draft, x: x.prefixed("~")),
    "iota": lambda draft, node: call("np.arange", draft.dim(node.params["length"])),
    "log_sigmoid": _log_sigmoid,
    "neg": _of_operand(lambda draft, x: x.prefixed("-")),
    "pow": _pow,
    "print_": _print,
    "relu": _of_operand(lambda draft, x: call("np.maximum", x.text, "0")),
    "reshape": _reshape,
    "set_slice": _set_slice,
    "size": lambda draft, node: call("np.int64", draft.dim(node.params["dim"])),
    "slice": _slice,
    "where": lambda draft, node: call("np.where", *(x.text for x in operands(draft, node))),
    "windows": _windows,
}
"""The rules of the ops for which a call of their reference is not enough."""
