"""Values of a nest as source."""

import decimal
import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.indexed import fetch, in_lanes, scatter
from scanjit.codegen.memory import is_paired, load, load_half, write
from scanjit.codegen.multiply_add import parts_of
from scanjit.codegen.names import number, suffix
from scanjit.codegen.places import STATUS
from scanjit.codegen.scope import Scope
from scanjit.codegen.search import search
from scanjit.codegen.truths import truth_of
from scanjit.ir import Op
from scanjit.kinds import kind_of
from scanjit.ops.elementwise import (
    ABS,
    ADD,
    AND,
    DIV,
    FLOORDIV,
    INVERT,
    MAXIMUM,
    MINIMUM,
    MOD,
    MUL,
    NEG,
    OR,
    SUB,
    WHERE,
)
from scanjit.ops.functions import POW
from scanjit.ops.promotion import CAST, Elementwise
from scanjit.schedule.nests import (
    Apply,
    Fetch,
    Literal,
    Load,
    Position,
    Reduce,
    Register,
    Search,
    Value,
    fits_any_width,
)
from scanjit.walks import bottom_up

EXPENSIVE = 8
"""An op of at least this cost, such as a division, is computed in one lane if its result is the same for all."""
MOST_CHOICES = 12
"""If a nest has more choices, LLVM may make a branch of those with one condition, such as the choices of a pivot.
Without branches, registers would be too few for all conditions and for what is chosen."""
_LOGIC = (AND, OR, INVERT)
_HINTS: dict[Op, str] = {ADD: "s", SUB: "d", MUL: "m", DIV: "r", NEG: "m", AND: "b", OR: "b"}


