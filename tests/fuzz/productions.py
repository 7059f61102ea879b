"""What a random program is made of: functions from a builder to a new node (or None where nothing fits)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import scanjit as st
from scanjit.ir import Node, dim_node
from scanjit.types import Dim
from tests.fuzz.builder import Builder, Nothing, joins
from tests.fuzz.functions import batched, guest
from tests.fuzz.loops import PRODUCTIONS as LOOPS
from tests.fuzz.moving import moving
from tests.fuzz.order import ordered, searched
from tests.fuzz.spectra import complex_numbers, transform
from tests.fuzz.systems import decomposed, of_complex, system

UNARY: dict[str, Callable[[Node], Node]] = {
    "abs": st.abs,
    "neg": st.negative,
    "sqrt": lambda x: st.sqrt(st.abs(x) + 0.1),
    "square": st.square,
    "cbrt": lambda x: st.cbrt(x + 5),
    "exp": lambda x: st.exp(st.clip(x, -5, 3)),
    "exp2": lambda x: st.exp2(st.clip(x, -5, 3)),
    "expm1": lambda x: st.expm1(st.tanh(x)),
    "log": lambda x: st.log(st.abs(x) + 0.5),
    "log2": lambda x: st.log2(x * x + 0.5),
    "log10": lambda x: st.log10(st.abs(x) + 0.5),
    "log1p": lambda x: st.log1p(x * x),
    "sin": st.sin,
    "cos": st.cos,
    "tan": lambda x: st.tan(st.tanh(x)),
    "arcsin": lambda x: st.arcsin(0.9 * st.tanh(x)),
    "arccos": lambda x: st.arccos(0.9 * st.sin(x)),
    "arctan": st.arctan,
    "sinh": lambda x: st.sinh(st.clip(x, -3, 3)),
    "cosh": lambda x: st.cosh(st.clip(x, -3, 3)),
    "tanh": st.tanh,
    "sigmoid": st.sigmoid,
    "softplus": st.softplus,
    "log_sigmoid": st.log_sigmoid,
    "relu": st.relu,
    "elu": st.elu,
    "selu": st.selu,
    "gelu": st.gelu,
    "silu": st.silu,
    "softsign": st.softsign,
    "hard_sigmoid": st.hard_sigmoid,
    "erf": st.erf,
    "erfc": st.erfc,
    "gammaln": lambda x: st.gammaln(x * x + 0.5),
    "digamma": lambda x: st.digamma(x * x + 0.5),
    "reciprocal": lambda x: st.reciprocal(x * x + 0.5),
    "stop_gradient": st.stop_gradient,
    "clip_gradient": lambda x: st.clip_gradient(x, -0.5, 0.5),
}
RARE_UNARY = {  # may give NaN or infinities
    "log": st.log,
    "sqrt": st.sqrt,
    "exp": st.exp,
    "reciprocal": st.reciprocal,
}
JUMPING = {name: getattr(st, name) for name in ("floor", "ceil", "trunc", "round", "sign")}
BINARY: dict[str, Callable[[Node, Node], Node]] = {
    "add": st.add,
    "sub": st.subtract,
    "mul": st.multiply,
    "div": lambda a, b: a / (b * b + 0.5),
    "pow": lambda a, b: (st.abs(a) + 0.5) ** st.clip(b, -2, 2),
    "maximum": st.maximum,
    "minimum": st.minimum,
    "arctan2": lambda a, b: st.arctan2(a, b * b + 0.3),
    "logaddexp": st.logaddexp,
}
COMPARISONS = (st.less, st.less_equal, st.greater, st.greater_equal, st.equal, st.not_equal)


def _keeps_exact(b: Builder, made: Node, *of: Node) -> Node:
    if all(x in b.exact for x in of):
        b.exact.add(made)
    return made


def unary(b: Builder) -> Node:
    """A function of a float."""
    x = b.some("f")
    if b.chance(0.03):
        return RARE_UNARY[b.rnd.choice(list(RARE_UNARY))](x)
    return UNARY[b.rnd.choice(list(UNARY))](x)


def jumping(b: Builder) -> Node:
    """A rounding."""
    x = b.steady("fi" if b.chance(0.2) else "f")
    return _keeps_exact(b, JUMPING[b.rnd.choice(list(JUMPING))](x), x)


def binary(b: Builder) -> Node:
    """An operation on two floats."""
    x = b.some("f")
    y = b.mate(x, "f" if b.chance(0.9) else "fi")
    if b.chance(0.1):
        y = x
    name = b.rnd.choice(("add", "sub", "mul", *BINARY))
    return b.tame(BINARY[name](x, y)) if name == "mul" else BINARY[name](x, y)


def with_number(b: Builder) -> Node:
    """An operation with a Python number, which is weak."""
    x = b.some("fi")
    k: Any = b.rnd.choice((0, 1, 2, -1, 3)) if x.dtype.kind != "f" else b.rnd.choice((0.0, 1.0, 0.5, -2.0, 3))
    k = abs(k) if x.dtype.kind == "u" else k
    way = b.rnd.randrange(7)
    made = [
        lambda: x + k,
        lambda: k - x,
        lambda: x * k,
        lambda: st.maximum(x, k),
        lambda: x**2,
        lambda: -x,
        lambda: st.where(st.as_tensor(b.chance(0.5)), x, k),
    ][way]()
    return _keeps_exact(b, made, x) if way != 4 else made


def integers(b: Builder) -> Node:
    """An operation on integers (which wrap)."""
    x = b.steady("iu")
    y = b.mate(x, "iub")
    if "f" in (x.dtype.kind, y.dtype.kind):
        return x + y
    ops: list[Callable[[Node, Node], Node]] = [
        st.add, st.multiply, st.maximum, st.minimum, st.bitwise_and, st.bitwise_or, st.bitwise_xor,
        lambda p, q: p // q, lambda p, q: p % q, lambda p, q: p // 2, lambda p, q: p % 3, lambda p, q: st.abs(p),
        lambda p, q: st.cast(p, b.rnd.choice(("int8", "int16", "int32", "int64", "uint8"))),
    ]  # fmt: skip
    if "b" not in (x.dtype.kind, y.dtype.kind):
        ops += [st.subtract, lambda p, q: st.sign(p), lambda p, q: -p, lambda p, q: st.clip(p, 0, 2)]
    made = b.rnd.choice(ops)(x, y)
    b.exact.add(made)
    return made


def compared(b: Builder) -> Node:
    """A comparison."""
    x = b.steady("fi")
    y = b.pick(lambda n: n in b.exact and joins(x, n), "fi")
    kinds = COMPARISONS if x in b.exact else COMPARISONS[:4]  # whether rounded numbers are equal is nobody's promise
    if y is None or b.chance(0.3):
        made = b.rnd.choice(kinds)(x, b.rnd.choice((0, 1, 2)))
        return _keeps_exact(b, made, x)
    return _keeps_exact(b, b.rnd.choice(kinds)(x, y), x, y)


def logic(b: Builder) -> Node:
    """Logic of bools."""
    x = b.some("b")
    y = b.mate(x, "b")
    made = b.rnd.choice((st.logical_and, st.logical_or, st.logical_xor, lambda p, q: ~p, lambda p, q: p + q))(x, y)
    return _keeps_exact(b, made, x, y)


def nans(b: Builder) -> Node:
    """What a value is."""
    x = b.some("f")
    return b.rnd.choice((st.isnan, st.isinf, st.isfinite))(x)


def chosen(b: Builder) -> Node:
    """`where`."""
    condition = b.some("b")
    x = b.mate(condition, "f" if b.chance(0.8) else "")
    if b.chance(0.3):
        return st.where(condition, x, 0)
    y = b.pick(lambda n: joins(x, n) and joins(condition, n), x.dtype.kind)
    return st.where(condition, x, x if y is None else y)


def branched(b: Builder) -> Node:
    """`ifelse`; what its branches are made of is used elsewhere too, or not."""
    condition, x = b.steady("b"), b.some("f")
    one = b.rnd.choice((st.all, st.any))(condition)
    y = b.fitted(b.some("f"), x.type.shape, x.dtype)
    f, g = (UNARY[b.rnd.choice(list(UNARY))] for _ in range(2))
    if b.chance(0.3):
        return st.ifelse(one, lambda: (f(x), y), lambda: (x, g(y)))[b.rnd.randrange(2)]
    if b.chance(0.2):
        return st.ifelse(one, lambda: _repeated(b, x), lambda: _repeated(b, y))
    return st.ifelse(one, f(x), g(y) if b.chance(0.7) else 0)


def repeated(b: Builder) -> Node:
    """`while_loop`: how often a value decides, in a step too."""
    return _repeated(b, b.some("f"))


def _repeated(b: Builder, x: Node) -> Node:
    most = b.rnd.choice((3, 4))
    count = st.any(b.steady("b")) + (st.sum(b.steady("iu"), dtype="int64") % most if b.chance(0.6) else 1)
    w, mix = b.fitted(b.some("f"), x.type.shape, x.dtype), b.rnd.choice((st.tanh, st.sin, lambda v: v * 0.5))
    last, ran = st.while_loop(lambda s: s[1] < count, lambda s: (mix(s[0] + w), s[1] + 1), (x, 0), max_steps=most)
    b.exact.add(ran)
    return last if b.chance(0.7) else last * st.cast(ran, x.dtype)


def cast(b: Builder) -> Node:
    """A cast."""
    from tests.fuzz.builder import DTYPES

    dtype = b.rnd.choice(DTYPES)
    x = b.some() if np.dtype(dtype).kind == "f" else b.steady()
    return _keeps_exact(b, st.cast(x, dtype), x)


def _axes(b: Builder, x: Node) -> Any:
    way = b.rnd.random()
    if way < 0.3 or x.ndim == 0:
        return None
    if way < 0.8:
        return b.rnd.randrange(-x.ndim, x.ndim)
    return tuple(sorted(b.rnd.sample(range(x.ndim), b.rnd.randint(1, x.ndim))))


def reduced(b: Builder) -> Node:
    """A reduction."""
    x = b.some("f" if b.chance(0.8) else "iub")
    axes, keep = _axes(b, x), b.chance(0.3)
    way = b.rnd.randrange(10)
    if way <= 2:
        return st.sum(x, axes, keepdims=keep)
    if way == 3:
        return st.mean(x, axes, keepdims=keep) if b.chance(0.9) else st.var(x, axes, keepdims=keep)
    if way == 4:
        return st.prod(b.tame(x) if x.dtype.kind == "f" else x, axes, keepdims=keep)
    if way in (5, 6) and _never_empty(b, x):
        made = b.rnd.choice((st.max, st.min))(x, axes, keepdims=keep)
        return _keeps_exact(b, made, x)
    if way == 7 and x.dtype.kind == "f" and _never_empty(b, x):
        return st.logsumexp(x, axes, keepdims=keep)
    if way == 8:
        x = b.steady()
        return _keeps_exact(b, b.rnd.choice((st.any, st.all))(x, _axes(b, x), keepdims=keep), x)
    return st.norm(x, axis=axes, keepdims=keep) if x.dtype.kind == "f" and b.chance(0.3) else st.sum(x, axes)


def _never_empty(b: Builder, x: Node) -> bool:
    """Whether a reduction that needs elements may be tried: mostly only where there are some."""
    return all(b.number(d) > 0 for d in x.type.shape) and (b.chance(0.4) or all(map(_positive, x.type.shape)))


def _positive(dim: Any) -> bool:
    return isinstance(dim, int) and dim > 0


def position(b: Builder) -> Node | None:
    """argmax, argmin."""
    x = b.steady()
    if not _never_empty(b, x) or x.ndim == 0:
        return None
    axis = None if b.chance(0.2) else b.rnd.randrange(x.ndim)
    return _keeps_exact(b, b.rnd.choice((st.argmax, st.argmin))(x, axis, b.chance(0.2)), x)


def running(b: Builder) -> Node | None:
    """cumsum and its like; softmax."""
    x = b.some("f" if b.chance(0.9) else "iu")
    if not x.ndim:
        return None
    axis = b.rnd.randrange(x.ndim)
    way = b.rnd.randrange(6)
    if way <= 1 or x.dtype.kind != "f":
        return st.cumsum(x, axis)
    if way <= 3:
        function = b.rnd.choice((st.cumprod, st.cummax, st.cummin, st.logcumsumexp))
        return function(b.tame(x), None if b.chance(0.1) else axis)
    if not _never_empty(b, x):
        return None
    return st.softmax(x, axis) if way == 4 else st.log_softmax(x, axis)


# ---- views -----------------------------------------------------------------------------------------------------------


def _slice(b: Builder) -> slice:
    way = b.rnd.randrange(8)
    if way == 0:
        return slice(None, None, -1)
    if way == 1:
        return slice(None, -1)
    if way == 2:
        return slice(1, None)
    if way == 3:
        return slice(None, None, b.rnd.choice((2, 3, -2)))
    if way == 4:
        return slice(b.rnd.randint(-3, 3), b.rnd.randint(-3, 5))
    if way == 5:
        return slice(b.rnd.randint(-3, 3), None, b.rnd.choice((1, 2, -1, -2)))
    if way == 6:
        return slice(None, b.rnd.randint(1, 3))
    return slice(None)


def key(b: Builder, x: Node) -> tuple[Any, ...]:
    """A random index of slices, integers, new axes and `...`."""
    items: list[Any] = []
    for dim in x.type.shape:
        if _positive(dim) and b.chance(0.25):
            items.append(b.rnd.randrange(-dim, dim))
        elif b.number(dim) > 0 and b.chance(0.05):
            items.append(b.rnd.choice((0, -1)))
        else:
            items.append(_slice(b) if b.chance(0.6) else slice(None))
    if items and b.chance(0.15):
        items = [Ellipsis, *items[b.rnd.randint(1, len(items)) :]]
    if b.chance(0.15) and x.ndim < 4:
        items.insert(b.rnd.randint(0, len(items)), None)
    return tuple(items)


def sliced(b: Builder) -> Node:
    """Basic indexing."""
    x = b.some("f" if b.chance(0.8) else "")
    return _keeps_exact(b, x[key(b, x)], x)


def reordered(b: Builder) -> Node:
    """transpose, flip, new axes, squeeze."""
    x = b.need(lambda n: n.ndim > 0)
    axis = b.rnd.randrange(x.ndim)
    way = b.rnd.randrange(6)
    order = list(range(x.ndim))
    b.rnd.shuffle(order)
    made = [
        lambda: x.T,
        lambda: st.transpose(x, order),
        lambda: st.flip(x, axis),
        lambda: st.expand_dims(x, axis) if x.ndim < 4 else x,
        lambda: st.squeeze(x),
        lambda: st.moveaxis(x, axis, 0),
    ][way]()
    return _keeps_exact(b, made, x)


def reshaped(b: Builder) -> Node:
    """reshape, ravel, splitting and joining axes."""
    x = b.need(lambda n: n.ndim > 0)
    way = b.rnd.randrange(4)
    shape = x.type.shape
    if way == 0:
        made = st.ravel(x)
    elif way == 1 and x.ndim > 1:
        axis = b.rnd.randrange(x.ndim - 1)
        made = st.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))
    elif way == 2 and x.ndim > 1 and not any(isinstance(d, int) and d == 0 for d in shape[:-1]):
        made = st.reshape(x, (-1, shape[-1])) if isinstance(shape[-1], Dim) or shape[-1] else x
    else:
        order = b.rnd.sample(range(x.ndim), x.ndim)
        made = st.reshape(x, tuple(shape[i] for i in order))
    return _keeps_exact(b, made, x)


def spread(b: Builder) -> Node | None:
    """broadcast_to, tile, repeat, pad, roll."""
    x = b.some("f" if b.chance(0.8) else "")
    way = b.rnd.randrange(6)
    if way <= 1 or x.ndim == 0:
        if x.ndim > 3:
            return None
        made = st.broadcast_to(x, (b.dim(), *x.type.shape))
    elif way == 2:
        made = st.tile(x, 2) if b.chance(0.5) else st.repeat(x, 2, b.rnd.randrange(x.ndim))
    elif way == 3:
        made = st.pad(x, b.rnd.choice((1, (0, 2), (1, 0))))
    else:
        made = st.roll(x, b.rnd.choice((1, -1, 2)), b.rnd.randrange(x.ndim))
    return _keeps_exact(b, made, x)


def joined(b: Builder) -> Node:
    """concatenate, stack, split."""
    x = b.need(lambda n: n.ndim > 0, "f" if b.chance(0.8) else "")
    axis = b.rnd.randrange(x.ndim)
    parts = [x]
    for _ in range(b.rnd.randint(1, 2)):
        other = b.pick(
            lambda n: (
                n.ndim == x.ndim
                and all(p == q for i, (p, q) in enumerate(zip(n.type.shape, x.type.shape, strict=True)) if i != axis)
            )
        )
        parts.append(x if other is None else other)
    if b.chance(0.3) and x.ndim < 4:
        parts = [b.fitted(p, x.type.shape) for p in parts]
        return _keeps_exact(b, st.stack(parts, b.rnd.randint(0, x.ndim)), *parts)
    return _keeps_exact(b, st.concatenate(parts, axis), *parts)


def written(b: Builder) -> Node:
    """`x[...].set(v)`, `x[...].inc(v)`."""
    x = b.some("f")
    view = x[key(b, x)]
    value: Any = 1.5 if b.chance(0.2) else b.fitted(b.some("f"), view.type.shape, x.dtype)
    return view.set(value) if b.chance(0.5) else view.inc(value)


# ---- indices ---------------------------------------------------------------------------------------------------------


def index_for(b: Builder, size: Any, shape: tuple[Any, ...] | None = None) -> Node:
    """Integers that are indices of an axis of this size."""
    if b.number(size) == 0:
        raise Nothing
    if shape is None and b.chance(0.3) and _positive(size):
        node = b.constant(b.rnd.choice(((), (2,), (3,), (2, 2))), "int64")
        return st.clip(node, -size, size - 1)
    given = b.steady("iu")
    if shape is not None:
        given = b.fitted(given, shape)
    elif given.ndim > 2:
        given = st.ravel(given)
    index = st.cast(given, "int64") % (size if isinstance(size, int) else dim_node(size))
    if b.chance(0.2):
        index = index - (size if isinstance(size, int) else dim_node(size))
    return _keeps_exact(b, index, given)


def gathered(b: Builder) -> Node | None:
    """Indexing by integer arrays; take; take_along_axis."""
    x = b.need(lambda n: 0 < n.ndim < 4, "f" if b.chance(0.85) else "")
    axis = b.rnd.randrange(x.ndim)
    index = index_for(b, x.type.shape[axis])
    way = b.rnd.randrange(4)
    if way == 0:
        along = index_for(b, x.type.shape[axis], x.type.shape)
        return st.take_along_axis(x, along, axis) if along.ndim == x.ndim else None
    if way == 1 and x.ndim > 1 and b.number(x.type.shape[(axis + 1) % x.ndim]):
        second = index_for(b, x.type.shape[(axis + 1) % x.ndim])
        if joins(index, second):
            items: list[Any] = [slice(None)] * x.ndim
            items[axis], items[(axis + 1) % x.ndim] = index, second
            return x[tuple(items)]
    return st.take(x, index, axis)


def scattered(b: Builder) -> Node | None:
    """`x[index].inc(v)`, also with repeated indices; `set` with distinct ones."""
    x = b.need(lambda n: 0 < n.ndim < 4, "f")
    axis = b.rnd.randrange(x.ndim)
    index = index_for(b, x.type.shape[axis])
    view = x[(*[slice(None)] * axis, index)]
    if view.base is None or view.ndim > 4 or b.count(view.type.shape) > 1500:
        return None
    value = b.fitted(b.some("f"), view.type.shape, x.dtype)
    return view.set(value) if b.chance(0.25) else view.inc(value)


def made(b: Builder) -> Node | None:
    """Tensors of nothing but sizes: arange, eye, tril, one_hot, sizes, constants."""
    way = b.rnd.randrange(7)
    if way == 0:
        d = b.dim()
        node = st.arange(d if isinstance(d, int) else dim_node(d))
    elif way == 1:
        x = b.need(lambda n: n.ndim >= 2, "f")
        return b.rnd.choice((st.tril, st.triu))(x)
    elif way == 2:
        x = b.steady("iu")
        if x.ndim > 3:
            return None
        node = st.one_hot(x, b.rnd.randint(1, 4), b.rnd.choice(("float64", "float32", "bool", "int32")))
    elif way == 3:
        x = b.need(lambda n: n.ndim > 0)
        node = st.as_tensor(x.shape[0] if b.chance(0.5) else x.size)
    elif way == 4:
        x = b.need(lambda n: n.ndim >= 2, "f")
        return b.rnd.choice((st.diagonal, st.trace))(x)
    elif way == 5:
        d = b.dim()
        node = st.eye(d if isinstance(d, int) else dim_node(d), dtype=b.rnd.choice(("float64", "float32")))
    else:
        shape = tuple(b.rnd.choice((1, 2, 3)) for _ in range(b.rnd.randint(0, 2)))
        return b.constant(shape, b.rnd.choice(("float64", "float32", "int64", "bool")))
    b.exact.add(node)
    return node


# ---- products --------------------------------------------------------------------------------------------------------


def product(b: Builder) -> Node | None:
    """dot, matmul (batched, transposed operands), tensordot, einsum, outer."""
    x = b.need(lambda n: n.ndim > 0, "f")
    way = b.rnd.randrange(6)
    if way <= 1:
        last = x.type.shape[-1]
        y = b.pick(lambda n: n.ndim >= 1 and n.type.shape[max(n.ndim - 2, 0)] == last and n.ndim + x.ndim <= 5, "f")
        if y is None:
            y = b.pick(lambda n: n.ndim == 2 and n.type.shape[1] == last, "f")
            y = None if y is None else y.T
        if y is None:
            y = b.fitted(b.some("f"), (last, b.dim()))
        return b.tame(st.dot(x, y))
    if way == 2:
        lead = x.type.shape[:-2] if x.ndim > 2 and b.chance(0.7) else ()
        y = b.fitted(b.some("f"), (*lead, x.type.shape[-1], b.dim()))
        if b.chance(0.4) and y.ndim == 2:
            y = b.fitted(b.some("f"), (y.type.shape[1], y.type.shape[0])).T
        return b.tame(st.matmul(x, y))
    if way == 3:
        y = b.need(lambda n: n.ndim > 0 and n.type.shape[0] in x.type.shape, "f")
        if x.ndim + y.ndim > 6:
            return None
        axis = next(i for i, d in enumerate(x.type.shape) if d == y.type.shape[0])
        return b.tame(st.tensordot(x, y, ([axis], [0])))
    if way == 4:
        a, c = b.some("f"), b.some("f")
        return b.tame(st.outer(a, c)) if b.count((*a.type.shape, *c.type.shape)) <= 1500 else None
    if x.ndim == 2:
        y = b.fitted(b.some("f"), x.type.shape)
        spec = b.rnd.choice(("ij,ij->i", "ij,ij->j", "ij,kj->ik", "ij,ik->jk", "ij,ij->", "ij,ij->ji"))
        return b.tame(st.einsum(spec, x, y))
    if x.ndim == 3:
        y = b.fitted(b.some("f"), x.type.shape)
        spec = b.rnd.choice(("bij,bkj->bik", "bij,bij->b", "bij,bik->bjk", "bij,bij->ij"))
        return b.tame(st.einsum(spec, x, y))
    return st.dot(x, x) if x.ndim == 1 else None


def convolution(b: Builder) -> Node | None:
    """conv1d, conv2d: what the pool has, as input and as filters, in one batch or a channel."""
    x = b.need(lambda n: 0 < n.ndim < 4, "f")
    lead = (None,) * max(0, 3 - x.ndim) if x.ndim < 3 or b.chance(0.7) else (None,)
    x = x[(*lead, ...)]
    axes = x.ndim - 2
    widths = tuple(b.rnd.choice((1, 2, 2, 3, b.dim())) for _ in range(axes))
    channels = x.type.shape[1]
    split = isinstance(channels, int) and channels % 2 == 0 and channels > 0 and b.chance(0.4)
    inside = channels // 2 if split else channels
    w = b.fitted(b.some("f"), (2 if split else b.rnd.choice((1, 2, 3)), inside, *widths))
    border = b.rnd.choice(("valid", "full", "half", 1, ((1, 0),) * axes))
    if border == "full" and 0 in widths:
        return None
    function = st.conv1d if axes == 1 else st.conv2d
    step, dilation = b.rnd.choice((1, 1, 2, 3)), b.rnd.choice((1, 1, 2))
    return b.tame(function(x, w, border, step, dilation, b.chance(0.5), 2 if split else 1))


TABLE: tuple[tuple[float, Callable[[Builder], Node | None]], ...] = (
    (10, unary),
    (1, jumping),
    (12, binary),
    (3, with_number),
    (2, integers),
    (2, compared),
    (1, logic),
    (0.3, nans),
    (3, chosen),
    (2, branched),
    (0.7, repeated),
    (2, cast),
    (6, reduced),
    (1, position),
    (1.5, running),
    (4, sliced),
    (3, reordered),
    (2, reshaped),
    (2, spread),
    (2, joined),
    (2, written),
    (2, gathered),
    (1.5, scattered),
    (2, made),
    (6, product),
    (1, convolution),
    (0.7, system),
    (0.4, decomposed),
    (0.2, of_complex),
    (2, moving),
    (1, ordered),
    (0.5, searched),
    (1, complex_numbers),
    (0.5, transform),
    (0.7, batched),
    (0.3, guest),
    *LOOPS,
)
WEIGHED = ([production for _, production in TABLE], [weight for weight, _ in TABLE])
