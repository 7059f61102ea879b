"""Copies the source of functions into exported modules, with all definitions that they use. So a function is written
once, with its op, and not again for exports.
"""

import ast
import builtins
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

from scanjit import errors
from scanjit.runtime.parsing import parsed

_ALLOWED = {"np": "import numpy as np", "math": "import math", "threading": "import threading"}


@functools.cache
def _definitions(module: str) -> tuple[dict[str, ast.stmt], dict[str, str]]:
    """Two dicts about a module: from each name that it defines to the statement, and from each name that it imports to
    the module of the name."""
    path = importlib.import_module(module).__file__
    tree = parsed(Path(str(path)).read_text(encoding="utf-8"))
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            defined |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {alias.asname or alias.name: node.module for alias in node.names}
    return defined, imported


class _Plain(ast.NodeTransformer):
    """Removes annotations from a definition."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


class Harvest:
    """The definitions that an exported module needs, each after those that it uses.

    Parameters
    ----------
    taken : names that the definitions must not have. The caller may add names to it later.

    Examples
    --------
    >>> from scanjit.export.harvest import Harvest
    >>> found = Harvest()
    >>> found.add("scanjit.ops.special", "sigmoid")
    'sigmoid'
    >>> print(found.text())
    def sigmoid(x):
        ...
    """

    def __init__(self, taken: set[str] | None = None) -> None:
        self._taken = set[str]() if taken is None else taken
        self._texts: dict[tuple[str, str], str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self.imports: set[str] = set()

    def add(self, module: str, name: str, alias: str | None = None) -> str:
        """Add the definition of a name, and the definitions that it uses. Returns its name in the text: `alias` if
        given and free, otherwise one made of the old name."""
        key = module, name
        if key in self._names:
            return self._names[key]
        defined, imported = _definitions(module)
        if name in imported and name not in defined:
            return self.add(imported[name], name, alias)
        if name not in defined:
            raise errors.InternalError("there is no such definition to export", got=f"{module}.{name}")
        taken = self.names | self._taken
        wanted = alias or name.strip("_")
        for tried in (wanted, f"{wanted}_of_{module.rsplit('.', 1)[-1]}", *(f"{wanted}_{k}" for k in range(2, 99))):
            if tried not in taken:
                break
        self._names[key] = tried
        statement = _Plain().visit(parsed(ast.unparse(defined[name])).body[0])
        renamed = {other: self._used(module, other) for other in _free(statement)}
        self._texts[key] = ast.unparse(_Renamed({**renamed, name: self._names[key]}).visit(statement))
        return self._names[key]

    def _used(self, module: str, name: str) -> str:
        """The name in the exported module of a name that a definition uses."""
        if name in _ALLOWED:
            self.imports.add(_ALLOWED[name])
            return name
        return self.add(module, name)

    def text(self) -> str:
        """The text of all definitions."""
        return "\n\n\n".join(self._texts.values())

    @property
    def names(self) -> set[str]:
        """The names of the definitions in the text."""
        return set(self._names.values())


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node


def _free(statement: ast.stmt) -> Iterator[str]:
    """The names that a definition reads and does not bind itself."""
    bound = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)}
    seen = dict.fromkeys(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return (name for name in seen if name not in bound and not hasattr(builtins, name))
