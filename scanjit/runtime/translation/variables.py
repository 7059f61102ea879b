"""Which variables of a kernel live in memory, until LLVM puts them into registers."""

from __future__ import annotations

import ast
from collections.abc import Sequence

Block = tuple[int, ...]
"""A block of statements: its number, after those of the blocks around it."""


def in_memory(body: Sequence[ast.stmt], parameters: Sequence[str]) -> set[str]:
    """The variables that have more than one value: those that are assigned twice, and those that are read where the
    one assignment may not have been passed.

    Examples
    --------
    >>> source = "a = n", "for i in range(n):", "    b = a + i", "    c = b", "d = c"
    >>> in_memory(ast.parse(chr(10).join(source)).body, ["n"])
    {'c'}
    """
    found = _Variables(parameters)
    for statement in body:
        found.visit(statement)
    return found.several


class _Variables(ast.NodeVisitor):
    """Visits statements in the order in which they stand."""

    def __init__(self, parameters: Sequence[str]) -> None:
        self.several: set[str] = set()
        self._assigned: dict[str, Block] = dict.fromkeys(parameters, ())
        self._read_before: set[str] = set()
        self._block: Block = ()
        self._blocks = 0

    def visit_Name(self, node: ast.Name) -> None:
        """Note where a variable is assigned or read."""
        name, at = node.id, self._assigned.get(node.id)
        if isinstance(node.ctx, ast.Store):
            if at is not None or name in self._read_before:
                self.several.add(name)
            self._assigned.setdefault(name, self._block)
        elif at is None:
            self._read_before.add(name)
        elif self._block[: len(at)] != at:
            self.several.add(name)

    def visit_Assign(self, node: ast.Assign) -> None:
        """The value is read before the variable is assigned."""
        self.visit(node.value)
        self.visit(node.targets[0])

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Without recursion, because a sum of many terms is nested deep."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                self.visit_Name(each)

    def visit_For(self, node: ast.For) -> None:
        """The counter belongs to the body."""
        self.visit(node.iter)
        self._inside([node.target, *node.body])

    def visit_If(self, node: ast.If | ast.While) -> None:
        """Both branches are blocks."""
        self.visit(node.test)
        self._inside(node.body)
        self._inside(node.orelse)

    visit_While = visit_If

    def _inside(self, nodes: Sequence[ast.AST]) -> None:
        around = self._block
        self._blocks += 1
        self._block = (*around, self._blocks)
        for node in nodes:
            self.visit(node)
        self._block = around
