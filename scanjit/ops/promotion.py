"""What an elementwise op is, and how its operands get one dtype: promotion and casts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.ir import COMPLEX, CONSTANT, SIZE, Node, Op, as_node, constant, is_number
from scanjit.kinds import kind_of
from scanjit.ops.parts import is_complex
from scanjit.ops.samples import FLOATS, INTS, sample
from scanjit.ops.stretch import broadcast_to, zeros_like
from scanjit.ops.view import DIMSHUFFLE
from scanjit.signatures import Array, DType, OpFunction, Parameter, Samples
from scanjit.types import Dimension, Type


class Elementwise(Op):
    """An op that is applied to each element, with NumPy's broadcasting.

    All operands have one dtype. The exception is a `mixed` op, whose first operand is a bool. `prepare` promotes the
    values that a user gives.

    Parameters
    ----------
    lower : the expression in generated code, over SIMD values `{0}`, `{1}`... and `{T}`, the suffix of the result's
        type; or a function of the operands' dtypes (and the params) that returns it.
    result : the dtype of the result: "same", a dtype's name, or a function of the operands' dtypes (and the params).
    takes : the kinds of dtype that the op accepts: letters out of b(ool), i(nt), f(loat). Without "i", integers and
        bools become float64. Without "b", bools become int8, as in NumPy.
    bools : whether bools may become int8. If not, they are an error, as in NumPy.
    formula : the function of x (and y, z) as sympy text. The tests prove the gradient rule with it.
    cost : roughly the number of instructions for an element. A result that costs more than a load is worth storing for
        the gradient.
    domain : the range from which tests sample each operand: a pair (low, high) for each.
    mixed : whether the first operand is a condition.
    own_dtypes : whether operands may have different dtypes.
    plus : the expression in generated code that adds the result to `{total}`, of the result's type, in one instruction;
        None if there is no such expression.
    stays_finite : positions of operands. If only such an operand changes, from one finite value to another, a finite
        result stays finite. None: found out by computing a few values.
    """

    never_fails = goes_anywhere = True

    def __init__(
        self,
        name: str,
        *,
        lower: str | OpFunction[str],
        result: str | OpFunction[Parameter] = "same",
        takes: str = "bif",
        bools: bool = True,
        formula: str | None = None,
        cost: int = 1,
        domain: Sequence[tuple[float, float]] = ((-3.0, 3.0),),
        mixed: bool = False,
        own_dtypes: bool = False,
        plus: str | None = None,
        stays_finite: tuple[int, ...] | None = None,
        **rest: Parameter,
    ) -> None:
        def infer(*operands: Type, **params: Parameter) -> Type:
            dtypes = [t.dtype for t in operands]
            if not own_dtypes and (len(set(dtypes[mixed:])) > 1 or (mixed and dtypes[0] != np.bool_)):
                raise errors.InternalError(f"{name} takes operands of one dtype", got=dtypes)
            dtype = result(*dtypes, **params) if callable(result) else dtypes[-1] if result == "same" else result
            return Type(np.dtype(dtype), types.broadcast([t.shape for t in operands], f"operands of {name}"))

        if "vjp" in rest and rest["vjp"] is not None:
            rest.setdefault("jvp", _elementwise_jvp)
        kinds = {"f": FLOATS, "i": INTS, "b": ("bool",)}
        rest.setdefault("dtypes", [dtype for kind in "fib" if kind in takes for dtype in kinds[kind]])
        rest.setdefault("samples", self._samples)
        super().__init__(name, infer=infer, batch=self._batch, aligned=_aligned_by_broadcasting, **rest)
        self.lower, self.result, self.takes, self.bools, self.mixed = lower, result, takes, bools, mixed
        self.formula, self.cost, self.domain, self.stays_finite = formula, cost, domain, stays_finite
        self.plus = plus

    def prepare(self, values: Sequence[object]) -> Sequence[Node]:
        if self.mixed:
            return [truth(as_node(values[0])), *self._promoted(values[1:])]
        return self._promoted(values)

    def _promoted(self, values: Sequence[object]) -> list[Node]:
        """The values as nodes of one dtype, one that the op accepts. Python numbers are weak."""
        given = [v if isinstance(v, Node) or is_number(v) else as_node(v) for v in values]
        dtype = common_dtype(given)
        if not kind_of(dtype).floating or "f" not in self.takes:
            dtype = self._accepted(dtype, given)
        return [cast(v, dtype) if isinstance(v, Node) else constant(v, dtype) for v in given]

    def _accepted(self, dtype: DType, given: Sequence[Node | bool | int | float | complex]) -> DType:
        """The dtype in which the op takes values whose common dtype is `dtype`."""
        scalars = [v for v in given if not isinstance(v, Node)]
        kind = kind_of(dtype)
        if kind.is_complex:
            self.check_takes_complex(given)
        elif kind.is_mask and "b" not in self.takes and "i" in self.takes:
            if not self.bools:
                raise errors.DtypeError(f"{self.name} is not defined for bool", fix="use logical operators: ~ & | ^")
            dtype = np.dtype("int8")
        elif kind.family not in self.takes.replace("i", "iu"):
            if self.takes != "f":
                raise errors.DtypeError(f"{self.name} is not defined for {dtype}", expected="integers or bools")
            dtype = np.dtype("float64")
        if kind_of(dtype).integral and not _fit(scalars, dtype):
            dtype = np.dtype("int64") if self.result == "bool" else dtype  # a comparison may be in more bits
            if not _fit(scalars, dtype):
                raise errors.DtypeError("this Python integer does not fit the dtype", got=scalars, expected=dtype)
        return dtype

    def _batch(
        self, args: Sequence[Node], batched: Sequence[bool], size: Dimension, **params: Parameter
    ) -> tuple[Node, bool]:
        ndim = max(a.ndim - b for a, b in zip(args, batched, strict=True))
        aligned = []
        for a, b in zip(args, batched, strict=True):
            missing = ndim - (a.ndim - 1) if b else 0  # new axes stand between the batch axis and the others
            aligned.append(DIMSHUFFLE(a, order=(0, *[None] * missing, *range(1, a.ndim))) if missing else a)
        return self(*aligned, **params), True

    def _samples(self, rng: np.random.Generator, dtype: str) -> Samples:
        for shapes in _SHAPES:
            arrays = [sample(rng, shapes[i % len(shapes)], dtype, *pair) for i, pair in enumerate(self.domain)]
            if self.mixed:
                arrays[0] = rng.random(arrays[0].shape) < 0.5
            yield tuple(arrays), {}

    def text(self, dtypes: Sequence[DType], **params: Parameter) -> str:
        """The expression in generated code for operands of these dtypes, with `{0}`, `{1}`... for the operands."""
        return self.lower(*dtypes, **params) if callable(self.lower) else self.lower


def common_dtype(values: Sequence[Node | bool | int | float | complex]) -> DType:
    """The dtype of an operation on nodes and Python numbers. Numbers are weak. Sizes are weak where a float is among
    the nodes: a float32 divided by `x.shape[0] - 1` is a float32, whether the size is known or not."""
    nodes = [v for v in values if isinstance(v, Node)]
    numbers = [v for v in values if not isinstance(v, Node)]
    if len({node.dtype for node in nodes}) > 1 and any(node.type.kind.inexact for node in nodes):
        others = [node for node in nodes if not _is_of_sizes(node)]
        if any(node.type.kind.inexact for node in others):
            return types.promote([node.dtype for node in others], numbers)
    return types.promote([node.dtype for node in nodes], numbers)


_OF_NUMBERS = frozenset(map(np.dtype, ("int64", "float64", "bool")))
"""The dtypes that Python's numbers have."""

