"""Probes: ops that pass their operand on unchanged, and look at it. `print_` shows its operand, `assert_` checks a
condition."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from scanjit import errors
from scanjit.ir import COMPLEX, Graph, Node, Op, rebuilt, walk_inside, with_body
from scanjit.ops.stretch import over_batch
from scanjit.signatures import Array, Samples
from scanjit.types import Dimension, Type

PRINT: Op = Op(
    "print_",
    infer=lambda x, *, message: x,
    reference=lambda x, *, message: x,
    vjp=lambda g, y, x, *, message: (g,),
    batch_params=lambda size, **params: params,
    samples=lambda rng, dtype: [((rng.normal(size=(3, 2)).astype(dtype),), {"message": "x"})],
    of_complex=lambda z, *, message: COMPLEX(
        *(PRINT(x, message=message and f"{message}.{which}") for x, which in zip(z.args, ("real", "imag"), strict=True))
    ),
    takes_halves=True,
    doc="the operand itself, which is printed when a function runs",
)


def _assert_infer(x: Type, condition: Type, **_: str) -> Type:
    if condition.dtype != np.bool_:
        raise errors.InternalError("a condition is of bools", got=condition)
    return x


def _assert_reference(x: Array, condition: Array, *, message: str, **_: str) -> Array:
    if not condition.all():
        raise errors.AssertError(message or "an assertion does not hold")
    return x


def _assert_vjp(g: Node, y: Node, x: Node, condition: Node, **params: str) -> tuple[Node, None]:
    return ASSERT(g, condition, **params), None


def _assert_batch(args: Sequence[Node], batched: Sequence[bool], size: Dimension, **params: str) -> tuple[Node, bool]:
    x, condition = args
    return ASSERT(over_batch(x, batched[0], size), condition, **params), True


def _assert_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((), (2,)):
        yield (rng.normal(size=(3,)).astype(dtype), np.ones(shape, bool)), {"message": ""}


ASSERT = Op(
    "assert_",
    infer=_assert_infer,
    reference=_assert_reference,
    vjp=_assert_vjp,
    batch=_assert_batch,
    samples=_assert_samples,
    by_parts=True,
    doc="the first operand itself; that the second is not true everywhere is an error of the run",
)
"""Parameters: `message` (the text of the error); and if there is more to say than the formula of the condition, `got`
and `fix`. Derivatives check the condition too, as they may need nothing else of the asserted value."""

PROBES = (PRINT, ASSERT)


def has_probes(outputs: Sequence[Node]) -> bool:
    """Whether there is a probe in a graph, or in the bodies in it."""
    return any(node.op in PROBES for node in walk_inside(outputs))


def without_probes(outputs: Sequence[Node], which: Collection[Op] = PROBES) -> list[Node]:
    """The outputs without these probes, in bodies too. This is for code that is computed a second time, so that it does
    not print twice."""
    if not has_probes(outputs):
        return list(outputs)

    def change(old: Node, new: Node) -> Node | None:
        if old.op in which:
            return new.args[0]
        body = new.params.get("body")
        if not isinstance(body, Graph) or not has_probes(body.outputs):
            return None
        return with_body(new, body.with_outputs(without_probes(body.outputs, which)))

    return rebuilt(outputs, change)
