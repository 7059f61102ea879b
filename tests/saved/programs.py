"""Programs with all that a saved function can hold, and what a call of each is given."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import scanjit as sj
from lasagne_like import layers, random
from scanjit.ir import OPS
from tests.ops.support import inputs


class Program(NamedTuple):
    name: str
    symbols: Sequence[sj.Node]
    outputs: Any
    updates: Mapping[sj.SharedVariable, Any]
    given: Sequence[Any]


def every_op(dtypes: int = 2, samples: int | None = None) -> Program:
    """Every op of the table, for so many dtypes and samples each; None is all of these."""
    nodes, outputs, values, rng = [], [], [], np.random.default_rng(0)
    for op in OPS.values():
        for dtype in op.dtypes[:dtypes] if op.samples else ():
            for k, (given, params) in enumerate([*op.samples(np.random.default_rng(0), dtype)][:samples]):
                arrays = [np.asarray(array) for array in given]
                made = inputs(arrays, symbolic=k % 2 == 1)
                nodes, values, outputs = nodes + made, values + arrays, [*outputs, op(*made, **params)]
    x, w = sj.tensor(("T", None), name="x"), sj.shared(rng.normal(size=3))
    total = sj.scan(lambda row, before: before * w.sum() + row, x, sj.zeros(x.shape[1]))
    outputs += [x.shape[0] * 2 + 1, OPS["via"](total, total * 2), *sj.grad(total.sum(), [x, w])]
    outputs += [*sj.custom_vjp(lambda x: (x, x + 1))(x)]
    outputs += [sj.ifelse(x.sum() > 0, total, total * 2)]
    given = [*values, rng.normal(size=(4, 2))]
    return Program("every_op", [*nodes, x], outputs, {}, given)


def loops() -> Iterator[Program]:
    """Programs of all that the graph can hold; each with arguments. (Gradients of loops of unknown length inside loops
    are not compiled.)"""
    x, n, w = sj.tensor(("T", None), name="x"), sj.scalar("n", dtype="int64"), sj.shared(np.eye(2) * 0.5, "w")
    given, stream = np.random.default_rng(0).normal(size=(5, 2)), sj.random.Stream(3)
    h = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros(2), checkpoint="sqrt", name="h")
    yield Program("gradient", [x], [h, sj.grad((h**2).sum(), w)], {w: w * 0.9}, [given])

    def outer(row, h):
        return sj.scan(lambda v, a: (a * 0.5 + v, sj.until(a > 3)), row, h)[-1]

    nested = sj.scan(outer, x, sj.constant(0.0), unroll=2, truncate_gradient=2)
    yield Program("nested", [x], [nested, sj.grad(nested.sum(), x)], {}, [given])
    yield Program(
        "sizes", [x, n], [x[:n], x[n:].sum(0), sj.arange(n * 2 + 1), x[x.shape[0] // 2 :: -2]], {}, [given, 2]
    )
    draws = sj.scan(lambda row: row * stream.bernoulli((2,), 0.5) + stream.normal((2,)), x)
    yield Program("random", [x], [draws, stream.choice(7, (3,))], {}, [given])
    image, filters = sj.tensor4("image"), sj.tensor4("filters")
    pictures = [np.random.default_rng(1).normal(size=shape) for shape in ((2, 3, 6, 5), (4, 3, 3, 2))]
    maps = sj.conv2d(image, filters)
    yield Program("convolution", [image, filters], [maps, *sj.grad((maps**2).sum(), [image, filters])], {}, pictures)
    limits = sj.clip_gradient(x, -np.inf, 0.5).sum()
    yield Program("limits", [x], [limits, sj.grad(limits, x), sj.specify_shape(x, (None, 2))], {}, [given])


def network() -> Program:
    """A step of training: a bidirectional LSTM with masks, on known and unknown sizes."""
    random.set_rng(np.random.RandomState(5))
    l_in, l_mask = layers.InputLayer((None, None, 3)), layers.InputLayer((None, None))
    sides = [layers.LSTMLayer(l_in, 4, mask_input=l_mask, backwards=backwards) for backwards in (False, True)]
    l_out = layers.DenseLayer(layers.ConcatLayer(sides, axis=2), 2, num_leading_axes=2)
    x, mask = sj.tensor3("x"), sj.matrix("mask")
    loss = (layers.get_output(l_out, {l_in: x, l_mask: mask}) ** 2).mean()
    weights = layers.get_all_params(l_out, trainable=True)
    updates = {w: w - 0.1 * slope for w, slope in zip(weights, sj.grad(loss, weights), strict=True)}
    rng = np.random.default_rng(0)
    return Program("network", [x, mask], {"loss": loss}, updates, [rng.normal(size=(2, 5, 3)), np.ones((2, 5))])


def all_programs() -> list[Program]:
    """All of them, with few samples of each op: their files are kept."""
    return [every_op(1, 2), *loops(), network()]
