"""The statuses that functions of a library return."""

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
"""The name, the number and the meaning of each status that all libraries share."""
FIRST_CHECK = -100
"""The status if the first condition of `Interface.checks` does not hold. That of the second one is -101, and so on."""


def failures(model: LibraryModel) -> list[str]:
    """The meanings of the statuses above 0, from status 1 on."""
    return list(dict.fromkeys(_failed(node) for level in model.levels for node in level.codes))


def codes(model: LibraryModel, nodes: tuple[Node, ...]) -> list[int]:
    """The status for each number that a stage can report, from number 1 on."""
    texts = failures(model)
    return [texts.index(_failed(node)) + 1 for node in nodes]


def unmet(check: Check) -> str:
    """The meaning of the status of a condition."""
    if check.kind == "==":
        return _at(f"{check.what} must be equal: {check.left} and {check.right}", check.where)
    return _at(check.what.format(left=check.left, right=check.right), check.where)


def _failed(node: Node) -> str:
    return _at(f"an index of {node.op.name} is out of bounds", node.where)


def _at(text: str, where: str) -> str:
    """A text with the line of the user, whose file is named without the folders of this machine."""
    return f"{text} ({where.replace(chr(92), '/').rpartition('/')[2]})" if where else text
