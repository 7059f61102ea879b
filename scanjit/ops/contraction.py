"""`contract`: the one product of tensors. `dot`, `matmul`, `outer`, `tensordot` and `einsum` are spellings of it.

`contract_where` is a product with a mask: the rewrites make it where parts of a product may be left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op
from scanjit.ops.elementwise import MUL
from scanjit.ops.parts import ComplexPart, joined, minus, parts, plus
from scanjit.ops.samples import NUMBERS, sample
from scanjit.signatures import Array, Parameter, Params, Samples
from scanjit.types import Dimension, Type

Labels = tuple[int, ...]


def contracted(a: Type, b: Type, *, left: Labels, right: Labels, out: Labels) -> Type:
    """The type of a contraction of operands of these types."""
    if a.dtype != b.dtype:
        raise errors.InternalError("a contraction takes operands of one dtype", got=f"{a} and {b}")
    sizes: dict[int, Dimension] = {}
    for labels, type_ in ((left, a), (right, b)):
        if len(labels) != type_.ndim or len(set(labels)) != len(labels):
            raise errors.InternalError("labels must be distinct, one an axis", got=f"{labels} for {type_}")
        for label, dim in zip(labels, type_.shape, strict=True):
            if label in sizes:
                try:
                    dim = types.equate(sizes[label], dim, "the sizes that a product sums over or pairs")
                except errors.ShapeError as error:
                    raise errors.ShapeError(
                        "the operands of a product do not fit",
                        got=f"shapes ({', '.join(map(str, a.shape))}) and ({', '.join(map(str, b.shape))})",
                        expected=f"{error.what} ({error.got})",
                    ) from None
            sizes[label] = dim
    alone = set(left).symmetric_difference(right) - set(out)
    if alone or not set(out) <= set(sizes):
        raise errors.InternalError("a label of one operand must be in the result", got=f"{left}, {right} -> {out}")
    return Type(a.dtype, tuple(sizes[label] for label in out))


def einsum_text(operands: Iterable[Iterable[int]], out: Iterable[int]) -> str:
    """The text for NumPy's einsum: `ab,bc->ac` for the operands (0, 1) and (1, 2) and the result (0, 2)."""
    *given, result = ("".join(chr(97 + label) for label in labels) for labels in (*operands, out))
    return f"{','.join(given)}->{result}"


def _reference(a: Array, b: Array, *, left: Labels, right: Labels, out: Labels) -> Array:
    if a.dtype == bool:
        return np.einsum(einsum_text([left, right], out), a.astype(int), b.astype(int)) > 0
    return np.einsum(einsum_text([left, right], out), a, b)


def _jvp(tangents: Sequence[Node | None], y: Node, a: Node, b: Node, **labels: Labels) -> Node:
    da, db = tangents
    first, *others = [CONTRACT(x, z, **labels) for x, z in ((da, b), (a, db)) if x is not None and z is not None]
    return first + others[0] if others else first


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for a, b, left, right, out in (
        ((2, 3), (3, 4), (0, 1), (1, 2), (0, 2)),
        ((3,), (3,), (0,), (0,), ()),
        ((2,), (3,), (0,), (1,), (0, 1)),
        ((2, 3, 1), (2, 1, 4), (0, 1, 2), (0, 2, 3), (0, 1, 3)),
        ((2, 3), (4, 3, 2), (0, 1), (2, 1, 0), (2,)),
        ((2, 3), (2, 3), (0, 1), (0, 1), (1, 0)),
        ((2, 0), (0, 3), (0, 1), (1, 2), (0, 2)),
        ((), (2,), (), (0,), (0,)),
    ):
        yield (sample(rng, a, dtype), sample(rng, b, dtype)), {"left": left, "right": right, "out": out}


def _batch(
    args: Sequence[Node], batched: Sequence[bool], size: Dimension, *, left: Labels, right: Labels, out: Labels
) -> tuple[Node, bool]:
    new = max((*left, *right), default=-1) + 1
    lead = [(new,) if b else () for b in batched]
    return contract(args[0], args[1], lead[0] + left, lead[1] + right, (new, *out)), True


class Contraction(Op):
    """A sum of products of two operands, with axes named by the labels `left`, `right` and `out`. `product` multiplies
    two elements."""

    reads_memory = "all"
    goes_anywhere = True

    def __init__(self, name: str, product: Op = MUL, **rest: Parameter) -> None:
        super().__init__(name, **rest)
        self.product = product


