"""Elementwise ops: one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op, apply, as_node, constant
from scanjit.ops.shape import DIMSHUFFLE, broadcast_to, zeros_like
from scanjit.types import Type


class Elementwise(Op):
    """An op that is applied to each element, with NumPy's broadcasting.

    Its operands have one dtype (`prepare` promotes what a user gives), unless `mixed`.

    Parameters
    ----------
    lower : the expression in generated code, over SIMD values `{0}`, `{1}`...; or a function of the operands' dtypes
        (and the params) that returns it.
    result : the dtype of the result: "same", a dtype's name, or a function of the operands' dtypes (and the params).
    takes : the kinds of dtype that it computes in: "f" converts integers and bools to float64 first; "if" takes integers
        and floats (bools become int64... as NumPy does), "bif" anything.
    formula : sympy text of the function of x (and y, z), by which the suite proves the gradient rule.
    cost : roughly how many instructions an element costs; what costs more than a load is worth saving for the gradient.
    domain : where tests sample each operand: pairs (low, high), one an operand.
    """

    kind: ClassVar[str] = "elementwise"

    def __init__(
        self,
        name: str,
        *,
        lower: str | Callable[..., str],
        result: str | Callable[..., Any] = "same",
        takes: str = "bif",
        formula: str | None = None,
        cost: int = 1,
        domain: Sequence[tuple[float, float]] = ((-3.0, 3.0),),
        mixed: bool = False,
        **rest: Any,
    ) -> None:
        def infer(*operands: Type, **params: Any) -> Type:
            dtypes = [t.dtype for t in operands]
            if not mixed and len(set(dtypes)) > 1:
                raise errors.InternalError(f"{name} takes operands of one dtype", got=dtypes)
            dtype = result(*dtypes, **params) if callable(result) else dtypes[0] if result == "same" else result
            return Type(np.dtype(dtype), types.broadcast([t.shape for t in operands], f"operands of {name}"))

        if "vjp" in rest and rest["vjp"] is not None:
            rest.setdefault("jvp", _elementwise_jvp)
        super().__init__(name, infer=infer, batch=_elementwise_batch, **rest)
        self.lower, self.takes, self.formula, self.cost, self.domain = lower, takes, formula, cost, domain

    def prepare(self, values: Sequence[Any]) -> Sequence[Node]:
        scalars = [v for v in values if isinstance(v, bool | int | float) and not isinstance(v, np.generic)]
        nodes = [v if any(v is s for s in scalars) else as_node(v) for v in values]
        dtype = types.promote([n.dtype for n in nodes if isinstance(n, Node)], scalars)
        if dtype.kind not in self.takes.replace("i", "iu"):
            dtype = np.dtype("float64" if self.takes == "f" else "int64")
        return [cast(n, dtype) if isinstance(n, Node) else constant(n, dtype) for n in nodes]

    def text(self, dtypes: Sequence[np.dtype], **params: Any) -> str:
        """The expression in generated code for operands of these dtypes, with `{0}`, `{1}`... for the operands."""
        return self.lower(*dtypes, **params) if callable(self.lower) else self.lower


def _elementwise_jvp(tangents: Sequence[Node | None], y: Node, *args: Node, **params: Any) -> Node | None:
    """An elementwise vjp multiplies by a derivative, so with a tangent for the cotangent it gives the jvp's terms."""
    total = None
    for i, tangent in enumerate(tangents):
        if tangent is not None:
            term = y.op.vjp(tangent, y, *args, **params)[i]  # type: ignore[misc]
            if term is not None:
                total = term if total is None else total + term
    return None if total is None else broadcast_to(total, y.type.shape)


def _elementwise_batch(
    args: Sequence[Node], batched: Sequence[bool], size: Any, *, _op: Op | None = None, **params: Any
):
    raise NotImplementedError


def cast(x: Node, dtype: Any) -> Node:
    """`x` in another dtype; `x` itself where it has it."""
    dtype = types.dtype_of(dtype)
    return x if x.dtype == dtype else CAST(x, dtype=dtype)


CAST = Elementwise(
    "cast",
    lower=lambda source, *, dtype: f"cast_{{{dtype}}}({{0}})",
    result=lambda source, *, dtype: dtype,
    reference=lambda x, *, dtype: x.astype(dtype),
    vjp=lambda g, y, x, *, dtype: (cast(g, x.dtype) if x.dtype.kind == "f" and dtype.kind == "f" else None,),
    doc="the same value in another dtype",
)

ADD = Elementwise(
    "add",
    lower="{0} + {1}",
    takes="if",
    reference=np.add,
    vjp=lambda g, y, a, b: (g, g),
    formula="x + y",
    domain=((-3, 3), (-3, 3)),
)
MUL = Elementwise(
    "mul",
    lower="{0} * {1}",
    takes="if",
    reference=np.multiply,
    vjp=lambda g, y, a, b: (g * b, g * a),
    formula="x * y",
    domain=((-3, 3), (-3, 3)),
)
TANH = Elementwise(
    "tanh",
    lower="tanh({0})",
    takes="f",
    reference=np.tanh,
    vjp=lambda g, y, x: (g * (1 - y * y),),
    formula="tanh(x)",
    cost=20,
)
