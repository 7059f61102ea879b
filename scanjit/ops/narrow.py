"""Products of numbers of 16 and 8 bits.

`mixed` puts `round_bfloat16` or `round_int8` before both operands of a product: they say which numbers are multiplied.
The last pass of the rewrites then packs neighbours into int32: two bfloat16 (`pair_bfloat16`), or four integers of 8
bits (`quad_int8`). It multiplies whole packs (`contract_pairs`, `contract_quads`). That takes half or a quarter of the
bytes, and makes two or four products in one instruction.

A bfloat16 is a float32 with 8 instead of 24 bits of mantissa.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scanjit.ir import Node, apply
from scanjit.ops.contraction import Contraction, Labels, contracted, einsum_text
from scanjit.ops.promotion import Elementwise
from scanjit.ops.samples import sample
from scanjit.ops.shape import CONCATENATE, window
from scanjit.ops.stretch import full
from scanjit.signatures import Array, OpFunction, Samples
from scanjit.types import Dimension, Type

_UPPER = np.uint32(0xFFFF0000)
LEAST_INT8 = -128
LARGEST_INT8 = 127
OFFSET = 128
"""The number that is added to the left integers of quads, which then have no sign."""


# ---- numbers ---------------------------------------------------------------------------------------------------------


def to_bfloat16(x: Array) -> Array:
    """Each number of a float32 array rounded to bfloat16, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    nearest = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    found = np.where(np.isnan(x), bits | np.uint32(0x400000), nearest) & _UPPER
    return found.astype(np.uint32).view(np.float32).reshape(x.shape)


def to_int8(x: Array) -> Array:
    """Each number rounded to an integer from -128 to 127, ties to even, as a float."""
    return np.clip(np.rint(x), LEAST_INT8, LARGEST_INT8)


def _rounding(name: str, text: str, reference: Callable[[Array], Array], doc: str) -> Elementwise:
    return Elementwise(
        name,
        lower=text,
        takes="f",
        reference=reference,
        vjp=lambda g, y, x: (g,),  # that of no rounding, as the true derivative is 0 almost everywhere
        jvp=lambda tangents, y, x: tangents[0],
        has_constant_slope=True,
        samples=lambda rng, dtype: [((reference(sample(rng, (5,), dtype)),), {})],
        dtypes=("float32",),
        cost=6,
        zero_with=(0,),
        stays_finite=(),
        doc=doc,
    )


ROUND_BFLOAT16 = _rounding("round_bfloat16", "round_bf16({0})", to_bfloat16, "the nearest bfloat16, as a float32")
ROUND_GRADIENT = Elementwise(
    "round_gradient",
    lower="{0}",
    takes="f",
    reference=lambda x: x,
    vjp=lambda g, y, x: (ROUND_BFLOAT16(g),),
    jvp=lambda tangents, y, x: tangents[0],
    dtypes=("float32",),
    has_constant_slope=True,
    doc="the same value; its gradient is rounded to bfloat16, for the products that it enters",
)
REMARK = Elementwise(
    "remark",
    lower="{0}",
    takes="f",
    reference=lambda x, *, what: x,
    vjp=lambda g, y, x, *, what: (g,),
    jvp=lambda tangents, y, x, *, what: tangents[0],
    samples=lambda rng, dtype: [((sample(rng, (3,), dtype),), {"what": "x"})],
    dtypes=("float32",),
    has_constant_slope=True,
    doc="the same value, about which `explain()` says something",
)
ROUND_INT8 = _rounding("round_int8", "round_i8({0})", to_int8, "the nearest integer from -128 to 127, as a float32")


# ---- packs -----------------------------------------------------------------------------------------------------------


def _pair(first: Array, second: Array) -> Array:
    low, high = (to_bfloat16(x).view(np.uint32) for x in np.broadcast_arrays(first, second))
    return ((low >> np.uint32(16)) | high).view(np.int32)


def _numbers(pairs: Array) -> tuple[Array, ...]:
    """The first and the second number of each pair, as float32."""
    bits = np.array(pairs, order="C").view(np.uint32)
    return (bits << np.uint32(16)).view(np.float32), (bits & _UPPER).view(np.float32)


