"""What holds for every op, from the samples that each op has: types, derivatives, batching."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import scanjit.tensor  # noqa: F401 (installs the operators)
from scanjit import ir
from scanjit.autodiff import grad, jvp
from scanjit.batching import batch_graph
from scanjit.ir import OPS, Node, Op
from scanjit.ops import Elementwise, Reduction
from scanjit.ops.functions import COS
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import SUM
from scanjit.ops.view import DIMSHUFFLE
from scanjit.runtime.reference import Interpreter, evaluate
from tests.ops.support import differences, inputs, same

STRUCTURAL = set("input shared bound constant part size scan ifelse via custom complex guest guest_call".split())
"""Ops whose tests are elsewhere: leaves, loops, and branches."""

SAMPLED = [op for op in OPS.values() if op.samples is not None]
SMOOTH = [op for op in SAMPLED if op.vjp is not None and "float64" in op.dtypes and op.name != "clip_gradient"]


def cases(op: Op, dtype: str, seed: int = 0) -> list[tuple[tuple[np.ndarray, ...], dict[str, Any]]]:
    assert op.samples is not None
    return [(tuple(map(np.asarray, args)), params) for args, params in op.samples(np.random.default_rng(seed), dtype)]


def floats(arrays: Sequence[np.ndarray]) -> list[int]:
    return [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]


def weighted(y: Node, seed: int = 1) -> Node:
    """A scalar that every element of `y` contributes to, with a weight that depends on its place."""
    count = y.ndim
    total = y
    for axis in range(count):
        line = IOTA(length=y.type.shape[axis])
        column = DIMSHUFFLE(line, order=tuple(0 if a == axis else None for a in range(count)))
        total = total * (ir.apply(COS, column * (axis + seed)) + 0.3)
    return SUM(total, axes=tuple(range(count)))


def test_every_op_has_samples_or_tests_elsewhere() -> None:
    assert {op.name for op in OPS.values() if op.samples is None} <= STRUCTURAL


@pytest.mark.quick(65)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("op", SAMPLED, ids=str)
def test_types(op: Op, symbolic: bool) -> None:
    """The inferred type is the type of the reference's result: `evaluate` raises where it is not. Floats of 16 bits are
    computed in float32, and rounded at the end."""
    count = 0
    for dtype in op.dtypes:
        for arrays, params in cases(op, dtype):
            nodes = inputs(arrays, symbolic)
            halves = any(node.type.is_half for node in nodes)
            given = [
                array.astype("float32") if node.type.is_half else array
                for node, array in zip(nodes, arrays, strict=True)
            ]
            with np.errstate(all="ignore"):
                direct = np.asarray(op.reference(*given, **params))
                found = evaluate([op(*nodes, **params)], dict(zip(nodes, arrays, strict=True)))[0]
                same(found, direct.astype(found.dtype) if halves else direct)
            count += 1
    assert count


@pytest.mark.quick(22)
@pytest.mark.parametrize("op", SMOOTH, ids=str)
def test_gradient(op: Op) -> None:
    """Reverse mode against central differences; forward mode against reverse mode."""
    for arrays, params in cases(op, "float64"):
        if np.dtype(params.get("dtype", "float64")).itemsize < 8:
            continue  # differences would see its rounding
        nodes = inputs(arrays, symbolic=False)
        wrt = floats(arrays)
        cost = weighted(op(*nodes, **params))
        run = Interpreter([cost], nodes)

        def value(*given: np.ndarray, run: Interpreter = run, nodes: list[Node] = nodes) -> np.ndarray:
            return run(dict(zip(nodes, given, strict=True)))[0]

        env = dict(zip(nodes, arrays, strict=True))
        gradients = evaluate(grad(cost, [nodes[i] for i in wrt], disconnected="zero"), env)
        tangents = [np.cos(np.arange(arrays[i].size) + 1.0).reshape(arrays[i].shape) for i in wrt]
        for i, gradient in zip(wrt, gradients, strict=True):
            np.testing.assert_allclose(gradient, differences(value, arrays, i), rtol=1e-5, atol=1e-7)
        change = evaluate([jvp(cost, [nodes[i] for i in wrt], list(map(ir.constant, tangents)))], env)[0]
        expected = sum(np.sum(g * t) for g, t in zip(gradients, tangents, strict=True))
        np.testing.assert_allclose(change, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.quick(22)
@pytest.mark.parametrize("op", SMOOTH, ids=str)
def test_gradient_of_the_gradient(op: Op) -> None:
    for arrays, params in cases(op, "float64")[:4]:
        nodes = inputs(arrays, symbolic=False)
        wrt = [nodes[i] for i in floats(arrays)]
        firsts = grad(weighted(op(*nodes, **params)), wrt, disconnected="zero")
        cost = sum((weighted(g, 2) for g in firsts[1:]), weighted(firsts[0], 2))
        run = Interpreter([cost], nodes)

        def value(*given: np.ndarray, run: Interpreter = run, nodes: list[Node] = nodes) -> np.ndarray:
            return run(dict(zip(nodes, given, strict=True)))[0]

        seconds = evaluate(grad(cost, wrt, disconnected="zero"), dict(zip(nodes, arrays, strict=True)))
        for i, second in zip(floats(arrays), seconds, strict=True):
            np.testing.assert_allclose(second, differences(value, arrays, i), rtol=1e-4, atol=1e-6)


@pytest.mark.quick(32)
@pytest.mark.parametrize("op", [op for op in SAMPLED if op.batch or op.batch_params], ids=str)
def test_batching(op: Op) -> None:
    """Over a batch, an op does for each example what it does for one."""
    size = 3
    for k, (arrays, params) in enumerate(cases(op, op.dtypes[0])):
        examples = [cases(op, op.dtypes[0], seed)[k][0] for seed in range(size)]
        # fixed samples (indices, numbered elements) are turned, so that the examples differ
        examples = [tuple(np.roll(a, seed) for a in example) for seed, example in enumerate(examples)]
        nodes = inputs(arrays, symbolic=False)
        y = op(*nodes, **params)
        for flags in itertools.product([False, True], repeat=len(arrays)):
            if not any(flags):
                continue
            given = [
                np.stack([example[i] for example in examples]) if flag else arrays[i] for i, flag in enumerate(flags)
            ]
            wide = inputs(given, symbolic=False)
            batched = {node: new for node, new, flag in zip(nodes, wide, flags, strict=True) if flag}
            ((result, has_batch),) = batch_graph([y], batched, size)
            assert has_batch
            env = {node: new for node, new in zip(nodes, arrays, strict=True)}
            got = evaluate([result], env | dict(zip(wide, given, strict=True)))[0]
            with np.errstate(all="ignore"):
                expected = [
                    op.reference(*(e if f else a for e, a, f in zip(example, arrays, flags, strict=True)), **params)
                    for example in examples
                ]
            np.testing.assert_allclose(got, np.stack(expected), rtol=1e-12, atol=1e-12)


def test_lowerings_are_expressions_over_the_operands() -> None:
    for op in SAMPLED:
        if isinstance(op, Elementwise):
            for dtype in map(np.dtype, op.dtypes):
                for arrays, params in cases(op, str(dtype))[:1]:
                    text = op.text([a.dtype for a in arrays], **params)
                    compile(text.format(*"abcdefgh", T="f32x8"), op.name, "eval")
        elif isinstance(op, Reduction):
            compile(op.combine.format("a", "b"), op.name, "eval")


def test_masks_combine_by_logic_alone() -> None:
    """In generated code bools are masks: only & | ^ ~ and select exist for them. Their texts give what NumPy gives."""
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for op in SAMPLED:
        if isinstance(op, Elementwise) and op.dtypes[-1] == "bool" and op.name not in ("cast", "where"):
            operands = (a, b)[: len(op.domain)]
            text = op.text([x.dtype for x in operands])
            assert not set(text) - set("{}01&|^~() "), (op, text)
            np.testing.assert_array_equal(eval(text.format("a", "b"), {"a": a, "b": b}), op.reference(*operands))
