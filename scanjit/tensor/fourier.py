"""Discrete Fourier transforms of any length.

Transforms of up to 8 numbers are arithmetic on entries, unless they are rows of 7 or 8 numbers that lie behind each
other. Others are ops with code of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import COMPLEX, Node
from scanjit.ops.elementwise import where
from scanjit.ops.expect import expect
from scanjit.ops.fourier import FOURIER, FROM_HALF_SPECTRUM, HALF_SPECTRUM
from scanjit.ops.parts import is_complex, joined, minus, of_stored, parts, plus, times
from scanjit.ops.passes import is_written_out
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, IOTA, flip, window
from scanjit.ops.stretch import full
from scanjit.ops.view import DIMSHUFFLE
from scanjit.symbol import TensorLike
from scanjit.tensor import sizes
from scanjit.tensor.complex_numbers import conj, real
from scanjit.tensor.joining import stack
from scanjit.tensor.shapes import moveaxis
from scanjit.tensor.variables import axis_of, dimension, inexact
from scanjit.types import Dimension

__all__ = ["fft", "ifft", "irfft", "rfft"]

Norm = Literal["backward", "ortho", "forward"] | None
MOST_ENTRIES = 5
"""The most numbers of rows whose entries are loaded one by one, each from all rows: more are slower than rows that are
transposed in registers."""
FEWEST_ROWS = 4
"""So many rows are transposed at least."""
AT_LEAST_ONE = "a Fourier transform is of at least 1 number"
"""The error for an empty axis."""


def fft(x: TensorLike, n: int | Node | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The discrete Fourier transform along an axis, as `numpy.fft.fft` gives it.

    Parameters
    ----------
    x : tensor_like
        Real or complex.
    n : int or size, optional
        The length of the axis: what is longer is cut, and zeros follow what is shorter. By default, the length of `x`
        there. A length that is known while the function is built has code of its own: it compiles in a fifth of the
        time, and single rows may be transformed up to twice as fast. `sj.jit` knows the lengths of its arguments, and
        makes code for each.
    axis : int
    norm : {"backward", "ortho", "forward"}, optional
        Where the division by n stands: in the inverse transform, by its root in both, or in this one.

    Returns
    -------
    Node
        complex64 for float32 and complex64, else complex128.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fft([1.0, 2.0, 3.0, 4.0]), mode="reference")()
    array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _transformed(x, n, axis, norm, -1)


def ifft(x: TensorLike, n: int | Node | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The inverse of `fft`, with its arguments.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ifft([10.0, -2 + 2j, -2.0, -2 - 2j]), mode="reference")()
    array([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _transformed(x, n, axis, norm, 1)


def rfft(x: TensorLike, n: int | Node | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The first half of `fft` of real numbers: frequencies from 0 to n // 2. The others are their conjugates.

    Examples
    --------
    >>> import scanjit as sj
    >>> abs(sj.function([], sj.rfft([1.0, 2.0, 3.0, 4.0]), mode="reference")()).round(3)
    array([10.   ,  2.828,  2.   ])
    """
    x = inexact(x)
    if is_complex(x):
        raise errors.DtypeError("rfft takes real numbers", got=x.type, fix="use sj.fft, or sj.real(x)")
    x, length = _checked(x, n, _length(x, axis))
    x = _scaled(_of_length(x, length, axis), length, norm, -1)
    if _has_half(length):
        return _placed(of_stored(HALF_SPECTRUM(x)), axis)
    found = _windowed(_dft(joined(x, None), -1), 0, length // 2 + 1)
    place, (first, second) = IOTA(length=length // 2 + 1), parts(found)
    alone = (place == 0) | (2 * place == length)  # what is its own conjugate has no imaginary part
    return _placed(joined(first, where(alone, 0, second), found), axis)


def _has_half(n: Dimension) -> bool:
    """Whether half spectra of n numbers have a statement of their own."""
    if not isinstance(n, int):
        return True
    return not is_written_out(n)


def irfft(x: TensorLike, n: int | Node | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The inverse of `rfft`: `n` real numbers, by default `2 * (m - 1)` of m frequencies.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.irfft([10.0, -2 + 2j, -2.0]), mode="reference")()
    array([1., 2., 3., 4.])
    """
    x = inexact(x)
    x, length = _checked(x, n, 2 * (_length(x, axis) - 1))
    x = _of_length(x if is_complex(x) else joined(x, None), length // 2 + 1, axis)
    x = _scaled(x, length, norm, 1)
    if _has_half(length):
        return _placed(FROM_HALF_SPECTRUM(*x.args, length=length), axis)
    whole = CONCATENATE(x, conj(_flipped(_windowed(x, 1, (length - 1) // 2))), axis=x.ndim - 1)
    return _placed(real(_dft(whole, 1)), axis)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _transformed(x: Any, n: Any, axis: int, norm: Norm, sign: int) -> Node:
    x = inexact(x)
    x, length = _checked(x, n, _length(x, axis))
    x = _scaled(_of_length(x, length, axis), length, norm, sign)
    x = x if is_complex(x) else joined(x, None)
    return _placed(_dft(x, sign, rows=axis_of(axis, x.ndim) == x.ndim - 1), axis)


def _of_length(x: Node, n: Dimension, axis: int) -> Node:
    """The tensor with the axis of the transform behind all others, cut or filled up to the length."""
    length = _length(x, axis)
    x = moveaxis(x, axis, -1)
    if n == length:
        return _windowed(x, 0, n)
    if not isinstance(n, int) or not isinstance(length, int) or n > length:
        more = n - length if isinstance(n, int) and isinstance(length, int) else n
        x = CONCATENATE(x, full(0, (*x.type.shape[:-1], more), x.dtype), axis=x.ndim - 1)
    return _windowed(x, 0, n)


def _length(x: Node, axis: int) -> Dimension:
    """The size of an axis: a number if it is at hand, as there is faster code for a known size."""
    size = x.type.shape[axis_of(axis, x.ndim)]
    found = sizes.at_hand(size)
    return size if found is None else found


def _checked(x: Node, n: Any, default: Dimension) -> tuple[Node, Dimension]:
    """The length that a user gave, a number or a size; else the length that follows from the shape. It is at least
    1."""
    if isinstance(n, Node):
        length = dimension(n)
    elif n is None:
        length = default
    elif isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise errors.ArgumentError("the length of a Fourier transform is a number of at least 1", got=n)
    else:
        length = int(n)
    if isinstance(length, int) and length < 1:
        raise errors.ShapeError(
            AT_LEAST_ONE, got=f"the length {length}, which follows from the shape", fix="give the length: n=..."
        )
    return expect(x, (1, length, AT_LEAST_ONE + ", not of {right}"), error="shape"), length


def check_norm(norm: Any) -> None:
    """Raise an error if this is no norm of a Fourier transform."""
    errors.check_known("norm of a Fourier transform", norm, (None, "backward", "ortho", "forward"))


def _scaled(x: Node, n: Dimension, norm: Norm, sign: int) -> Node:
    check_norm(norm)
    if norm != "ortho" and (norm == "forward") == (sign > 0):
        return x
    scale = 1 / n if isinstance(n, int) else 1 / cast(ir.dim_node(n), x.args[0].dtype if is_complex(x) else x.dtype)
    return x * (scale**0.5 if norm == "ortho" else scale)


def _placed(x: Node, axis: int) -> Node:
    """The tensor with its last axis where the user's axis was."""
    return moveaxis(x, -1, axis)


def _windowed(x: Node, start: int, length: Dimension) -> Node:
    return window(x, x.ndim - 1, start, length)


def _flipped(x: Node) -> Node:
    return flip(x, x.ndim - 1)


# ---- transforms of the last axis -------------------------------------------------------------------------------------


def _dft(x: Node, sign: int, rows: bool = False) -> Node:
    """The transform of the last axis, without a factor. `sign` is that of the exponent. `rows` says that the numbers of
    each transform lie side by side in memory."""
    n = x.type.shape[-1]
    if not isinstance(n, int):
        return of_stored(FOURIER(*x.args, sign=sign))
    count = types.product(x.type.shape[:-1])
    turned = rows and n > MOST_ENTRIES and not (isinstance(count, int) and count < FEWEST_ROWS)
    if is_written_out(n) and not turned:  # elementwise, with a batch in the lanes of vectors
        return stack(_short([_entry(x, i) for i in range(n)], sign), axis=-1)
    return of_stored(FOURIER(*x.args, sign=sign))


def _entry(x: Node, i: int) -> Node:
    """One entry along the last axis."""
    axes = tuple(range(x.ndim - 1))
    return COMPLEX(*(DIMSHUFFLE(window(part, x.ndim - 1, i, 1), order=axes) for part in x.args))


def _short(xs: Sequence[Node], sign: int) -> list[Node]:
    """The transform of a few numbers, written out."""
    n = len(xs)
    radix = next((radix for radix in (2, 3, 5, 7) if n % radix == 0), 1)
    if radix == n:
        return [_turned_sum([(x, j * k) for j, x in enumerate(xs)], n, sign) for k in range(n)]
    inner = [_short(xs[i::radix], sign) for i in range(radix)]
    left = n // radix
    columns = [
        _short([_turned(inner[i][k], i * k, n, sign) for i in range(radix)], sign) if radix > 1 else inner[0]
        for k in range(left)
    ]
    return [columns[k % left][k // left] for k in range(n)]


def _turned_sum(terms: Sequence[tuple[Node, int]], n: int, sign: int) -> Node:
    total = _turned(*terms[0], n, sign)
    for x, power in terms[1:]:
        total = total + _turned(x, power, n, sign)
    return total


def _turned(x: Node, power: int, n: int, sign: int) -> Node:
    """`x` times a power of the n-th root of unity. Quarters of a turn are exchanges, eighths take two products."""
    quarters, rest = divmod(4 * (power % n), n)
    for _ in range(quarters if sign > 0 else -quarters % 4):
        first, second = parts(x)
        x = joined(minus(None, second), first, x)
    if not rest:
        return x
    if 2 * rest == n:
        first, second = parts(x)
        plain, other = minus(first, second), plus(first, second)
        real, imaginary = (plain, other) if sign > 0 else (other, minus(second, first))
        half = ir.constant(math.sqrt(0.5), x.args[0].dtype)
        return joined(times(real, half), times(imaginary, half), x)
    angle = sign * 2 * math.pi * rest / (4 * n)
    return x * complex(math.cos(angle), math.sin(angle))
