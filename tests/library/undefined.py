"""What the code of a library asks of the system that it is linked on."""

from pathlib import Path

from scanjit.runtime.undefined import undefined

SYSTEM = {"memcpy", "memset", "memmove", "bzero", "__chkstk"}
ROUNDING = {name + end for name in ("floor", "trunc", "rint", "sqrt") for end in ("", "f")}
"""Functions of the C library on processors that lack an instruction for them."""


def needed(folder: Path, target: str) -> set[str]:
    """The symbols that the code refers to, but for those that docs/reference/c_library.md names."""
    found = {symbol for path in folder.glob("*_code*.o") for symbol in undefined(path.read_bytes())} - SYSTEM
    if target.startswith(("armv7", "cortex")):  # names with two underscores come with the compiler
        found = {symbol for symbol in found - ROUNDING if not symbol.startswith("__")}
    return found
