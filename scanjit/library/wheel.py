"""A wheel: the shared library, and a module that calls it with ctypes and NumPy."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scanjit import types
from scanjit.errors import ArgumentError
from scanjit.export.harvest import Harvest
from scanjit.export.module import nested, summary, taken
from scanjit.ir import declared
from scanjit.library.dims import expression
from scanjit.library.model import Array, Interface, LibraryModel, stored
from scanjit.target import Target
from scanjit.types import Atom, Dimension

VERSION = "1.0.0"
_FUNCTIONS = {
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "//": "({0} // {1} if {1} else 0)",
    "%": "({0} % {1} if {1} else 0)",
}
_MODULE = '''\
"""`{name}`, exported by scanjit: machine code, called with ctypes and NumPy."""

import ctypes
import threading
from pathlib import Path

import numpy as np

__all__ = [{exported}]


{helpers}


class _Sizes(ctypes.Structure):
    _fields_ = [{sizes}]


class _Inputs(ctypes.Structure):
    _fields_ = [{inputs}]


class _Outputs(ctypes.Structure):
    _fields_ = [{outputs}]


class _State(ctypes.Structure):
    _fields_ = [{state}]


_library = ctypes.CDLL(str(Path(__file__).with_name("{file}")))
_library.{name}_workspace.restype = ctypes.c_size_t
_library.{name}_workspace.argtypes = [ctypes.c_void_p]
_library.{name}_{call}.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_size_t]
_library.{name}_error.restype = ctypes.c_char_p
_lock = threading.Lock()
{variables}

def {name}({arguments}):
    """{summary}"""
{lines}
'''
_VARIABLES = """
_state = _State()
_library.{name}_state_init(ctypes.byref(_state))
variables = {{
{fields}
}}
\"\"\"The values of the variables, as calls change them: arrays in the memory of the library's state.\"\"\"
"""


def check_dtypes(face: Interface) -> None:
    """Raise `ArgumentError` if an array of the interface is of bfloat16, which NumPy does not have."""
    for each in (*face.inputs, *face.given_back, *(variable for variable, _ in face.state)):
        if each.dtype.name == "bfloat16":
            raise ArgumentError(
                "a wheel needs NumPy alone, which has no bfloat16",
                got=each.label,
                fix='take and give float32, and cast inside: sj.cast(x, "bfloat16")',
                where="",
            )


def wheel(model: LibraryModel, library: Path, name: str, target: Target) -> Path:
    """Write a wheel beside the shared library that it contains. Returns the path of the wheel."""
    info = f"{name}-{VERSION}.dist-info"
    tag = f"py3-none-{_platform(target)}"
    files: dict[str, bytes] = {
        f"{name}/__init__.py": module(model, library.name).encode(),
        f"{name}/{library.name}": library.read_bytes(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\nSummary: A function exported by scanjit\n"
            "Requires-Python: >=3.9\nRequires-Dist: numpy>=1.24\n"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: scanjit\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    path = library.parent / f"{name}-{VERSION}-{tag}.whl"
    record = "".join(f"{file},sha256={_digest(held)},{len(held)}\n" for file, held in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, held in files.items():
            archive.writestr(zipfile.ZipInfo(file), held, zipfile.ZIP_DEFLATED)
    return path


def _digest(held: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(held).digest()).rstrip(b"=").decode()


def _platform(target: Target) -> str:
    """The platform tag of wheels for a target, as "linux_x86_64"."""
    machine, _, system = target.triple.partition("-")
    if "windows" in system:
        return "win_arm64" if target.is_arm64 else "win_amd64"
    if "apple" in system:
        return "macosx_11_0_arm64" if target.is_arm64 else "macosx_11_0_x86_64"
    if "linux" in system:
        return f"linux_{'armv7l' if machine == 'armv7' else machine}"
    raise ArgumentError("there is no Python for this target", got=target.triple, where="")


def module(model: LibraryModel, file: str) -> str:
    """The text of the wheel's Python module. `file` is the name of the shared library."""
    face, graph, name = model.interface, model.graph, model.interface.name
    harvest = Harvest({name, "np", "ctypes", "threading", "Path", "variables", *(each.name for each in face.inputs)})
    copied = {word: harvest.add("scanjit.library.helpers", word) for word in ("workspace", "checked")}
    copied |= {word: harvest.add("scanjit.export.helpers", word) for word in ("argument", "stored", "complex_numbers")}
    variables = ""
    if face.state:
        fields = "\n".join(
            f"    {each.label!r}: np.ctypeslib.as_array(_state.{each.name})[:{variable.stored.size}]"
            f".view({each.dtype.name!r}).reshape({variable.stored.shape}),"
            for each, variable in face.state
        )
        variables = _VARIABLES.format(name=name, fields=fields)
    names = [each.name for each in face.inputs]
    return _MODULE.format(
        call=face.call,
        name=name,
        file=file,
        exported=", ".join(map(repr, [name, *(["variables"] if face.state else [])])),
        helpers=harvest.text(),
        sizes=", ".join(f'("{made}", ctypes.c_int64)' for made in face.sizes.values()),
        inputs=", ".join(f'("{each.name}", ctypes.c_void_p)' for each in face.given),
        outputs=", ".join(f'("{each.name}", ctypes.c_void_p)' for each in face.given_back),
        state=", ".join(f'("{a.name}", ctypes.c_{_field(a)} * {max(v.stored.size, 1)})' for a, v in face.state),
        variables=variables,
        arguments=", ".join(names),
        summary=summary(zip(graph.inputs, names, strict=True), graph.returns),
        lines="\n".join(f"    {line}" for line in _lines(model, copied)),
    )


