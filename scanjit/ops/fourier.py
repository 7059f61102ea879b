"""`fourier`: the discrete Fourier transform of rows of complex numbers, as they lie in memory.

The last axis, of size 2, holds the real and the imaginary part; the one before is transformed. A transform is linear,
and its matrix symmetric: so the derivative is the transform with the other sign.
"""

from collections.abc import Sequence

import numpy as np

from scanjit import errors
from scanjit.ir import Node, Op
from scanjit.ops.samples import FLOATS, sample
from scanjit.signatures import Array, Samples
from scanjit.types import Type


def _infer(x: Type, *, sign: int) -> Type:
    if x.ndim < 2 or x.shape[-1] != 2 or not x.kind.floating:
        raise errors.InternalError("a transform takes pairs of floats", got=x)
    return x


def _reference(x: Array, *, sign: int) -> Array:
    """NumPy's."""
    if not x.size:
        return x.copy()
    z = x[..., 0] + 1j * x[..., 1]
    found = np.fft.fft(z) if sign < 0 else np.fft.ifft(z, norm="forward")
    return np.stack([found.real, found.imag], axis=-1).astype(x.dtype)


def _jvp(tangents: Sequence[Node | None], y: Node, x: Node, *, sign: int) -> Node | None:
    return None if tangents[0] is None else FOURIER(tangents[0], sign=sign)


def _samples(rng: np.random.Generator, dtype: str) -> Samples:
    for i, shape in enumerate(((8, 2), (2, 3, 12, 2), (1, 1, 2), (0, 16, 2), (35, 2), (2, 22, 2))):
        yield (sample(rng, shape, dtype),), {"sign": 1 if i % 2 else -1}


FOURIER: Op = Op(
    "fourier",
    infer=_infer,
    reference=_reference,
    vjp=lambda g, y, x, *, sign: (FOURIER(g, sign=-sign),),
    jvp=_jvp,
    batch=lambda args, batched, size, *, sign: (FOURIER(*args, sign=sign), True),
    samples=_samples,
    dtypes=FLOATS,
    never_fails=True,
    zero_with=(0,),
    reads_memory="all",
    doc="the discrete Fourier transform of pairs of floats along the last axis but one; `sign` is that of the "
    "exponent; nothing is divided",
)
