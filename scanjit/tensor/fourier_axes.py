"""Discrete Fourier transforms of several axes, of symmetric numbers, and the order of their frequencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scanjit import errors
from scanjit.config import config
from scanjit.ir import Node, as_dim, dim_node
from scanjit.ops.elementwise import where
from scanjit.ops.promotion import cast
from scanjit.symbol import Axis, TensorLike
from scanjit.tensor.complex_numbers import conj
from scanjit.tensor.creation import arange
from scanjit.tensor.fourier import Norm, check_norm, fft, ifft, irfft, rfft
from scanjit.tensor.joining import roll
from scanjit.tensor.variables import as_tensor, axes_of

__all__ = [
    "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft2", "irfftn", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip

Lengths = Sequence[int | Node] | None
Axes = Sequence[int] | None
LAST_TWO = (-2, -1)
INVERSE: dict[Norm, Norm] = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm of the inverse transform."""


def fftn(x: TensorLike, s: Lengths = None, axes: Axes = None, norm: Norm = None) -> Node:
    """The discrete Fourier transform along several axes, as `numpy.fft.fftn` gives it.

    Parameters
    ----------
    x : tensor_like
        Real or complex.
    s : sequence of ints, optional
        The lengths of the axes. See `fft`.
    axes : sequence of ints, optional
        By default the last axes if there is `s`, else all.
    norm : {"backward", "ortho", "forward"}, optional
        See `fft`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fftn([[1.0, 2.0], [3.0, 4.0]]), mode="reference")()
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return _along(fft, as_tensor(x), _pairs(x, s, axes), norm)


def ifftn(x: TensorLike, s: Lengths = None, axes: Axes = None, norm: Norm = None) -> Node:
    """The inverse of `fftn`, with its arguments.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ifftn([[10.0, -2.0], [-4.0, 0.0]]), mode="reference")()
    array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]])
    """
    return _along(ifft, as_tensor(x), _pairs(x, s, axes), norm)


def rfftn(x: TensorLike, s: Lengths = None, axes: Axes = None, norm: Norm = None) -> Node:
    """The `rfft` along the last one of several axes, and the `fft` along the others. Arguments as for `fftn`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rfftn([[1.0, 2.0], [3.0, 4.0]]), mode="reference")()
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    *others, (n, axis) = _pairs(x, s, axes)
    return _along(fft, rfft(x, n, axis, norm), others, norm)


def irfftn(x: TensorLike, s: Lengths = None, axes: Axes = None, norm: Norm = None) -> Node:
    """The inverse of `rfftn`. The last length is by default `2 * (m - 1)` for m frequencies.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.irfftn([[10.0, -2.0], [-4.0, 0.0]]), mode="reference")()
    array([[1., 2.],
           [3., 4.]])
    """
    *others, (n, axis) = _pairs(x, s, axes)
    return irfft(_along(ifft, as_tensor(x), others, norm), n, axis, norm)


def fft2(x: TensorLike, s: Lengths = None, axes: Axes = LAST_TWO, norm: Norm = None) -> Node:
    """`fftn` along two axes, by default the last ones.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fft2([[1.0, 2.0], [3.0, 4.0]]), mode="reference")()
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return fftn(x, s, axes, norm)


def ifft2(x: TensorLike, s: Lengths = None, axes: Axes = LAST_TWO, norm: Norm = None) -> Node:
    """`ifftn` along two axes, by default the last ones.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ifft2([[10.0, -2.0], [-4.0, 0.0]]), mode="reference")()
    array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]])
    """
    return ifftn(x, s, axes, norm)


def rfft2(x: TensorLike, s: Lengths = None, axes: Axes = LAST_TWO, norm: Norm = None) -> Node:
    """`rfftn` along two axes, by default the last ones.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rfft2([[1.0, 2.0], [3.0, 4.0]]), mode="reference")()
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return rfftn(x, s, axes, norm)


