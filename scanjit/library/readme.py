"""`README.md`: the files of the folder, their bytes, and the functions of the system that they call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scanjit.library.header import described
from scanjit.library.model import LibraryModel

_TEXT = """\
# {name}

A function of Python's, exported by scanjit as a library for C. It needs neither Python nor scanjit.

| file | what it is |
| --- | --- |
| `{name}.h` | what C, C++ and others see |
| `{name}.c` | checks what a call gives, and lays out memory: C99, no malloc, no locks, no variables that last |
{files}
| `{name}.rs` | what Rust sees |
| `example.c` | a call |
| `Makefile`, `CMakeLists.txt` | build `lib{name}.a`, `lib{name}.so` and the example |

    make && ./example

Add `{name}.c` and the `.o` files to your own program, or link what they build.

## What a call takes and gives

{interface}

Sizes that the caller gives: {sizes}.

## What it is made for

{targets}

Functions that the code needs of the C library, beside `memcpy`, `memmove` and `memset`: {needed}.

Results have the same bits as those of the function in Python, on one thread, if Python compiles for the same
instructions. With other instructions (fused multiply-adds or not, other widths of vectors) sums are rounded elsewhere:
the models that scanjit is tested with are then at most 15 units in the last place (of an array's largest entry) away.

Memory of a call: `{name}_workspace(sizes)` bytes, which the caller gives. The stack above is that of the machine code;
`{name}.c` takes some hundred bytes beside, and functions of the C library their own.
"""


def readme(model: LibraryModel, objects: Mapping[str, int], needed: Sequence[str], stacks: Sequence[int | None]) -> str:
    """The text of `README.md`."""
    face = model.interface
    rows = [f"| argument | `{each.name}` | {described(each)} |" for each in face.inputs]
    rows += [f"| result | `{each.name}` | {described(each)} |" for each in face.given_back]
    rows += [f"| state | `{each.name}` | {described(each)} |" for each, _ in face.state]
    return _TEXT.format(
        name=face.name,
        files="\n".join(f"| `{file}` | machine code and constants, {size:,} bytes |" for file, size in objects.items()),
        interface="\n".join(["| | name in C | type |", "| --- | --- | --- |", *rows]),
        sizes=", ".join(f"`{made}`" for made in face.sizes.values()) or "none",
        targets="\n".join(
            f"- {each.target.triple} {each.target.name}".rstrip()
            + ("" if stack is None else f": at most {stack:,} bytes of stack")
            for each, stack in zip(model.levels, stacks, strict=True)
        ),
        needed=", ".join(f"`{each}`" for each in needed) or "none",
    )
