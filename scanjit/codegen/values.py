"""Values and stores of a nest as source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scanjit.codegen.frame import STATUS, Frame, Point, Scope
from scanjit.codegen.names import number, suffix
from scanjit.ir import Op
from scanjit.ops.elementwise import ADD, AND, DIV, MUL, NEG, OR, SUB
from scanjit.schedule.nests import (
    Apply,
    Fetch,
    Index,
    Literal,
    Load,
    Position,
    Reduce,
    Register,
    Store,
    Value,
)
from scanjit.types import Dimension
from scanjit.walks import bottom_up

INT64 = np.dtype("int64")
_HINTS: dict[Op, str] = {ADD: "s", SUB: "d", MUL: "m", DIV: "r", NEG: "m", AND: "b", OR: "b"}


class ValueWriter(Frame):
    """Writes values where they belong and says which variables hold them."""

    registers: dict[tuple[int, int], str]

    def value(self, value: Value, point: Point) -> str:
        """The variable that holds a value; written first, if need be, after what it is computed from."""
        found = self._known(value, point)
        if found is not None:
            return found
        *before, _ = bottom_up([value], lambda part: self._unknown(part, point))
        for part in before:
            self._written(part, point)
        return self._written(value, point)

    def _unknown(self, value: Value, point: Point) -> Sequence[Value]:
        """What has to be written before a value."""
        if isinstance(value, Reduce) or self._known(value, point) is not None:
            return ()
        if isinstance(value, Apply):
            plain = self._plain(value)
            return [arg for arg, text in zip(value.args, plain, strict=True) if text is None]
        return value.operands

    def _known(self, value: Value, point: Point) -> str | None:
        """The variable that holds a value, if it is written."""
        if isinstance(value, Register):
            return self.registers[value.index, point.vector]
        return self.recall(*self._key(value, point))

    def _key(self, value: Value, point: Point) -> tuple[int, tuple[Value, int, int, int]]:
        """The level of the scope that a value is written in, and what it is remembered as."""
        loops = self.depends(value)
        row = point.row if loops.intersection(self.tile.row_loops) else 0
        vector = point.vector if (self.columns or self.lane) in loops else 0
        return self.level_of(loops), (value, row, vector, point.width)

    def _written(self, value: Value, point: Point) -> str:
        found = self._known(value, point)
        if found is not None:
            return found
        if isinstance(value, Reduce):
            return self.reduction(value, point)
        level, key = self._key(value, point)
        return self.remember(level, key, _hint(value), self._text(value, point))

    def reduction(self, value: Reduce, point: Point) -> str:
        """The variable that holds the result of a reduction; written first, if need be."""
        raise NotImplementedError

    def _text(self, value: Value, point: Point) -> str:
        name = suffix(value.dtype, point.width)
        if isinstance(value, Literal):
            return f"splat_{name}({number(value.number)})"
        if isinstance(value, Load):
            return self._load(value, point)
        if isinstance(value, Apply):
            return self._apply(value, point)
        if isinstance(value, Position):
            return self._position(value, point)
        if isinstance(value, Fetch):
            return self._fetch(value, point)
        raise TypeError(value)

    def _apply(self, value: Apply, point: Point) -> str:
        text = _op_text(value).replace("{T}", suffix(value.dtype, point.width))
        for i, (arg, plain) in enumerate(zip(value.args, self._plain(value), strict=True)):
            text = text.replace(f"{{{i}}}", plain or self.value(arg, point))
        return text

    def _plain(self, value: Apply) -> list[str | None]:
        """For each operand: a plain number, where an operator takes one; else None."""
        if len(value.args) != 2 or "(" in _op_text(value):
            return [None] * len(value.args)
        left, right = (isinstance(arg, Literal) for arg in value.args)
        return [_plain_number(arg) if left != right else None for arg in value.args]

    def _position(self, value: Position, point: Point) -> str:
        name = suffix(value.dtype, point.width)
        terms = [f"{self.counter(loop, point)}*{self.size(stride)}" for loop, stride in value.strides.items()]
        step = value.strides.get(self.lane, 0) if self.lane is not None else 0
        if step != 0 and point.vector and self.columns is None:
            terms.append(self.size(step * (point.vector * point.width)))
        if value.offset != 0 or not terms:
            terms.insert(0, self.size(value.offset))
        start = " + ".join(terms)
        if step == 0 or point.width == 1:
            return f"splat_{name}({start})"
        return f"splat_{name}({start}) + iota_{name}(0) * splat_{name}({self.size(step)})"

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _load(self, value: Load, point: Point) -> str:
        address, step = self.vector(value.access, point)
        name, mask = suffix(value.dtype, point.width), self.mask(point)
        if value.when != 1:
            return self._load_begun(value, address, step, point)
        if step == 0:
            return f"broadcast_{name}({address})"
        if step != value.dtype.itemsize:
            return f"load_strided_{name}({address}, {self.size(step)}, {self.every(point)})"
        if mask is None or (value.access.panel is not None and point.vector == 0):  # panels are padded
            return f"load_{name}({address})"
        return f"load_masked_{name}({address}, {mask})"

    def _load_begun(self, value: Load, address: str, step: Dimension, point: Point) -> str:
        """A load that gives zero as long as nothing has been written there."""
        name, lanes = suffix(value.dtype, point.width), f"head_x{point.width}({self.size(value.when * point.width)})"
        begun, mask = self.remember(0, lanes, "begun", lanes), self.mask(point)
        if step == 0:
            return f"select({begun}, broadcast_{name}({address}), splat_{name}({number(value.dtype.type(0))}))"
        inside = begun if mask is None else f"{begun} & {mask}"
        if step != value.dtype.itemsize:
            return f"load_strided_{name}({address}, {self.size(step)}, {inside})"
        return f"load_masked_{name}({address}, {inside})"

    def store(self, store: Store, point: Point) -> None:
        """Store a value at a point."""
        text = self.value(store.value, point)
        if store.indices:
            self._scatter(store, text, point)
        else:
            self.write(store, text, point)

    def write(self, store: Store, text: str, point: Point) -> None:
        """Store a variable."""
        address, step = self.vector(store.access, point)
        mask = self.mask(point)
        if step not in (0, store.access.buffer.dtype.itemsize):
            self.scope.add(f"store_strided({address}, {self.size(step)}, {text}, {self.every(point)})")
        elif mask is None:
            self.scope.add(f"store({address}, {text})")
        else:
            self.scope.add(f"store_masked({address}, {text}, {mask})")

    # ---- computed indices -------------------------------------------------------------------------------------------

    def _fetch(self, value: Fetch, point: Point) -> str:
        level = self.level_of(self.depends(value))
        address, step = self.vector(value.access, point)
        address, offsets, inside = self._indexed(address, value.indices, value.code, value.dtype, point, level)
        name = suffix(value.dtype, point.width)
        if offsets is not None:
            if step != 0:
                long = suffix(INT64, point.width)
                offsets += f" + iota_{long}(0) * splat_{long}({self.size(step)})"
            return f"gather_{name}({address}, {offsets}, {inside})"
        if step == value.dtype.itemsize:
            return f"load_masked_{name}({address}, {inside})"
        return f"load_strided_{name}({address}, {self.size(step)}, {inside})"

    def _indexed(
        self, address: str, indices: Sequence[Index], code: int, dtype: np.dtype, point: Point, level: int
    ) -> tuple[str, str | None, str]:
        """An address moved by computed indices, the offsets of the lanes (None: the same for all), and the mask of what
        lies inside. What does not is reported."""
        long, scope = suffix(INT64, point.width), self.scopes[level]
        varies = self.lane is None or level >= self.level.get(self.lane, 0)
        inside = self.every(point) if varies else self.all_lanes(point)  # outside the lanes' loop there is no tail
        offsets = None
        for index in indices:
            vector, ok = self.value(index.value, point), self.fresh("ok")
            stride, size = self.size(index.stride * dtype.itemsize), self.size(index.size)
            if point.width == 1 or self.lane not in self.depends(index.value):
                k = self.fresh("k")
                scope.add(f"{k} = lane_i64({vector}, 0)")
                scope.add(f"{ok} = {inside} & splat_boolx{point.width}(0 <= {k} < {size})")
                address += f" + {k}*{stride}"
            else:
                scope.add(f"{ok} = {inside} & ({vector} >= splat_{long}(0)) & ({vector} < splat_{long}({size}))")
                term = f"{vector} * splat_{long}({stride})"
                offsets = term if offsets is None else f"{offsets} + {term}"
            report = Scope(f"if any_of({inside} & ~{ok}):")
            report.add(f"store_i64({self.address(STATUS, 0)}, {code})")
            scope.add(report)
            inside = ok
        return address, offsets, inside

    def _scatter(self, store: Store, text: str, point: Point) -> None:
        dtype = store.access.buffer.dtype
        address, step = self.vector(store.access, point)
        level = len(self.scopes) - 1
        address, offsets, inside = self._indexed(address, store.indices, store.code, dtype, point, level)
        if offsets is not None:
            raise TypeError("lanes of a scatter must not meet in one element")
        name, steps = suffix(dtype, point.width), self.size(step)
        if step in (0, dtype.itemsize):
            old, write = f"load_masked_{name}({address}, {inside})", f"store_masked({address}, {{}}, {inside})"
        else:
            old = f"load_strided_{name}({address}, {steps}, {inside})"
            write = f"store_strided({address}, {steps}, {{}}, {inside})"
        add = "|" if dtype.kind == "b" else "+"
        self.scope.add(write.format(f"{old} {add} {text}" if store.add else text))


def _op_text(value: Apply) -> str:
    return value.op.text([arg.dtype for arg in value.args], **value.params)  # type: ignore[attr-defined]


def _plain_number(value: Value) -> str | None:
    """The text of a number that an operator takes as it is; None for others."""
    if not isinstance(value, Literal) or value.dtype.kind != "f" or not np.isfinite(value.number):
        return None
    return number(value.number) if value.number >= 0 else f"({number(value.number)})"


def _hint(value: Value) -> str:
    """The beginning of a variable's name."""
    if isinstance(value, Apply):
        return _HINTS.get(value.op, value.op.name + "_")
    return {Load: "x", Fetch: "x", Literal: "k", Position: "at"}.get(type(value), "v")
