"""Which variables of a kernel are in memory until LLVM puts them into registers."""

import ast
from collections.abc import Iterable, Sequence

Block = tuple[int, ...]
"""A block of statements: its number, behind those of the blocks around it."""


def parameters_of(function: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters.

    Raises
    ------
    TypeError : it takes others than positional ones.
    """
    given = function.args
    if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults:
        raise TypeError("a kernel takes positional arguments only")
    return [each.arg for each in given.args]


def in_memory(body: Sequence[ast.stmt], parameters: Sequence[str]) -> set[str]:
    """The variables that must lie in memory: those that are assigned twice, and those that may be read before their
    assignment has run.

    Examples
    --------
    >>> source = "a = n", "for i in range(n):", "    b = a + i", "    c = b", "d = c"
    >>> in_memory(ast.parse(chr(10).join(source)).body, ["n"])
    {'c'}
    """
    found = _Variables(parameters)
    found.visit(body, ())
    return found.several


class _Variables:
    """Visits statements in the order in which they stand."""

    def __init__(self, parameters: Sequence[str]) -> None:
        self.several: set[str] = set()
        self._assigned: dict[str, Block] = dict.fromkeys(parameters, ())
        self._read_before: set[str] = set()
        self._blocks = 0

    def visit(self, statements: Iterable[ast.stmt], block: Block) -> None:
        """Note where variables are assigned and read in the statements of a block."""
        for each in statements:
            if isinstance(each, ast.For):
                self._read(each.iter, block)
                inside = self._inside(block)
                self._assign(each.target, inside)  # the counter belongs to the body
                self.visit(each.body, inside)
            elif isinstance(each, ast.If | ast.While):
                self._read(each.test, block)
                self.visit(each.body, self._inside(block))
                self.visit(each.orelse, self._inside(block))
            elif isinstance(each, ast.Assign | ast.AugAssign):
                self._read(each.value, block)
                for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                    self._assign(target, block)
            elif isinstance(each, ast.Expr | ast.Return) and each.value is not None:
                self._read(each.value, block)

    def _inside(self, block: Block) -> Block:
        """A new block in a block."""
        self._blocks += 1
        return (*block, self._blocks)

    def _assign(self, target: ast.expr, block: Block) -> None:
        if isinstance(target, ast.Name):
            if target.id in self._assigned or target.id in self._read_before:
                self.several.add(target.id)
            self._assigned.setdefault(target.id, block)
        else:
            self._read(target, block)  # a place in memory

    def _read(self, expression: ast.expr, block: Block) -> None:
        """Without recursion, because a sum of many terms is nested deep."""
        nodes: list[ast.AST] = [expression]
        while nodes:
            node = nodes.pop()
            if type(node) is ast.Name:
                at = self._assigned.get(node.id)
                if at is None:
                    self._read_before.add(node.id)
                elif block[: len(at)] != at:
                    self.several.add(node.id)
            elif type(node) is ast.BinOp:
                nodes += (node.left, node.right)
            elif type(node) is ast.Call:
                nodes += node.args if type(node.func) is ast.Name else (node.func, *node.args)
            elif type(node) is not ast.Constant:
                nodes += ast.iter_child_nodes(node)
