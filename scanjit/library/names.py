"""Names of arguments that are valid in C, C++ and Rust."""

from collections.abc import Iterable

from scanjit.show.identifiers import free_name, identifier

_TAKEN = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "asm bool catch class const_cast constexpr decltype delete dynamic_cast explicit export false friend mutable "
    "namespace new noexcept "
    "nullptr operator private protected public reinterpret_cast static_assert static_cast template this thread_local "
    "throw true try typeid typename using virtual wchar_t and or not xor compl bitand bitor and_eq or_eq xor_eq not_eq "
    "fn impl let loop match mod move mut pub ref self trait type unsafe use where async await dyn crate super in as "
    "linux unix NULL EOF errno signal main I".split()
)
"""Keywords of C, C++ and Rust, and macros of common compilers."""


def distinct(texts: Iterable[str | None], other: str) -> list[str]:
    """A different name for each text. A text that cannot be a name is replaced by `other` and its position.

    Examples
    --------
    >>> distinct(["x", "x", "for", None, "α"], "input")
    ['x', 'x_1', 'for_', 'input_3', 'input_4']
    """
    found: dict[str, None] = {}
    for i, text in enumerate(texts):
        name = identifier(text, f"{other}_{i}") if text else f"{other}_{i}"
        name = f"{name}_" if name in _TAKEN else f"{other}{name}" if name.startswith("_") else name
        found[free_name(name, found, first=1)] = None
    return list(found)
