"""Discrete Fourier transforms of any length, made of arithmetic on the two parts of complex numbers.

A length is divided into factors (Stockham's form of the algorithm of Cooley and Tukey). For each factor there is one
pass over the numbers: short transforms, straight-line, and a product with powers of the root of unity. A prime factor
up to 64 is a product with a matrix; a larger one is a convolution (Bluestein), which has a length with small factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import COMPLEX, Node
from scanjit.ops.elementwise import cast
from scanjit.ops.fourier import FOURIER
from scanjit.ops.parts import as_stored, is_complex, joined, minus, of_stored, parts, plus, times
from scanjit.ops.passes import WRITTEN_OUT, factors, is_written_out
from scanjit.ops.shape import CONCATENATE, RESHAPE, flip, window
from scanjit.ops.stretch import full
from scanjit.ops.view import DIMSHUFFLE
from scanjit.symbol import TensorLike
from scanjit.tensor import sizes
from scanjit.tensor.complex_numbers import conj, real
from scanjit.tensor.shapes import moveaxis, stack
from scanjit.tensor.variables import as_tensor, axis_of

__all__ = ["fft", "ifft", "irfft", "rfft"]

Norm = Literal["backward", "ortho", "forward"] | None
_LARGEST = 64
"""A length with a larger prime factor is a convolution."""


def fft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The discrete Fourier transform along an axis, as `numpy.fft.fft` gives it.

    Parameters
    ----------
    x : tensor_like
        Real or complex.
    n : int, optional
        The length of the axis: what is longer is cut, and zeros follow what is shorter. By default, the length of `x`
        there, which must be known.
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


def ifft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The inverse of `fft`, with its arguments.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ifft([10.0, -2 + 2j, -2.0, -2 - 2j]), mode="reference")()
    array([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _transformed(x, n, axis, norm, 1)


def rfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The first half of `fft` of real numbers: frequencies from 0 to n // 2. The others are their conjugates.

    Examples
    --------
    >>> import scanjit as sj
    >>> abs(sj.function([], sj.rfft([1.0, 2.0, 3.0, 4.0]), mode="reference")()).round(3)
    array([10.   ,  2.828,  2.   ])
    """
    x = _inexact(x)
    if is_complex(x):
        raise errors.DtypeError("rfft takes real numbers", got=x.type, fix="use sj.fft, or sj.real(x)")
    x, n = _of_length(x, n, axis)
    x = _scaled(x, n, norm, -1)
    if n % 2:
        return _placed(_windowed(_dft(joined(x, None), -1), 0, n // 2 + 1), axis)
    half = n // 2
    z = _dft(of_stored(RESHAPE(x, shape=(*x.type.shape[:-1], half, 2))), -1)  # even and odd entries as two parts
    mirrored = conj(_around(_flipped(z)))
    z, mirrored = (CONCATENATE(y, _windowed(y, 0, 1), axis=y.ndim - 1) for y in (z, mirrored))
    turned = (z - mirrored) * _roots(np.arange(half + 1), n, -1, x.dtype) * -0.5j
    return _placed((z + mirrored) * 0.5 + turned, axis)


def irfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The inverse of `rfft`: `n` real numbers, by default `2 * (m - 1)` of m frequencies.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.irfft([10.0, -2 + 2j, -2.0]), mode="reference")()
    array([1., 2., 3., 4.])
    """
    x = _inexact(x)
    n = 2 * (_length(x, axis) - 1) if n is None else n
    _check_length(n)
    x, _ = _of_length(x if is_complex(x) else joined(x, None), n // 2 + 1, axis)
    x, half = _scaled(x, n, norm, 1), n // 2
    if n % 2:
        whole = CONCATENATE(x, conj(_flipped(_windowed(x, 1, half))), axis=x.ndim - 1)
        return _placed(real(_dft(whole, 1)), axis)
    first, imaginary = x.args
    ends = np.ones(half + 1, first.dtype)
    ends[[0, -1]] = 0  # NumPy does not look at these
    x = COMPLEX(first, imaginary * ends)
    mirrored = conj(_flipped(x))
    z = (x + mirrored) + (x - mirrored) * _roots(np.arange(half + 1), n, 1, first.dtype) * 1j
    found = as_stored(_dft(_windowed(z, 0, half), 1))
    return _placed(RESHAPE(found, shape=(*found.type.shape[:-2], n)), axis)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _transformed(x: Any, n: int | None, axis: int, norm: Norm, sign: int) -> Node:
    x, n = _of_length(_inexact(x), n, axis)
    x = _scaled(x, n, norm, sign)
    return _placed(_dft(x if is_complex(x) else joined(x, None), sign), axis)


def _inexact(x: Any) -> Node:
    x = as_tensor(x)
    return x if x.type.kind.inexact else cast(x, "float64")


def _of_length(x: Node, n: int | None, axis: int) -> tuple[Node, int]:
    """The tensor with the axis of the transform behind all others, cut or filled up to the length; and the length."""
    length = _length(x, axis)
    n = length if n is None else n
    _check_length(n)
    x = moveaxis(x, axis, -1)
    if n > length:
        x = CONCATENATE(x, full(0, (*x.type.shape[:-1], n - length), x.dtype), axis=x.ndim - 1)
    return _windowed(x, 0, n), n


def _length(x: Node, axis: int) -> int:
    length = sizes.at_hand(x.type.shape[axis_of(axis, x.ndim)])
    if length is None:
        raise errors.NotSupportedError(
            "the length of a Fourier transform must be known while a function is built",
            got=x.type,
            fix="declare the size, as in sj.tensor((None, 1024)); sj.jit finds it in its arguments",
        )
    return length


def _check_length(n: Any) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise errors.ArgumentError("the length of a Fourier transform is a number of at least 1", got=n)


def _scaled(x: Node, n: int, norm: Norm, sign: int) -> Node:
    scale = _scale(n, norm, sign)
    return x if scale == 1 else x * scale


def _scale(n: int, norm: Norm, sign: int) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        raise errors.ArgumentError("there is no such norm", got=repr(norm), expected="backward, ortho or forward")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == (sign < 0) else 1.0


def _placed(x: Node, axis: int) -> Node:
    """The tensor with its last axis where the user's axis was."""
    return moveaxis(x, -1, axis)


def _windowed(x: Node, start: int, length: int) -> Node:
    return window(x, x.ndim - 1, start, length)


def _flipped(x: Node) -> Node:
    return flip(x, x.ndim - 1)


def _size(x: Node, axis: int = -1) -> int:
    """The size of an axis, which is known."""
    return types.as_int(x.type.shape[axis])


def _around(x: Node) -> Node:
    """`x` with its last entry in front of the others."""
    n = _size(x) - 1
    return CONCATENATE(_windowed(x, n, 1), _windowed(x, 0, n), axis=x.ndim - 1)


def _roots(powers: np.ndarray, n: int, sign: int, dtype: np.dtype) -> np.ndarray:
    """Powers of the n-th root of unity."""
    angles = (2 * sign * math.pi / n) * (powers % n)
    return np.exp(1j * angles).astype(np.result_type(dtype, np.complex64))


# ---- transforms of the last axis -------------------------------------------------------------------------------------


def _dft(x: Node, sign: int) -> Node:
    """The transform of the last axis, without a factor. `sign` is that of the exponent."""
    n = x.type.shape[-1]
    if not isinstance(n, int):
        return of_stored(FOURIER(as_stored(x), sign=sign))
    if is_written_out(n):  # elementwise, with a batch in the lanes of vectors
        return stack(_short([_entry(x, i) for i in range(n)], sign), axis=-1)
    return _convolved(x, n, sign) if max(factors(n)) > _LARGEST else of_stored(FOURIER(as_stored(x), sign=sign))


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


def _convolved(x: Node, n: int, sign: int) -> Node:
    """The transform of the last axis as a convolution with a chirp (Bluestein)."""
    size = next(m for m in range(2 * n - 1, 4 * n) if max(factors(m)) <= max(WRITTEN_OUT))
    squares = np.arange(n) ** 2 % (2 * n)
    chirp = np.exp(1j * sign * math.pi / n * squares)
    around = np.zeros(size, complex)
    around[:n] = chirp.conj()
    around[size - n + 1 :] = chirp[:0:-1].conj()
    dtype = np.result_type(x.dtype)
    given = x * chirp.astype(dtype)
    given = CONCATENATE(given, full(0, (*x.type.shape[:-1], size - n), dtype), axis=x.ndim - 1)
    spectrum = _dft(given, -1) * (np.fft.fft(around) / size).astype(dtype)
    return _windowed(_dft(spectrum, 1), 0, n) * chirp.astype(dtype)
