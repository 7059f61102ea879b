"""The control flow of kernels: loops over ranges, branches, assignments, calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from scanjit.runtime.translation.expressions import Expressions
from scanjit.runtime.translation.instructions import Instructions, Value
from scanjit.simd.types import INT

_ZERO, _ONE = Value(INT, "0", 0), Value(INT, "1", 1)


class Statements:
    """Writes the instructions of statements."""

    def __init__(self, instructions: Instructions, expressions: Expressions) -> None:
        self._to = instructions
        self._expressions = expressions
        self._value = expressions.value
        self._exits: list[str] = []
        self._writers: dict[type, Callable[..., None]] = {
            ast.Assign: self._assign,
            ast.AugAssign: self._change,
            ast.Break: self._break,
            ast.Expr: self._call,
            ast.For: self._for,
            ast.If: self._if,
            ast.Pass: lambda _: None,
            ast.Return: self._return,
            ast.While: self._while,
        }

    def write_function(self, body: Sequence[ast.stmt], parameters: Sequence[str]) -> None:
        """Write the whole function."""
        for i, name in enumerate(parameters):
            self._to.assign(name, Value(INT, f"%a{i}"))
        self._write(body)
        self._to.end("ret void")

    def _write(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self._to.ended:
                return  # nobody comes here
            write = self._writers.get(type(statement))
            if write is None:
                raise TypeError(f"kernels have no statement {type(statement).__name__}")
            write(statement)

    def _assign(self, statement: ast.Assign) -> None:
        self._to.assign(_named(statement.targets), self._value(statement.value))

    def _change(self, statement: ast.AugAssign) -> None:
        name = _named([statement.target])
        self._to.assign(name, self._expressions.binary(statement.op, self._to.read(name), self._value(statement.value)))

    def _break(self, _: ast.Break) -> None:
        if not self._exits:
            raise TypeError("break stands outside of a loop")
        self._to.jump(self._exits[-1])

    def _call(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Call):
            self._expressions.call(statement.value)
        elif not (isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)):
            raise TypeError(f"neither a call nor a docstring: {ast.unparse(statement)}")

    def _return(self, statement: ast.Return) -> None:
        if statement.value is not None:
            raise TypeError("a kernel returns nothing")
        self._to.end("ret void")

    def _if(self, statement: ast.If) -> None:
        to = self._to
        yes, no, after = to.label("then"), to.label("else"), to.label("end")
        to.branch(self._expressions.truth(statement.test), yes, no if statement.orelse else after)
        to.start(yes)
        self._write(statement.body)
        both_end = to.ended and bool(statement.orelse)
        to.jump(after)
        if statement.orelse:
            to.start(no)
            self._write(statement.orelse)
            both_end = both_end and to.ended
            to.jump(after)
        if not both_end:
            to.start(after)

    def _while(self, statement: ast.While) -> None:
        to = self._to
        head, body, after = to.label("while"), to.label("body"), to.label("end")
        to.jump(head)
        to.start(head)
        to.branch(self._expressions.truth(statement.test), body, after)
        to.start(body)
        self._write_body(statement, head, after)

    def _for(self, statement: ast.For) -> None:
        to = self._to
        first, last, step = self._range(statement.iter)
        head, body, advance, after = to.label("for"), to.label("body"), to.label("next"), to.label("end")
        before, counter, following = to.block, to.name(), to.name()
        to.jump(head)
        to.start(head)
        to.do(f"{counter} = phi i64 [ {first.text}, %{before} ], [ {following}, %{advance} ]")
        to.branch(self._goes_on(counter, last, step), body, after)
        to.start(advance)
        to.do(f"{following} = add nsw i64 {counter}, {step.text}")
        to.jump(head)
        to.start(body)
        to.assign(_named([statement.target]), Value(INT, counter))
        self._write_body(statement, advance, after)

    def _write_body(self, loop: ast.For | ast.While, again: str, after: str) -> None:
        """Write the body of a loop, then start the block behind the loop."""
        if loop.orelse:
            raise TypeError("a loop of a kernel has no else")
        self._exits.append(after)
        self._write(loop.body)
        self._exits.pop()
        self._to.jump(again)
        self._to.start(after)

    def _range(self, iterated: ast.expr) -> list[Value]:
        """The first counter, the end, and the step of a range."""
        if not (isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id == "range"):
            raise TypeError("a loop of a kernel runs over a range")
        if iterated.keywords or not 1 <= len(iterated.args) <= 3:
            raise TypeError(f"a range has one to three arguments without names: {ast.unparse(iterated)}")
        given = [self._expressions.integer(each) for each in iterated.args]
        found = [_ZERO, *given, _ONE] if len(given) == 1 else [*given, _ONE][:3]
        if found[2].number == 0:
            raise TypeError(f"a range has a step of zero: {ast.unparse(iterated)}")
        return found

    def _goes_on(self, counter: str, last: Value, step: Value) -> str:
        """Whether a loop has a step with this counter."""
        to = self._to
        if isinstance(step.number, int):
            return to.condition(f"icmp {'slt' if step.number > 0 else 'sgt'} i64 {counter}, {last.text}")
        up, down = (to.condition(f"icmp {way} i64 {counter}, {last.text}") for way in ("slt", "sgt"))
        rises = to.condition(f"icmp sgt i64 {step.text}, 0")
        return to.condition(f"select i1 {rises}, i1 {up}, i1 {down}")


def _named(targets: Sequence[ast.expr]) -> str:
    """The one variable that is assigned."""
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise TypeError("a statement of a kernel assigns one variable")
    return targets[0].id
