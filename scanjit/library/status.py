"""What functions of a library return."""

from scanjit.ir import Node
from scanjit.library.model import LibraryModel
from scanjit.runtime.sizes import Check

STATUSES = (
    ("OK", 0, "all went well"),
    ("NULL", -1, "a pointer is null"),
    ("SIZE", -2, "a size is negative, or an array is larger than memory can be"),
    ("WORKSPACE", -3, "the workspace has too few bytes"),
    ("MISALIGNED", -4, "the address of the workspace is no multiple of 64"),
    ("UNFIT", -5, "a size that a branch computes does not fit"),
    ("TEAM", -6, "there are too many threads, or parallel_for failed"),
    ("TARGET", -7, "this processor lacks instructions that the library needs"),
)
"""Names, numbers and meanings."""
FIRST_CHECK = -100
"""The status of the first condition on sizes that does not hold; the second one is one less."""


def failures(model: LibraryModel) -> list[str]:
    """What the statuses above 0 mean: the first is that of status 1."""
    return list(dict.fromkeys(_failed(node) for level in model.levels for node in level.codes))


def codes(model: LibraryModel, nodes: tuple[Node, ...]) -> list[int]:
    """The status for each code that a program reports."""
    texts = failures(model)
    return [texts.index(_failed(node)) + 1 for node in nodes]


def unmet(check: Check) -> str:
    """What the status of a condition means."""
    if check.kind == "==":
        return _at(f"{check.what} must be equal: {check.left} and {check.right}", check.where)
    return _at(check.what.format(left=check.left, right=check.right), check.where)


def _failed(node: Node) -> str:
    return _at(f"an index of {node.op.name} is out of bounds", node.where)


def _at(text: str, where: str) -> str:
    """With the line, and the file without the folders of this machine."""
    return f"{text} ({where.replace(chr(92), '/').rpartition('/')[2]})" if where else text
