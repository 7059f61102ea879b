"""The control flow of kernels: loops over ranges, branches, assignments, calls."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from scanjit.runtime.translation import integers
from scanjit.runtime.translation.expressions import Expressions
from scanjit.runtime.translation.instructions import Instructions, KernelValue
from scanjit.runtime.translation.memory import MemoryWriter
from scanjit.runtime.translation.variables import parameters_of
from scanjit.simd.types import BOOL, INT
from scanjit.walks import top_down

MOST_WRITTEN_OUT = 128
"""A loop whose counters are known is written out if it becomes at most this many statements. Its addresses are then
constants. Without that, products of small matrices take a tenth longer."""
TURNS = KernelValue(INT, "2", 2)
"""The number of turns of a loop over sums that are written one after the other. They share one counter, and their
addresses differ by constants. One turn at a time, products take up to 1.3 times as long."""
FEWEST_SUMS = 2
"""One sum waits for itself, however many turns stand together."""
LOADS = ("broadcast_", "load_")
"""The names of functions that load begin with one of these."""


class Statements:
    """Writes the instructions of statements. A function with `memory` gives an integer: 0 where it returns nothing."""

    def __init__(
        self, instructions: Instructions, expressions: Expressions, memory: MemoryWriter | None = None
    ) -> None:
        self._to = instructions
        self._memory = memory
        self._expressions = expressions
        self._value = expressions.value
        self._exits: list[str] = []
        self._end: str | None = None  # where a function goes on that stands in another one
        self._sums = 0  # how many loops over sums are written so far
        self._loops = 0  # how many loops are written so far

    def write_function(self, function: ast.FunctionDef) -> None:
        """Write the whole function."""
        self._expressions.write_inside = self._write_inside
        self._to.begin(function)
        for i, name in enumerate(parameters_of(function)):
            self._to.assign(name, KernelValue(INT, f"%a{i}"))
        self._write(function.body)
        self._to.end("ret void" if self._memory is None else "ret i64 0")
        del self._expressions.write_inside  # or both would stay until Python looks for cycles

    def _write_inside(self, function: ast.FunctionDef, arguments: Sequence[KernelValue]) -> None:
        """Write the body of a function with these arguments, in place of a call."""
        to, parameters = self._to, parameters_of(function)
        if len(arguments) != len(parameters):
            raise TypeError(f"{function.name} takes {len(parameters)} arguments, got {len(arguments)}")
        exits, end, self._exits, self._end = self._exits, self._end, [], to.label("returned")
        with to.inside(function), to.sometimes():  # it may return before its end
            for name, value in zip(parameters, arguments, strict=True):
                to.assign(name, value)
            self._write(function.body)
            to.jump(self._end)
        to.start(self._end)
        self._exits, self._end = exits, end

    def _write(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self._to.ended:
                return  # nobody comes here
            write = _WRITERS.get(type(statement))
            if write is None:
                raise TypeError(f"kernels have no statement {type(statement).__name__}")
            write(self, statement)

    def _assign(self, statement: ast.Assign) -> None:
        value = self._value(statement.value)
        if self._memory is not None and isinstance(statement.targets[0], ast.Attribute | ast.Subscript):
            self._memory.store(statement.targets[0], value)
        else:
            self._to.assign(_named(statement.targets), value)

    def _change(self, statement: ast.AugAssign) -> None:
        name = _named([statement.target])
        self._to.assign(name, self._expressions.binary(statement.op, self._to.read(name), self._value(statement.value)))

    def _break(self, _: ast.Break) -> None:
        if not self._exits:
            raise TypeError("break stands outside of a loop")
        self._to.jump(self._exits[-1])

    def _call(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Call):
            (self._expressions.call if self._memory is None else self._value)(statement.value)
        elif not (isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)):
            raise TypeError(f"neither a call nor a docstring: {ast.unparse(statement)}")

    def _return(self, statement: ast.Return) -> None:
        if self._memory is not None:
            number = self._expressions.integer(statement.value) if statement.value else integers.ZERO
            self._to.end(f"ret i64 {number.text}")
            return
        if statement.value is not None:
            raise TypeError("a kernel returns nothing")
        self._to.end("ret void" if self._end is None else f"br label %{self._end}")

    def _if(self, statement: ast.If) -> None:
        to = self._to
        yes, no, after = to.label("then"), to.label("else"), to.label("end")
        to.branch(
            self._expressions.truth(statement.test), yes, no if statement.orelse else after, self._is_rare(statement)
        )
        to.start(yes)
        with to.sometimes():
            self._write(statement.body)
        both_end = to.ended and bool(statement.orelse)
        to.jump(after)
        if statement.orelse:
            to.start(no)
            with to.sometimes():
                self._write(statement.orelse)
            both_end = both_end and to.ended
            to.jump(after)
        if not both_end:
            to.start(after)

    def _is_rare(self, statement: ast.If) -> bool:
        """Whether a kernel reports an error there, or ends."""
        ends = [isinstance(each, ast.Return) or _calls(each, "report") for each in statement.body]
        return self._memory is None and any(ends)

    def _while(self, statement: ast.While) -> None:
        to = self._to
        head, body, after = to.label("while"), to.label("body"), to.label("end")
        self._loops += 1
        with to.loop():
            to.jump(head)
            to.start(head)
            to.branch(self._expressions.truth(statement.test), body, after)
            to.start(body)
            self._write_body(statement, after)
            to.jump(head)
        to.start(after)

    def _for(self, statement: ast.For) -> None:
        first, last, step = self._range(statement.iter)
        to, counters = self._to, _counters(first, last, step)
        if counters and len(counters) * len(list(with_inner(statement.body))) <= MOST_WRITTEN_OUT:
            self._write_out(statement, counters)
            return
        sums = step.number == 1 and is_sum(statement)
        if sums:
            left = integers.binary(to, "mod", integers.binary(to, "sub", last, first), TURNS)
            rest = integers.extremum(to, "max", first, integers.binary(to, "sub", last, left))
            self._loop(statement, first, rest, TURNS, sums, (0, 1))
            first = rest
        if first.number is None or first.number != last.number:
            self._loop(statement, first, last, step, sums)

    def _loop(
        self,
        statement: ast.For,
        first: KernelValue,
        last: KernelValue,
        step: KernelValue,
        sums: bool,
        ahead: Sequence[int] = (0,),
    ) -> None:
        """Write a loop over these counters; it may be one over `sums`. In each turn its body runs once for each of
        `ahead`, which is added to the counter.

        LLVM does not see how a loop over sums counts, nor how those around it count. It would try for long to compute
        their addresses from fewer sums, and those of a register tile are as they should be."""
        to, sums_before = self._to, self._sums
        self._sums += sums
        self._loops += 1
        loops = self._loops
        body, after, runs = to.label("for"), to.label("end"), self._goes_on(first, last, step)
        with to.loop():
            before = to.block
            to.branch(runs, body, after)
            to.start(body)
            counter, line = to.counter()
            for further in ahead:
                at = integers.beyond(to, counter, further) if further else counter
                to.assign(_named([statement.target]), at)
                self._write_body(statement, after)
            values = f"[ {first.text}, %{before} ]"
            if not to.ended:
                following = integers.binary(to, "add", counter, step)
                following = to.hidden(following) if self._sums > sums_before else following
                values += f", [ {following.text}, %{to.block} ]"
                innermost = self._loops == loops and self._memory is None
                to.branch(self._goes_on(following, last, step), body, after, aligns=innermost)
            line.append(f"{counter.text} = phi i64 {values}")
        to.start(after)

    def _write_out(self, loop: ast.For, counters: range) -> None:
        """Write the body of a loop once for each of its counters."""
        to, after = self._to, self._to.label("end")
        with to.sometimes():  # there may be a break
            for number in counters:
                if not to.ended:
                    to.assign(_named([loop.target]), KernelValue(INT, str(number), number))
                    self._write_body(loop, after)
        to.jump(after)
        to.start(after)

    def _write_body(self, loop: ast.For | ast.While, after: str) -> None:
        """Write the body of a loop, which `break` leaves for the block `after` it."""
        if loop.orelse:
            raise TypeError("a loop of a kernel has no else")
        self._exits.append(after)
        self._write(loop.body)
        self._exits.pop()

    def _range(self, iterated: ast.expr) -> list[KernelValue]:
        """The first counter, the end, and the step of a range."""
        if not (isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range"):
            raise TypeError("a loop of a kernel runs over a range")
        if iterated.keywords or not 1 <= len(iterated.args) <= 3:
            raise TypeError(f"a range has one to three arguments without names: {ast.unparse(iterated)}")
        given = [self._expressions.integer(each) for each in iterated.args]
        found = [integers.ZERO, *given, integers.ONE] if len(given) == 1 else [*given, integers.ONE][:3]
        if found[2].number == 0:
            raise TypeError(f"a range has a step of zero: {ast.unparse(iterated)}")
        return found

    def _goes_on(self, counter: KernelValue, last: KernelValue, step: KernelValue) -> KernelValue:
        """Whether a loop has a turn with this counter. It has none if its step turns out to be 0."""
        to, rises = self._to, integers.compare(self._to, "gt", step, integers.ZERO)
        if rises.number is not None:
            return integers.compare(to, "lt" if rises.number else "gt", counter, last)
        falls = integers.compare(to, "lt", step, integers.ZERO)
        below, above = (integers.compare(to, way, counter, last) for way in ("lt", "gt"))
        return integers.select(to, rises, below, to.pure(BOOL, f"and i1 {falls.text}, {above.text}", falls, above))


_WRITERS: dict[type, Callable[[Statements, Any], None]] = {
    ast.Assign: Statements._assign,
    ast.AugAssign: Statements._change,
    ast.Break: Statements._break,
    ast.Expr: Statements._call,
    ast.For: Statements._for,
    ast.If: Statements._if,
    ast.Pass: lambda *_: None,
    ast.Return: Statements._return,
    ast.While: Statements._while,
}
"""Maps the kinds of statements to what writes them."""


def _counters(first: KernelValue, last: KernelValue, step: KernelValue) -> range:
    """The counters of a loop; none if they are not known."""
    if isinstance(first.number, int) and isinstance(last.number, int) and isinstance(step.number, int):
        return range(first.number, last.number, step.number)
    return range(0)


def is_sum(statement: ast.stmt) -> bool:
    """Whether it is a loop whose body only loads, and adds to sums."""
    if not isinstance(statement, ast.For):
        return False
    sums = 0
    for each in statement.body:
        if isinstance(each, ast.Assign) and _called(each, "") and _adds(each):
            sums += 1
        elif not _called(each, LOADS):
            return False
    return sums >= FEWEST_SUMS


def _called(statement: ast.stmt, start: str | tuple[str, ...]) -> bool:
    """Whether a statement assigns what a function returns whose name begins like this."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id.startswith(start)


def _calls(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is a call of a function, whose result nobody needs."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


def _adds(statement: ast.Assign) -> bool:
    """Whether a variable gets a value that is computed from its own."""
    (target,) = statement.targets
    return isinstance(target, ast.Name) and any(
        isinstance(part, ast.Name) and part.id == target.id for part in ast.walk(statement.value)
    )


def with_inner(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, and those inside them, without what is in their expressions."""
    return top_down(body, lambda each: [*getattr(each, "body", ()), *getattr(each, "orelse", ())])


def _named(targets: Sequence[ast.expr]) -> str:
    """The one variable that is assigned."""
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise TypeError("a statement of a kernel assigns one variable")
    return targets[0].id
