"""Recurrences that a library is made for: filters (SciPy, torchlpc), associative scans (JAX, PyTorch, torchlpc) and the
cell of xLSTM's blocks (xlstm)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import tape
from benchmarks.case import Arrays, Case, Program, Sizes, Task, Work
from benchmarks.cases.common import SEQUENCE, Draw, grid, loop
from benchmarks.engines import jax, plain, scanjit, torch

# ---- an all-pole filter whose coefficients change with time: linear prediction of speech -----------------------------


def all_pole_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Signals x, and coefficients a for each step, lag and signal. Their sum is below 1: the filter is stable."""
    T, B, K = (sizes[name] for name in "TBK")
    draw = Draw(rng, dtype)
    return {"x": draw.normal(T, B), "a": draw.uniform(-0.9 / K, 0.9 / K, T, K, B)}


def all_pole_reference(x: Any, a: Any) -> Any:
    """The plain loop."""
    T, K, B = a.shape
    found = [tape.Array(np.zeros(B)) for _ in range(K)]
    for t in range(T):
        y = x[t]
        for k in range(K):
            y = y - a[t, k] * found[t + K - 1 - k]
        found.append(y)
    return tape.stack(found[K:])


def all_pole_by_scanjit(x: Any, a: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    K, B = a.shape[1:]

    def step(x_t: Any, a_t: Any, *past: Any) -> Any:
        return x_t - sum(a_t[k] * past[k] for k in range(K))

    start = {"initial": sj.zeros((K, B), x.dtype), "taps": [-1 - k for k in range(K)]}
    return sj.scan(step, [x, a], start, unroll=unroll)


def all_pole_by_jax(x: Any, a: Any) -> Any:
    """`lax.scan` with the last rows as the state."""
    from jax import lax, numpy as jnp

    def step(past: Any, row: Any) -> Any:
        x_t, a_t = row
        y = x_t - (a_t * past).sum(0)
        return jnp.concatenate([y[None], past[:-1]]), y

    return lax.scan(step, jnp.zeros(a.shape[1:], x.dtype), (x, a))[1]


def _by_torchlpc(task: Task) -> Program:
    """`sample_wise_lpc`, with arrays in its own order of axes."""
    from torchlpc import sample_wise_lpc

    arguments = task.arguments()
    signals = {"x": arguments["x"].T, "a": np.moveaxis(arguments["a"], (0, 1, 2), (1, 2, 0))}
    leaves = torch.as_tensors(signals, task.threads)
    return torch.timed(
        task,
        lambda: sample_wise_lpc(leaves["x"], leaves["a"]).T,
        [leaves[name] for name in task.case.wrt],
        lambda found: [found[0].T, np.moveaxis(found[1], (1, 2, 0), (0, 1, 2))],
    )


# ---- a cascade of biquads, the same for all signals ------------------------------------------------------------------

SECTIONS = 4


def cascade_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Signals, and stable sections (b0, b1, b2, 1, a1, a2), as SciPy has them."""
    draw = Draw(rng, dtype)
    radius, angle = draw.uniform(0.5, 0.9, SECTIONS), draw.uniform(0.2, 2.8, SECTIONS)
    a = np.stack([np.ones_like(radius), -2 * radius * np.cos(angle), radius**2], axis=1)
    return {"x": draw.normal(sizes["T"], sizes["B"]), "sos": np.hstack([draw.normal(SECTIONS, 3), a]).astype(dtype)}


def _cascade_step(x: Any, state: Any, sos: Any) -> tuple[Any, list[Any]]:
    """Each section in transposed direct form II; its result is the next one's input."""
    new = []
    for k in range(SECTIONS):
        y = sos[k, 0] * x + state[2 * k]
        new += [sos[k, 1] * x - sos[k, 4] * y + state[2 * k + 1], sos[k, 2] * x - sos[k, 5] * y]
        x = y
    return x, new


def cascade_reference(x: Any, sos: Any) -> Any:
    """The plain loop."""
    state, found = [tape.Array(np.zeros(x.shape[1]))] * 2 * SECTIONS, []
    for t in range(x.shape[0]):
        y, state = _cascade_step(x[t], state, sos)
        found.append(y)
    return tape.stack(found)


def cascade_by_scanjit(x: Any, sos: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    def step(x_t: Any, *state: Any) -> Any:
        y, new = _cascade_step(x_t, state, sos)
        return (y, *new)

    zeros = [sj.zeros(x.shape[1:], x.dtype)] * 2 * SECTIONS
    return sj.scan(step, x, [None, *zeros], unroll=unroll)[0]


def cascade_by_jax(x: Any, sos: Any) -> Any:
    """`lax.scan`."""
    from jax import lax, numpy as jnp

    def step(state: Any, x_t: Any) -> Any:
        y, new = _cascade_step(x_t, state, sos)
        return tuple(new), y

    return lax.scan(step, (jnp.zeros(x.shape[1:], x.dtype),) * 2 * SECTIONS, x)[1]


def cascade_by_scipy(x: np.ndarray, sos: np.ndarray) -> np.ndarray:
    """SciPy's own function."""
    from scipy import signal

    return signal.sosfilt(sos, x, axis=0).astype(x.dtype, copy=False)


# ---- h = a*h + b, by scans that combine pairs of steps ---------------------------------------------------------------


def linear_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """Factors below 1, and what is added."""
    T, B = sizes["T"], sizes["B"]
    draw = Draw(rng, dtype)
    return {"a": draw.uniform(0.5, 0.99, T, B), "b": draw.normal(T, B)}


def linear_reference(a: Any, b: Any) -> Any:
    """The plain loop."""
    rows = list(range(b.shape[0]))
    return tape.stack(loop(lambda t, h: (a[t] * h + b[t],), rows, (tape.Array(np.zeros(b.shape[1])),)))


def linear_by_scanjit(a: Any, b: Any, unroll: int | bool) -> Any:
    """As a user writes it."""
    import scanjit as sj

    return sj.scan(lambda a_t, b_t, h: a_t * h + b_t, [a, b], sj.zeros(b.shape[1:], b.dtype), unroll=unroll)


def _combined(left: Any, right: Any) -> Any:
    """Two steps, one after the other, as one."""
    return left[0] * right[0], left[1] * right[0] + right[1]


def linear_by_jax(a: Any, b: Any) -> Any:
    """`lax.associative_scan`."""
    from jax import lax

    return lax.associative_scan(_combined, (a, b))[1]


def linear_by_torch(a: Any, b: Any) -> Any:
    """PyTorch's `associative_scan`."""
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(_combined, (a, b), dim=0, combine_mode="generic")[1]


def _linear_by_torchlpc(task: Task) -> Program:
    """A filter of one pole."""
    from torchlpc import sample_wise_lpc

    leaves = torch.as_tensors({name: value.T for name, value in task.arguments().items()}, task.threads)
    return torch.timed(
        task,
        lambda: sample_wise_lpc(leaves["b"], -leaves["a"][:, :, None]).T,
        [leaves[name] for name in task.case.wrt],
        lambda found: [gradient.T for gradient in found],
    )


# ---- sLSTM: exponential gates; the units of a head read the units of that head alone ---------------------------------


def slstm_data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """What is added to the gates (i, f, z, o) in each step, by gate and head; R by head and gate; biases that keep."""
    T, B, N, D = (sizes[name] for name in "TBND")
    draw = Draw(rng, dtype)
    bias = draw.normal(4, N * D, scale=0.1)
    bias[1] += 3
    return {
        "x": draw.normal(T, B, 4 * N * D),
        "R": draw.normal(N, D, 4 * D, scale=D**-0.5),
        "b": bias.reshape(-1),
    }


LOWEST = -1e4
"""The stabilizer before the first step: `exp(LOWEST)` is 0."""


def slstm_reference(x: Any, R: Any, b: Any, least: float = 0) -> Any:
    """The plain loop, a head after the other."""
    T, B, width = x.shape
    heads, D = R.shape[:2]
    parts = []
    for head in range(heads):
        columns = [slice(k * width // 4 + head * D, k * width // 4 + (head + 1) * D) for k in range(4)]
        h = c = n = tape.Array(np.zeros((B, D)))
        m, found = tape.Array(np.full((B, D), LOWEST)), []
        for t in range(T):
            read = h @ R[head]
            i, f, z, o = (x[t][:, at] + read[:, k * D : (k + 1) * D] + b[at] for k, at in enumerate(columns))
            kept = -tape.softplus(-f) + m
            m = _larger(i, kept)
            c = tape.exp(kept - m) * c + tape.exp(i - m) * tape.tanh(z)
            n = _larger(tape.exp(kept - m) * n + tape.exp(i - m), tape.Array(least))
            h = tape.sigmoid(o) * c / n
            found.append(h)
        parts.append(tape.stack(found))
    return tape.concatenate(parts).reshape(T, B, heads, D)


def _larger(a: Any, b: Any) -> Any:
    return a * (a.value > b.value) + b * (a.value <= b.value)


def slstm_step(library: Any, log_sigmoid: Callable[[Any], Any], heads: int, least: float = 0) -> Callable[..., Any]:
    """A step, with the functions of a library. Gates stand side by side, in each of them the heads. The normalizer is
    at least so much."""

    def step(x: Any, h: Any, c: Any, n: Any, m: Any, R: Any, b: Any) -> Any:
        B, width = h.shape
        d = width // heads
        read = library.swapaxes(library.swapaxes(h.reshape((B, heads, d)), 0, 1) @ R, 0, 1)  # (B, heads, 4*d)
        read = library.swapaxes(read.reshape((B, heads, 4, d)), 1, 2).reshape((B, 4 * width))
        gates = x + read + b
        i, f, z, o = (gates[:, k * width : (k + 1) * width] for k in range(4))
        kept = log_sigmoid(f) + m
        new = library.maximum(i, kept)
        c = library.exp(kept - new) * c + library.exp(i - new) * library.tanh(z)
        n = library.exp(kept - new) * n + library.exp(i - new)
        n = library.maximum(n, least) if least else n
        return c / n / (1 + library.exp(-o)), c, n, new

    return step


def slstm_by_scanjit(x: Any, R: Any, b: Any, unroll: int | bool) -> Any:
    """As a user writes it. The first step has no past: its stabilizer is the input gate, as -inf makes it."""
    import scanjit as sj

    step = slstm_step(np, sj.log_sigmoid, R.shape[0])
    zeros = sj.zeros((x.shape[1], x.shape[2] // 4), x.dtype)
    lowest = sj.full(zeros.shape, LOWEST, x.dtype)
    h = sj.scan(lambda x_t, *state: step(x_t, *state, R, b), x, [zeros, zeros, zeros, lowest], unroll=unroll)[0]
    return h.reshape((*x.shape[:2], *R.shape[:2]))


def slstm_by_jax(x: Any, R: Any, b: Any) -> Any:
    """`lax.scan`."""
    from jax import nn, numpy as jnp

    step = slstm_step(jnp, nn.log_sigmoid, R.shape[0])
    zeros = jnp.zeros((x.shape[1], x.shape[2] // 4), x.dtype)
    state = zeros, zeros, zeros, jnp.full_like(zeros, LOWEST)
    return jax.scan(lambda x_t, *state: step(x_t, *state, R, b), x, state).reshape(*x.shape[:2], *R.shape[:2])


def _slstm_by_xlstm(task: Task) -> Program:
    """The package's own loop with PyTorch: its other backend is CUDA's. Its gates have the same order as ours."""
    import torch as library
    from xlstm.blocks.slstm.cell import sLSTMCellConfig
    from xlstm.blocks.slstm.src.vanilla import slstm_forward, slstm_pointwise_function_registry

    N, D = task.sizes["N"], task.sizes["D"]
    arguments = task.arguments()
    kernel = arguments["R"].reshape(N, D, 4, D).transpose(0, 2, 3, 1).reshape(N, 4 * D, D)
    leaves = torch.as_tensors(arguments | {"R": kernel}, task.threads)
    pointwise = slstm_pointwise_function_registry["slstm"]
    constants = sLSTMCellConfig(hidden_size=N * D, num_heads=N, backend="vanilla").constants
    zeros = library.zeros(4, task.sizes["B"], N * D)

    def forward() -> Any:
        found = slstm_forward(leaves["x"], zeros, leaves["R"], leaves["b"], pointwise, constants=constants)
        return found[0][0][1:].reshape(-1, task.sizes["B"], N, D)

    def gradients(found: list[np.ndarray]) -> list[np.ndarray]:
        dx, dR, db = found
        return [dx, dR.reshape(N, 4, D, D).transpose(0, 3, 1, 2).reshape(N, D, 4 * D), db]

    return torch.timed(task, forward, [leaves[name] for name in task.case.wrt], gradients)


def _slstm_work(sizes: Sizes, itemsize: int) -> Work:
    T, B, N, D = (sizes[name] for name in "TBND")
    return Work(flops=8 * T * B * N * D * D)


CASES = [
    Case(
        name="all-pole filter",
        group="special",
        sizes=grid("B T K", (64, 4096, 2), (16, 8000, 12)),
        quick={"B": 3, "T": 9, "K": 2},
        data=all_pole_data,
        reference=all_pole_reference,
        make={
            "scanjit": scanjit.program(all_pole_by_scanjit),
            "torchlpc": _by_torchlpc,
            "jax": jax.program(all_pole_by_jax),
        },
        value=("T", "B"),
        wrt=("x", "a"),
        free={"x": SEQUENCE, "a": {0: "T", 2: "B"}},
    ),
    Case(
        name="biquad cascade",
        group="special",
        sizes=grid("B T", (64, 48_000), (1, 48_000)),
        quick={"B": 3, "T": 9},
        data=cascade_data,
        reference=cascade_reference,
        make={
            "scanjit": scanjit.program(cascade_by_scanjit),
            "scipy": plain.direct(cascade_by_scipy),
            "jax": jax.program(cascade_by_jax),
        },
        value=("T", "B"),
        weights=("sos",),
        free={"x": SEQUENCE},
        tolerance=(2e-3, 1e-9),
        kinds=("forward",),
    ),
    Case(
        name="linear recurrence",
        group="special",
        sizes=grid("B T", (256, 1000), (8, 20_000), (1, 20_000)),
        quick={"B": 3, "T": 9},
        data=linear_data,
        reference=linear_reference,
        make={
            "scanjit": scanjit.program(linear_by_scanjit),
            "torch": torch.program(linear_by_torch),
            "torchlpc": _linear_by_torchlpc,
            "jax": jax.program(linear_by_jax),
        },
        value=("T", "B"),
        wrt=("a", "b"),
        free={"a": SEQUENCE, "b": SEQUENCE},
    ),
    Case(
        name="sLSTM of xLSTM",
        group="special",
        sizes=grid("B T N D", (16, 100, 4, 32), (1, 512, 4, 128)),
        quick={"B": 3, "T": 5, "N": 2, "D": 4},
        data=slstm_data,
        reference=slstm_reference,
        make={
            "scanjit": scanjit.program(slstm_by_scanjit),
            "xlstm": _slstm_by_xlstm,
            "jax": jax.program(slstm_by_jax),
        },
        value=("T", "B", "N", "D"),
        wrt=("x", "R", "b"),
        weights=("R", "b"),
        free={"x": SEQUENCE},
        work=_slstm_work,
        tolerance=(2e-3, 1e-9),
    ),
]
