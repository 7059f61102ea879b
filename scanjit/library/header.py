"""`model.h`: the declarations for C, C++ and other languages."""

from __future__ import annotations

from scanjit.library.model import Array, Interface, LibraryModel, stored
from scanjit.library.status import FIRST_CHECK, STATUSES
from scanjit.signatures import DType

_ARGUMENTS = """\
const {name}_sizes *sizes, const {name}_inputs *inputs, const {name}_outputs *outputs,
    {name}_state *state, void *workspace"""
_HEADER = """\
/* {name}: a function of Python's, exported by scanjit. Written by a program: export it again instead of editing it. */
#ifndef {guard}_H
#define {guard}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#define {guard}_RESTRICT
#else
#define {guard}_RESTRICT restrict
#endif

/* What functions return: 0, or what is wrong. {name}_error says it in words. */
{statuses}

{structs}

/* The bytes of memory that a call with these sizes needs, at an address that is a multiple of {guard}_ALIGNMENT.
   0 if the sizes do not fit. */
#define {guard}_ALIGNMENT 64
size_t {name}_workspace(const {name}_sizes *sizes);

/* Compute the outputs{and_state}. `workspace` has `bytes` bytes; what is in it does not matter, before and after.
   Outputs may not overlap with anything. Calls may run side by side if each has outputs{own_state} and a workspace of
   its own. After an error, {after}. */
int {name}_{call}({given}, size_t bytes);
{threads}{state}
/* What a status means, in words. */
const char *{name}_error(int status);

#ifdef __cplusplus
}}
#endif

#endif
"""

_STATE = """
/* The bytes of a state: to save one, write them to a file; to restore it, read them back. */
size_t {name}_state_size(void);

/* Fill in the values that the variables had when the library was made. */
int {name}_state_init({name}_state *state);
"""

THREADS = """
/* Call `work(argument, thread)` for each `thread` from 0 to `threads - 1`, all of them AT THE SAME TIME (they wait for
   each other), and return 0 when all have returned; another number if that cannot be. */
typedef int (*{name}_parallel_for)(
    void *context, int threads, void (*work)(void *argument, int thread), void *argument);

/* As {name}_{call}, on `threads` threads, from 1 to {guard}_THREADS. */
#define {guard}_THREADS {most}
int {name}_{call}_parallel({given}, size_t bytes,
    int threads, {name}_parallel_for parallel_for, void *context);
"""


def arguments(face: Interface) -> str:
    """The parameters, as C declares them, that all functions of a call have."""
    return _ARGUMENTS.format(name=face.name)


def header(model: LibraryModel) -> str:
    """The text of the header."""
    face, name = model.interface, model.interface.name
    guard = face.guard
    width = max(len(word) for word, _, _ in STATUSES)
    statuses = [f"#define {guard}_{word:{width}} ({number}) /* {text} */" for word, number, text in STATUSES]
    more = f"/* From {FIRST_CHECK} down: a size that does not fit others. Above 0: an index out of bounds. */"
    given = {"name": name, "guard": guard, "most": model.threads, "call": face.call, "given": arguments(face)}
    return _HEADER.format(
        **given,
        statuses="\n".join([*statuses, more]),
        structs="\n\n".join(_structs(face)),
        and_state=", and the new state" if face.state else "",
        own_state=", a state" if face.state else "",
        after="the state is as it was, and the outputs hold anything" if face.state else "the outputs hold anything",
        state=_STATE.format(**given) if face.state else "",
        threads=THREADS.format(**given) if model.threads > 1 else "",
    ).replace("\n\n\n", "\n\n")


def _structs(face: Interface) -> list[str]:
    sizes = [f"int64_t {made};" for made in face.sizes.values()]
    inputs = [f"const {_pointer(each, face.guard)}" for each in face.given]
    outputs = [_pointer(each, face.guard) for each in face.given_back]
    state = [
        f"{c_type(each.dtype)} {each.name}[{max(variable.stored.size, 1)}]; /* {described(each)} */"
        for each, variable in face.state
    ]
    return [
        _struct(f"{face.name}_sizes", sizes, "sizes of the arrays in a call"),
        _struct(f"{face.name}_inputs", inputs, "arguments, row by row"),
        _struct(f"{face.name}_outputs", outputs, "results, row by row"),
        _struct(f"{face.name}_state", state, "variables, which calls change"),
    ]


def _struct(name: str, fields: list[str], what: str) -> str:
    if not fields:
        return f"/* The {what}: there are none, pass NULL. */\ntypedef struct {name} {name};"
    lines = "\n".join(f"    {each}" for each in fields)
    return f"/* The {what}. */\ntypedef struct {name} {{\n{lines}\n}} {name};"


def _pointer(each: Array, guard: str) -> str:
    return f"{c_type(each.dtype)} *{guard}_RESTRICT {each.name}; /* {described(each)} */"


def c_type(dtype: DType) -> str:
    """The C type of the elements of an array."""
    return {"float32": "float", "float64": "double"}.get(name := stored(dtype), f"{name}_t")


def described(each: Array) -> str:
    """The dtype, the shape and the label of an array, as the text of a comment."""
    return f"{each.dtype.name}{_shape_text(each)}{f': {each.label}' if each.label != each.name else ''}".replace(
        "*/", "* /"
    )


def _shape_text(each: Array) -> str:
    """A shape in brackets; an empty text for an array without axes."""
    dims = [str(dim) if dim == most else f"at most {most}" for dim, most in zip(each.shape, each.room, strict=True)]
    return f"[{', '.join(dims)}]" if dims else ""
