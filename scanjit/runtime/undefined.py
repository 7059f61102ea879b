"""The names that an object file needs of others: LLVM ends the process if it loads one and such a name is missing.

What LLVM's own module declares is not enough: instructions may become calls of the system's library. Windows wants
`__chkstk` called by a function with a large stack, macOS has `bzero` for a `memset` of zeros.

Each format has a reader for little-endian files, ELF also for those of 32-bit machines. Names are those of C.
"""

import struct
from collections.abc import Iterator

_NO_CODE = {"_fltused", "@feat.00"}
"""Notes for the linker that Windows's compilers put into an object file. Nothing refers to them."""


def undefined(code: bytes) -> list[str]:
    """The names, sorted, that an object file in the format ELF, Mach-O, COFF or WebAssembly needs.

    Examples
    --------
    The oldest processors with x86-64 have no instructions that round:

    >>> from scanjit.runtime import compiler, kernels
    >>> from scanjit.target import target_for
    >>> source = "from scanjit.simd import load_f64x2, store, tan\\n\\ndef f(x):\\n    store(x, tan(load_f64x2(x)))\\n"
    >>> for triple in ("aarch64-linux-gnu", "arm64-apple-darwin", "x86_64-pc-windows-msvc"):
    ...     target = target_for(triple)
    ...     (unit,) = kernels.units([(source, "f", {})], target).values()
    ...     print(undefined(compiler.to_object([unit], target)))
    []
    []
    ['floor', 'rint']
    """
    if code[:4] == b"\x7fELF":
        found = _elf(code)
    elif code[:4] == b"\0asm":
        found = _wasm(code)
    elif code[:4] == b"\xcf\xfa\xed\xfe":
        found = _mach_o(code)
    else:
        found = _coff(code)
    return sorted(set(found))


def _elf(code: bytes) -> Iterator[str]:
    wide = code[4] == 2  # of a machine of 64 bits; others have the same fields, but in other places
    (headers,) = struct.unpack_from("<Q" if wide else "<I", code, 0x28 if wide else 0x20)
    size, count = struct.unpack_from("<HH", code, 0x3A if wide else 0x2E)
    sections = [struct.unpack_from("<IIQQQQIIQQ" if wide else "<10I", code, headers + size * i) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, item in sections:
        if kind == 2:  # a symbol table
            names = sections[link][4]
            for at in range(offset + item, offset + length, item):  # the first is no symbol
                name, section = struct.unpack_from("<I2xH" if wide else "<I10xH", code, at)
                if section == 0:
                    yield _text(code, names + name)


def _wasm(code: bytes) -> Iterator[str]:
    """The functions that it imports. Memory, tables and the stack are the linker's to give."""
    reader = _Reader(code, 8)
    while reader.at < len(code):
        kind, length = reader.number(), reader.number()
        end = reader.at + length
        for _ in range(reader.number() if kind == 2 else 0):  # imports, each with the name of a module first
            _, name, what = reader.name(), reader.name(), reader.number()
            if what == 0:
                yield name
            if what in (0, 3):  # a function's type; a global's
                reader.at += 1 if what == 3 else 0
                reader.number()
            else:  # a table's type; how large it is or memory is, and how large it may become
                reader.at += 1 if what == 1 else 0
                for _ in range(1 + (reader.number() & 1)):
                    reader.number()
        reader.at = end


class _Reader:
    """Reads numbers and names of WebAssembly, one after the other."""

    def __init__(self, code: bytes, at: int) -> None:
        self.code, self.at = code, at

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.code[self.at]
            self.at, value, shift = self.at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    def name(self) -> str:
        length = self.number()
        self.at += length
        return self.code[self.at - length : self.at].decode()


def _mach_o(code: bytes) -> Iterator[str]:
    """C's names have an underscore before them."""
    (count,) = struct.unpack_from("<I", code, 16)
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", code, at)
        if command == 2:  # where the symbol table is
            symbols, many, names, _ = struct.unpack_from("<IIII", code, at + 8)
            for i in range(many):
                name, kind, _, _, value = struct.unpack_from("<IBBHQ", code, symbols + 16 * i)
                if kind & 0xEF == 1 and value == 0:  # external, in no section, not for debuggers; with a value: common
                    yield _text(code, names + name).removeprefix("_")
        at += size


def _coff(code: bytes) -> Iterator[str]:
    symbols, count = struct.unpack_from("<II", code, 8)
    names, i = symbols + 18 * count, 0
    while i < count:
        short, value, section, _, storage, more = struct.unpack_from("<8sIhHBB", code, symbols + 18 * i)
        if storage == 2 and section == 0 and value == 0:  # external, in no section; with a value: common
            zeros, far = struct.unpack("<II", short)
            name = _text(code, names + far) if zeros == 0 else short.rstrip(b"\0").decode()
            if name not in _NO_CODE:
                yield name
        i += 1 + more


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()
