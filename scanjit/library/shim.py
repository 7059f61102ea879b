"""`model.c`: it checks the arguments of a call, lays out memory, and calls the program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from scanjit.library.call import level_text
from scanjit.library.dims import HELPERS
from scanjit.library.header import arguments as declared
from scanjit.library.model import Level, LibraryModel
from scanjit.library.status import FIRST_CHECK, STATUSES, failures, unmet

_HEAD = """\
/* {name}: memory, checks and the call of the program. Written by a program: export it again instead of editing it.
   C99, without malloc, without variables that last, without locks. It needs memcpy and memset. */
#include "{name}.h"

#include <string.h>

/* The program: it takes the address of its table, the number of this thread, how many there are, and the address of
   what a thread knows. */
{programs}
{data}
#ifdef __MINGW32__
/* Compilers of Windows refer to this where there are floats. The library of Microsoft's compiler has it, others not. */
__declspec(selectany) int _fltused = 1;
#endif

static int64_t address(const void *place)
{{
    return (int64_t)(uintptr_t)place;
}}
"""
_WORKSPACE = """\
size_t {name}_workspace(const {name}_sizes *sizes)
{{
{bodies}
}}
"""
_RUN = """\
int {name}_{call}({given}, size_t bytes)
{{
{calls}
}}
"""
_PARALLEL = """\
int {name}_{call}_parallel({given}, size_t bytes,
    int threads, {name}_parallel_for parallel_for, void *context)
{{
    if (threads < 1 || threads > {guard}_THREADS || parallel_for == NULL)
        return {guard}_TEAM;
{calls}
}}
"""
_SUPPORTS = """\
/* Whether this processor, and its system, have the instructions of a level of x86-64. */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <cpuid.h>
static int supports(int level)
{
    unsigned int a, b, c, d, kept = 0, other;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 0x00900000u) != 0x00900000u) /* SSE4.2, POPCNT */
        return 0;
    if (level <= 2)
        return 1;
    if ((c & 0x18001000u) != 0x18001000u) /* FMA, OSXSAVE, AVX */
        return 0;
    __asm__ volatile("xgetbv" : "=a"(kept), "=d"(other) : "c"(0));
    if ((kept & 0x06u) != 0x06u || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & 0x120u) != 0x120u) /* AVX2, BMI2 */
        return 0;
    return level <= 3 || ((kept & 0xe0u) == 0xe0u && (b & 0xc0030000u) == 0xc0030000u); /* AVX-512 F, DQ, BW, VL */
}
#else
static int supports(int level)
{
    return level < 2;
}
#endif
"""
_STATE = """\
size_t {name}_state_size(void)
{{
    return sizeof({name}_state);
}}

int {name}_state_init({name}_state *state)
{{
    if (state == NULL)
        return {guard}_NULL;
    memset(state, 0, sizeof({name}_state));
{lines}
    return 0;
}}
"""
_ERROR = """\
const char *{name}_error(int status)
{{
    switch (status) {{
{cases}
    default:
        return "no status of this library";
    }}
}}
"""
_TESTED = {"x86-64-v2": 2, "x86-64-v3": 3, "x86-64-v4": 4}
"""The levels of x86-64 for which a call must test the processor."""


def shim(model: LibraryModel) -> str:
    """The text of the C file."""
    face = model.interface
    texts = [level_text(model, level) for level in model.levels]
    if any(_tests(level) for level in model.levels):
        texts.append(_SUPPORTS)
    texts += [_public(model), _state(model), _error(model)]
    symbols = [symbol for level in model.levels for symbol in level.programs]
    programs = "\n".join(f"void {symbol}(int64_t, int64_t, int64_t, int64_t);" for symbol in symbols)
    data = "\n".join(f"extern const unsigned char {each}[];" for each in model.data.values())
    head = _HEAD.format(name=face.name, programs=programs, data=f"\n/* Constants. */\n{data}\n" if data else "")
    return "\n".join(part for part in (head, _used(HELPERS, "\n".join(texts)), *texts) if part)


def _used(helpers: str, text: str) -> str:
    """The helpers that a text calls, and those that they call in turn. Each helper calls only those before it."""
    head, define, *functions = helpers.split("\n\n")
    kept: list[str] = []
    for function in reversed(functions):
        word = function.partition("(")[0].rpartition(" ")[2]
        if any(re.search(rf"\b{word}\(", other) for other in (text, *kept)):
            kept.insert(0, function.rstrip())
    return "\n\n".join([head, define, *kept]) + "\n" if kept or "LARGEST" in text else ""


def _tests(level: Level) -> int:
    """The level of x86-64 for which a call must test the processor; 0 if every processor of the family runs the
    program."""
    return _TESTED.get(level.target.name, 0) if level.target.is_x86 else 0


def _public(model: LibraryModel) -> str:
    """The functions that users call. Each calls the function of the best level that the processor can run."""
    face = model.interface
    given = {"name": face.name, "guard": face.guard, "call": face.call, "given": declared(face)}
    arguments = "sizes, inputs, outputs, state, workspace, bytes"
    size = lambda end: f"layout{end} at;\n return lay_out{end}(sizes, &at) == 0 ? (size_t)at.bytes : 0;"
    parts = [_WORKSPACE.format(**given, bodies=_chosen(model, size, "0"))]
    none = f"{model.interface.guard}_TARGET"
    parts.append(_RUN.format(**given, calls=_chosen(model, lambda end: f"return run{end}({arguments});", none)))
    if model.threads > 1:
        several = f"{arguments}, threads, parallel_for, context"
        calls = _chosen(model, lambda end: f"return run_parallel{end}({several});", none)
        parts.append(_PARALLEL.format(**given, calls=calls))
    return "\n".join(parts)


def _chosen(model: LibraryModel, body: Callable[[str], str], none: str) -> str:
    """Lines that run the code of the best level that the processor can run. `body` gives a level's code for the suffix
    of its names; `none` is the value to return if the processor can run no level."""
    lines: list[str] = []
    for level in reversed(model.levels):
        text = [line.strip() for line in body(f"_{level.label}" if level.label else "").splitlines()]
        if not (tests := _tests(level)):
            return "\n".join([*lines, *(f"    {line}" for line in text)])
        lines += [f"    if (supports({tests})) {{", *(f"        {line}" for line in text), "    }"]
    return "\n".join([*lines, f"    return {none};"])


def _state(model: LibraryModel) -> str:
    """The functions that make and fill in a state; empty if there is no state."""
    face = model.interface
    if not face.state:
        return ""
    copies = [
        f"    memcpy(state->{each.name}, {model.datum(variable.stored)}, {variable.stored.nbytes});"
        for each, variable in face.state
        if variable.stored.nbytes
    ]
    return _STATE.format(name=face.name, guard=face.guard, lines="\n".join(copies))


def _error(model: LibraryModel) -> str:
    """The function that returns the meaning of a status as text."""
    face = model.interface
    meanings = [(f"{face.guard}_{word}", text) for word, _, text in STATUSES]
    meanings += [(f"{FIRST_CHECK - i}", unmet(check)) for i, check in enumerate(face.checks)]
    meanings += [(f"{i}", text) for i, text in enumerate(failures(model), 1)]
    cases = "\n".join(f"    case {case}:\n        return {_quoted(text)};" for case, text in meanings)
    return _ERROR.format(name=face.name, cases=cases)


def _quoted(text: str) -> str:
    """A text as a string literal of C."""
    return json.dumps(text.encode("ascii", "replace").decode()).replace("\\u007f", "?").replace("??", "? ?")
