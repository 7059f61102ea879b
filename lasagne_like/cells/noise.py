"""Noise inside recurrences: dropout and zoneout. `deterministic=True` turns it off."""

import copy
from abc import ABC
from functools import cached_property
from typing import Any

import scanjit as sj
from lasagne_like import random
from lasagne_like.cells.base import Cell
from lasagne_like.cells.structure import flatten, paths, unflatten
from lasagne_like.cells.wrappers import Wrapper

__all__ = ["DropoutWrapper", "Zoneout"]


def rate(value: float, what: str) -> float:
    """Check a probability with which values are dropped. Returns it."""
    if not 0 <= value < 1:
        raise ValueError(f"{what} is the probability with which values are dropped: 0 <= p < 1, got {value!r}")
    return float(value)


def is_memory(path: str) -> bool:
    """Whether a part of a state is memory, which dropout does not change. All parts with names are memory, except for
    "hid", the last output.

    Examples
    --------
    >>> is_memory("cell"), is_memory("0.hid"), is_memory(""), is_memory("1")
    (True, False, False, False)
    """
    name = path.rpartition(".")[2]
    return bool(name) and name != "hid" and not name.isdigit()


class Draws(ABC):
    """The base of cells that draw random numbers. Each has its own stream, which `_begin_draws(seed)` makes."""

    def _begin_draws(self, seed: int | None) -> None:
        self._seed = random.new_seed() if seed is None else seed

    @cached_property
    def _stream(self) -> Any:
        return sj.random.Stream(self._seed)

    def drawing(self) -> Any:
        """A copy that draws from the same stream."""
        self._stream  # noqa: B018 - it is made now, so that this cell and all its copies have the same stream
        return copy.copy(self)

    def uniform(self, shape: Any, dtype: Any) -> Any:
        """Random numbers between 0 and 1. In a loop, each step draws new numbers."""
        return sj.cast(self._stream.uniform(shape), dtype)

    def kept(self, p: float, shape: Any, dtype: Any) -> Any:
        """Random factors for dropout: 0 with probability p, and 1 / (1 - p) otherwise."""
        return sj.cast(self.uniform(shape, dtype) >= p, dtype) / (1 - p)


class _Noisy(Draws, Wrapper, ABC):
    """The base of wrappers that draw random numbers."""

    def __init__(self, cell: Cell, seed: int | None = None, name: str | None = None) -> None:
        super().__init__(cell, name)
        self._begin_draws(seed)

    def noisy(self, cell: Cell) -> Any:
        """A copy with another inner cell. It draws from the same stream."""
        return self.drawing().with_cell(cell)


class DropoutWrapper(_Noisy):
    """Dropout of the input, the state and the output of a cell.

    With probability p, a value is set to 0. The other values are divided by 1 - p. If a state has several parts, only
    the last output (`hid`) is dropped, and memory does not change.

    Parameters
    ----------
    cell : Cell
    input, state, output : float
        The probabilities p for the input, the state and the output.
    variational : bool
        Whether all steps of a sequence drop the same values. By default, each step drops other values.
    seed : int, optional
        The seed of the random numbers. By default it is drawn from `lasagne_like.random.get_rng()`.
    name : str, optional

    References
    ----------
    Gal and Ghahramani, "A theoretically grounded application of dropout in recurrent neural networks", 2016.

    Examples
    --------
    >>> from lasagne_like.cells import LSTM, DropoutWrapper
    >>> DropoutWrapper(LSTM(5), input=0.2, output=0.5).build(3).output_shape
    (5,)
    """

    def __init__(
        self,
        cell: Cell,
        input: float = 0.0,
        state: float = 0.0,
        output: float = 0.0,
        variational: bool = False,
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(cell, seed, name)
        self.input, self.state, self.output = rate(input, "input"), rate(state, "state"), rate(output, "output")
        self.variational = variational
        self._masks: dict[str, list[Any]] = {}

    def begin(self, batch: Any, deterministic: bool = False, **kwargs: Any) -> Any:
        inner = self.cell.begin(batch, deterministic=deterministic, **kwargs)
        if deterministic:
            return inner
        other = self.noisy(inner)
        if self.variational:
            shapes = {"input": self.input_shape, "state": self.state_shape, "output": self.output_shape}
            other._masks = {
                which: [self.kept(p, (batch, *shape), self.dtype) for shape in flatten(whole)]
                for which, whole in shapes.items()
                if (p := getattr(self, which))
            }
        return other

    def _dropped(self, value: Any, which: str, skip: bool = False) -> Any:
        """A structure of tensors after dropout. `which` is "input", "state" or "output"."""
        p: float = getattr(self, which)
        if not p:
            return value
        leaves = flatten(value)
        memory = [skip and is_memory(path) for path in paths(value)]
        masks: list[Any] = self._masks.get(which) or [None] * len(leaves)
        result = []
        for leaf, mask, kept in zip(leaves, masks, memory, strict=True):
            # a mask for all steps of a sequence has no axis of time: it is broadcast
            drawn = mask if self.variational else None if kept else self.kept(p, leaf.shape, leaf.dtype)
            result.append(leaf if kept else leaf * drawn)
        return unflatten(value, result)

    def precompute(self, x: Any) -> Any:
        return self.cell.precompute(self._dropped(x, "input"))

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        output, state = self.cell.recur(z, state)
        state = self._dropped(state, "state", skip=True)
        return self._dropped(output, "output"), state


class Zoneout(_Noisy):
    """In each step, random units keep their old state.

    A unit keeps it with probability p. With `deterministic=True`, the new state of all units is `p * old + (1 - p) *
    new`.

    Parameters
    ----------
    cell : Cell
    hid : float
        The probability for the units of the last output, or of a state that is one tensor.
    memory : float
        The probability for the other parts of the state, such as the memory of an LSTM.
    seed : int, optional
        The seed of the random numbers. By default it is drawn from `lasagne_like.random.get_rng()`.
    name : str, optional

    References
    ----------
    Krueger et al., "Zoneout: regularizing RNNs by randomly preserving hidden activations", 2017.

    Examples
    --------
    >>> from lasagne_like.cells import LSTM, Zoneout
    >>> Zoneout(LSTM(5), hid=0.05, memory=0.5).build(3).output_shape
    (5,)
    """

    def __init__(
        self, cell: Cell, hid: float = 0.0, memory: float = 0.0, seed: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(cell, seed, name)
        self.hid, self.memory = rate(hid, "hid"), rate(memory, "memory")
        self._deterministic = False

    def begin(self, batch: Any, deterministic: bool = False, **kwargs: Any) -> Any:
        inner = self.cell.begin(batch, deterministic=deterministic, **kwargs)
        other = self.with_cell(inner) if deterministic else self.noisy(inner)
        other._deterministic = deterministic
        return other

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        output, new = self.cell.recur(z, state)
        result = []
        for path, old, now in zip(paths(state), flatten(state), flatten(new), strict=True):
            p = self.memory if is_memory(path) else self.hid
            mixed = now
            if p and self._deterministic:
                mixed = p * old + (1 - p) * now
            elif p:
                mixed = sj.where(self.uniform(now.shape, now.dtype) < p, old, now)
            # if the output is a part of the state, it is that part of the mixed state
            output = unflatten(output, [mixed if leaf is now else leaf for leaf in flatten(output)])
            result.append(mixed)
        return output, unflatten(new, result)