def _field(each: Array) -> str:
    """The name of the elements' type in ctypes, without `c_`."""
    name = stored(each.dtype)
    return {"float32": "float", "float64": "double"}.get(name, name)


def _lines(model: LibraryModel, copied: Mapping[str, str]) -> list[str]:
    """The lines of the Python function. `copied` maps helpers to their names in the module."""
    face, graph, name = model.interface, model.graph, model.interface.name
    lines: list[str] = []
    for each, node in zip(face.inputs, graph.inputs, strict=True):
        text = taken(node, each.name, repr(declared(node).dtype.name), copied.__getitem__)
        lines.append(f"{each.name} = np.ascontiguousarray({text}){'' if node.ndim else '.reshape(())'}")
    known_sizes, found = _sizes(face, graph.inputs)
    lines += found
    lines.append(f"sizes = _Sizes({', '.join(f'_{made}' for made in face.sizes.values())})")
    lines.append(f"inputs = _Inputs({', '.join(f'{each.name}.ctypes.data' for each in face.given)})")
    for i, each in enumerate(face.given_back):
        shape = "".join(f"{_python(dim, known_sizes)}, " for dim in each.room)
        lines.append(f"_y{i} = np.empty(({shape}), {each.dtype.name!r})")
    lines.append(f"outputs = _Outputs({', '.join(f'_y{i}.ctypes.data' for i, _ in enumerate(face.given_back))})")
    lines.append(f"bytes_ = _library.{name}_workspace(ctypes.byref(sizes))")
    state = "ctypes.byref(_state)" if face.state else "None"
    given = f"*map(ctypes.byref, (sizes, inputs, outputs)), {state}, {copied['workspace']}(bytes_), bytes_"
    call = f"_library.{name}_{face.call}({given})"
    if face.state:
        lines += ["with _lock:", f"    status = {call}"]
    else:
        lines.append(f"status = {call}")
    lines.append(f"{copied['checked']}(_library, {name!r}, status)")
    for i, each in enumerate(face.outputs):
        if each.most is not None:
            shape = f"_y{len(face.outputs) + list(face.shapes).index(each)}"
            lines.append(f"_y{i} = _y{i}.ravel()[:{shape}.prod()].reshape({shape})")
    flags = [] if graph.tree is None else graph.tree.stored()
    made = [f"{copied['complex_numbers']}(_y{i})" if pairs else f"_y{i}" for i, pairs in enumerate(flags)]
    return [*lines, f"return {nested(graph.tree and graph.tree.whole(), made)}"]


def _sizes(face: Interface, inputs: Any) -> tuple[dict[Atom, str], list[str]]:
    """The texts of the sizes in Python, and the lines that find the sizes in the arguments and check them."""
    names: dict[Atom, str] = {atom: str(value) for atom, value in face.fixed.items()}
    lines: list[str] = []
    rest: list[tuple[str, Dimension]] = []
    for each, node in zip(face.inputs, inputs, strict=True):
        if each.atom is not None and each.atom in face.sizes:
            names[each.atom] = f"_{face.sizes[each.atom]}"
            lines.append(f"{names[each.atom]} = int({each.name})")
        for axis, dim in enumerate(node.type.shape):
            atom, text = types.as_atom(dim), f"{each.name}.shape[{axis}]"
            if atom is not None and atom in face.sizes and atom not in names:
                names[atom] = f"_{face.sizes[atom]}"
                lines.append(f"{names[atom]} = {text}")
            elif not isinstance(dim, int):
                rest.append((text, dim))
    for text, dim in rest:
        unknown = {atom for atom in types.atoms(dim) if atom not in names}
        if len(unknown) == 1:  # such as n in 2*n + 1
            (atom,) = unknown
            zero = types.substitute(dim, {atom: 0})
            factor = types.substitute(dim, {atom: 1}) - zero
            names[atom] = f"_{face.sizes[atom]}"
            lines.append(f"{names[atom]} = ({text} - ({_python(zero, names)})) // ({_python(factor, names)})")
        lines += [f"if {text} != {_python(dim, names)}:", f'    raise ValueError("{text} does not fit other sizes")']
    return names, lines


def _python(dim: Dimension, names: Mapping[Atom, str]) -> str:
    """A dimension as a Python expression."""
    return expression(dim, names, _FUNCTIONS)
