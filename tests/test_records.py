"""Dataclasses that hold symbols are never compared field by field: `==` of symbols is a symbol itself."""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scanjit.rewrite.masks import Mask
from scanjit.tensor import matrix

ROOT = Path(__file__).parent.parent
SYMBOLS = {"Node", "SharedVariable", "ndarray", "Any", "object"}
"""What `==` compares element by element, or may: of `Any`, nobody knows."""


@dataclass(frozen=True)
class Record:
    """A dataclass of the project, as its source shows it."""

    path: Path
    name: str
    compared: bool  # whether Python writes its `==`, which compares field by field
    holds: frozenset[str]  # the names in the annotations of its fields

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.name}"


def records() -> Iterator[Record]:
    for path in sorted((*ROOT.glob("scanjit/**/*.py"), *ROOT.glob("lasagne_like/**/*.py"))):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search("@.*(record|dataclass)", text) else ():
            if isinstance(node, ast.ClassDef) and (
                written := [d for d in node.decorator_list if re.match("record|dataclass", ast.unparse(d))]
            ):
                methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                fields = [ast.unparse(item.annotation) for item in node.body if isinstance(item, ast.AnnAssign)]
                compared = (
                    ast.unparse(written[0]) != "record"
                    and "eq=False" not in ast.unparse(written[0])
                    and "__eq__" not in methods
                )
                yield Record(path, node.name, compared, frozenset(re.findall(r"\w+", " ".join(fields))))


def test_a_record_that_is_compared_holds_no_symbol() -> None:
    """Python 3.13 compares dataclasses field by field, without asking first whether two values are the same object."""
    found = list(records())
    assert {"Mask", "Entry", "Roles", "OpenCarry"} <= {record.name for record in found}
    by_name = {record.name: record for record in found if record.compared}
    for record in by_name.values():
        seen, waiting = set(), set(record.holds)
        while waiting:
            name = waiting.pop()
            seen.add(name)
            if name in by_name and not hasattr(builtins, name):
                waiting |= by_name[name].holds - seen
        assert not seen & SYMBOLS, f"{record} holds {sorted(seen & SYMBOLS)}: give it eq=False, or an `==` of its own"


def test_masks_are_equal_by_their_node() -> None:
    x, y = matrix("x", "bool"), matrix("y", "bool")
    assert Mask(x, (0, 1)) == Mask(x, (0, 1))
    assert Mask(x, (0, 1)) != Mask(y, (0, 1))
    assert Mask(x, (0, 1)) != Mask(x, (0, 1), holds=False)
    assert len({Mask(x, (0, 1)), Mask(x, (0, 1)), Mask(x, (1, 0)), Mask(y, (0, 1))}) == 3