def _quad(numbers: Sequence[Array], offset: int) -> Array:
    arrays = np.broadcast_arrays(*(np.nan_to_num(to_int8(x)).astype(np.int32) + offset for x in numbers))
    return np.bitwise_or.reduce([(x & 255) << (8 * k) for k, x in enumerate(arrays)]).astype(np.int32)


def _signed_quad(a: Array, b: Array, c: Array, d: Array) -> Array:
    return _quad((a, b, c, d), 0)


def _unsigned_quad(a: Array, b: Array, c: Array, d: Array) -> Array:
    return _quad((a, b, c, d), OFFSET)


def _integers(quads: Array, offset: int) -> tuple[Array, ...]:
    """The four integers of each quad, with the offset if there is one, as int32."""
    if offset:
        return tuple((quads >> (8 * k)) & 255 for k in range(4))
    return tuple((quads << np.int32(24 - 8 * k)) >> 24 for k in range(4))


def _packing(name: str, text: str, count: int, reference: OpFunction[Array], doc: str) -> Elementwise:
    return Elementwise(
        name,
        lower=text,
        result="int32",
        takes="f",
        reference=reference,
        samples=lambda rng, dtype: [(tuple(sample(rng, (5,), dtype) for _ in range(count)), {})],
        dtypes=("float32",),
        domain=((-3.0, 3.0),) * count,
        cost=6 * count,
        stays_finite=(),
        doc=doc,
    )


PAIR_BFLOAT16 = _packing(
    "pair_bfloat16",
    "pair_bf16({0}, {1})",
    2,
    _pair,
    "two numbers, each rounded to bfloat16, in an int32: the first in its lower half",
)
QUAD_INT8 = _packing(
    "quad_int8",
    "quad_i8({0}, {1}, {2}, {3})",
    4,
    _signed_quad,
    "four numbers, each rounded to an integer from -128 to 127, in an int32: the first in its lowest byte",
)
QUAD_UINT8 = _packing(
    "quad_uint8",
    "quad_u8({0}, {1}, {2}, {3})",
    4,
    _unsigned_quad,
    "as `quad_int8`, with 128 added to each integer",
)


# ---- products of packs -----------------------------------------------------------------------------------------------


def _floats(rng: np.random.Generator, count: int) -> list[Array]:
    """Arrays of numbers that are rounded to bfloat16."""
    return [to_bfloat16(sample(rng, (5,), "float32")) for _ in range(count)]


def _total(terms: Sequence[Array]) -> Array:
    """The sum of arrays of one dtype, in that dtype."""
    return np.add.reduce(terms, dtype=terms[0].dtype)


def _multiplied_apart(a: Array, b: Array, pairs: Array) -> Array:
    return np.add(*(x * y for x, y in zip((a, b), _numbers(pairs), strict=True)))


def _multiplied_pairs(a: Array, b: Array) -> Array:
    return _total([x * y for x, y in zip(_numbers(a), _numbers(b), strict=True)])


def _multiplied_quads(a: Array, b: Array) -> Array:
    return _total([x * y for x, y in zip(_integers(a, OFFSET), _integers(b, 0), strict=True)])


def _contracted_pairs(a: Array, b: Array, *, left: Labels, right: Labels, out: Labels) -> Array:
    text = einsum_text([left, right], out)
    return _total([np.einsum(text, x, y) for x, y in zip(_numbers(a), _numbers(b), strict=True)])


def _contracted_quads(a: Array, b: Array, *, left: Labels, right: Labels, out: Labels) -> Array:
    text = einsum_text([left, right], out)
    return _total([np.einsum(text, x, y) for x, y in zip(_integers(a, OFFSET), _integers(b, 0), strict=True)])