class Values:
    """Writes values where they belong, and says which variables hold them.

    The vectors of a register tile are written side by side: `tanh` of the first, `tanh` of the second, and so on, then
    the ops that use these. A processor looks about 100 instructions ahead, and so finds several that wait for nothing.

    Parameters
    ----------
    frame : where they are written.
    reduction : returns the variable that holds the result of a reduction, after writing its loops if they are not
        written yet. It is given `value`, to write the values inside the loops.
    """

    def __init__(self, frame: Frame, reduction: Callable[[Frame, ValueOf, Reduce, Point], str]) -> None:
        self.frame, self._reduction = frame, reduction
        choices = sum(isinstance(each, Apply) and each.op is WHERE for each in frame.nest.values)
        self._many_choices = choices > MOST_CHOICES

    def value(self, value: Value, point: Point) -> str:
        """The variable that holds a value. If it is not written yet, it is written now, behind its operands."""
        found = self._known(value, point)
        if found is not None:
            return found
        vectors = range(self.frame.tile.vectors) if self.frame.lane is not None else [point.vector]
        for part in bottom_up([value], lambda part: self._unknown(part, point)):
            for vector in vectors:
                self._written(part, Point(point.row, vector, point.width))
        return self._written(value, point)

    def given(self, value: Value, point: Point, text: str) -> None:
        """Take `text` for a value, instead of what it would be written as."""
        level, key = self._key(value, point)
        self.frame.remember(level, key, "x", text)

    def _unknown(self, value: Value, point: Point) -> Sequence[Value]:
        """The values that must be written before a value."""
        if isinstance(value, Reduce) or self._known(value, point) is not None or self._is_for_all(value, point):
            return ()
        if (chosen := self._chosen(value)) is not None:
            return (chosen,)
        if (place := self.frame.multiply_adds.get(value)) is not None:
            return parts_of(value, place)
        if _is_by_parts(value, point):
            return [*_parts(value.args[0]), *value.args[1:]]
        if isinstance(value, Apply):
            plain = self._plain(value)
            return [arg for arg, text in zip(value.args, plain, strict=True) if text is None]
        if isinstance(value, Fetch):
            return [index.value for index in value.indices if in_lanes(self.frame, index.value)]
        return value.operands

    def _known(self, value: Value, point: Point) -> str | None:
        """The variable that holds a value, if it is written already."""
        if (truth := truth_of(value, self.frame.decided)) is not None:
            return self.frame.remember(0, ("truth", truth, point.width), "k", f"splat_boolx{point.width}({truth})")
        if isinstance(value, Register):
            return self.frame.registers[value.index, point.vector]
        return self.frame.recall(*self._key(value, point))

    def is_known(self, value: Value, point: Point) -> bool:
        """Whether a variable holds a value already."""
        return self._known(value, point) is not None

    def _chosen(self, value: Value) -> Value | None:
        """What is chosen, if a value is a choice and its condition is decided."""
        if not self.frame.decided or value not in self.frame.guessed or not isinstance(value, Apply):
            return None
        truth = truth_of(value.args[0], self.frame.decided) if value.op is WHERE else None
        return None if truth is None else value.args[1 if truth else 2]

    def _key(self, value: Value, point: Point) -> tuple[int, tuple[Value, int, int, int]]:
        """The level of the scope that a value is written in, and the key under which it is remembered."""
        level, row, vector = self.frame.place(value, point)
        return level, (value, row, vector, point.width)

    def _written(self, value: Value, point: Point) -> str:
        found = self._known(value, point)
        if found is not None:
            return found
        if isinstance(value, Reduce):
            return self._reduction(self.frame, self.value, value, point)
        if (chosen := self._chosen(value)) is not None:
            level, key = self._key(value, point)
            self.frame.memos[level][key] = self.value(chosen, point)
            return self.frame.memos[level][key]
        level, key = self._key(value, point)
        if value in self.frame.guessed and isinstance(value, Apply):
            return self._guessed(value, point, level, key)
        if isinstance(value, Search) and not self._is_for_all(value, point):
            return self._searched(value, point)
        return self.frame.remember(level, key, _hint(value), self._text(value, point))

    def _searched(self, value: Search, point: Point) -> str:
        """A search, which is written for all vectors of a register tile."""
        points = [Point(point.row, vector, point.width) for vector in range(self.frame.tile.vectors)]
        if self._key(value, points[-1]) == self._key(value, points[0]) or self.frame.lane is None:
            points = [point]
        for each, text in zip(points, search(self.frame, self.value, value, points), strict=True):
            self.given(value, each, text)
        return self.value(value, point)

    def _guessed(self, value: Apply, point: Point, level: int, key: object) -> str:
        """A choice that is a branch."""
        one = Point(point.row, point.vector, 1) if self._is_alike(value.args[0]) else point
        condition, *chosen = (self.value(arg, p) for arg, p in zip(value.args, (one, point, point), strict=False))
        kind = suffix(value.dtype, point.width)
        yes, no = chosen or (f"splat_{kind}(1.0)", f"splat_{kind}(0.0)")
        name = self.frame.remember(level, key, _hint(value), no)
        branch = Scope(f"if any_of({condition}):")
        branch.add(f"{name} = opaque({yes})")  # LLVM would compute both, and choose
        self.frame.scopes[level].add(branch)
        return name

    def _text(self, value: Value, point: Point) -> str:
        name = suffix(value.dtype, point.width)
        if isinstance(value, Literal):
            return f"splat_{name}({number(value.number)})"
        if isinstance(value, Load):
            return self._load(value, point)
        if self._is_for_all(value, point):
            return f"spread_x{point.width}({self.value(value, Point(point.row, point.vector, 1))})"
        if isinstance(value, Apply):
            return self._apply(value, point)
        if isinstance(value, Position):
            return self._position(value, point)
        if isinstance(value, Fetch):
            return fetch(self.frame, self.value, value, point)
        raise TypeError(value)

    def _load(self, value: Load, point: Point) -> str:
        frame, part = self.frame, self.frame.pairs.get(value.access.where())
        if part is None or value.when != 1 or value.widens or not is_paired(frame, value.access, point):
            return load(frame, value, point)
        level, (_, *copy) = self._key(value, point)
        both = [
            frame.remember(level, (part.first, half, *copy), "x", load_half(frame, part.first, point, half))
            for half in (0, 1)
        ]
        return f"{('evens', 'odds')[part.which]}({', '.join(both)})"

    def _is_for_all(self, value: Value, point: Point) -> bool:
        """Whether an expensive op has the same result in all lanes, so that one lane computes it. A division of eight
        lanes takes twice as long as that of one, and tables are looked up for each lane."""
        of_op = isinstance(value, Apply) and isinstance(value.op, Elementwise) and value.op.cost >= EXPENSIVE
        if point.width == 1 or not (of_op or isinstance(value, Search)):
            return False
        return self._is_alike(value)

    def _is_alike(self, value: Value) -> bool:
        """Whether one lane can compute what is the same in all of them."""
        lanes = {self.frame.lane, self.frame.columns}
        return lanes.isdisjoint(self.frame.depends(value)) and fits_any_width(value)

    def _apply(self, value: Apply, point: Point) -> str:
        if (place := self.frame.multiply_adds.get(value)) is not None:
            return self._multiply_add(value, place, point)
        alike = kind_of(value.dtype).floating and self._has_forms()
        if value in self.frame.foreseen and point.width == 1:
            a, b = (self.value(arg, point) for arg in value.args)
            return f"foreseen_{value.op.name}({a}, {b})"
        if value.op in (MAXIMUM, MINIMUM) and alike and any(map(_is_chosen, value.args)):
            a, b = (self.value(arg, point) for arg in value.args)
            found = f"select_freely({a} {'>' if value.op is MAXIMUM else '<'} {b}, {a}, {b})"
            return f"select(isnan({a}), {a}, {found})"
        if value.op in (FLOORDIV, MOD) and (bits := _log2(value.args[1])) is not None:
            how = f">> splat_{{}}({bits})" if value.op is FLOORDIV else f"& splat_{{}}({(1 << bits) - 1})"
            return f"{self.value(value.args[0], point)} {how.format(suffix(value.dtype, point.width))}"
        if value.op is POW and (logarithm := _logarithm(value.args[0])) is not None:
            splats = (f"splat_{suffix(value.dtype, point.width)}({number(part)})" for part in logarithm)
            return f"pow_of_known({self.value(value.args[1], point)}, {', '.join(splats)})"
        if _is_by_parts(value, point):
            yes, no = (self.value(arg, point) for arg in value.args[1:])
            return self._choice(value, value.args[0], yes, no, point)
        text = _op_text(value).replace("{T}", suffix(value.dtype, point.width))
        if value.op is WHERE and self._many_choices and point.width == 1:
            text = text.replace("select", "select_freely")
        if value.reports:
            operands = ", ".join(self.value(arg, point) for arg in value.args)
            return text.replace("{report}", self._report(value, point)).replace("{operands}", operands)
        for i, (arg, plain) in enumerate(zip(value.args, self._plain(value), strict=True)):
            text = text.replace(f"{{{i}}}", plain or self.value(arg, point))
        return text

    def _choice(self, value: Apply, condition: Value, yes: str, no: str, point: Point) -> str:
        """A choice by the parts of a condition, one inside of the other."""
        if not isinstance(condition, Apply) or condition.op not in _LOGIC:
            word = "select_freely" if self._many_choices else "select"
            return f"{word}({self.value(condition, point)}, {yes}, {no})"
        first, *more = condition.args
        if condition.op is INVERT:
            return self._choice(value, first, no, yes, point)
        inner = self._choice(value, more[0], yes, no, point)
        inner = self.frame.remember(self._key(value, point)[0], inner, _hint(value), inner)
        return self._choice(value, first, *((inner, no) if condition.op is AND else (yes, inner)), point)

    def _has_forms(self) -> bool:
        """Whether the steps are there in several forms. Which one is taken depends on the time, so LLVM must leave
        nothing open: of two zeros, an extremum of a choice could be either, as LLVM exchanges operands where it knows
        what was chosen."""
        return bool(self.frame.nest.guessed or self.frame.nest.still)

    def _multiply_add(self, value: Apply, place: int, point: Point) -> str:
        """A sum as a multiply-add, whose operand number `place` is the product."""
        a, b, c = (self.value(part, point) for part in parts_of(value, place))
        of_product, of_rest = ("-" if value.op is SUB and negative else "" for negative in (place == 1, place == 0))
        return f"fma({of_product}{a}, {b}, {of_rest}{c})"

    def _report(self, value: Apply, point: Point) -> str:
        """The address to which an op reports an error, its code, and the mask of the lanes that report it."""
        frame = self.frame
        inside = frame.lane is None or frame.level_of(frame.depends(value)) >= frame.level.get(frame.lane, 0)
        mask = frame.every(point) if inside else frame.all_lanes(point.width)  # outside there is no tail
        return f"{frame.address(STATUS, 0)}, {value.code}, {mask}"

    def _plain(self, value: Apply) -> list[str | None]:
        """For each operand, its text if it is a number and the operator takes a number; else None."""
        if len(value.args) != 2 or "(" in _op_text(value):
            return [None] * len(value.args)
        left, right = (isinstance(arg, Literal) for arg in value.args)
        return [_plain_number(arg) if left != right else None for arg in value.args]

    def _position(self, value: Position, point: Point) -> str:
        name = suffix(value.dtype, point.width)
        start, step = self.frame.position(value, point)
        if step == 0 or point.width == 1:
            return f"splat_{name}({start})"
        return f"splat_{name}({start}) + iota_{name}(0) * splat_{name}({self.frame.size(step)})"

    def store(self, point: Point) -> None:
        """Write the stores of the nest at a point."""
        for stores in self.frame.stores:
            texts = [self.value(store.value, point) for store in stores]
            if stores[0].indices:
                scatter(self.frame, self.value, stores[0], texts[0], point)
            else:
                write(self.frame, stores, texts, point)