def irfft2(x: TensorLike, s: Lengths = None, axes: Axes = LAST_TWO, norm: Norm = None) -> Node:
    """`irfftn` along two axes, by default the last ones.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.irfft2([[10.0, -2.0], [-4.0, 0.0]]), mode="reference")()
    array([[1., 2.],
           [3., 4.]])
    """
    return irfftn(x, s, axes, norm)


def hfft(x: TensorLike, n: int | Node | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The transform of numbers whose second half is the conjugate of the first one, which is not given: it is real.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.hfft([1.0, 2.0, 3.0]), mode="reference")()
    array([ 8., -2.,  0., -2.])
    """
    check_norm(norm)
    return irfft(conj(x), n, axis, INVERSE[norm])


def ihfft(x: TensorLike, n: int | Node | None = None, axis: int = -1, norm: Norm = None) -> Node:
    """The inverse of `hfft`.

    Examples
    --------
    >>> import scanjit as sj
    >>> abs(sj.function([], sj.ihfft([8.0, -2.0, 0.0, -2.0]), mode="reference")())
    array([1., 2., 3.])
    """
    check_norm(norm)
    return conj(rfft(x, n, axis, INVERSE[norm]))


# ---- frequencies -----------------------------------------------------------------------------------------------------


def fftfreq(n: int | Node, d: TensorLike = 1.0) -> Node:
    """The frequencies of a Fourier transform of `n` samples that are `d` apart, as `fft` orders them.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fftfreq(4, 0.5), mode="reference")()
    array([ 0. ,  0.5, -1. , -0.5])
    """
    place = arange(n)
    size = dim_node(as_dim(n))
    return _frequencies(where(place < (size + 1) // 2, place, place - size), size, d)


def rfftfreq(n: int | Node, d: TensorLike = 1.0) -> Node:
    """The frequencies of a Fourier transform of `n` real samples that are `d` apart, as `rfft` orders them.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.rfftfreq(4, 0.5), mode="reference")()
    array([0. , 0.5, 1. ])
    """
    size = dim_node(as_dim(n))
    return _frequencies(arange(size // 2 + 1), size, d)


def _frequencies(place: Node, size: Node, d: TensorLike) -> Node:
    return cast(place, config.floatX) / (cast(size, config.floatX) * d)


def fftshift(x: TensorLike, axes: Axis = None) -> Node:
    """The frequencies in ascending order: zero moves to the middle of the axes (None: of all).

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.fftshift([0, 1, 2, -2, -1]), mode="reference")()
    array([-2, -1,  0,  1,  2])
    """
    return _shifted(as_tensor(x), axes, 1)


def ifftshift(x: TensorLike, axes: Axis = None) -> Node:
    """The inverse of `fftshift`.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.ifftshift([-2, -1, 0, 1, 2]), mode="reference")()
    array([ 0,  1,  2, -2, -1])
    """
    return _shifted(as_tensor(x), axes, -1)


def _shifted(x: Node, axes: Axis, direction: int) -> Node:
    """Entries moved on or back by half of the length of each axis."""
    for axis in axes_of(axes, x.ndim):
        half = x.type.shape[axis] // 2
        x = roll(x, dim_node(half * direction), axis)
    return x


# ---- arguments -------------------------------------------------------------------------------------------------------


def _pairs(x: TensorLike, s: Lengths, axes: Axes) -> list[tuple[int | Node | None, int]]:
    """The length that was given for each axis, and the axis."""
    ndim = as_tensor(x).ndim
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    lengths = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    if len(lengths) != len(axes) or not lengths:
        raise errors.ArgumentError(
            "a Fourier transform takes a length for each axis", got=f"{len(lengths)} lengths, {len(axes)} axes"
        )
    return list(zip(lengths, axes, strict=True))


def _along(transform: Callable[..., Node], x: Node, pairs: Sequence[tuple[int | Node | None, int]], norm: Norm) -> Node:
    for n, axis in reversed(pairs):
        x = transform(x, n, axis, norm)
    return x
