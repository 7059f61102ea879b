"""The text of a Python module that computes a function with NumPy alone, and the arrays that it loads."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from scanjit import errors, types
from scanjit.export.draft import NumPyDraft, names_of_sizes
from scanjit.export.expressions import ML_DTYPES, dtype_text
from scanjit.export.harvest import Harvest
from scanjit.ir import Graph, Node, declared
from scanjit.loops.structure import Tree
from scanjit.runtime import sizes
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.shared import SharedVariable
from scanjit.show.identifiers import free_name, identifier, writable
from scanjit.types import Atom

_RESERVED = {"np", "variables", "Path", "math", *dir(builtins)}


class Module:
    """A module that holds one function, the steps of its loops, and copies of the functions that these use.

    Attributes
    ----------
    source : the text of the module.
    arrays : the arrays of `weights.npz`, by their keys.
    """

    def __init__(self, function: CompiledFunction[Any], name: str) -> None:
        self.called, self.name = function, name
        self._local: set[str] = {*_RESERVED, name}  # names in any function
        self.harvest = Harvest(self._local)
        self.arrays: dict[str, np.ndarray] = {}
        self._keys: dict[int, str] = {}
        self._kept: list[Any] = []
        self._functions: dict[tuple[Graph, tuple[Node, ...]], tuple[str, list[Atom]]] = {}
        self._texts: list[str] = []
        self._taken = {*_RESERVED, name}
        self.source = self._module()

    # ---- methods for drafts ----------------------------------------------------------------------------------------

    def helper(self, name: str) -> str:
        """The name of a function of `helpers.py`, which is copied into the module."""
        return self.harvest.add("scanjit.export.helpers", name)

    def unused(self, base: str, taken: set[str]) -> str:
        """A name, `base` or made of it, that neither `taken` nor the module has. It is added to `taken`."""
        name = free_name(identifier(base, "x"), {*taken, *self._taken, *self.harvest.names})
        taken.add(name)
        self._local.add(name)
        return name

    def variable(self, variable: SharedVariable) -> str:
        """The text of the value of a shared variable."""
        return f"variables[{self._key(variable, writable(variable.name or 'unnamed'), lambda: variable.stored)!r}]"

    def constant(self, array: np.ndarray) -> str:
        """The text of a constant that is too large to be written out."""
        return f"variables[{self._key(array, 'constant', lambda: array)!r}]"

    def _key(self, thing: Any, base: str, value: Any) -> str:
        key = self._keys.get(id(thing))
        if key is None:
            key = free_name(base, self.arrays, " ")
            self._keys[id(thing)] = key
            self._kept.append(thing)  # alive: no later object gets its id
            self.arrays[key] = np.array(value())
        return key

    def function(
        self, graph: Graph, outputs: Sequence[Node], base: str, arguments: Sequence[str]
    ) -> tuple[str, list[Atom]]:
        """The name of the Python function of a graph, and the sizes that it takes after its inputs."""
        key = graph, tuple(outputs)
        if key not in self._functions:
            name = self.unused(base, self._local)  # no argument of a function may have this name
            self._taken.add(name)
            names: set[str] = set()
            labels = [*arguments, *["value"] * (len(graph.inputs) - len(arguments))]
            given = {node: self.unused(label, names) for node, label in zip(graph.inputs, labels, strict=True)}
            draft = NumPyDraft(self, given)
            results = draft.compute(list(outputs))
            text = [f"def {name}({', '.join([*given.values(), *draft.wanted.values()])}):"]
            text += [f"    {line}" for line in draft.lines]
            text.append(f"    return {', '.join(results)}{',' * (len(results) == 1)}")
            self._texts.append("\n".join(text))
            self._functions[key] = name, list(draft.wanted)
        return self._functions[key]

    # ---- the module ------------------------------------------------------------------------------------------------

    def _module(self) -> str:
        main = self._main()
        helpers = self.harvest.text()
        body = "\n\n\n".join([*([helpers] if helpers else []), *self._texts, main]) + "\n"
        self.needs_bfloat16 = ML_DTYPES in body or any(array.dtype.name == "bfloat16" for array in self.arrays.values())
        return f"{self._head()}\n\n\n{body}"

    def _head(self) -> str:
        imports = sorted({"import numpy as np", *self.harvest.imports} - {"import numpy as np"})
        needs = "NumPy and ml_dtypes" if self.needs_bfloat16 else "NumPy alone"
        lines = [f'"""`{self.name}`, exported by scanjit: it takes {needs}."""', ""]
        lines += [*imports, *(["from pathlib import Path"] if self.arrays else []), ""]
        lines += [*(["import ml_dtypes"] if self.needs_bfloat16 else []), "import numpy as np", ""]
        lines += [f"__all__ = [{self.name!r}]"]
        if self.arrays:
            lines += [
                "",
                'with np.load(Path(__file__).with_name("weights.npz"), allow_pickle=False) as _file:',
                "    variables = {key: _file[key] for key in _file.files}",
            ]
        if any(array.dtype.name == "bfloat16" for array in self.arrays.values()):  # files lack their dtype
            lines += [
                "for key, array in variables.items():",
                "    if array.dtype == 'V2':",
                f"        variables[key] = array.view({ML_DTYPES})",
            ]
        return "\n".join(lines).replace("\n\n\n", "\n\n")

    def _main(self) -> str:
        graph = self.called.graph
        names: set[str] = set()
        given = {node: self.unused(node.name or "x", names) for node in graph.inputs}
        draft = NumPyDraft(self, given)
        for node, name in given.items():
            dtype = dtype_text(declared(node).dtype)
            draft.lines.append(f"{name} = {taken(node, name, dtype, self.helper)}")
        shared = [(node, self.variable(node.params["variable"])) for node in graph.shared]
        rest = names_of_sizes(draft, [*given.items(), *shared])
        self._check_sizes(draft, rest)
        draft.pending = [check for check in sizes.conditions(graph.roots) if check.body is None]
        draft.flush()
        results = draft.compute(graph.roots)
        if draft.wanted:
            raise errors.NotSupportedError("a size is in the type of no value that is given", got=list(draft.wanted))
        lines = self._returning(draft, results)
        signature = f"def {self.name}({', '.join(given.values())}):"
        text = [signature, f'    """{summary(given.items(), graph.returns)}"""']
        return "\n".join([*text, '    with np.errstate(all="ignore"):', *(f"        {line}" for line in lines)])

    def _check_sizes(self, draft: NumPyDraft, rest: list[tuple[str, Any]]) -> None:
        """Write checks of the sizes in `rest`, which occur twice or in an expression. A size that occurs only in an
        expression is computed from it, such as n from `2 * n`."""
        for text, dim in rest:
            unknown = {atom for atom in types.atoms(dim) if atom not in draft.sizes}
            if len(unknown) == 1:
                (atom,) = unknown
                zero = types.substitute(dim, {atom: 0})
                factor = types.substitute(dim, {atom: 1}) - zero
                if isinstance(factor, int) and factor:
                    draft.sizes[atom] = draft.assign("n", f"({text} - ({draft.dim(zero)})) // {factor}")
                    unknown = set()
            if not unknown:
                draft.lines.append(f"{self.helper('equal')}({text}, {draft.dim(dim)}, {'the sizes of ' + text!r})")

    def _returning(self, draft: NumPyDraft, results: list[str]) -> list[str]:
        """The lines of a draft, then those that update variables, then the `return`."""
        graph = self.called.graph
        count = len(graph.outputs)
        flags = [] if graph.tree is None else graph.tree.stored()
        new = [
            f"{self.helper('complex_numbers')}({text})" if pairs else f"np.array({text})"
            for text, pairs in zip(results[:count], flags, strict=True)
        ]
        lines = list(draft.lines)
        if graph.updates:
            updated = [self.variable(variable) for variable, _ in graph.updates]
            values = [draft.name("new") for _ in updated]
            lines += [f"{name} = np.array({text})" for name, text in zip(values, results[count:], strict=True)]
            result = draft.name("result")
            lines.append(f"{result} = {nested(graph.tree and graph.tree.whole(), new)}")
            lines += [f"{place} = {name}" for place, name in zip(updated, values, strict=True)]
            return [*lines, f"return {result}"]
        return [*lines, f"return {nested(graph.tree and graph.tree.whole(), new)}"]


def taken(node: Node, name: str, dtype: str, helper: Callable[[str], str]) -> str:
    """The text that converts an argument to an array of its declared type, whose dtype is given as text. `helper`
    returns the name of a function of `helpers.py`, which it copies into the module."""
    type_ = declared(node)
    known = tuple(dim if isinstance(dim, int) else None for dim in type_.shape)
    checked = f"{helper('argument')}({name}, {dtype}, {known}, {name!r})"
    return checked if type_ is node.type else f"{helper('stored')}({checked})"


def summary(given: Iterable[tuple[Node, str]], returns: Iterable[object]) -> str:
    """One sentence about the arguments and results of a function, for its docstring."""
    takes = ", ".join(f"{name}: {declared(node)}" for node, name in given) or "nothing"
    gives = ", ".join(map(str, returns)) or "nothing"
    return writable(f"From {takes}; to {gives}.").replace("\\", r"\\").replace('"', r"\"")


def nested(tree: Tree | None, leaves: list[str]) -> str:
    """The text of the results in their structure. Named tuples become tuples, and dataclasses dicts."""
    if tree is None:
        return "None"
    rest = iter(leaves)

    def build(tree: Tree) -> str:
        if tree.kind is None:
            return next(rest)
        children = [build(child) for child in tree.children]
        if tree.kind is list:
            return f"[{', '.join(children)}]"
        if issubclass(tree.kind, tuple):
            return f"({', '.join(children)}{',' * (len(children) == 1)})"
        return "{" + ", ".join(f"{name!r}: {child}" for name, child in zip(tree.names, children, strict=True)) + "}"

    return build(tree)
