"""What the code of a library asks of the system that it is linked on."""

from pathlib import Path

from scanjit.runtime.undefined import undefined

SYSTEM = {"memcpy", "memset", "memmove", "bzero", "__chkstk"}
OF_COMPILERS = {"__divdi3", "__moddi3", "__aeabi_ldivmod"}


def needed(folder: Path, target: str) -> set[str]:
    """The symbols that the code refers to, but for those that every system has, and on 32 bits divisions of 64 bits."""
    found = {symbol for path in folder.glob("*_code*.o") for symbol in undefined(path.read_bytes())}
    return found - SYSTEM - (OF_COMPILERS if "arm" in target or "cortex" in target else set())
