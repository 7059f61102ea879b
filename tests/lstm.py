"""The LSTM that tests of many kinds compile, as a user writes it with `scan`: nothing in it knows of tiles."""

from typing import Any

import scanjit as sj


def lstm_step(z: Any, c: Any) -> tuple[Any, Any]:
    """A step: the output and the new cell, of the terms `z` of the four gates side by side, and of the cell before."""
    i, f, g, o = sj.split(z, 4, axis=1)
    c = sj.sigmoid(f) * c + sj.sigmoid(i) * sj.tanh(g)
    return sj.sigmoid(o) * sj.tanh(c), c


def lstm_outputs(x: Any, w: Any, r: Any, b: Any = 0, **options: Any) -> Any:
    """The outputs of a layer; `options` are those of `scan`."""
    zero = sj.zeros((x.shape[1], r.shape[0]), x.dtype)
    return sj.scan(lambda row, h, c: lstm_step(row @ w + h @ r + b, c), x, [zero, zero], **options)[0]
