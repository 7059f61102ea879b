"""The files of a library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scanjit.library import build, web
from scanjit.library.example import example
from scanjit.library.header import header
from scanjit.library.model import LibraryModel, interface, level
from scanjit.library.readme import readme
from scanjit.library.rust import rust
from scanjit.library.shim import shim
from scanjit.library.stack import worst_stack
from scanjit.library.wheel import check_dtypes, wheel
from scanjit.runtime import compiler
from scanjit.runtime.files import fill_folder
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.undefined import undefined
from scanjit.target import Target

SYSTEM = frozenset({"memcpy", "memset", "memmove", "bzero"})
"""Functions that machine code may call because all C libraries have them."""


def write(
    graph: FunctionGraph,
    folder: Path,
    name: str,
    targets: Mapping[str, Target],
    sizes: Mapping[str, int],
    kind: str,
    threads: int,
    call: str = "run",
) -> None:
    """Write the files of a library: see `export_library`. The keys of `targets` are labels, which end the names of
    their functions. A single target has the label ""."""
    native = all(build.is_native(target) for target in targets.values())
    command = [] if kind in ("object", "wasm") else build.compiler_for(next(iter(targets.values())), native)
    face = interface(name, graph, sizes, call)
    if kind == "wheel":
        check_dtypes(face)
    levels = [level(face, graph, label, target, threads) for label, target in targets.items()]
    model = LibraryModel(face, graph, levels, threads)
    texts = {f"{name}.c": shim(model), f"{name}.h": header(model), "example.c": example(model)}
    texts[f"{name}.rs"] = rust(face)
    data = {label: held for held, label in model.data.items()}
    objects: dict[str, bytes] = {}
    for each in levels:
        objects[f"{name}_code{each.label and '_' + each.label}.o"] = compiler.to_object(each.units, each.target, data)
        data = {}
    needed = {symbol for code in objects.values() for symbol in undefined(code)} - SYSTEM
    given = {"name": name, "objects": " ".join(objects), "libs": "-lm" if needed else ""}
    texts["Makefile"] = build.MAKEFILE.format(**given)
    linked = f"target_link_libraries({name} PUBLIC m)" if needed else ""
    stacks = [worst_stack(compiler.to_text(each.units, each.target), each.programs) for each in levels]
    texts["README.md"] = readme(model, {file: len(code) for file, code in objects.items()}, sorted(needed), stacks)
    texts["CMakeLists.txt"] = build.CMAKE.format(**{**given, "libs": linked})
    with fill_folder(folder) as new:
        for file, text in texts.items():
            (new / file).write_text(text, encoding="ascii", errors="backslashreplace")
        for file, code in objects.items():
            (new / file).write_bytes(code)
        if kind == "wasm":
            for file, text in web.texts(face).items():
                (new / file).write_text(text, encoding="utf-8")
            web.module(new, face, list(objects))
        elif kind != "object":
            best = levels[-1].target
            build.library(command, new, name, list(objects), kind, best)
            if kind == "wheel":
                wheel(model, new / build.shared_name(name, best), name, best)
