"""`export_library`: a function as a library for C."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from scanjit import errors
from scanjit.config import MOST_THREADS
from scanjit.runtime.files import free_folder
from scanjit.runtime.function import CompiledFunction, check_compiled
from scanjit.show.identifiers import identifier
from scanjit.streaming import StepFunction
from scanjit.target import Target

Form = Literal["static", "shared", "object", "wheel", "wasm"]
"""The values of `kind` in `export_library`."""


def export_library(
    f: CompiledFunction[Any] | StepFunction,
    path: str | os.PathLike[str],
    name: str = "model",
    target: str | Target | Sequence[str] = "host",
    sizes: Mapping[str, int] | None = None,
    kind: Form = "static",
    threads: int = 1,
    overwrite: bool = False,
) -> Path:
    """Write a function as a library for C, which needs neither Python nor anything else of this package.

    The folder has `name.h` (the declarations), `name.c` (C99, which checks the arguments of a call and lays out
    memory), `name_code.o` (the machine code and the constants), an example, a `Makefile`, a file for CMake and a
    README.

    Parameters
    ----------
    f : CompiledFunction or StepFunction
        Of any mode. A step function becomes `name_step`, which computes one step. Its state is the struct `name_state`.
    path : path
        A folder, which is made if it does not exist. After an error nothing is written.
    name : str
        The prefix of all names in C: an identifier of ASCII letters.
    target : str or Target
        The machine that the code is for. "host" is this one. "x86-64-v2", "x86-64-v3" and "x86-64-v4" are levels of
        instructions, for the system of this machine. With a list of levels, the library runs the code of the best
        level that the processor has. Other machines are "aarch64-linux", "armv7-linux", "riscv64-linux", "arm64-macos",
        "x86_64-windows", "arm64-windows", "wasm32", "cortex-m4" and "cortex-m7".
    sizes : dict, optional
        Sizes that are the same in all calls, by the names that the types of the inputs give them. All other sizes
        are arguments of each call.
    kind : str
        - "object" writes the files and calls no compiler.
        - "static" and "shared" also build `libname.a` or `libname.so`. The C compiler is the one that the variable `CC`
          names, otherwise `cc`, otherwise that of the package `ziglang`.
        - "wheel" also makes a wheel of the shared library. After `pip install`, `from name import name` imports the
          function, which takes and gives NumPy arrays and needs NumPy alone. The state is in `name.variables`.
        - "wasm" is for web pages and Node. It makes a WebAssembly module, linked by `ziglang`
          (`pip install scanjit[wasm]`), JavaScript with types for TypeScript that calls it with typed arrays, and an
          example page. Its target is "wasm32".
    threads : int
        The most threads of the caller that may compute one call together, in `name_run_parallel`. With 1, there is no
        such function, and the code is smaller.
    overwrite : bool
        Whether to write over files of a library that is there.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    ArgumentError
        If this is no compiled function, the name is no identifier, there is no such target or size, there is a library
        already, or no compiler.
    NotSupportedError
        If the function calls Python, a guest of `from_numba` or LAPACK, or computes a size that has no upper bound. The
        error names the user's line.

    Examples
    --------
    >>> import tempfile
    >>> import scanjit as sj
    >>> x, w = sj.vector("x"), sj.shared(0.5, "w")
    >>> f = sj.function([x], sj.scan(lambda row, h: w * h + row, x, sj.constant(0.0)), mode="emulate")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = sj.export_library(f, folder, "smooth", kind="object")
    ...     print(sorted(file.name for file in path.iterdir()))
    ['CMakeLists.txt', 'Makefile', 'README.md', 'example.c', 'smooth.c', 'smooth.h', 'smooth.rs', 'smooth_code.o']
    """
    _check(f, path, name, sizes, kind, threads)
    if kind == "wasm" and target not in ("host", "wasm32"):
        raise errors.ArgumentError('the target of kind="wasm" is always wasm32', got=repr(target), expected='"wasm32"')
    folder = free_folder(path, "library", f"{name}.h", overwrite)
    from scanjit.library.folder import write  # imports llvmlite, which takes time and which most programs do not need
    from scanjit.library.targets import targets_of

    targets = targets_of("wasm32" if kind == "wasm" else target)
    without_system = any(each.gives_way is None for each in targets.values())
    if kind in ("shared", "wheel") and without_system:
        raise errors.ArgumentError(
            "shared libraries and wheels need a target with an operating system",
            got=f"kind={kind!r}, target={target!r}",
            expected='kind="static" or "object"; for pages, kind="wasm"',
        )
    if not 1 <= threads <= MOST_THREADS or (threads > 1 and without_system):
        raise errors.ArgumentError(
            "the number of threads is out of range",
            got=f"threads={threads}",
            expected=f"from 1 to {MOST_THREADS}; 1 on systems without threads",
        )
    if isinstance(f, StepFunction):
        of_step = f.for_sizes(sizes or {})
        write(of_step.function.graph, folder, name, targets, of_step.sizes, kind, threads, "step")
    else:
        write(f.graph, folder, name, targets, sizes or {}, kind, threads)
    return folder


def _check(f: object, path: object, name: object, sizes: object, kind: object, threads: object) -> None:
    """Raise `ArgumentError` if an argument of `export_library` has the wrong type or is no valid name."""
    check_compiled(f, StepFunction)
    if not isinstance(path, str | os.PathLike):
        raise errors.ArgumentError(
            "the path of a library must be the path of a folder", got=repr(path), expected="a str or Path"
        )
    if not isinstance(name, str) or not name or identifier(name, "") != name or name.startswith("_"):
        raise errors.ArgumentError(
            "the name of a library must be a valid name in C, and not a keyword of Python",
            got=repr(name),
            expected="letters from a to z, digits and underscores, a letter first",
        )
    if sizes is not None and not isinstance(sizes, Mapping):
        raise errors.ArgumentError(
            "sizes must be a mapping from names of sizes to numbers", got=repr(sizes), expected='such as {"batch": 1}'
        )
    errors.check_known("the kind of the library", kind, get_args(Form))
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise errors.ArgumentError("the number of threads must be an int", got=f"threads={threads!r}")
