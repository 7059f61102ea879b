"""Random numbers as symbols: `Stream`.

A draw is an expression like any other. Its elements are functions of counters (Philox 4x32-10): of the stream's seed,
the number of the draw, the number of the call, the step of the loop in which it is drawn, and the element's place. So a
draw has no state that threads, blocks of time, lanes, unrolling or recomputation for a gradient could disturb: its
numbers are the same in all of them, in every mode and on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, tracing, types
from scanjit.config import config
from scanjit.ir import Node, is_number
from scanjit.kinds import kind_of
from scanjit.loops.scan import scan
from scanjit.ops.elementwise import where
from scanjit.ops.expect import expect
from scanjit.ops.promotion import Elementwise, cast
from scanjit.ops.random import RANDOM_BITS, RANDOM_NORMAL, RANDOM_SHUFFLE, RANDOM_UNIFORM
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import broadcast_to, constant_value
from scanjit.ops.view import DIMSHUFFLE, along
from scanjit.runtime.shared import SharedVariable, shared
from scanjit.tensor.cumulative import cumsum
from scanjit.tensor.elementwise import exp
from scanjit.tensor.numbers import within
from scanjit.tensor.reductions import max as largest, sum as total_of
from scanjit.tensor.shapes import reshape, specify_shape
from scanjit.tensor.variables import as_tensor, dimension, dimensions
from scanjit.types import Dimension

__all__ = ["Stream"]

_KEYS = 2**64
_NO_ELEMENT = -1
"""The index from which the key of a loop's step is drawn. No element of a draw has this index."""


