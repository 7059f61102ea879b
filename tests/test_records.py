"""Records are dataclasses. Those with symbols are never compared field by field: `==` of symbols is a symbol itself."""

import ast
import builtins
import inspect
import pprint
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest

from scanjit.records import Quick, record
from scanjit.rewrite.masks import Mask
from scanjit.schedule.nests import Statement, Value
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
                decorator = ast.unparse(written[0])
                equal = "eq=True" in decorator if decorator.startswith("record") else "eq=False" not in decorator
                compared = equal and "__eq__" not in methods
                yield Record(path, node.name, compared, frozenset(re.findall(r"\w+", " ".join(fields))))


def test_a_record_that_is_compared_holds_no_symbol() -> None:
    """Python 3.13 compares dataclasses field by field, without asking first whether two values are the same object."""
    found = list(records())
    assert {"Mask", "Entry", "Roles", "OpenCarry"} <= {each.name for each in found}
    by_name = {each.name: each for each in found if each.compared}
    for each in by_name.values():
        seen, waiting = set(), set(each.holds)
        while waiting:
            name = waiting.pop()
            seen.add(name)
            if name in by_name and not hasattr(builtins, name):
                waiting |= by_name[name].holds - seen
        assert not seen & SYMBOLS, f"{each} holds {sorted(seen & SYMBOLS)}: give it eq=False, or an `==` of its own"


@record
class Point:
    x: int
    notes: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "point"
    y: int = 2


@record(eq=True)
class Named(Point):
    name: str = field(default="", repr=False)


def test_a_record_is_made_as_a_dataclass_is() -> None:
    point = Point(1)
    assert (point.x, point.notes, point.y) == (1, [], 2)
    assert Point(1).notes is not point.notes  # each record has a list of its own
    assert repr(Named(1, ["a"], name="b")) == "Named(x=1, notes=['a'], y=2)"
    assert [each.name for each in fields(Named)] == ["x", "notes", "y", "name"]
    assert replace(point, y=5).y == 5
    assert str(inspect.signature(Named)).startswith("(x: int, notes: list[str] = ")
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point(y=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Wrong has a field without a default value after one that has one"):

        @record
        class Wrong(Point):
            z: int  # type: ignore[misc]


def test_tools_for_dataclasses_take_records() -> None:
    long = Named(1, ["a" * 100], name="b")
    assert pprint.pformat(long) == repr(long)
    assert Named.__replace__(long, y=5).y == 5  # what `copy.replace` calls
    match long:
        case Named(x, notes):
            assert (x, notes) == (1, long.notes)

    @dataclass
    class Extended(Point):
        z: int = 3

    assert Extended(1, z=4).z == 4


def test_a_record_is_checked_when_it_is_made() -> None:
    @record
    class Positive:
        x: int

        def __post_init__(self) -> None:
            if self.x <= 0:
                raise ValueError(self.x)

    assert replace(Positive(1), x=2).x == 2
    with pytest.raises(ValueError, match="0"):
        Positive(0)


@pytest.mark.parametrize("option", [{"init": False}, {"compare": False}, {"hash": False}, {"kw_only": True}])
def test_a_field_has_no_option_that_records_ignore(option: dict[str, bool]) -> None:
    with pytest.raises(TypeError, match=r"Wrong\.x: a field of a record has no options init, "):

        @record
        class Wrong:
            x: int = field(default=0, **option)  # type: ignore[call-overload]


def test_records_are_equal_by_their_fields_if_asked() -> None:
    @record(eq=True)
    class Pair:
        x: int
        y: str

    assert Pair(1, "a") == Pair(1, "a") != Pair(1, "b")
    assert hash(Pair(1, "a")) == hash(Pair(1, "a"))
    assert Pair(1, "a") != (1, "a")
    assert Point(1) != Point(1)


def test_masks_are_equal_by_their_node() -> None:
    x, y = matrix("x", "bool"), matrix("y", "bool")
    assert Mask(x, (0, 1)) == Mask(x, (0, 1))
    assert Mask(x, (0, 1)) != Mask(y, (0, 1))
    assert Mask(x, (0, 1)) != Mask(x, (0, 1), holds=False)
    assert len({Mask(x, (0, 1)), Mask(x, (0, 1)), Mask(x, (1, 0)), Mask(y, (0, 1))}) == 3


def test_isinstance_of_abstract_classes_looks_at_bases_alone() -> None:
    class Base(ABC, metaclass=Quick):
        @abstractmethod
        def made(self) -> int: ...

    class Made(Base):
        def made(self) -> int:
            return 1

    class Other: ...

    Base.register(Other)
    assert isinstance(Made(), Base)
    assert not isinstance(Other(), Base)
    with pytest.raises(TypeError, match="abstract"):
        Base()  # type: ignore[abstract]
    for asked in (Statement, Value):
        assert type(asked) is Quick, "`isinstance` asks about its classes a hundred thousand times in a compilation"