def _contraction(name: str, product: Elementwise, dtype: str, reference: OpFunction[Array], doc: str) -> Contraction:
    """A contraction of packs. `product` multiplies two packs, and adds the products."""

    def infer(a: Type, b: Type, **labels: Labels) -> Type:
        return Type(np.dtype(dtype), contracted(a, b, **labels).shape)

    return Contraction(
        name,
        product=product,
        infer=infer,
        reference=reference,
        samples=_packed_samples,
        dtypes=("int32",),
        never_fails=True,
        doc=doc,
    )


def _packed_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for a, b, left, right, out in (
        ((2, 3), (3, 4), (0, 1), (1, 2), (0, 2)),
        ((3,), (3,), (0,), (0,), ()),
        ((2, 3, 1), (2, 1, 4), (0, 1, 2), (0, 2, 3), (0, 1, 3)),
        ((2, 0), (0, 3), (0, 1), (1, 2), (0, 2)),
    ):
        arrays = (_pair(*(sample(rng, shape, "float32") for _ in range(2))) for shape in (a, b))
        yield tuple(arrays), {"left": left, "right": right, "out": out}


def _product(name: str, result: str, function: str, zero: str, reference: OpFunction[Array], doc: str) -> Elementwise:
    return Elementwise(
        name,
        lower=f"{function}(splat_{{T}}({zero}), {{0}}, {{1}})",
        plus=f"{function}({{total}}, {{0}}, {{1}})",
        result=result,
        takes="i",
        reference=reference,
        dtypes=("int32",),
        domain=((-3.0, 3.0),) * 2,
        stays_finite=(),
        doc=doc,
    )


MUL_PAIRS = _product(
    "mul_pairs",
    "float32",
    "dot_bf16",
    "0.0",
    _multiplied_pairs,
    "the sum of the two products of pairs of bfloat16",
)
MUL_APART = Elementwise(
    "mul_apart",
    lower="dot_apart(splat_{T}(0.0), {0}, {1}, {2})",
    plus="dot_apart({total}, {0}, {1}, {2})",
    result="float32",
    takes="i",
    own_dtypes=True,
    reference=_multiplied_apart,
    samples=lambda rng, dtype: [((*_floats(rng, 2), _pair(*_floats(rng, 2))), {})],
    dtypes=("float32",),
    domain=((-3.0, 3.0),) * 3,
    cost=4,
    stays_finite=(),
    doc="the same sum, where the left numbers are no pair but two float32",
)
MUL_QUADS = _product(
    "mul_quads",
    "int32",
    "dot_i8",
    "0",
    _multiplied_quads,
    "the sum of the four products of integers of 8 bits: without a sign on the left, with one on the right",
)
CONTRACT_PAIRS = _contraction(
    "contract_pairs",
    MUL_PAIRS,
    "float32",
    _contracted_pairs,
    "`contract` of numbers rounded to bfloat16, which lie in pairs",
)
CONTRACT_QUADS = _contraction(
    "contract_quads", MUL_QUADS, "int32", _contracted_quads, "`contract` of integers of 8 bits, which lie in quads"
)
"""The last pass makes these two (see `scanjit.rewrite.narrow`), so no rule has to know them."""


def packs(x: Node, axis: int, pack: Elementwise) -> Node:
    """Neighbours along an axis, packed. If the size is no multiple of a pack, zeros fill the last one."""
    count, size = len(pack.domain), x.type.shape[axis]
    length = (size + (count - 1)) // count
    neighbours = [_every(x, axis, k, (size + (count - 1 - k)) // count, count, length) for k in range(count)]
    return apply(pack, *neighbours)


def _every(x: Node, axis: int, start: int, there: Dimension, step: int, length: Dimension) -> Node:
    """`length` entries, a step apart. Only the first of them are `there`; zeros follow."""
    found = window(x, axis, start, there, step)
    if length - there == 0:
        return found
    missing = (*x.type.shape[:axis], length - there, *x.type.shape[axis + 1 :])
    return CONCATENATE(found, full(0, missing, x.dtype), axis=axis)


def fills_packs(size: Dimension, pack: Elementwise) -> bool:
    """Whether this many numbers fill packs without zeros."""
    count = len(pack.domain)
    return (size + (count - 1)) // count - size // count == 0
