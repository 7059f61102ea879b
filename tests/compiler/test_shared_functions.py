"""What is alike up to the buffers that it reads is generated once: a stack of many layers has the kernels of few."""

import numpy as np
import pytest

import scanjit as sj


def stack(count, width=16, **options):
    """The gradient of a stack of layers, each with two directions. The first layer has an input of another width."""
    x = sj.tensor((None, None, 24), dtype="float32", name="x")
    weights, y = [], x
    for i in range(count):
        both = []
        for reverse in (False, True):
            w, u = (
                sj.tensor((size, width), dtype="float32", name=f"{name}{i}{reverse:d}")
                for name, size in (("w", y.shape[2]), ("u", width))
            )
            weights += [w, u]
            states = sj.scan(
                lambda x_t, h, w=w, u=u: sj.tanh(x_t @ w + h @ u),
                sequences=y,
                outputs_info=sj.zeros((x.shape[1], width), dtype="float32"),
                go_backwards=reverse,
            )
            both.append(states[::-1] if reverse else states)
        y = sj.concatenate(both, axis=2)
    loss = (y * y).mean()
    return sj.function([x, *weights], [loss, *sj.grad(loss, weights)], **options)


def arrays(count, width=16):
    rng = np.random.default_rng(0)
    layers = [[(24 if i == 0 else 2 * width, width), (width, width)] * 2 for i in range(count)]
    shapes = [(5, 3, 24), *(shape for layer in layers for shape in layer)]
    return [0.3 * rng.standard_normal(shape, np.float32) for shape in shapes]


@pytest.fixture(scope="module")
def five():
    return stack(5, mode="emulate")


def test_more_equal_layers_make_no_more_functions(five):
    few, more = (f.source.count("\ndef ") for f in (five, stack(7, mode="emulate")))
    assert more <= few + 3  # (of many copies, a nest makes eight, and the last ones differ; two layers alone have 20)


def test_functions_that_layers_share_read_the_right_buffers(five):
    expected = stack(5, mode="reference")(*arrays(5))
    for found, right in zip(five(*arrays(5)), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-6)
