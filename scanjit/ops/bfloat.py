"""Products of numbers that are rounded to bfloat16.

A bfloat16 is a float32 with 8 instead of 24 bits of mantissa. `round_bfloat16` says what is computed: `mixed` puts it
before both operands of products. The last pass of the rewrites then puts two such numbers at a time into an int32
(`pair_bfloat16`) and multiplies pairs (`contract_pairs`): half the bytes, and twice the products an instruction.
"""

import numpy as np

from scanjit import types
from scanjit.ir import Node, apply
from scanjit.ops.elementwise import Elementwise
from scanjit.ops.linalg import Contraction, Labels, contracted, letters
from scanjit.ops.samples import sample
from scanjit.ops.shape import CONCATENATE, window
from scanjit.ops.stretch import full
from scanjit.signatures import Array, Samples
from scanjit.types import Type

_UPPER = np.uint32(0xFFFF0000)
_TWO = ((-3.0, 3.0), (-3.0, 3.0))


def rounded(x: Array) -> Array:
    """Each number of a float32 array rounded to bfloat16, ties to even; a NaN stays one."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    nearest = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    found = np.where(np.isnan(x), bits | np.uint32(0x400000), nearest) & _UPPER
    return found.astype(np.uint32).view(np.float32).reshape(x.shape)


def _pair(first: Array, second: Array) -> Array:
    low, high = (rounded(x).view(np.uint32) for x in np.broadcast_arrays(first, second))
    return ((low >> np.uint32(16)) | high).view(np.int32)


def _numbers(pairs: Array) -> tuple[Array, Array]:
    """The first and the second number of each pair, as float32."""
    bits = np.ascontiguousarray(pairs).view(np.uint32)
    return (bits << np.uint32(16)).view(np.float32), (bits & _UPPER).view(np.float32)


ROUND_BFLOAT16 = Elementwise(
    "round_bfloat16",
    lower="round_bf16({0})",
    takes="f",
    reference=rounded,
    vjp=lambda g, y, x: (g,),  # as if it were not rounded: the true derivative is 0 almost everywhere
    jvp=lambda tangents, y, x: tangents[0],
    has_constant_slope=True,
    samples=lambda rng, dtype: [((rounded(sample(rng, (5,), dtype)),), {})],
    dtypes=("float32",),
    cost=6,
    zero_with=(0,),
    stays_finite=(),
    doc="the nearest bfloat16, as a float32",
)
PAIR_BFLOAT16 = Elementwise(
    "pair_bfloat16",
    lower="pair_bf16({0}, {1})",
    result="int32",
    takes="f",
    reference=_pair,
    samples=lambda rng, dtype: [((sample(rng, (5,), dtype), sample(rng, (5,), dtype)), {})],
    dtypes=("float32",),
    domain=_TWO,
    cost=12,
    stays_finite=(),
    doc="two numbers, each rounded to bfloat16, in an int32: the first in its lower half",
)


def _products(a: Array, b: Array) -> Array:
    (a0, a1), (b0, b1) = _numbers(a), _numbers(b)
    return a0 * b0 + a1 * b1


def _pair_samples(rng: np.random.Generator, *shapes: tuple[int, ...]) -> tuple[Array, ...]:
    return tuple(_pair(*(rng.uniform(-2, 2, shape).astype(np.float32) for _ in range(2))) for shape in shapes)


MUL_PAIRS = Elementwise(
    "mul_pairs",
    lower="dot_bf16(splat_{T}(0.0), {0}, {1})",
    result="float32",
    takes="i",
    reference=_products,
    samples=lambda rng, dtype: [(_pair_samples(rng, (5,), (5,)), {})],
    dtypes=("int32",),
    domain=_TWO,
    cost=2,
    stays_finite=(),
    doc="the sum of the two products of pairs of bfloat16",
)


def _contracted(a: Type, b: Type, *, left: Labels, right: Labels, out: Labels) -> Type:
    return Type(np.dtype("float32"), contracted(a, b, left=left, right=right, out=out).shape)


def _reference(a: Array, b: Array, *, left: Labels, right: Labels, out: Labels) -> Array:
    text = f"{letters(left)},{letters(right)}->{letters(out)}"
    (a0, a1), (b0, b1) = _numbers(a), _numbers(b)
    return np.einsum(text, a0, b0) + np.einsum(text, a1, b1)


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for a, b, left, right, out in (
        ((2, 3), (3, 4), (0, 1), (1, 2), (0, 2)),
        ((3,), (3,), (0,), (0,), ()),
        ((2, 3, 1), (2, 1, 4), (0, 1, 2), (0, 2, 3), (0, 1, 3)),
        ((2, 0), (0, 3), (0, 1), (1, 2), (0, 2)),
    ):
        yield _pair_samples(rng, a, b), {"left": left, "right": right, "out": out}


CONTRACT_PAIRS = Contraction(
    "contract_pairs",
    product=MUL_PAIRS,
    infer=_contracted,
    reference=_reference,
    samples=_samples,
    dtypes=("int32",),
    never_fails=True,
    doc="`contract` of numbers rounded to bfloat16, of which each int32 holds two neighbours along a summed axis",
)
"""The last pass makes it (see `scanjit.rewrite.bfloat`), so no rule has to know it."""


def pairs(x: Node, axis: int) -> Node:
    """Neighbours along an axis as pairs; the last number of an odd size goes with a zero."""
    size = x.type.shape[axis]
    first, second = window(x, axis, 0, (size + 1) // 2, 2), window(x, axis, 1, size // 2, 2)
    missing = (size + 1) // 2 - size // 2
    if missing != 0:
        shape = (*x.type.shape[:axis], missing, *x.type.shape[axis + 1 :])
        second = CONCATENATE(second, full(0, shape, x.dtype), axis=axis)
    return apply(PAIR_BFLOAT16, first, second)


def is_even(size: types.Dimension) -> bool:
    """Whether pairs of so many numbers need no zero."""
    return (size + 1) // 2 - size // 2 == 0
