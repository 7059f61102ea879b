"""Builds exported libraries with a C compiler, and runs them as programs of their own, which have never met Python.

`Built` writes a driver in C beside a library. The driver reads sizes and arrays from a file, calls the library, and
writes the results and the state into another file. The same driver runs under emulators of other processors.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import scanjit as sj
from scanjit.library.model import Array, Interface, interface
from scanjit.runtime import sizes
from scanjit.types import Numbers
from tests.scripts import printed

STRICT = ["-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"]
GUARDED = [*STRICT, "-D_GNU_SOURCE", "-DGUARDED"]
SANITIZED = [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_DRIVER = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "{name}.h"

#ifdef GUARDED /* memory that ends where a page begins that nobody may touch; another such page is in front */
#include <sys/mman.h>

static void *take(size_t bytes)
{{
    const size_t page = 4096, inside = (bytes + page - 1) / page * page;
    char *found = mmap(NULL, inside + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == (char *)MAP_FAILED)
        exit(4);
    if (mprotect(found, page, PROT_NONE) != 0 || mprotect(found + page + inside, page, PROT_NONE) != 0)
        exit(4);
    return found + page + inside - bytes;
}}
#define give_back(place) (void)(place)
#else
static void *take(size_t bytes)
{{
    void *found = malloc(bytes > 0 ? bytes : 1);
    if (found == NULL)
        exit(4);
    return found;
}}
#define give_back(place) free(place)
#endif

static FILE *file;

static void get(void *place, size_t bytes)
{{
    if (bytes > 0 && fread(place, 1, bytes, file) != bytes)
        exit(3);
}}

/* Memory for an array, whose number of bytes is in the file. */
static void *array(int64_t *bytes)
{{
    get(bytes, sizeof(*bytes));
    return take((size_t)*bytes);
}}

int main(int count, char **arguments)
{{
    int64_t calls, call, bytes;
    int status = 0;
    size_t room;
    unsigned char *memory, *workspace;
{declared}
    if (count != 3)
        return 5;
    file = fopen(arguments[1], "rb");
    if (file == NULL)
        return 6;
    get(&calls, sizeof(calls));
{read}
    fclose(file);
    room = {name}_workspace({sizes});
#ifdef GUARDED
    workspace = memory = take(room);
#else
    memory = take(room + 64);
    workspace = memory + (64 - (uintptr_t)memory % 64) % 64;
#endif
#ifndef UNSET
    memset(workspace, 0xa5, room);
#endif
    for (call = 0; call < calls && status == 0; call++)
        status = {name}_run({sizes}, {inputs}, {outputs}, {state}, workspace, room);
    if (status != 0)
        fprintf(stderr, "%s\\n", {name}_error(status));
    file = fopen(arguments[2], "wb");
    if (file == NULL)
        return 7;
    bytes = status;
    fwrite(&bytes, sizeof(bytes), 1, file);
{written}
    fclose(file);
    give_back(memory);
{freed}
    return 0;
}}
"""


def driver(face: Interface) -> str:
    """The text of a driver."""
    name = face.name
    declared, read, written, freed = [], [], [], []
    structs = {"sizes": face.sizes, "inputs": face.given, "outputs": face.given_back, "state": face.state}
    for struct, some in structs.items():
        if some:
            declared.append(f"    {name}_{struct} {struct};")
    read += [f"    get(&sizes.{made}, sizeof(sizes.{made}));" for made in face.sizes.values()]
    for each in face.given:
        declared.append(f"    unsigned char *in_{each.name};")
        read += [f"    in_{each.name} = array(&bytes);", f"    get(in_{each.name}, (size_t)bytes);"]
        read.append(f"    inputs.{each.name} = (void *)in_{each.name};")
        freed.append(f"    give_back(in_{each.name});")
    for each in face.given_back:
        declared.append(f"    int64_t bytes_{each.name};")
        read += [f"    outputs.{each.name} = array(&bytes_{each.name});"]
        read.append(f"    memset(outputs.{each.name}, 0x5a, (size_t)bytes_{each.name});")
        written.append(f"    fwrite(outputs.{each.name}, 1, (size_t)bytes_{each.name}, file);")
        freed.append(f"    give_back(outputs.{each.name});")
    if face.state:
        read.append(f"    if ({name}_state_init(&state) != 0)\n        return 8;")
        written += [f"    fwrite(state.{each.name}, 1, sizeof(state.{each.name}), file);" for each, _ in face.state]
    given = {key: f"&{key}" if some else "NULL" for key, some in structs.items()}
    return _DRIVER.format(
        name=name, declared="\n".join(declared), read="\n".join(read), written="\n".join(written),
        freed="\n".join(freed), **given,
    )  # fmt: skip


