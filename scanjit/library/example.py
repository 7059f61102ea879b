"""`example.c`: a program that calls the library once."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import types
from scanjit.library.dims import expression
from scanjit.library.header import c_type
from scanjit.library.model import Array, Interface, LibraryModel
from scanjit.types import Dimension

_TEXT = """\
/* Calls {name} once, with made-up arguments. */
#include <stdio.h>
#include <stdlib.h>

#include "{name}.h"

/* Memory for so many elements, which hold 0. */
static void *room(size_t count, size_t each)
{{
    void *found = calloc(count > 0 ? count : 1, each);
    if (found == NULL)
        exit(2);
    return found;
}}

int main(void)
{{
{declared}
    unsigned char *memory, *workspace;
    size_t bytes, i;
    int status;

{given}
    /* The library allocates nothing: its memory is ours, at a multiple of {guard}_ALIGNMENT. */
    bytes = {name}_workspace({sizes});
    memory = (unsigned char *)room(bytes + {guard}_ALIGNMENT, 1);
    workspace = memory + ({guard}_ALIGNMENT - (uintptr_t)memory % {guard}_ALIGNMENT) % {guard}_ALIGNMENT;
    status = {name}_{call}({sizes}, {inputs}, {outputs}, {state}, workspace, bytes);
    if (status != 0) {{
        fprintf(stderr, "%s\\n", {name}_error(status));
        return 1;
    }}

{shown}
    free(memory);
{freed}
    return 0;
}}
"""
_FUNCTIONS = {
    "min": "({0} < {1} ? {0} : {1})",
    "max": "({0} > {1} ? {0} : {1})",
    "//": "({0} / {1})",
    "%": "({0} % {1})",
}


def example(model: LibraryModel) -> str:
    """The text of the example."""
    face, name = model.interface, model.interface.name
    structs: tuple[tuple[str, Sequence[object]], ...] = (
        ("sizes", list(face.sizes)),
        ("inputs", face.given),
        ("outputs", face.given_back),
    )
    declared = [f"    {name}_{struct} {struct};" for struct, some in structs if some]
    given = [f"    sizes.{made} = 4;" for made in face.sizes.values()]
    for each in face.given:
        kind = c_type(each.dtype)
        declared.append(f"    {kind} *{each.name}_data;")
        given.append(f"    inputs.{each.name} = {each.name}_data = {_room(face, each)};")
        value = "0.01 * (double)(i % 100)" if kind in ("float", "double") else "0"
        given.append(f"    for (i = 0; i < {_elements(face, each.shape)}; i++)")
        given.append(f"        {each.name}_data[i] = ({kind})({value});")
    given += [f"    outputs.{each.name} = {_room(face, each)};" for each in face.given_back]
    if face.state:
        declared.append(f"    {name}_state *state = ({name}_state *)room(1, {name}_state_size());")
        given.append(f"    {name}_state_init(state);")
    shown = []
    for each in face.outputs:
        count = _elements(face, each.shape) if each.most is None else _computed(face.shapes[each])
        shown.append(f"    for (i = 0; i < {count} && i < 4; i++)")
        shown.append(f'        printf("{each.name}[%lu]: %.9g\\n", (unsigned long)i, (double)outputs.{each.name}[i]);')
    taken = [f"{each.name}_data" for each in face.given] + [f"outputs.{each.name}" for each in face.given_back]
    taken += ["state"] if face.state else []
    return _TEXT.format(
        name=name,
        guard=face.guard,
        call=face.call,
        declared="\n".join(declared),
        given="\n".join(given),
        shown="\n".join(shown) or "    (void)i;",
        freed="\n".join(f"    free({each});" for each in taken),
        state="state" if face.state else "NULL",
        **{struct: f"&{struct}" if some else "NULL" for struct, some in structs},
    )


def _room(face: Interface, each: Array) -> str:
    kind = c_type(each.dtype)
    return f"({kind} *)room({_elements(face, each.room)}, sizeof({kind}))"


def _computed(shape: Array) -> str:
    """The number of elements of an output whose shape the library computes, as C: the product of the entries of
    `shape`."""
    return f"(size_t)({' * '.join(f'outputs.{shape.name}[{axis}]' for axis in range(types.as_int(shape.shape[0])))})"


def _elements(face: Interface, shape: tuple[Dimension, ...]) -> str:
    """The number of elements of an array of this shape, as C."""
    return f"(size_t)({expression(types.product(shape), face.named('sizes.'), _FUNCTIONS)})"
