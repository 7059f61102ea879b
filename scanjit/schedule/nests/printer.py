"""A program as text, for people. Names depend on the program alone, so equal programs have equal texts.

A buffer is listed once, with its kind, type and shape, and then called by its name. The loops of a nest are `i0`, `i1`
and so on, its loop over time is `t`, those of its reductions `k0`, `k1`. Places count elements: `h[4*i0 + i1]`.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatchmethod

from scanjit import types
from scanjit.ir import Op
from scanjit.ops.elementwise import ADD, DIV, MUL, SUB
from scanjit.ops.promotion import CAST
from scanjit.schedule.nests.array_job import ArrayJob
from scanjit.schedule.nests.branches import Beside, If
from scanjit.schedule.nests.buffers import Buffer, Ref
from scanjit.schedule.nests.lapack import LapackCall
from scanjit.schedule.nests.loops import NestLoop
from scanjit.schedule.nests.nest import Nest, Store
from scanjit.schedule.nests.pack import Pack
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.statement import Statement
from scanjit.schedule.nests.steps import Blocks, RowsApart, TimeLoop
from scanjit.schedule.nests.tile import Tile
from scanjit.schedule.nests.values import (
    Access,
    Apply,
    Fetch,
    Index,
    Literal,
    Load,
    Position,
    Reduce,
    Register,
    Search,
    Value,
    walk_values,
)
from scanjit.types import Atom, Dimension

INDENT = "    "
LONGEST = 80
"""An operand whose text is longer than this gets a line of its own."""
INFIX: dict[Op, str] = {ADD: "+", SUB: "-", MUL: "*", DIV: "/"}


def program_listing(program: Program) -> str:
    """A program as text.

    Parameters
    ----------
    program : the program, at any stage: its nests may have no tiles yet.

    Returns
    -------
    str
        The buffers, the statements (indented as they are nested), and where the results lie.
    """
    writer = _Writer()
    suite = writer.suite(program.suite, "")
    results = [f"return {writer.ref(ref)}" for ref in program.outputs]
    lines = [*writer.buffer_lines(program.inputs), "", *suite, *results]
    return "\n".join(lines) + "\n"


class NamesByIdentity:
    """Names for things that are compared by identity: the first called `x` is `x`, the next one `x_2`."""

    def __init__(self) -> None:
        self.known: dict[object, str] = {}
        self._used: Counter[str] = Counter()

    def of(self, thing: object, word: str) -> str:
        """The name of a thing, which begins with a word."""
        if thing not in self.known:
            self._used[word] += 1
            self.known[thing] = word if self._used[word] == 1 else f"{word}_{self._used[word]}"
        return self.known[thing]


class _Writer:
    """Writes statements; remembers the names of buffers and of sizes."""

    def __init__(self) -> None:
        self.buffers, self.sizes = NamesByIdentity(), NamesByIdentity()

    # ---- buffers and sizes ------------------------------------------------------------------------------------------

    def buffer(self, buffer: Buffer) -> str:
        return self.buffers.of(buffer, re.sub(r"\W+", "_", buffer.name) or "buffer")

    def buffer_lines(self, first: Iterable[Buffer]) -> Iterator[str]:
        """A line for each buffer in `first`, then for each other buffer that has been named."""
        for buffer in dict.fromkeys([*first, *(b for b in self.buffers.known if isinstance(b, Buffer))]):
            shape = ", ".join(map(self.dim, buffer.shape))
            fixed = ", the same in all calls" if buffer.fixed else ""
            yield f"{buffer.kind} {self.buffer(buffer)}: {buffer.dtype}({shape}){fixed}"

    def dim(self, dim: Dimension) -> str:
        return types.text(dim, self.atom)

    def atom(self, atom: Atom) -> str:
        """A size by its name, or `n` if it has none; a counter by its name; or a function of sizes."""
        if atom.kind == "value" or types.is_named(atom):
            return atom.name
        if not atom.args:
            return self.sizes.of(atom, atom.name if atom.kind == "counter" else types.label(atom) or "n")
        if atom.kind.isalpha():
            return f"{atom.kind}({', '.join(map(self.dim, atom.args))})"
        left, right = (_bracketed(self.dim(arg), not isinstance(arg, int) and len(arg.terms) > 1) for arg in atom.args)
        return f"({left} {atom.kind} {right})"

    def ref(self, ref: Ref) -> str:
        axes = zip(ref.shape, ref.strides, strict=True)
        steps = ", ".join(f"{self.dim(size)} by {self.dim(stride)}" for size, stride in axes)
        start = "" if ref.offset == 0 else f" from {self.dim(ref.offset)}"
        return f"{self.buffer(ref.buffer)}{start} ({steps})"

    def affine(self, offset: Dimension, terms: Iterable[tuple[str, Dimension]]) -> str:
        """`offset + stride * counter + ...`."""
        text = "" if offset == 0 else self.dim(offset)
        for name, stride in terms:
            factor = self.dim(stride)
            many = not isinstance(stride, int) and len(stride.terms) > 1
            term = name if factor == "1" else f"{_bracketed(factor, many)}*{name}"
            text += (f" - {term[1:]}" if term.startswith("-") else f" + {term}") if text else term
        return text or "0"

    # ---- statements -------------------------------------------------------------------------------------------------

    def suite(self, suite: Sequence[Statement], indent: str) -> list[str]:
        return [indent + line for statement in suite for line in self.lines(statement)]

    @singledispatchmethod
    def lines(self, statement: Statement) -> list[str]:
        """The lines of a statement."""
        return [f"{type(statement).__name__} {statement.title}", *self.suite(statement.inner, INDENT)]

    @lines.register
    def _(self, nest: Nest) -> list[str]:
        return _NestWriter(self, nest).lines()

    @lines.register
    def _(self, pack: Pack) -> list[str]:
        sources = " and ".join(map(self.ref, pack.sources))
        return [f"pack {sources} into panels {self.buffer(pack.target)}, {pack.width} wide"]

    @lines.register
    def _(self, call: LapackCall) -> list[str]:
        places = [
            f"{'in place ' if written else ''}{self.ref(place)}"
            for place, written in zip(call.places, call.written, strict=True)
        ]
        flags = [name for name, value in call.flags.items() if value]
        return [f"call {call.routine} of {', '.join(places)}{' ' if flags else ''}{', '.join(flags)}"]

    @lines.register
    def _(self, job: ArrayJob) -> list[str]:
        read = [self.ref(ref) for ref, written in job.arrays if not written]
        found = [self.ref(ref) for ref, written in job.arrays if written]
        return [f"{', '.join(found)} = {job.title}({', '.join(read)})"]

    @lines.register
    def _(self, loop: TimeLoop) -> list[str]:
        step, row, start = self.dim(loop.step), self.dim(loop.row), self.dim(loop.start)
        stop = self.dim(loop.start + loop.length)
        rows = f"{self.dim(loop.total - 1)} - {step}" if loop.reverse else step
        lines = [f"for {step} from {start} to {stop}, {row} = {rows}:   # {loop.title}"]
        lines += self.suite(loop.suite, INDENT)
        if loop.stop is not None and loop.count is not None:
            count, ran = self.buffer(loop.count.buffer), self.dim(loop.ran)
            lines.append(f"{INDENT}{count}[0] = {ran} = {step} + 1")
            lines.append(f"{INDENT}stop if {self.buffer(loop.stop.buffer)}[0] is {ran}")
        return lines

    @lines.register
    def _(self, apart: RowsApart) -> list[str]:
        head = f"each thread may keep its part of {self.dim(apart.own_rows.size)} rows:"
        return [head, *self.suite(apart.suite, INDENT)]

    @lines.register
    def _(self, blocks: Blocks) -> list[str]:
        first, count = self.dim(blocks.first), self.dim(blocks.count)
        order = ", the last block first" if blocks.backwards else ""
        head = f"for blocks of {self.dim(blocks.size)} of {self.dim(blocks.total)} steps{order}:"
        return [f"{head}   # {count} steps from {first} on", *self.suite(blocks.suite, INDENT)]

    @lines.register
    def _(self, choice: If) -> list[str]:
        condition = f"if {self.buffer(choice.condition.buffer)}[{self.dim(choice.condition.offset)}] is not 0:"
        lines = [f"{condition}   # {choice.title}", *self.suite(choice.then, INDENT)]
        return [*lines, "else:", *self.suite(choice.otherwise, INDENT)]

    @lines.register
    def _(self, beside: Beside) -> list[str]:
        delays = [0] * len(beside.branches) if beside.wave is None else beside.wave.delays
        lines = [
            "side by side, if that is faster:" if beside.wave is None else "side by side in turns, if that is faster:"
        ]
        for branch, delay in zip(beside.branches, delays, strict=True):
            behind = f", {delay} {'turn' if delay == 1 else 'turns'} behind" if delay else ""
            lines += [f"{INDENT}branch{behind}:", *self.suite([branch], 2 * INDENT)]
        return lines


class _NestWriter:
    """Writes one nest. A value that is used several times, or whose text is long, gets a line of its own."""

    def __init__(self, writer: _Writer, nest: Nest) -> None:
        self.writer, self.nest = writer, nest
        self.loops: dict[NestLoop, str] = {loop: f"i{number}" for number, loop in enumerate(nest.space)}
        if nest.time is not None:
            self.loops[nest.time] = "t"
        self.values: dict[Value, str] = {}
        self.shared: list[str] = []
        self.numbers = itertools.count()
        self.named: set[Value] = set()
        walked = nest.values
        reduced = dict.fromkeys(loop for v in walked if isinstance(v, Reduce) for loop in v.loops)
        names = itertools.count()
        self.loops |= {loop: f"k{next(names)}" for loop in reduced if loop not in self.loops}
        self.uses = Counter(operand for value in walked for operand in value.operands)
        self.uses.update(store.value for store in nest.stores)

    def lines(self) -> list[str]:
        nest = self.nest
        over = ", ".join(f"{self.loops[loop]} < {self.writer.dim(loop.size)}" for loop in nest.space) or "one point"
        lines = [f"nest {nest.title} over {over}:"]
        if nest.tile is not None:
            lines.append(f"{INDENT}# {self.tile(nest.tile)}")
        inside = INDENT
        if nest.time is not None:
            lines += [f"{INDENT}r{r.index} = {self.text(r.init)}" for r in nest.registers]
            order = " backwards" if nest.reverse else ""
            lines += self._shared(INDENT)
            lines.append(f"{INDENT}for t < {self.writer.dim(nest.time.size)}{order}:")
            inside = 2 * INDENT
        stores = [self.store(store) for store in nest.stores]
        updates = [
            f"r{register.index} = {self.text(update)}"
            for register, update in zip(nest.registers, nest.updates, strict=True)
        ]
        together = ["all at once: " + "; ".join(updates)] if len(updates) > 1 else updates
        ends = [] if nest.until is None else [f"stop if all: {self.text(nest.until)}"]
        lines += [*self._shared(inside), *(inside + line for line in [*stores, *together, *ends])]
        finals = [self.store(store) for store in nest.finals]
        return [*lines, *self._shared(INDENT), *(INDENT + line for line in finals)]

    def _shared(self, indent: str) -> list[str]:
        """The lines of the values that got a name since the last call."""
        lines, self.shared = [indent + line for line in self.shared], []
        return lines

    def tile(self, tile: Tile) -> str:
        """A tile in words."""
        nest = self.nest
        along = "reductions" if tile.horizontal else self.loops[nest.space[-1]] if nest.space else "time"
        parts = [f"{tile.lanes} lanes along {along}" if tile.lanes > 1 else "one lane"]
        if tile.vectors > 1:
            parts.append(f"{tile.vectors} {'columns' if tile.horizontal else 'vectors'} a tile")
        if tile.rows is not None:
            parts.append(f"{tile.row_block} rows of {self.names(tile.rows)} a tile")
        if tile.left:
            parts.append(f"the vectors that are left {'one' if tile.left == 1 else tile.left} at a time")
        if tile.group != 1:
            parts.append(f"{self.writer.dim(tile.group)} tiles of columns before the next rows")
        if tile.strips:
            lengths = zip(map(self.writer.dim, tile.strips), nest.space, strict=True)
            some = self._where(tile.many)
            some += "" if tile.down == 0 else f", the last point first{self._where(tile.down)}"
            parts.append("strips of " + " x ".join(f"{length} {self.loops[loop]}" for length, loop in lengths) + some)
        if tile.ahead != 0:
            parts.append(f"the next terms{' and panels' if tile.beyond else ''} fetched ahead{self._where(tile.ahead)}")
        if tile.meanwhile:
            parts.append("the sums of the next tile computed meanwhile")
        if tile.steps > 1:
            parts.append(f"{tile.steps} steps of a point at a time")
        if tile.narrow:
            parts.append("the points that are left in narrower vectors")
        if tile.split is not None:
            parts.append(f"threads share {self.names(tile.split)}, {tile.unit} at a time")
        if tile.own is not None:
            parts.append(f"a thread's own rows are of {self.names(tile.own)}, {self.writer.dim(tile.each)} a row")
        if tile.rest:
            parts.append("what is left over is shared by rows")
        return "; ".join(parts)

    def _where(self, flag: Dimension) -> str:
        """In which calls something is so: all, if this is always 1."""
        return "" if flag == 1 else f" where {self.writer.dim(flag)} is 1"

    def names(self, loop: NestLoop) -> str:
        """The name of a loop, or the names of the parts of a joined loop."""
        return " and ".join(self.loops[p] for p in loop.parts) if loop.parts else self.loops[loop]

    def store(self, store: Store) -> str:
        sign = "+=" if store.add else "="
        return f"{self.place(store.access, store.indices)} {sign} {self.text(store.value)}"

    def place(self, access: Access, indices: Sequence[Index] = ()) -> str:
        terms = self.terms(access.strides)
        terms += [(self.index(i), i.stride) for i in indices]
        return f"{self.writer.buffer(access.buffer)}[{self.writer.affine(access.offset, terms)}]"

    def index(self, index: Index) -> str:
        """A computed index, and what is checked of it."""
        around = "" if index.turn is None else ", around"
        limit = "" if index.sure else f" < {self.writer.dim(index.size - index.most)}"
        return f"index({self.text(index.value)}{limit}{around})"

    def terms(self, strides: Mapping[NestLoop, Dimension]) -> list[tuple[str, Dimension]]:
        """The names and strides of loops. A loop of size 1 may belong to no nest, and is left out: its counter is 0."""
        return [(self.loops[loop], stride) for loop, stride in strides.items() if loop in self.loops or loop.size != 1]

    # ---- values -----------------------------------------------------------------------------------------------------

    def text(self, root: Value) -> str:
        """The text of a value. Values below it that are used several times, or are long, get lines of their own
        first."""
        for value in walk_values([root]):
            if value not in self.values:
                self.values[value] = self.own_text(value)
                if self.uses[value] > 1 and value.operands and not isinstance(value, Register):
                    self._name(value)
        return self.values[root]

    def _name(self, value: Value) -> None:
        """Write a value on a line of its own."""
        name = f"v{next(self.numbers)}"
        self.shared.append(f"{name} = {self.values[value]}")
        self.values[value] = name
        self.named.add(value)

    def operand(self, value: Value, infix: bool = False) -> str:
        """The text of a value inside that of another value."""
        if len(self.values[value]) > LONGEST and value.operands:
            self._name(value)
        compound = infix and isinstance(value, Apply) and value.op in INFIX and value not in self.named
        return _bracketed(self.values[value], compound)

    @singledispatchmethod
    def own_text(self, value: Value) -> str:
        """The text of a value, made of the texts of its operands."""
        return type(value).__name__

    @own_text.register
    def _(self, value: Literal) -> str:
        return str(value.number)

    @own_text.register
    def _(self, value: Position) -> str:
        text = self.writer.affine(value.offset, self.terms(value.strides))
        return _bracketed(text, " " in text)

    @own_text.register
    def _(self, value: Load) -> str:
        place = self.place(value.access)
        place = f"{value.dtype}({place})" if value.widens else place
        return place if value.when == 1 else f"({place} if {self.writer.dim(value.when)} else 0)"

    @own_text.register
    def _(self, value: Fetch) -> str:
        return self.place(value.access, value.indices)

    @own_text.register
    def _(self, value: Search) -> str:
        row = f"{self.place(value.access)}, {self.writer.dim(value.size)} elements"
        return f"searched({row}, {self.operand(value.item)}, {'right' if value.right else 'left'})"

    @own_text.register
    def _(self, value: Apply) -> str:
        op = value.op
        if op in INFIX:
            left, right = (self.operand(arg, infix=True) for arg in value.args)
            return f"{left} {INFIX[op]} {right}"
        return f"{value.dtype if op is CAST else op.name}({', '.join(map(self.operand, value.args))})"

    @own_text.register
    def _(self, value: Reduce) -> str:
        over = ", ".join(f"{self.loops[loop]} < {self.writer.dim(loop.size)}" for loop in value.loops)
        guard = "" if value.guard is None else f" where {self.operand(value.guard)}"
        init = "" if value.init is None else f"({self.operand(value.init)}) then "
        return f"{init}{value.op.name}[{over}]({self.operand(value.term)}{guard})"

    @own_text.register
    def _(self, value: Register) -> str:
        return f"r{value.index}"


def _bracketed(text: str, brackets: bool) -> str:
    return f"({text})" if brackets else text
