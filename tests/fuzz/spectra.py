"""Complex numbers in random programs: made of two floats, computed with, and brought back to floats."""

from __future__ import annotations

from collections.abc import Callable

import scanjit as st
from scanjit.ir import Node
from tests.fuzz.builder import Builder

LONGEST = 40
"""Transforms of a longer axis take the emulator too long."""

ELEMENTWISE: dict[str, Callable[[Node, Node], Node]] = {
    "add": lambda z, w: z + w,
    "sub": lambda z, w: z - w,
    "mul": lambda z, w: z * w * 0.5,
    "div": lambda z, w: z / (w * st.conj(w) + 1),
    "exp": lambda z, w: st.exp(z / (1 + st.abs(z))),
    "sqrt": lambda z, w: st.sqrt(z * st.conj(z) + 1 + w / (1 + st.abs(w))),
    "log": lambda z, w: st.log(2 + z / (1 + st.abs(z))),
    "conj": lambda z, w: st.conj(z),
    "turn": lambda z, w: z * 1j,
    "where": lambda z, w: st.where(st.real(z) < 10, z, w),
}
REAL: dict[str, Callable[[Node], Node]] = {
    "real": st.real,
    "imag": st.imag,
    "abs": lambda z: st.abs(z + 3),
    "angle": lambda z: st.angle(2 + z / (1 + st.abs(z))),
}


def _complex(b: Builder, shape: tuple[object, ...], dtype: object) -> Node:
    x, y = (b.fitted(b.some("f"), shape, dtype) for _ in range(2))  # type: ignore[arg-type]
    return x + 1j * y


def complex_numbers(b: Builder) -> Node:
    """A few operations on complex numbers; a recurrence of them, where there is an axis and no loop around."""
    x = b.some("f")
    z, w = _complex(b, x.type.shape, x.dtype), _complex(b, x.type.shape, x.dtype)
    for _ in range(b.rnd.randint(1, 3)):
        z, w = ELEMENTWISE[b.rnd.choice(list(ELEMENTWISE))](z, w), z if b.chance(0.5) else w
    if x.ndim and b.depth == 0 and b.chance(0.3):
        turned = b.rnd.choice((0.5 + 0.5j, 0.9j, -0.6))
        z = st.scan(lambda z_t, s: s * turned + z_t, sequences=z, outputs_info=st.zeros_like(z[0]))
    elif x.ndim > 1 and b.chance(0.2):
        z = st.matmul(z, st.conj(st.swapaxes(w, -1, -2))) * 0.25
    return REAL[b.rnd.choice(list(REAL))](z)


def transform(b: Builder) -> Node:
    """fft, ifft, rfft and irfft along an axis."""
    x = b.need(lambda n: n.ndim > 0 and all(isinstance(d, int) and 0 < d <= LONGEST for d in n.type.shape), "f")
    axis, norm = b.rnd.randrange(-x.ndim, x.ndim), b.rnd.choice((None, "ortho", "forward"))
    way = b.rnd.randrange(4)
    if way == 0:
        return st.irfft(_complex(b, x.type.shape, x.dtype), b.rnd.choice((None, 5, 6)), axis, norm)
    if way == 1:
        z = st.rfft(x, b.rnd.choice((None, None, 3, 8)), axis, norm)
    else:
        z = (st.fft, st.ifft)[way - 2](_complex(b, x.type.shape, x.dtype), None, axis, norm)
    return REAL[b.rnd.choice(("real", "imag", "abs"))](z)
