"""Generated code computes what the reference computes: every op, every dtype that it lists, all of its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ir import OPS, PART, Node, Op
from scanjit.ops import Elementwise
from scanjit.ops.samples import sample
from tests.fuzz.check import Config, agree
from tests.ops.support import inputs

SAMPLED = [op for op in OPS.values() if op.samples is not None]
ELEMENTWISE = [op for op in SAMPLED if isinstance(op, Elementwise)]
OTHERS = [op for op in SAMPLED if not isinstance(op, Elementwise)]
DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool")


def outputs_of(op: Op, dtype: str, symbolic: bool) -> tuple[list[Node], list[Node], list[np.ndarray]]:
    """Inputs, outputs and arguments: all samples of an op."""
    assert op.samples is not None
    nodes, made, arrays = [], [], []
    for args, params in op.samples(np.random.default_rng(7), dtype):
        given = inputs(args, symbolic)
        nodes += given
        arrays += [np.asarray(a) for a in args]
        result = op(*given, **params)
        made += [PART(result, index=i) for i in range(len(result.types))] if _several(result) else [result]
    return nodes, made, arrays


def _several(node: Node) -> bool:
    return node.several


def same(nodes: list[Node], made: list[Node], arrays: list[np.ndarray], *configs: Config) -> None:
    """Run in all these ways, and compare with the reference."""
    expected = sj.function(nodes, made, mode="reference")(*arrays)
    for config in configs:
        with config.active():
            got = sj.function(nodes, made, mode=config.mode)(*arrays)
        for node, a, b in zip(made, got, expected, strict=True):
            assert agree(a, b), f"{config}: {node!r}: {a}, not {b}"


@pytest.mark.quick(65)
@pytest.mark.parametrize(("symbolic", "widths"), [(False, (64, 4)), (True, (64, 16))], ids=["static", "symbolic"])
@pytest.mark.parametrize("op", SAMPLED, ids=str)
def test_emulated(op: Op, symbolic: bool, widths: tuple[int, ...]) -> None:
    configs = [Config(width=width, rewrite=symbolic) for width in widths]
    with np.errstate(all="ignore"):
        for dtype in op.dtypes:
            same(*outputs_of(op, dtype, symbolic), *configs)


def applied(op: Elementwise, dtype: str, size: int, rng: np.random.Generator) -> tuple[list[Any], list[np.ndarray]]:
    """Vectors in the domain of an elementwise op, of the dtypes that its samples have."""
    operands, _ = next(iter(op.samples(np.random.default_rng(0), dtype)))  # type: ignore[misc]
    dtypes = [str(np.asarray(operand).dtype) for operand in operands]
    arrays = [sample(rng, (size,), own, *pair) for own, pair in zip(dtypes, op.domain, strict=True)]
    return [sj.tensor(("n",), a.dtype) for a in arrays], arrays


def elementwise(dtype: str, size: int) -> tuple[list[Node], list[Node], list[np.ndarray]]:
    """All elementwise ops of a dtype, each on vectors of its own."""
    rng = np.random.default_rng(3)
    nodes, made, arrays = [], [], []
    for op in ELEMENTWISE:
        assert isinstance(op, Elementwise)
        if dtype not in op.dtypes:
            continue
        given, values = applied(op, dtype, size, rng)
        nodes, arrays = nodes + given, arrays + values
        params = {repr(params): params for _, params in op.samples(np.random.default_rng(0), dtype)}  # type: ignore[misc]
        made += [op(*given, **chosen) for chosen in params.values()]
    return nodes, made, arrays


@pytest.mark.quick(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_compiled(dtype: str) -> None:
    """One function of all elementwise ops: few kernels. Sizes that are less than a vector, several, and none."""
    nodes, made, _ = elementwise(dtype, 1)
    compiled = sj.function(nodes, made)
    reference = sj.function(nodes, made, mode="reference")
    with np.errstate(all="ignore"), Config("numba").active():
        for size in (0, 1, 7, 16, 33):
            _, _, arrays = elementwise(dtype, size)
            for node, a, b in zip(made, compiled(*arrays), reference(*arrays), strict=True):
                assert agree(a, b), f"{node!r} of size {size}: {a}, not {b}"


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "argmax", "argmin"])
def test_reductions_compiled(op: str, rng: np.random.Generator) -> None:
    """Along the lanes and across them."""
    nodes, made, arrays = [], [], []
    for dtype in ("float32", "int64"):
        x = sj.tensor(("n", "m"), dtype)
        nodes.append(x)
        arrays.append(sample(rng, (5, 19), dtype))
        made += [OPS[op](x, **({"axis": a} if op.startswith("arg") else {"axes": (a,)})) for a in (0, 1)]
    same(nodes, made, arrays, Config("numba"))


@pytest.mark.slow
def test_others_compiled() -> None:
    """Views, gathers, scatters, products: float32, one sample after the other in one function."""
    nodes, made, arrays = [], [], []
    for op in OTHERS:
        if op.name in ("sum", "prod", "max", "min", "argmax", "argmin") or "float32" not in op.dtypes:
            continue
        n, m, a = outputs_of(op, "float32", False)
        nodes, made, arrays = nodes + n, made + m, arrays + a
    same(nodes, made, arrays, Config("numba"))
