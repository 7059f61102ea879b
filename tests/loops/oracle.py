"""Theano's scan as a plain Python loop over NumPy arrays, written from its documentation and nothing else."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def scan(
    fn: Callable[..., tuple[list[Any], bool]],
    sequences: Sequence[tuple[np.ndarray, Sequence[int]]] = (),
    outputs_info: Sequence[tuple[np.ndarray, Sequence[int]] | None] = (),
    non_sequences: Sequence[Any] = (),
    n_steps: int | None = None,
    go_backwards: bool = False,
) -> list[list[np.ndarray]]:
    """The rows of each output.

    `fn` returns its outputs and whether to stop after this step. An output with taps [-1] has an initial value without
    a time axis.
    """
    spans = []
    for x, taps in sequences:
        first = -min(0, *taps, 0)  # the row that tap 0 reads in the first step
        last = len(x) - 1 - max(0, *taps, 0)
        spans.append((first, last))
    steps = min((last - first + 1 for first, last in spans), default=n_steps)
    steps = steps if n_steps is None else n_steps
    history: list[Any] = []
    for info in outputs_info:
        if info is None:
            history.append(None)
            continue
        initial, taps = info
        history.append([initial] if list(taps) == [-1] else [initial[k] for k in range(-min(taps))])
    results: list[list[Any]] = [[] for _ in outputs_info]
    for i in range(steps):
        args = []
        for (x, taps), (first, last) in zip(sequences, spans, strict=True):
            now = last - i if go_backwards else first + i
            args += [x[now + tap] for tap in taps]
        for info, past in zip(outputs_info, history, strict=True):
            args += [past[tap] for tap in info[1]] if info is not None else []
        values, stop = fn(*args, *non_sequences)
        for value, past, rows in zip(values, history, results, strict=True):
            rows.append(value)
            if past is not None:
                past.append(value)
        if stop:
            break
    return results
