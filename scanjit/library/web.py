"""A library for web pages and Node: a WebAssembly module, and JavaScript with types for TypeScript that calls it. The
folder `page` has the text of the latter."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from scanjit import errors, types
from scanjit.library import build
from scanjit.library.dims import expression
from scanjit.library.model import Array, Interface, stored
from scanjit.types import Dimension

_EXPORTED = ("workspace", "error")
_OF_STATE = ("state_init", "state_size")


def module(folder: Path, face: Interface, objects: Sequence[str]) -> None:
    """Link `name.wasm`: it imports nothing, so that a page needs no more than this file."""
    if find_spec("ziglang") is None:
        raise errors.ArgumentError(
            "a WebAssembly module needs a linker",
            got="the package ziglang is not installed",
            fix="pip install scanjit[wasm]; or kind='object', and link it with wasm-ld",
            where="",
        )
    name = face.name
    exported = [face.call, *_EXPORTED, *(_OF_STATE if face.state else ())]
    flags = [f"-Wl,--export={name}_{function}" for function in exported]
    flags += ["-Wl,--export=__heap_base", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=262144"]
    compiler = [*build.ZIG, "cc", "-O2", "-target"]
    build.call([*compiler, "wasm32-wasi", "-std=c99", "-c", f"{name}.c", "-o", f"{name}.o"], folder)
    build.call([*compiler, "wasm32-freestanding", *flags, f"{name}.o", *objects, "-o", f"{name}.wasm"], folder)
    (folder / f"{name}.o").unlink()


def texts(face: Interface) -> dict[str, str]:
    """The files beside the WebAssembly module, by their names: JavaScript, its types for TypeScript, an example page,
    and a `package.json` by which Node loads the JavaScript as a module."""
    inputs = [_described(each, face) for each in face.given]
    outputs = [_described(each, face) for each in face.given_back]
    state = _with_offsets([(each, int(types.as_int(types.product(each.shape)))) for each, _ in face.state])
    lists = {"inputs": inputs, "outputs": outputs, "state": state}
    body = "\n".join(f"  {key}: [\n{_rows(rows)}  ]," for key, rows in lists.items())
    described = f"{{\n  name: {json.dumps(face.name)},\n  sizes: {json.dumps(list(face.sizes.values()))},\n{body}\n}}"
    call = f"{face.name}_{face.call}"
    return {
        f"{face.name}.js": _filled("model.js", NAME=face.name, NAME_CALL=call, FACE=described),
        f"{face.name}.d.ts": _types(face),
        "index.html": _filled("index.html", NAME=face.name, CALL=_call(face)),
        "package.json": json.dumps({"name": face.name, "type": "module", "main": f"{face.name}.js"}, indent=2) + "\n",
    }


def _filled(file: str, **words: str) -> str:
    """The text of a file of the folder `page`, in which `$` and a word stands for another text."""
    known = "|".join(sorted(words, key=len, reverse=True))
    text = (Path(__file__).parent / "page" / file).read_text(encoding="utf-8")
    return re.sub(rf"\$({known})", lambda found: words[found[1]], text)


def _rows(rows: Sequence[str]) -> str:
    return "".join(f"    {row},\n" for row in rows)


def _described(each: Array, face: Interface) -> str:
    """The JavaScript object that describes an array of the interface. Its shape is a function of the sizes."""
    shape = ", ".join(number(dim, face) for dim in each.room)
    computed = f", computed: {json.dumps(face.shapes[each].name)}" if each.most is not None else ""
    known = [face.sizes.get(atom) if (atom := types.as_atom(dim)) is not None else None for dim in each.shape]
    return (
        f"{{ name: {json.dumps(each.name)}, type: {_array(each)}, sizes: {json.dumps(known)}, "
        f"shape: (s) => [{shape}]{computed} }}"
    )


def _with_offsets(arrays: Sequence[tuple[Array, int]]) -> list[str]:
    """The JavaScript objects that describe the arrays of the state, with their offsets in the C struct. `arrays` gives
    each array with its count of elements."""
    found, at = [], 0
    for each, count in arrays:
        size = int(each.dtype.itemsize)
        at = -(-at // size) * size
        shape = ", ".join(str(dim) for dim in each.shape)
        found.append(
            f"{{ name: {json.dumps(each.name)}, type: {_array(each)}, offset: {at}, count: {count}, shape: [{shape}] }}"
        )
        at += max(count, 1) * size
    return found


_CALLS: Mapping[str, str] = {
    "min": "Math.min({0}, {1})",
    "max": "Math.max({0}, {1})",
    "//": "Math.floor({0} / {1})",
    "%": "mod({0}, {1})",
    "root": "Math.ceil(Math.sqrt({0}))",
}


def number(dim: Dimension, face: Interface) -> str:
    """A dimension in JavaScript, where the object `s` holds the sizes."""
    return expression(dim, face.named("s."), _CALLS)


def _array(each: Array) -> str:
    """The class of typed arrays for the elements of an array; for float16 and bfloat16, of their bits."""
    name = stored(each.dtype)
    return {"int64": "BigInt64"}.get(name, name.capitalize()) + "Array"


def _types(face: Interface) -> str:
    """The text of the file with types for TypeScript."""
    sizes = "".join(f"  {made}?: number;\n" for made in face.sizes.values())
    inputs = "".join(
        f"  {each.name}: {_accepted(each)}; // {each.dtype.name}[{', '.join(map(str, each.shape))}]\n"
        for each in face.given
    )
    views, outputs = (
        "".join(f"  readonly {each.name}: Shaped<{_array(each)}>;\n" for each in some)
        for some in (face.given, face.given_back)
    )
    state = "".join(f"  readonly {each.name}: {_array(each)};\n" for each, _ in face.state)
    return _filled("model.d.ts", SIZES=sizes, INPUTS=inputs, VIEWS=views, OUTPUTS=outputs, STATE=state)


def _accepted(each: Array) -> str:
    """The TypeScript type of an input: an array; or also a number, if it has no axes."""
    element = {"int64": "bigint", "bool": "number | boolean"}.get(each.dtype.name, "number")
    array = f"{_array(each)} | ArrayLike<{element}>"
    return array if each.shape else f"{array} | {element}"


def _call(face: Interface) -> str:
    """An example call: zeros, and sizes of 4."""
    sizes = ", ".join(f"{made}: 4" for made in face.sizes.values())
    lines = [f"const s = {{{f' {sizes} ' if sizes else ''}}};"]
    for each in face.given:
        lines.append(f"const {each.name} = new {_array(each)}({number(types.product(each.shape), face)});")
    lines.append(f"const outputs = model.run({{ {', '.join(each.name for each in face.given)} }}, s);")
    return "\n      ".join(lines)
