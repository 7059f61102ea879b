"""What the tests of cells and of recurrent layers share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.cells import structure

Values = dict[str, np.ndarray]


def randomize(params: Sequence[Any], seed: int = 0, scale: float = 0.5) -> None:
    """Give all parameters random values, biases too."""
    rng = np.random.default_rng(seed)
    for p in params:
        old = p.get_value()
        p.set_value((scale * rng.normal(size=old.shape)).astype(old.dtype))


def values(params: Sequence[Any]) -> Values:
    """The values of parameters by their names."""
    assert len({p.name for p in params}) == len(params)
    return {p.name: p.get_value().astype(np.float64) for p in params}


def named(state: Any) -> dict[str, Any]:
    """The parts of a state by their names; "hid" for a state that is one tensor."""
    parts = zip(structure.paths(state), structure.flatten(state), strict=True)
    return {path or "hid": leaf for path, leaf in parts}


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, (a.shape, b.shape)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def slope(function: Callable[..., Sequence[np.ndarray]], point: Values, direction: Values, weights: Any) -> float:
    """The derivative of a weighted sum of what a function of named arrays gives, along a direction, by differences."""

    def total(step: float) -> float:
        outputs = function({name: value + step * direction[name] for name, value in point.items()})
        return sum(float((w * y).sum()) for w, y in zip(weights, outputs, strict=True))

    h = 1e-5
    return (8 * (total(h) - total(-h)) - (total(2 * h) - total(-2 * h))) / (12 * h)


def check_slope(
    function: Callable[..., Sequence[np.ndarray]], point: Values, weights: Any, gradients: Values, seed: int = 3
) -> None:
    """Gradients against the derivative along a random direction, for each array by itself, and so for its name."""
    rng = np.random.default_rng(seed)
    for name in point:
        direction = {key: np.zeros_like(value) for key, value in point.items()}
        direction[name] = rng.normal(size=point[name].shape)
        expected = slope(function, point, direction, weights)
        got = float((gradients[name] * direction[name]).sum())
        assert abs(got - expected) <= 1e-6 * max(1.0, abs(expected)), (name, got, expected)


def weighted(outputs: Sequence[Any], weights: Any) -> Any:
    """The weighted sum of expressions."""
    return sum((sj.sum(y * w) for w, y in zip(weights, outputs, strict=True)), sj.constant(0.0))
