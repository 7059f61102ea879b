"""The discrete Fourier transform of rows of complex numbers: `fourier`, `half_spectrum`, `from_half_spectrum`.

The operands are two tensors, the real and the imaginary parts. The result is one tensor, whose last axis, of size 2,
holds both parts, as they lie in memory. A transform is linear, and its matrix is symmetric, so its derivative is the
transform with the other sign. For real numbers, half of the spectrum is enough: the rest are conjugates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scanjit import errors, types
from scanjit.ir import Node, Op, dim_node
from scanjit.ops.elementwise import where
from scanjit.ops.samples import FLOATS, sample
from scanjit.ops.shape import IOTA, window
from scanjit.ops.stretch import or_zeros
from scanjit.ops.view import DIMSHUFFLE
from scanjit.signatures import Array, DType, Parameter, Samples
from scanjit.types import Dimension, Type


def _both(real: Type, imaginary: Type) -> Type:
    """The type of a result with both parts."""
    if real.dtype != imaginary.dtype or real.ndim != imaginary.ndim or not real.ndim or not real.kind.floating:
        raise errors.InternalError("a transform takes two parts of one type", got=f"{real} and {imaginary}")
    what = "the parts of complex numbers"
    pairs = zip(real.shape, imaginary.shape, strict=True)
    return real.with_shape([types.equate(a, b, what, shapes=(real.shape, imaginary.shape)) for a, b in pairs])


def _infer(real: Type, imaginary: Type, *, sign: int) -> Type:
    both = _both(real, imaginary)
    return both.with_shape((*both.shape, 2))


def _pairs(z: Array, dtype: DType) -> Array:
    return np.stack([z.real, z.imag], axis=-1).astype(dtype)


def _reference(real: Array, imaginary: Array, *, sign: int) -> Array:
    """NumPy's."""
    z = real + 1j * imaginary
    if z.size:
        z = np.fft.fft(z) if sign < 0 else np.fft.ifft(z, norm="forward")
    return _pairs(z, real.dtype)


def _parts(x: Node) -> list[Node]:
    """The real and the imaginary parts of pairs."""
    axes = tuple(range(x.ndim - 1))
    return [DIMSHUFFLE(window(x, x.ndim - 1, i, 1), order=axes) for i in (0, 1)]


def _vjp(g: Node, y: Node, real: Node, imaginary: Node, *, sign: int) -> tuple[Node, ...]:
    return tuple(_parts(FOURIER(*_parts(g), sign=-sign)))


def _half_infer(x: Type) -> Type:
    if not x.ndim or not x.kind.floating:
        raise errors.InternalError("a half spectrum is one of floats", got=x)
    return x.with_shape((*x.shape[:-1], x.shape[-1] // 2 + 1, 2))


def _half_reference(x: Array) -> Array:
    """NumPy's."""
    if not x.size:
        return np.zeros((*x.shape[:-1], x.shape[-1] // 2 + 1, 2), x.dtype)
    return _pairs(np.fft.rfft(x), x.dtype)


def _from_half_infer(real: Type, imaginary: Type, *, length: Dimension) -> Type:
    both = _both(real, imaginary)
    wanted = (*both.shape[:-1], length // 2 + 1)
    types.equate(both.shape[-1], length // 2 + 1, "the frequencies of a half spectrum", shapes=(both.shape, wanted))
    return both.with_shape((*both.shape[:-1], length))


def _from_half_reference(real: Array, imaginary: Array, *, length: int) -> Array:
    """NumPy's."""
    if not real.size or not length:
        return np.zeros((*real.shape[:-1], length), real.dtype)
    return np.fft.irfft(real + 1j * imaginary, length, norm="forward").astype(real.dtype)


def _half_vjp(g: Node, y: Node, x: Node) -> tuple[Node, ...]:
    n = x.type.shape[-1]
    return (FROM_HALF_SPECTRUM(*(_inner(part, n, 0.5) for part in _parts(g)), length=n),)


def _from_half_vjp(g: Node, y: Node, real: Node, imaginary: Node, *, length: Dimension) -> tuple[Node, ...]:
    return tuple(_inner(part, length, 2) for part in _parts(HALF_SPECTRUM(g)))


def _inner(part: Node, n: Dimension, factor: float) -> Node:
    """A part of the half spectrum of n numbers, of which the frequencies that stand for their conjugates too are
    multiplied by a factor. Frequency 0 and that of n / 2 are their own conjugates."""
    place = IOTA(length=n // 2 + 1)
    alone = (place == 0) | (2 * place == dim_node(n))
    return where(alone, part, part * np.asarray(factor, part.dtype))


def _jvp(tangents: Sequence[Node | None], y: Node, *operands: Node, **params: Parameter) -> Node:
    """The tangent of the result: all three ops are linear."""
    return y.op(*(or_zeros(t, x) for t, x in zip(tangents, operands, strict=True)), **params)


def _half_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape in ((16,), (2, 3, 24), (1, 2), (0, 16), (2, 70), (2, 45), (3, 1)):
        yield (sample(rng, shape, dtype),), {}


def _from_half_samples(rng: np.random.Generator, dtype: str) -> Samples:
    for shape, length in (((9,), 16), ((2, 3, 13), 24), ((1, 2), 2), ((0, 9), 16), ((2, 36), 70), ((2, 23), 45)):
        yield (sample(rng, shape, dtype), sample(rng, shape, dtype)), {"length": length}


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for i, shape in enumerate(((8,), (2, 3, 12), (1, 1), (0, 16), (35,), (2, 22))):
        yield (sample(rng, shape, dtype), sample(rng, shape, dtype)), {"sign": 1 if i % 2 else -1}


def _transform(name: str, **rest: Parameter) -> Op:
    """A linear op of floats, along the last axis."""
    return Op(
        name,
        jvp=_jvp,
        batch_params=lambda size, **params: params,
        dtypes=FLOATS,
        never_fails=True,
        reads_memory="all",
        **rest,
    )


FOURIER: Op = _transform(
    "fourier",
    infer=_infer,
    reference=_reference,
    vjp=_vjp,
    samples=_samples,
    doc="the discrete Fourier transform of two parts along the last axis, as pairs of floats; `sign` is that of the "
    "exponent; nothing is divided",
)
HALF_SPECTRUM: Op = _transform(
    "half_spectrum",
    infer=_half_infer,
    reference=_half_reference,
    vjp=_half_vjp,
    samples=_half_samples,
    zero_with=(0,),
    doc="the discrete Fourier transform of floats along the last axis: pairs of floats for the frequencies from 0 to "
    "the half",
)
FROM_HALF_SPECTRUM: Op = _transform(
    "from_half_spectrum",
    infer=_from_half_infer,
    reference=_from_half_reference,
    vjp=_from_half_vjp,
    samples=_from_half_samples,
    doc="the inverse of `half_spectrum` of `length` floats, times their number; frequencies that are their own "
    "conjugates have no imaginary part",
)