class Built:
    """A library, exported and built together with its driver.

    Parameters
    ----------
    f : the function.
    folder : where it is exported to.
    compiler : the command of a compiler for the target.
    flags : what the compiler gets beside.
    before : the command that runs a program for the target: `qemu-aarch64`.
    **options : of `export_library`.
    """

    def __init__(
        self,
        f: Any,
        folder: Path,
        compiler: Sequence[str] = ("cc",),
        flags: Sequence[str] = STRICT,
        before: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.f, self.folder, self.before = f, folder, list(before)
        self.name = options.setdefault("name", "model")
        options.setdefault("kind", "object")
        sj.export_library(f, folder, **options)
        self.face = interface(self.name, f.graph, options.get("sizes") or {})
        (folder / "driver.c").write_text(driver(self.face))
        objects = sorted(path.name for path in folder.glob("*_code*.o"))
        printed(*compiler, *flags, "driver.c", f"{self.name}.c", *objects, "-lm", "-o", "driver", folder=folder)

    def call(self, *args: Any, calls: int = 1) -> tuple[list[Any], list[Any]]:
        """The results of the last of some calls with these arguments, and the state after it."""
        nodes = self.f.graph.inputs
        arrays = [np.array(a, n.dtype, order="C") for a, n in zip(args, nodes, strict=True)]
        known = {**self.face.fixed, **sizes.bind(nodes, [array.shape for array in arrays])}
        known |= {n.dim_atom: int(a) for n, a in zip(nodes, arrays, strict=True) if n.dim_atom is not None}
        number = Numbers(known)
        parts = [np.int64(calls).tobytes(), *(np.int64(known[atom]).tobytes() for atom in self.face.sizes)]
        for array, each in zip(arrays, self.face.inputs, strict=True):
            if each.atom is None:
                parts += [np.int64(array.nbytes).tobytes(), array.tobytes()]
        shapes = [(each, tuple(map(number, each.room))) for each in self.face.given_back]
        parts += [np.int64(_bytes(each, shape)).tobytes() for each, shape in shapes]
        (self.folder / "given").write_bytes(b"".join(parts))
        command = [*self.before, "./driver", "given", "found"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        self.said = done.stderr
        held = (self.folder / "found").read_bytes()
        self.status = int(np.frombuffer(held[:8], np.int64)[0])
        found, at = [], 8
        shapes += [(each, tuple(map(int, each.shape))) for each, _ in self.face.state]
        for each, shape in shapes:
            size = _bytes(each, shape)
            found.append(np.frombuffer(held[at : at + size], each.dtype).reshape([max(n, 0) for n in shape]))
            at += max(size, each.dtype.itemsize) if len(found) > len(self.face.given_back) else size
        assert at == len(held)
        state = found[len(self.face.given_back) :]
        for each, shape in zip(self.face.shapes, found[len(self.face.outputs) :], strict=False):
            i = self.face.outputs.index(each)
            shape = np.where(self.status == 0, shape, 0)
            found[i] = found[i].ravel()[: shape.prod()].reshape(shape)
        return found[: len(self.face.outputs)], state


def _bytes(each: Array, shape: tuple[int, ...]) -> int:
    return int(np.prod([max(size, 0) for size in shape])) * each.dtype.itemsize


def same(found: Any, wanted: Any) -> None:
    """Whether two arrays have the same bits."""
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes(), f"{found}\n{wanted}"
