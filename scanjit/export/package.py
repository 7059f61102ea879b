"""`export_numpy`: a function as a package that can be installed, and that needs NumPy alone."""

import keyword
import os
from pathlib import Path
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.runtime.files import fill_folder, free_folder
from scanjit.runtime.function import CompiledFunction, check_compiled
from scanjit.show.identifiers import identifier

_PROJECT = """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "A function exported by scanjit"
requires-python = ">=3.9"
dependencies = [{needed}]

[tool.setuptools]
packages = ["{name}"]

[tool.setuptools.package-data]
{name} = ["weights.npz"]
"""


def export_numpy(
    f: CompiledFunction[Any],
    path: str | os.PathLike[str],
    name: str | None = None,
    version: str = "1.0.0",
    overwrite: bool = False,
) -> Path:
    """Write a function as a small package that needs NumPy alone, and computes the same numbers. (If it has tensors of
    bfloat16, the package needs `ml_dtypes` too.)

    The package has `pyproject.toml` (`pip install path`) and one module, `name/__init__.py`: readable NumPy code, with
    loops as Python loops, that offers one function, `name`. The values of shared variables are in `weights.npz`; those
    that the function updates are kept in the module's dict `variables`.

    Parameters
    ----------
    f : CompiledFunction
        Of any mode. The graph is exported as you wrote it, before rewrites for speed. So results differ from compiled
        ones by rounding.
    path : path
        A folder, which is made. After an error nothing is written.
    name : str, optional
        The name of the package, the module and the function: an identifier of ASCII letters. By default it is made from
        the name of `f`.
    version : str
        Of the package.
    overwrite : bool
        Whether to write over files of a package that is there.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    ArgumentError
        If this is no compiled function, the name is no identifier, the path is that of a file, or there is a package
        already.
    NotSupportedError
        If NumPy has no equivalent of an op.

    Examples
    --------
    >>> import sys, tempfile
    >>> import numpy as np, scanjit as sj
    >>> x, w = sj.vector("x"), sj.shared(0.5, "w")
    >>> f = sj.function([x], sj.scan(lambda row, h: w * h + row, x, sj.constant(0.0)), mode="reference")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = sj.export_numpy(f, folder, "smooth")
    ...     sys.path.insert(0, folder)
    ...     from smooth import smooth
    >>> sys.path.pop(0) == folder and smooth([1.0, 0.0, 2.0])
    array([1.  , 0.5 , 2.25])
    """
    check_compiled(f)
    name = identifier(f.name, "function") if name is None else name
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
        raise errors.ArgumentError(
            "the name of an exported package must be a valid name of a module and of a function",
            got=repr(name),
            expected="letters from a to z, digits and underscores",
        )
    folder = free_folder(path, "package", "pyproject.toml", overwrite)
    from scanjit.export.module import Module  # imports ast, which most programs do not need

    module = Module(f, name)
    needed = '"numpy>=2.0", "ml_dtypes>=0.4"' if module.needs_bfloat16 else '"numpy>=2.0"'
    project = _PROJECT.format(name=name, version=version, needed=needed)
    with fill_folder(folder) as new:
        (new / name).mkdir()
        (new / "pyproject.toml").write_text(project, encoding="utf-8")
        (new / name / "__init__.py").write_text(module.source, encoding="utf-8")
        _write_npz(new / name / "weights.npz", module.arrays)
    return folder


def _write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as `numpy.savez` does, but with any names, and with the same bytes each time."""
    import zipfile  # and what that imports, which most programs need not wait for

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