def _aligned(position: int, operand: Type, result: Type, *, left: Labels, right: Labels, out: Labels) -> dict[int, int]:
    labels = (left, right)[position]
    return {axis: out.index(label) for axis, label in enumerate(labels) if label in out}


def _of_complex(a: Node, b: Node, **labels: Labels) -> Node:
    (x, y), (u, v) = parts(a), parts(b)

    def product(a: ComplexPart, b: ComplexPart) -> ComplexPart:
        return None if a is None or b is None else CONTRACT(a, b, **labels)

    real, imaginary = minus(product(x, u), product(y, v)), plus(product(x, v), product(y, u))
    return (
        joined(real, imaginary)
        if real is not None or imaginary is not None
        else CONTRACT(a.args[0], b.args[0], **labels)
    )


CONTRACT = Contraction(
    "contract",
    infer=contracted,
    reference=_reference,
    of_complex=_of_complex,
    vjp=lambda g, y, a, b, *, left, right, out: (contract(g, b, out, right, left), contract(g, a, out, left, right)),
    jvp=_jvp,
    batch=_batch,
    samples=_samples,
    dtypes=(*NUMBERS, "bool"),
    never_fails=True,
    zero_with=(0, 1),
    aligned=_aligned,
    doc="sum of products: `out[i, j] = sum_k left[i, k] * right[k, j]`, with axes named by labels",
)


def contract(a: Node, b: Node, left: Sequence[int], right: Sequence[int], out: Sequence[int]) -> Node:
    """A contraction with its labels numbered in the order of their appearance, so that equal ones are the same node."""
    number: dict[int, int] = {}
    for label in (*left, *right):
        number.setdefault(label, len(number))
    canonical: Params = {
        name: tuple(number[label] for label in labels)
        for name, labels in (("left", left), ("right", right), ("out", out))
    }
    return CONTRACT(a, b, **canonical)


# ---- products with a mask, which leave parts out ---------------------------------------------------------------------


def _guarded_infer(a: Type, b: Type, mask: Type, *, left: Labels, right: Labels, out: Labels, where: Labels) -> Type:
    if mask.dtype != np.bool_ or len(where) != mask.ndim or not set(where) <= set(left) | set(right):
        raise errors.InternalError("a guard is a mask along labels of its product", got=f"{mask} along {where}")
    return contracted(a, b, left=left, right=right, out=out)


def _guarded_reference(
    a: Array, b: Array, mask: Array, *, left: Labels, right: Labels, out: Labels, where: Labels
) -> Array:
    """Leaves out all terms at which the mask is false."""
    union = (*left, *(label for label in right if label not in left))
    terms = np.einsum(einsum_text([left, right], union), a, b)
    kept = np.einsum(einsum_text([where], [label for label in union if label in where]), mask)
    kept = np.expand_dims(kept, tuple(axis for axis, label in enumerate(union) if label not in where))
    terms = np.where(kept, terms, np.zeros((), a.dtype))
    return np.einsum(einsum_text([union], out), terms)


def _guarded_samples(rng: np.random.Generator, dtype: str) -> Samples:
    """The left operand is zero where the mask is false, so that it makes no difference which terms are left out."""
    for a, b, left, right, out, where in (
        ((6, 9), (9, 17), (0, 1), (1, 2), (0, 2), (0,)),
        ((2, 5, 3), (3, 4), (0, 1, 2), (2, 3), (0, 1, 3), (1, 0)),
        ((40, 3), (40, 5), (0, 1), (0, 2), (1, 2), (0,)),
        ((3, 7, 2), (3, 7, 4), (0, 1, 2), (0, 1, 3), (3, 2), (0, 1)),
        ((2, 0), (0, 3), (0, 1), (1, 2), (0, 2), (0,)),
    ):
        sizes = dict(zip((*left, *right), (*a, *b), strict=True))
        mask = rng.random([sizes[label] for label in where]) < 0.3
        kept = np.expand_dims(
            np.transpose(mask, np.argsort(where)),
            tuple(axis for axis, label in enumerate(left) if label not in where),
        )
        x = np.where(kept, sample(rng, a, dtype), np.zeros((), dtype))
        yield (x, sample(rng, b, dtype), mask), {"left": left, "right": right, "out": out, "where": where}


CONTRACT_WHERE = Contraction(
    "contract_where",
    infer=_guarded_infer,
    reference=_guarded_reference,
    samples=_guarded_samples,
    dtypes=NUMBERS,
    doc="`contract`; terms at which the mask is false may be left out: they are zero, or nobody wants them",
)
"""`where` are the labels of the mask's axes. The last pass makes this op (see `scanjit.rewrite.guards`), so no rule has
to know it."""