SIZE_OPERATORS: set[Op] = set()
"""The ops that make a size of sizes; `scanjit.ops.operators` adds them."""
MOST_OF_SIZES = 64
"""A formula of sizes has at most this many nodes. A Python loop may build a long formula of constants; this limit keeps
each of its operations from walking through all nodes before."""


def _is_of_sizes(node: Node) -> bool:
    """Whether a scalar is a size, or what Python's operators compute from sizes and constants. A cast that the user
    writes last decides the dtype, so its result does not count."""
    if node.ndim or not node.is_closed or node.dtype not in _OF_NUMBERS or node.op is CAST:
        return False
    found, left, met = False, [node], {node}
    while left and len(met) <= MOST_OF_SIZES:
        top = left.pop()
        if top.op is not SIZE and top.op is not CONSTANT and top.op not in SIZE_OPERATORS:
            return False
        found = found or top.op is SIZE
        left += [arg for arg in top.operands if arg not in met]
        met.update(top.operands)
    return found and not left


def _aligned_by_broadcasting(position: int, operand: Type, result: Type, **params: Parameter) -> dict[int, int]:
    lead = result.ndim - operand.ndim
    return {axis: lead + axis for axis, dim in enumerate(operand.shape) if dim != 1}


_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((), ()),
    ((5,), (5,)),
    ((0,), (1,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (4,)),
    ((1,), (2, 1, 2)),
)


def _fit(values: Sequence[object], dtype: DType) -> bool:
    """Whether all integers among the values are in the range of a dtype."""
    limits = np.iinfo(dtype)
    return all(not isinstance(v, int) or isinstance(v, bool) or limits.min <= v <= limits.max for v in values)


