"""Products of matrices."""

from __future__ import annotations

from scanjit import errors
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing.call import Call, like


def gemm(call: Call) -> Node:
    """`alpha * a @ b + beta * c`."""
    a, b = call.pair()
    if a.ndim != 2 or b.ndim != 2:
        raise errors.ShapeError("Gemm takes matrices", got=f"{a.type} and {b.type}")
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    a, b = (x.T if call.flag(name) else x for x, name in ((a, "transA"), (b, "transB")))
    call.ignore("broadcast")
    y, c = tensor.dot(a, b), call.optional(2)
    y = y if alpha == 1 else y * like(alpha, y)
    if c is None:
        return y
    return y + (c if beta == 1 else c * like(beta, c))