class Stream:
    """A source of random numbers, reproducible from its seed.

    Every draw (each call of one of its methods while a graph is built) is an expression of its own. Every call of a
    compiled function that contains draws gives new numbers: the stream's `state` counts the calls, and `function` and
    `jit` update it by themselves. The numbers depend on the seed, on which draw of the stream it is, on how many calls
    were made since the seed was set, and on nothing else.

    - Inside a step of `scan` (`map`, `while_loop`...) each step draws its own numbers. What is drawn outside and used
      in the step is the same in every step, as variational dropout wants it. Loops nest.
    - Inside a function given to `vmap` each example draws its own numbers.
    - Gradients pass through what is made of a draw (`loc + scale * normal`); the numbers themselves are constants. The
      gradient of a loop sees the numbers that the loop saw.

    Parameters
    ----------
    seed : int, optional
        From 0 to 2**64 - 1. By default one that the operating system chooses. Different seeds give independent numbers.

    Attributes
    ----------
    state : SharedVariable
        The seed and the number of calls so far. To freeze the numbers of a function, list it in its updates as it is:
        `updates={stream.state: stream.state}`.

    Notes
    -----
    Shapes may be symbolic (`x.shape`). A shape of None is that to which the parameters broadcast. Draws are numbered in
    the order in which they are written down; a `jit` function writes down new ones for every new kind of arguments.
    Calls of functions with draws of one stream run one after the other, as all that update one variable.

    Standard normal numbers, uniform numbers between 0 and 1 and all integers are the same to the last bit everywhere.
    `loc + scale * x` is rounded once in compiled code and twice by NumPy.

    References
    ----------
    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> stream = sj.random.Stream(seed=1)
    >>> x = sj.matrix("x")
    >>> dropout = sj.function([x], x * stream.bernoulli(x.shape, 0.5, x.dtype), mode="reference")
    >>> dropout(np.ones((2, 6)))
    array([[1., 1., 1., 0., 1., 1.],
           [1., 0., 1., 1., 0., 1.]])
    >>> dropout(np.ones((2, 6)))
    array([[1., 1., 1., 1., 0., 0.],
           [0., 0., 1., 0., 1., 0.]])
    """

    state: SharedVariable

    def __init__(self, seed: int | None = None) -> None:
        self.state = shared(_first_state(seed), "random_state")
        self.state.default_update = _after_call
        self._draws = 0

    def seed(self, seed: int | None = None) -> None:
        """Start again from a seed. Compiled functions give the numbers of their first call for this seed.

        Examples
        --------
        >>> import scanjit as sj
        >>> stream = sj.random.Stream(1)
        >>> draw = sj.function([], stream.uniform(2), mode="reference")
        >>> first = draw()
        >>> stream.seed(1)
        >>> bool((draw() == first).all())
        True
        """
        self.state.set_value(_first_state(seed))

    def get_state(self) -> tuple[int, int]:
        """The seed, and the number of calls since it was set. With the same graphs, they decide which numbers come
        next.

        Examples
        --------
        >>> import scanjit as sj
        >>> stream = sj.random.Stream(1)
        >>> draw = sj.function([], stream.uniform(2), mode="reference")
        >>> x = draw()
        >>> stream.get_state()
        (1, 1)
        """
        seed, calls = self.state.get_value().tolist()
        return seed % _KEYS, calls

    def set_state(self, state: tuple[int, int]) -> None:
        """Go back to what `get_state` gave.

        Examples
        --------
        >>> import scanjit as sj
        >>> stream = sj.random.Stream(1)
        >>> draw = sj.function([], stream.uniform(2), mode="reference")
        >>> state = stream.get_state()
        >>> first = draw()
        >>> stream.set_state(state)
        >>> bool((draw() == first).all())
        True
        """
        try:
            seed, calls = map(int, state)
        except (TypeError, ValueError):
            raise errors.ArgumentError("the state of a stream must be a pair (seed, calls)", got=repr(state)) from None
        self.state.set_value(_first_state(seed) + np.array([0, calls]))

    def __repr__(self) -> str:
        seed, calls = self.get_state()
        return f"<random stream of seed {seed}: {self._draws} draws, {calls} calls>"

    # ---- distributions -------------------------------------------------------------------------------------------

    def uniform(self, shape: Any = None, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Node:
        """Numbers at least `low` and below `high` (rounding may give `high` itself, unless they are 0 and 1).

        Parameters
        ----------
        shape : ints and integer scalars, optional
        low, high : float or tensor
            They broadcast to the shape. Gradients pass to them.
        dtype : dtype, optional
            float32 (of 24 random bits) or float64 (of 53). By default that of the parameters if they are tensors of
            floats, else `config.floatX`.

        Examples
        --------
        >>> Stream(1).uniform((3, 2), -1, 1).type
        float64(3, 2)
        """
        kind = _float(dtype, low, high)
        sizes = _shape(shape, low, high)
        x = self._draw(RANDOM_UNIFORM, sizes, dtype=kind)
        _check_order(low, high)
        low, high = _parameter(low, kind, sizes), _parameter(high, kind, sizes)
        width = high if _is(low, 0) else high - low
        return _moved(x, low, width)

    def normal(self, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> Node:
        """Normally distributed numbers.

        Parameters
        ----------
        shape : ints and integer scalars, optional
        loc, scale : float or tensor
            The mean and the standard deviation. They broadcast to the shape. Gradients pass to them.
        dtype : dtype, optional
            float32 or float64, as for `uniform`. Of a standard normal number, no float32 is beyond 6.7 and no float64
            beyond 8.6.

        Examples
        --------
        >>> import scanjit as sj
        >>> mean = sj.tensor(("n",), name="mean")
        >>> Stream(1).normal(loc=mean, scale=0.1).type
        float64(n)
        """
        kind = _float(dtype, loc, scale)
        sizes = _shape(shape, loc, scale)
        x = self._draw(RANDOM_NORMAL, sizes, dtype=kind)
        within(scale, "scale of normal")
        return _moved(x, _parameter(loc, kind, sizes), _parameter(scale, kind, sizes))

    def bernoulli(self, shape: Any = None, p: Any = 0.5, dtype: Any = "bool") -> Node:
        """True (or 1) with probability `p`, else False (or 0).

        Parameters
        ----------
        shape : ints and integer scalars, optional
        p : float or tensor
            It broadcasts to the shape. A number outside of 0 ... 1 is an error; in a tensor, what is below 0 counts as
            0, what is above 1 as 1, and NaN as 0.
        dtype : dtype
            Of the result. With float32 here or in `p`, a probability counts to 24 bits, else to 53.

        Examples
        --------
        >>> Stream(1).bernoulli((8,), 0.9).type
        bool(8)
        """
        wanted = types.dtype_of(dtype)
        within(p, "p of bernoulli", 0, 1)
        fits = kind_of(wanted).floating and not kind_of(wanted).is_half
        own = _float(None, p) if _is_tensor(p) else wanted if fits else np.dtype("float64")
        sizes = _shape(shape, p)
        return cast(self._draw(RANDOM_UNIFORM, sizes, dtype=own) < _parameter(p, own, sizes), wanted)

    def integers(self, low: Any, high: Any = None, shape: Any = None, dtype: Any = "int64") -> Node:
        """Integers from `low` to `high` - 1, equally likely; if only `low` is given, from 0 to `low` - 1.

        Parameters
        ----------
        low, high : int or tensor of integers
            The probabilities are equal to one part in 2**53 / (high - low). Where `high` is not above `low` in a
            tensor, the numbers mean nothing.
        shape : ints and integer scalars, optional
        dtype : dtype

        Examples
        --------
        >>> Stream(1).integers(10, shape=(4,)).type
        int64(4)
        """
        if high is None:
            low, high = 0, low
        first, end = (cast(_integers(bound), "int64") for bound in (low, high))
        wanted = types.dtype_of(dtype)
        _check_range(constant_value(first), constant_value(end), wanted)
        sizes = _shape(shape, low, high)
        x = self._draw(RANDOM_UNIFORM, sizes, dtype=np.dtype("float64"))
        return cast(cast(x * cast(end - first, "float64"), "int64") + first, wanted)

    def categorical(self, logits: Any = None, p: Any = None, shape: Any = None, dtype: Any = "int64") -> Node:
        """Numbers of categories: k with a probability proportional to `exp(logits[..., k])`, or to `p[..., k]`.

        Parameters
        ----------
        logits, p : tensor
            One of the two; the last axis is that of the categories. Probabilities need not sum to 1. Known ones that
            are negative, or that are all 0, are an error. In what is not known they are not looked for: the result is
            then some category. A category of probability 0 is not drawn, unless all of them are 0 or one is NaN.
        shape : ints and integer scalars, optional
            The shape of the result, to which the other axes broadcast. By default their own.
        dtype : dtype
            Of integers.

        Examples
        --------
        >>> import scanjit as sj
        >>> Stream(1).categorical(sj.tensor(("n", 5))).type
        int64(n)
        >>> Stream(1).categorical(p=[0.2, 0.8], shape=(5,)).type
        int64(5)
        """
        if (logits is None) == (p is None):
            raise errors.ArgumentError("categorical takes logits or p", got="both" if p is not None else "neither")
        weights = as_tensor(p if logits is None else logits, "float64")
        if weights.ndim == 0 or weights.type.shape[-1] == 0:
            raise errors.ShapeError("categorical needs an axis of categories, of at least one", got=weights.type)
        if logits is None:
            _check_weights(weights)
        else:
            weights = exp(weights - largest(weights, -1, keepdims=True))
        wanted, count = types.dtype_of(dtype), weights.type.shape[-1]
        _check_range(0, count if isinstance(count, int) else None, wanted)
        sizes = weights.type.shape[:-1] if shape is None else dimensions(shape)
        below = cumsum(weights, -1)
        total = below[..., -1]
        x = self._draw(RANDOM_UNIFORM, sizes, dtype=np.dtype("float64")) * _fitting(total, sizes)
        x = where(x < total, x, 0.0)  # which rounding could break: the categories at the end may have probability 0
        passed = DIMSHUFFLE(x, order=(*range(x.ndim), None)) >= below[..., :-1]
        return cast(total_of(passed, -1), wanted)

    def permutation(self, x: Any) -> Node:
        """The numbers 0 ... x - 1 in random order, or the rows of a tensor in random order.

        Parameters
        ----------
        x : int, integer scalar, or tensor
            Of less than 2**32 - 1 rows.

        Notes
        -----
        Each element finds its place by itself, by 48 rounds of the swap-or-not shuffle (Hoang, Morris and Rogaway,
        2012): it costs about a hundred times what a number costs, and there is nothing to sort.

        Examples
        --------
        >>> Stream(1).permutation(5).type
        int64(5)
        """
        rows, count = _rows(x)
        order = self._places(count, count)
        return order if rows is None else rows[order]

    def choice(self, a: Any, shape: Any = (), replace: bool = True, p: Any = None) -> Node:
        """Elements of 0 ... a - 1, or rows of a tensor, at random.

        Parameters
        ----------
        a : int, integer scalar, or tensor
        shape : ints and integer scalars
            How many, and in which shape.
        replace : bool
            Whether an element may be drawn again. Without, there must be enough of them.
        p : tensor, optional
            The probabilities of the elements, as for `categorical`; by default they are equal. Without replacement the
            draws are made one after the other, each among those that are left: a loop.

        Examples
        --------
        >>> import scanjit as sj
        >>> Stream(1).choice(sj.tensor(("n", 2)), (3,), replace=False).type
        float64(3, 2)
        """
        rows, count = _rows(a)
        sizes = dimensions(shape)
        weights = None if p is None else as_tensor(p, "float64")
        if weights is not None:
            if weights.ndim != 1:
                raise errors.ShapeError("p of choice has one axis", got=weights.type)
            weights = specify_shape(weights, (count,), "the vector of probabilities of choice, one for each element,")
        if replace and weights is None:
            found = self.integers(ir.dim_node(count), shape=sizes)
        elif replace:
            found = self.categorical(p=weights, shape=sizes)
        else:
            found = self._different(count, sizes, weights)
        return found if rows is None else rows[found]

    def _different(self, count: Dimension, sizes: tuple[Dimension, ...], weights: Node | None) -> Node:
        """Different numbers below `count`."""
        wanted = types.product(sizes)
        if weights is None:
            drawn = self._places(wanted, count)
        else:

            def step(left: Node) -> tuple[Node, Node]:
                found = self.categorical(p=left)
                return found, left[found].set(0.0)

            drawn, _ = scan(step, outputs_info=[None, weights], n_steps=wanted)
        enough = expect(drawn, (wanted, count, "choice of {left} from {right} without replacement"))
        return enough if len(sizes) == 1 else reshape(enough, tuple(map(ir.dim_node, sizes)))

    # ---- draws ---------------------------------------------------------------------------------------------------

    def _counter(self) -> tuple[Node, Node]:
        """The key of a new draw, and the block: the step (or example) of the innermost loop in which it is drawn."""
        number, self._draws = self._draws, self._draws + 1
        state = self.state.__scanjit_node__()
        key = RANDOM_BITS(state[0], ir.constant(np.int64(number)), state[1])
        blocks = [function.number for function in tracing.active()] or [ir.constant(np.int64(0))]
        for block in blocks[:-1]:
            key = RANDOM_BITS(key, block, ir.constant(np.int64(_NO_ELEMENT)))
        return key, blocks[-1]

    def _draw(self, op: Elementwise, sizes: tuple[Dimension, ...], **params: Any) -> Node:
        return broadcast_to(op(*self._counter(), _element(sizes), **params), sizes)

    def _places(self, wanted: Dimension, count: Dimension) -> Node:
        """The places to which a random permutation of `count` elements takes the first ones."""
        if isinstance(count, int) and count >= 2**32 - 1:
            raise errors.ArgumentError("a permutation has less than 2**32 - 1 elements", got=count)
        return RANDOM_SHUFFLE(*self._counter(), IOTA(length=wanted), ir.dim_node(count))


def _first_state(seed: object) -> np.ndarray:
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < _KEYS:
        raise errors.ArgumentError("a seed is an integer", got=repr(seed), expected="0 <= seed < 2**64, or None")
    return np.array([seed, 0], np.uint64).astype(np.int64)


def _after_call(state: Node) -> Node:
    """The state after a call: one call more."""
    return state + IOTA(length=2)


def _element(sizes: Sequence[Dimension]) -> Node:
    """The place of each element in row-major order. Sizes that are known to be 1 are left out; these axes are stretched
    later."""
    place = ir.constant(np.int64(0))
    for axis, size in enumerate(sizes):
        if size != 1:
            line = along(IOTA(length=size), axis, len(sizes))
            below = types.product(sizes[axis + 1 :])
            step = line if isinstance(below, int) and below == 1 else line * ir.dim_node(below)
            place = step if place.ndim == 0 else place + step
    return place


# ---- parameters ------------------------------------------------------------------------------------------------------


def _is_tensor(value: Any) -> bool:
    """Whether a parameter has a dtype of its own."""
    return hasattr(value, "dtype") or isinstance(value, list | tuple)


def _float(dtype: Any, *parameters: Any) -> np.dtype:
    """The dtype of numbers with these parameters."""
    if dtype is None:
        found = [as_tensor(value).dtype for value in parameters if _is_tensor(value)]
        floats = [one for one in found if kind_of(one).floating]
        dtype = types.promote(floats) if floats else config.floatX
    wanted = types.dtype_of(dtype)
    if not kind_of(wanted).floating or kind_of(wanted).is_half:
        raise errors.DtypeError("these random numbers are floats", got=wanted, expected="float32 or float64")
    return wanted


def _integers(value: Any) -> Node:
    node = as_tensor(value)
    if not node.type.kind.integral:
        raise errors.DtypeError("the bounds of random integers are integers", got=node.type)
    return node


def _shape(shape: Any, *parameters: Any) -> tuple[Dimension, ...]:
    """The given shape; None stands for the shape to which the parameters broadcast."""
    if shape is not None:
        return dimensions(shape)
    return types.broadcast([as_tensor(value).type.shape for value in parameters], "the parameters of random numbers")


def _fitting(node: Node, sizes: tuple[Dimension, ...]) -> Node:
    """A parameter, which must not be larger than the draw."""
    return node if node.ndim == 0 else broadcast_to(node, sizes)


def _parameter(value: Any, dtype: np.dtype, sizes: tuple[Dimension, ...]) -> Any:
    """A parameter, ready for arithmetic. Python's numbers stay as they are."""
    if is_number(value):
        return value
    return _fitting(as_tensor(value, dtype), sizes)


def _is(value: Any, number: float) -> bool:
    return isinstance(value, int | float) and value == number


def _moved(x: Node, by: Any, factor: Any) -> Node:
    """`by + factor * x`; terms and factors that change nothing are left out."""
    x = x if _is(factor, 1) else x * factor
    return x if _is(by, 0) else x + by


def _known(value: Any) -> np.ndarray | None:
    return constant_value(as_tensor(value))


def _check_range(first: Any, end: Any, dtype: np.dtype) -> None:
    """Raise an error if integers from `first` to `end` - 1, as far as these are known, are none or do not fit."""
    if first is None or end is None:
        return
    if np.any(first >= end):
        raise errors.ArgumentError("there is no integer to draw", got=f"from {first}, below {end}")
    if np.any(end - first < 0):
        raise errors.ArgumentError(
            "the range of random integers is too wide", got=f"from {first}, below {end}", expected="high - low < 2**63"
        )
    least, most = kind_of(dtype).limits
    if np.any(first < least) or np.any(end - 1 > most):
        raise errors.ArgumentError(f"these random integers do not fit {dtype}", got=f"from {first}, below {end}")


def _check_order(low: Any, high: Any) -> None:
    """Raise an error if numbers that are known now are in the wrong order."""
    first, last = _known(low), _known(high)
    if first is not None and last is not None and np.any(first > last):
        raise errors.ArgumentError(
            "low and high of uniform do not fit", got=f"{first} and {last}", expected="low <= high"
        )


def _check_weights(weights: Node) -> None:
    known = _known(weights)
    if known is not None and not (np.all(known >= 0) and np.all(known.sum(-1) > 0)):
        raise errors.ArgumentError(
            "the probabilities of categories are not negative, and not all 0", got=known.tolist()
        )


def _rows(x: Any) -> tuple[Node | None, Dimension]:
    """The rows that `choice` takes from a tensor (None for the numbers below an integer), and how many there are."""
    node = None if isinstance(x, int | types.Dim) else as_tensor(x)
    if node is None or node.ndim == 0:
        return None, dimension(x)
    return node, node.type.shape[0]