def _elementwise_jvp(tangents: Sequence[Node | None], y: Node, *args: Node, **params: Parameter) -> Node | None:
    """The jvp of an elementwise op. Its vjp multiplies the cotangent by a derivative; given a tangent instead, it
    yields the terms of the jvp."""
    total = None
    for i, tangent in enumerate(tangents):
        if tangent is not None:
            term = y.op.vjp(tangent, y, *args, **params)[i]  # type: ignore[misc]
            if term is not None:
                total = term if total is None else total + term
    return None if total is None else broadcast_to(total, y.type.shape)


def cast(x: Node, dtype: DTypeLike) -> Node:
    """`x` in another dtype; `x` itself if it has that dtype."""
    if x.dtype is dtype:
        return x
    dtype = types.dtype_of(dtype)
    if x.dtype == dtype:
        return x
    if is_complex(x) or kind_of(dtype).is_complex:
        return _complex_cast(x, Type(dtype))
    if x.op is CONSTANT:
        return constant(_cast_reference(x.params["data"].array, dtype=dtype))
    if x.type.is_half and dtype != np.float32:
        return cast(cast(x, "float32"), dtype)
    return CAST(x, dtype=dtype)


def _complex_cast(x: Node, wanted: Type) -> Node:
    if wanted.kind.is_mask:
        return x != zeros_like(x)
    if not wanted.kind.is_complex:
        raise errors.DtypeError(
            "complex numbers are given where real ones are wanted",
            got=repr(x),
            expected=wanted.dtype,
            fix="take sj.real, sj.imag, sj.abs or sj.angle of them",
        )
    real, imaginary = x.args if is_complex(x) else (x, zeros_like(x))
    return COMPLEX(cast(real, wanted.in_memory.dtype), cast(imaginary, wanted.in_memory.dtype))


def is_widening(node: Node) -> bool:
    """Whether a node is a float of 16 bits as a float32."""
    return node.op is CAST and node.operands[0].type.is_half


def keep(x: Node, dtype: str | None) -> Node:
    """The value that a loop keeps for its gradient, in a `dtype` of 16 bits if it is float32. With None, the
    value itself."""
    return x if dtype is None or x.several or x.dtype != np.float32 else KEEP(x, dtype=types.dtype_of(dtype))


def truth(x: Node) -> Node:
    """`x != 0`."""
    return x if x.type.kind.is_mask else cast(x, "bool")


def _cast_reference(x: Array, *, dtype: DType) -> Array:
    if not np.issubdtype(x.dtype, np.floating) or not np.issubdtype(dtype, np.integer):  # exports copy this source
        return x.astype(dtype)
    # What C leaves undefined is defined here: NaN is 0; numbers beyond 32 bits (64 for int64) saturate, then wrap.
    limits = np.iinfo(np.int64 if dtype.itemsize == 8 else np.int32)
    whole = np.where(np.isnan(x), 0.0, x).astype(np.float64)
    inside = (whole >= limits.min) & (whole < -float(limits.min))
    edge = np.where(whole > 0, limits.max, limits.min)
    return np.where(inside, np.where(inside, whole, 0.0).astype(np.int64), edge).astype(dtype)


CAST = Elementwise(
    "cast",
    lower=lambda source, *, dtype: "{0} != 0" if kind_of(dtype).is_mask else "cast_{T}({0})",
    result=lambda source, *, dtype: dtype,
    reference=_cast_reference,
    vjp=lambda g, y, x, *, dtype: (cast(g, x.dtype) if x.type.kind.floating and y.type.kind.floating else None,),
    jvp=None,  # its transposed vjp, in which dtypes are exchanged
    samples=lambda rng, dtype: [
        ((sample(rng, (3,), dtype, 0, 3),), {"dtype": d}) for d in types.DTYPES if d != np.dtype(dtype)
    ],
    has_constant_slope=True,
    takes_halves=True,
    doc="the same value in another dtype; floats become integers towards zero",
    of_dims=lambda a: a,
)
Op.cast = CAST
KEEP = Elementwise(
    "keep",
    lower="cast_{T}({0})",
    result=lambda source, *, dtype: dtype,
    takes="f",
    reference=lambda x, *, dtype: x.astype(dtype),
    vjp=lambda g, y, x, *, dtype: (cast(g, x.dtype),),
    jvp=None,  # as that of a cast
    samples=lambda rng, dtype: [((sample(rng, (5,), dtype),), {"dtype": np.dtype("float16")})],
    dtypes=("float32",),
    has_constant_slope=True,
    doc="a value in 16 bits, as a loop keeps it for its gradient",
)
"""Unlike a cast, it lets the compiler choose which values a gradient reads (see `scanjit.rewrite.scan_save`). Instead
of computing a function of the rounded value, the gradient may read the rounded result of the function."""
