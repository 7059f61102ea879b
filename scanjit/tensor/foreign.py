"""Hints for names from other libraries: what to write in scanjit instead."""

import sys
from collections.abc import Collection
from types import FrameType

ALIASES = {
    "around": "round",
    "astype": "cast",
    "copy": "as_tensor",
    "degrees": "rad2deg",
    "fix": "trunc",
    "log_expit": "log_sigmoid",
    "psi": "digamma",
    "radians": "deg2rad",
}
"""Maps functions of NumPy and SciPy to their names here."""

NAMES = {
    "array": "as_tensor",
    "asarray": "as_tensor",
    "eq": "equal",
    "fori_loop": "scan(step, outputs_info=state, n_steps=n)",
    "ge": "greater_equal",
    "gt": "greater",
    "inc_subtensor": "x[index].inc(value)",
    "le": "less_equal",
    "linalg": "its functions alone, such as sj.solve",
    "lt": "less",
    "neq": "not_equal",
    "nn": "its functions alone, such as sj.relu",
    "nnet": "its functions alone, such as sj.sigmoid",
    "set_subtensor": "x[index].set(value)",
    "special": "its functions alone, such as sj.gammaln",
    "sqr": "square",
    "switch": "where",
} | {name: f"np.{name}" for name in "bool_ e float32 float64 inf int32 int64 nan newaxis pi".split()}
"""Maps names of Theano, NumPy and JAX that `scanjit` does not have to the advice what to write."""

KEYWORDS = {"clip": {"a_min": "min", "a_max": "max"}}
"""Maps names of arguments of NumPy's functions to their names here."""

ATTRIBUTES = {
    "at": "x[i].set(value) or x[i].inc(value), which give a new symbol",
    "backward": "sj.grad(cost, wrt), which gives the gradient as a symbol",
    "cpu": "nothing: all is computed on the CPU",
    "detach": "sj.stop_gradient(x)",
    "eval": "sj.function([inputs], x)(values)",
    "expand": "sj.broadcast_to(x, shape)",
    "fill": "sj.full(shape, value)",
    "get_value": "sj.function([inputs], x)(values): only shared variables have values",
    "item": "sj.function([inputs], x)(values)",
    "matmul": "x @ y",
    "numpy": "sj.function([inputs], x)(values)",
    "permute": "x.transpose(1, 0, 2)",
    "set_value": "sj.shared(value): only shared variables have values",
    "to": "x.astype(dtype)",
    "tolist": "sj.function([inputs], x)(values)",
    "type_as": "x.astype(y.dtype)",
    "unsqueeze": "sj.expand_dims(x, axis)",
    "view": "x.reshape(shape)",
}
"""Maps attributes that symbols do not have to the advice what to write."""

RUNNING = {
    "add": "cumsum",
    "logaddexp": "logcumsumexp",
    "maximum": "cummax",
    "minimum": "cummin",
    "multiply": "cumprod",
}
"""Maps NumPy's ufuncs to the functions here that do the same as their `accumulate`; for others, it is `accumulate`."""

REDUCED = {
    "add": "sum",
    "logaddexp": "logsumexp",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}
"""Maps NumPy's ufuncs to the functions here that do the same as their `reduce`."""

WITHOUT_EFFECT = {"assume_unique", "copy", "optimize", "overwrite_input"}
"""Options of NumPy's functions that change no result, of which nothing remains here."""

CALLS = {
    "copyto": "x[...].set(value), which gives a new symbol",
    "apply_along_axis": "sj.vmap(function), with in_axes and out_axes for the other axes",
    "empty_like": "sj.zeros_like(x)",
    "ndtri": "np.sqrt(2) * sj.erfinv(2 * p - 1)",
    "put_along_axis": "sj.put_along_axis, which gives a new symbol",
}
"""The advice what to write for functions of NumPy or SciPy that are missing here."""

NO_VALUE = "compile it with sj.jit or sj.function, or use functions of scanjit or NumPy on it"
_OTHERWISE = (
    "write it with functions of scanjit (sj.elementwise_from_sympy takes a formula), or compute it with NumPy before"
)


def attribute(name: str, known: Collection[str]) -> str:
    """What to write instead of `x.name`."""
    close = _close(name, known)
    return ATTRIBUTES.get(name) or (f"perhaps x.{close[0]}" if close else "the functions of scanjit, such as sj.sum(x)")


def call(name: str, known: Collection[str]) -> str:
    """What to write instead of a function of NumPy or SciPy."""
    close = _close(name, known, 0.8)
    if name in CALLS:
        return CALLS[name]
    return (f"perhaps sj.{close[0]}; " if close else "") + _OTHERWISE


def called_library_function(known: Collection[str]) -> str | None:
    """What to write instead of the function of NumPy or SciPy that is running now, if it is written in Python."""
    found: str | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.split(".")[0] in ("numpy", "scipy"):
            found = frame.f_code.co_name  # the outermost is the one that the user called
        elif found is not None:
            break
        frame = frame.f_back
    if found is None:
        return None
    name = ALIASES.get(found, found)
    return f"sj.{name}(...)" if name in known else call(name, known)


def _close(name: str, known: Collection[str], likeness: float = 0.6) -> list[str]:
    """The known name that is most like another one, if any is."""
    from difflib import get_close_matches  # only errors need it

    return get_close_matches(name, known, 1, likeness)