def _is_chosen(value: Value) -> bool:
    """Whether a value is a choice, or an extremum, a sign or a cast of one."""
    return isinstance(value, Apply) and (
        value.op is WHERE or (value.op in (MAXIMUM, MINIMUM, NEG, ABS, CAST) and any(map(_is_chosen, value.args)))
    )


def _is_by_parts(value: Value, point: Point) -> TypeGuard[Apply]:
    """Whether a value is a choice of one integer, by a condition with parts. Such a condition is no register, but flags
    of a processor: to join two of them takes longer than to choose twice."""
    if not isinstance(value, Apply) or value.op is not WHERE or point.width > 1 or not kind_of(value.dtype).integral:
        return False
    return isinstance(value.args[0], Apply) and value.args[0].op in _LOGIC


def _parts(condition: Value) -> list[Value]:
    """The conditions that a condition is made of by logic."""
    if not isinstance(condition, Apply) or condition.op not in _LOGIC:
        return [condition]
    return [part for arg in condition.args for part in _parts(arg)]


def _op_text(value: Apply) -> str:
    return value.op.text([arg.dtype for arg in value.args], **value.params)  # type: ignore[attr-defined]


def _plain_number(value: Value) -> str | None:
    """The text of a number that an operator takes as it is; None for other values."""
    if not isinstance(value, Literal) or not kind_of(value.dtype).floating or not np.isfinite(value.number):
        return None
    return number(value.number) if value.number >= 0 else f"({number(value.number)})"


def _log2(value: Value) -> int | None:
    """The logarithm of a power of two, if a value is a whole number that is one. Such a number divides by a shift."""
    if not isinstance(value, Literal) or not kind_of(value.dtype).integral or value.number <= 0:
        return None
    bits = int(value.number).bit_length() - 1
    return bits if value.number == 1 << bits else None


def _logarithm(base: Value) -> tuple[float, float] | None:
    """The logarithm of a number as the sum of two floats; None if the value is no finite number above 0, or 1."""
    if not isinstance(base, Literal) or not kind_of(base.dtype).floating or kind_of(base.dtype).is_half:
        return None
    x = float(base.number)
    if not 0 < x < math.inf or x == 1:
        return None
    with decimal.localcontext(prec=60):
        exact = decimal.Decimal(x).ln()
        high = base.dtype.type(exact)
        return float(high), float(base.dtype.type(exact - decimal.Decimal(float(high))))


def _hint(value: Value) -> str:
    """The beginning of a variable's name."""
    if isinstance(value, Apply):
        return _HINTS.get(value.op, value.op.name + "_")
    return {Load: "x", Fetch: "x", Literal: "k", Position: "at", Search: "place"}.get(type(value), "v")
