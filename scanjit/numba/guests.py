"""Users' functions, as Numba compiles them for generated code: see `scanjit.ops.guest`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types as _types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from scanjit import contents
from scanjit.errors import ArgumentError, DtypeError
from scanjit.signatures import DType

types: Any = _types  # Numba's stubs lack half of it


def is_jitted(function: object) -> bool:
    """Whether a function is one that `numba.njit` made."""
    return isinstance(function, Dispatcher)


def is_callback(function: object) -> bool:
    """Whether a function is one that `numba.cfunc` made."""
    return isinstance(function, CFunc)


def compiled(
    function: Any, name: str, arguments: Sequence[DType], results: Sequence[DType], ranks: Sequence[int], which: int
) -> Any:
    """A function of C that calls a jitted function, as generated code calls guests. Numba's exceptions end in it.

    Parameters
    ----------
    function, name : the function, and what to call it in errors.
    arguments, results, ranks : as for `Guest`.
    which : of a function of numbers that gives a tuple, the result that is wanted; -1 if it gives one number.
    """
    scalar = [numba.from_dtype(dtype) for dtype in (*arguments, *results)]
    status = (types.CPointer(types.int64), types.int64)
    if not ranks:
        source = _of_numbers(len(arguments), which)
        sig = scalar[-1](*status, *scalar[:-1])
    else:
        source = _of_arrays(len(arguments), ranks)
        sig = types.void(*status, *map(types.CPointer, scalar), *[types.int64] * sum(ranks))
    try:
        made = _callback(source, sig, function, scalar[-1], _read_only)
    except Exception as error:  # Numba raises AttributeError for `x += 1`
        if "Known signatures" in str(error) and any(ranks):  # a signature that somebody wrote takes no such array
            return _callback(source, sig, function, scalar[-1], numba.njit(lambda array: array))
        given = ", ".join(
            f"{dtype}({', '.join(':' * rank)})" if rank else str(dtype) for dtype, rank in _typed(arguments, ranks)
        )
        raise ArgumentError(
            f"Numba cannot compile {name} for these arguments",
            got=f"{given}. Numba says: {str(error).strip()}",
            fix="if it writes into an argument, let it write into a copy: x = x.copy()" if any(ranks) else "",
        ) from error
    taken = tuple(
        types.Array(numba.from_dtype(dtype), rank, "C", readonly=True) if rank else numba.from_dtype(dtype)
        for dtype, rank in _typed(arguments, ranks)
    )
    if taken in function.overloads:
        _check_results(function.overloads[taken].signature.return_type, name, results, which)
    return made


def _check_results(given: Any, name: str, results: Sequence[DType], which: int) -> None:
    """Raise an error if a function returns floats for what should be integers."""
    given = given[which] if which >= 0 else given
    for found, wanted in zip(given if len(results) > 1 else [given], results, strict=False):
        element = types.unliteral(getattr(found, "dtype", found))
        if np.issubdtype(wanted, np.integer) and isinstance(element, types.Float | types.Complex):
            raise DtypeError(
                f"{name} returns fractions, which its result cannot hold",
                got=f"{element}",
                expected=f"{wanted}",
                fix="change the result that from_numba was given, or let the function round",
            )


def _callback(source: str, sig: Any, function: Any, to: Any, fixed: Any) -> Any:
    space: dict[str, Any] = {"f": function, "carray": numba.carray, "to": to, "fixed": fixed}
    exec(source, space)
    return numba.cfunc(sig)(space["called"])


@intrinsic
def _read_only(context: Any, array: Any) -> Any:
    """An array as one that Numba lets no function change: it may be a caller's own."""
    return array.copy(readonly=True)(array), lambda context, builder, sig, args: impl_ret_borrowed(
        context, builder, sig.return_type, args[0]
    )


def _typed(arguments: Sequence[DType], ranks: Sequence[int]) -> Iterator[tuple[DType, int]]:
    return zip(arguments, ranks or [0] * len(arguments), strict=False)


def _of_numbers(count: int, which: int) -> str:
    names = ", ".join(f"x{i}" for i in range(count))
    part = "" if which < 0 else f"[{which}]"
    return f"""
def called(status, code, {names}):
    result = to(0)
    try:
        result = to(f({names}){part})
    except Exception:
        carray(status, 1)[0] = code
    return result
"""


def _of_arrays(count: int, ranks: Sequence[int]) -> str:
    places = [f"p{i}" for i in range(len(ranks))]
    shapes = [[f"n{i}_{axis}" for axis in range(rank)] for i, rank in enumerate(ranks)]
    views = [
        f"fixed(carray({place}, ({''.join(f'{size}, ' for size in shape)})))" if shape else f"carray({place}, 1)[0]"
        for place, shape in zip(places[:count], shapes, strict=False)
    ]
    lines = []
    for k, (place, shape) in enumerate(zip(places[count:], shapes[count:], strict=True)):
        lines.append(f"r{k} = found[{k}]" if len(ranks) - count > 1 else f"r{k} = found")
        if shape:
            lines += [
                f"if r{k}.shape != ({''.join(f'{size}, ' for size in shape)}):",
                "    carray(status, 1)[0] = code",
                "else:",
                f"    flat{k} = carray({place}, {' * '.join(shape)})",
                f"    for i, value in enumerate(r{k}.flat):",
                f"        flat{k}[i] = value",
            ]  # a loop: an assignment of arrays takes seconds to compile, with the code for the text of its error
        else:
            lines.append(f"carray({place}, 1)[0] = r{k}")
    body = "\n".join(f"        {line}" for line in lines)
    sizes = [size for shape in shapes for size in shape]
    return f"""
def called(status, code, {", ".join([*places, *sizes])}):
    try:
        found = f({", ".join(views)})
{body}
    except Exception:
        carray(status, 1)[0] = code
"""


# ---- what functions do -----------------------------------------------------------------------------------------------


class _Unknown(Exception):
    """Raised for an object without a content from which a digest could be made."""


def content(function: Any) -> str | None:
    """A digest of a function: of its code, and of all values and functions that it uses. None if it uses an object
    whose content is unknown."""
    try:
        return contents.digest(itertools.chain([numba.__version__], contents.Facts(_of_compiled).all(function)))
    except _Unknown:
        return None


def _of_compiled(value: Any, facts: contents.Facts) -> Iterator[object]:
    if isinstance(value, Dispatcher):
        lazy = getattr(value, "_can_compile", True)
        yield sorted(value.targetoptions.items(), key=str), [] if lazy else sorted(map(str, value.overloads))
        yield from facts.of(value.py_func)
    elif isinstance(value, CFunc):
        yield str(getattr(value, "_sig", ""))
        yield from facts.of(value.__wrapped__)
    elif contents.in_library(value):
        yield contents.name_of(value)
    else:
        raise _Unknown
