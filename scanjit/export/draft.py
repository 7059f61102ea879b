"""The text of one Python function: a graph as statements, a loop as a `for` over a function of one step."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from scanjit import errors, ir, types
from scanjit.export.expressions import dtype_text, expression, scalar
from scanjit.export.harvest import Harvest
from scanjit.ir import CONSTANT, PART, SHARED, Graph, Node
from scanjit.ops.branch import IFELSE
from scanjit.ops.custom import CUSTOM
from scanjit.ops.probe import ASSERT, PRINT
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.runtime.shared import SharedVariable
from scanjit.runtime.sizes import Check
from scanjit.show.identifiers import identifier
from scanjit.show.operators import ATOM, PRODUCT, SUM, Text
from scanjit.types import Atom, Dim, Dimension

_LONGEST = 70
"""Expressions longer than this get a name of their own."""
_FUNCTIONS = {"//": "quotient", "%": "remainder", "root": "root"}
"""The helpers for functions of sizes; the others are Python's own."""


class Surroundings(Protocol):
    """The methods of `Module` that a draft calls."""

    harvest: Harvest

    def helper(self, name: str) -> str:
        """The name of a function of `helpers.py`, which is copied into the module."""

    def unused(self, base: str, taken: set[str]) -> str:
        """A name, `base` or made of it, that neither `taken` nor the module has. It is added to `taken`."""

    def variable(self, variable: SharedVariable) -> str:
        """The text of the value of a shared variable."""

    def constant(self, array: np.ndarray) -> str:
        """The text of a constant that is too large to be written out."""

    def function(
        self, graph: Graph, outputs: Sequence[Node], base: str, arguments: Sequence[str]
    ) -> tuple[str, list[Atom]]:
        """The name of the Python function of a graph, and the sizes that it takes after its inputs."""


class NumPyDraft:
    """Writes the statements of one Python function that compute nodes.

    Parameters
    ----------
    module : the module of the function.
    given : the nodes that are arguments, with their names.
    sizes : the sizes that are known, with their names.

    Attributes
    ----------
    lines : the statements so far.
    wanted : the sizes that the function must get as further arguments, with their names.
    pending : the checks of sizes that `flush` has not written yet.
    """

    def __init__(
        self, module: Surroundings, given: Mapping[Node, str], sizes: Mapping[Atom, str] | None = None
    ) -> None:
        self.module, self.lines = module, list[str]()
        self.texts: dict[Node, Text] = {node: Text(name, ATOM) for node, name in given.items()}
        self.given = set(given)
        self.sizes: dict[Atom, str] = dict(sizes or {})
        self.wanted: dict[Atom, str] = {}
        self.names: set[str] = {*given.values(), *self.sizes.values()}
        self.uses: Counter[Node] = Counter()
        self._fixed: set[Node] = set()
        self._parts: dict[Node, set[int]] = {}
        self.pending: list[Check] = []

    # ---- what nodes are --------------------------------------------------------------------------------------------

    def compute(self, outputs: Sequence[Node]) -> list[str]:
        """Write the statements that compute the outputs. Returns the text of each output."""
        order = ir.walk([*self.given, *outputs], self.given)
        sized = {atom for node in order for atom in ir.atoms_of(node) if atom.kind == "value"}
        for node in order:
            if node in self.given:
                continue
            self.uses.update(node.args)
            if node.op in (SCAN, IFELSE):
                self._fixed.update(node.operands)
            if node.op is PART:
                self._parts.setdefault(node.args[0], set()).add(node.params["index"])
        self.uses.update(outputs)
        self._fixed.update(node for node in order if node.dim_atom in sized)
        for node in order:
            if node not in self.given:
                self._write(node)
            if node.dim_atom in sized:
                assert node.dim_atom is not None
                self.sizes[node.dim_atom] = self.assign("n", f"int({self.value(node).text})")
                self.flush()
        return [self.value(node).text for node in outputs]

    def value(self, node: Node) -> Text:
        """The text of a node's value, whose statement is written if it is not yet."""
        if node not in self.texts:
            self._write(node)
        return self.texts[node]

    def is_inlined(self, node: Node) -> bool:
        """Whether the expression of a node stands where its only user needs it, and has no name."""
        return self.uses[node] == 1 and node not in self._fixed and node not in self.given

    def _write(self, node: Node) -> None:
        if "guest" in node.params:
            raise errors.NotSupportedError(
                "a function given to from_numba cannot be exported to NumPy", got=repr(node), where=node.where
            )
        if node in self.texts or node.several:
            if node.op is SCAN:
                self._scan(node)
            elif node.op is IFELSE:
                self._ifelse(node)
            return
        if node.op is PART:
            whole = node.args[0]
            if whole.op is CUSTOM:
                self.texts[node] = self.value(whole.operands[node.params["index"]])
            return
        found = self._expression(node)
        short = len(found.text) <= _LONGEST and "\n" not in found.text
        simple = found.text.isidentifier() or (node.op is CONSTANT and short)
        if simple or (self.is_inlined(node) and short and node.op not in (PRINT, ASSERT)):
            self.texts[node] = found
        else:
            self.texts[node] = Text(self.assign(_label(node), found.text), ATOM)

    def _expression(self, node: Node) -> Text:
        if node.op is SHARED:
            return Text(self.module.variable(node.params["variable"]), ATOM)
        if node.op is CONSTANT:
            array = node.params["data"].array
            if not array.ndim:
                return scalar(array, False)
            if array.size <= 8:
                text = f"np.array({array.tolist()!r}, {dtype_text(array.dtype)})"
                return Text(re.sub(r"\b(inf|nan)\b", r"np.\1", text), ATOM)
            return Text(self.module.constant(array), ATOM)
        return expression(self, node)

    def helper(self, name: str) -> str:
        """The name of a function of `helpers.py`, which is copied into the module."""
        return self.module.helper(name)

    def copied(self, module: str, name: str, new: str = "") -> str:
        """The name in the exported module of function `name` of another module, which is copied. The name is `new`, if
        given and free."""
        return self.module.harvest.add(module, name, new or name)

    # ---- names and sizes -------------------------------------------------------------------------------------------

    def name(self, base: str) -> str:
        """A new name, which is `base` or made of it."""
        return self.module.unused(base, self.names)

    def assign(self, base: str, text: str) -> str:
        """Write a statement that assigns an expression to a new name. Returns the name."""
        name = self.name(base)
        self.lines.append(f"{name} = {text}")
        return name

    def dim(self, dim: Dimension) -> str:
        """A dimension as text."""
        return self._dim(dim).text

    def shape(self, dims: Iterable[Dimension]) -> str:
        """Dimensions as the text of a tuple."""
        texts = [self.dim(dim) for dim in dims]
        return f"({', '.join(texts)}{',' * (len(texts) == 1)})"

    def _dim(self, dim: Dimension) -> Text:
        if isinstance(dim, int):
            return Text(str(dim), ATOM if dim >= 0 else SUM)
        for atom in types.functions_in([dim]):  # inner ones first: a long one then has its name where it is used
            if atom not in self.sizes and len(text := self._atom(atom)) > _LONGEST:
                self.sizes[atom] = self.assign("n", text)
        return self._polynomial(dim)

    def _polynomial(self, dim: Dim) -> Text:
        text, level = "", SUM
        for monomial, factor in sorted(dim.terms, key=lambda term: not term[0]):
            atoms = [self._atom(atom) for atom in monomial]
            factors = [str(abs(factor))] * (abs(factor) != 1 or not atoms) + atoms
            product = " * ".join(factors)
            if text:
                text += f" {'-' if factor < 0 else '+'} {product}"
            else:
                text = f"{'-' * (factor < 0)}{product}"
                level = SUM if factor < 0 or len(dim.terms) > 1 else PRODUCT if len(factors) > 1 else ATOM
        return Text(text, level)

    def _atom(self, atom: Atom) -> str:
        if atom in self.sizes:
            return self.sizes[atom]
        if atom.kind in ("size", "value"):
            self.sizes[atom] = self.wanted[atom] = self.name(identifier(atom.name, "n"))
            return self.sizes[atom]
        name = _FUNCTIONS.get(atom.kind)
        args = [str(a) if isinstance(a, int) else self._polynomial(a).text for a in atom.args]
        return f"{self.module.helper(name) if name else atom.kind}({', '.join(args[: 1 if name == 'root' else 2])})"

    def flush(self) -> None:
        """Write the pending checks whose sizes all have names."""
        ready = [check for check in self.pending if all(atom in self.sizes for atom in check.atoms())]
        self.pending = [check for check in self.pending if check not in ready]
        for check in ready:
            function = self.module.helper("equal" if check.kind == "==" else "at_most")
            self.lines.append(f"{function}({self.dim(check.left)}, {self.dim(check.right)}, {check.what!r})")

    # ---- loops and branches ----------------------------------------------------------------------------------------

    def _scan(self, node: Node) -> None:
        """Write a scan: a `for` loop that calls a function of one step."""
        roles, p = Roles.of(node), node.params
        inits, xs, consts = roles.split(node.operands)
        label = identifier(p["name"] or "", "loop")
        used = self._parts.get(node, set())
        after, ys, ends = roles.split_results(p["body"].outputs)
        kept = [y for i, y in enumerate(ys) if roles.carries + i in used]
        outputs = [*after, *kept, *([] if ends is None else [ends])]
        step, extra = self.module.function(p["body"], outputs, f"{label}_step", _arguments(roles))
        carries = []
        for i, init in enumerate(inits):  # with a lag: a ring of values, of which each step replaces the one it read
            text = self.value(init).text
            carries.append(self.assign("past", f"list({text})") if i in roles.lags else self.assign("state", text))
        stacks: list[str] = []
        for i in range(roles.ys):
            type_ = node.types[roles.carries + i]
            empty = f"np.zeros({self.shape(type_.shape)}, {dtype_text(type_.dtype)})"
            stacks.append(self.assign("rows", empty) if roles.carries + i in used else "")
        length = self.dim(p["length"])
        t = self.name("t")
        lags = {i: self.dim(lag) for i, lag in roles.lags.items()}
        first = f"({t} - {length})" if p["reverse"] else t
        states = [f"{name}[{first} % ({lags[i]})]" if i in lags else name for i, name in enumerate(carries)]
        targets = [*states, *(f"{name}[{t}]" for name in stacks if name)]
        count = self.assign("count", "0") if roles.until else ""
        stop = [self.name("stop")] if roles.until else []
        given = [*states, *(f"{self.value(x).within(ATOM)}[{t}]" for x in xs), *(self.value(c).text for c in consts)]
        rows = f"reversed(range({length}))" if p["reverse"] else f"range({length})"
        self.lines.append(f"for {t} in {rows}:")
        called = f"{step}({', '.join([*given, *self._sizes(extra)])})"
        all_targets = [*targets, *stop]
        self.lines.append(f"    {', '.join(all_targets)}{',' * (len(all_targets) == 1)} = {called}")
        if roles.until:
            self.lines += [f"    {count} += 1", f"    if {stop[0]}:", "        break"]
        for i, lag in lags.items():
            if i in used:
                place = f"(i {'-' if p['reverse'] else '+'} ({count or length})) % ({lag})"
                self.lines.append(f"{carries[i]} = np.array([{carries[i]}[{place}] for i in range({lag})])")
        results = [*carries, *stacks, *([f"np.int64({count})"] if roles.until else [])]
        self._name_parts(node, results)

    def _ifelse(self, node: Node) -> None:
        """Write an ifelse: an `if` that calls one of two functions."""
        graph: Graph = node.params["body"]
        half = len(graph.outputs) // 2
        chosen = [
            self.module.function(graph, outputs, base, ["value"] * len(graph.inputs))
            for base, outputs in (("then", graph.outputs[:half]), ("otherwise", graph.outputs[half:]))
        ]
        given = [self.value(x).text for x in node.operands[1:]]
        targets = [self.name("chosen") for _ in range(half)]
        condition = self.value(node.operands[0]).text
        calls = [f"{name}({', '.join([*given, *self._sizes(extra)])})" for name, extra in chosen]
        for line, call in zip((f"if {condition}:", "else:"), calls, strict=True):
            self.lines += [line, f"    {', '.join(targets)}{',' * (half == 1)} = {call}"]
        self._name_parts(node, targets)

    def _sizes(self, atoms: Iterable[Atom]) -> list[str]:
        return [self._atom(atom) for atom in atoms]

    def _name_parts(self, node: Node, texts: Sequence[str]) -> None:
        """Give the results of an op their texts."""
        for i in self._parts.get(node, ()):
            part = PART(node, index=i)
            self.texts[part] = Text(texts[i], ATOM)


_LABELS = {
    "contract": "product",
    "concatenate": "joined",
    "dimshuffle": "turned",
    "broadcast_to": "filled",
    "slice": "part",
    "reshape": "shaped",
    "gather": "found",
    "cast": "converted",
    "print_": "printed",
    "assert_": "checked",
}


def _label(node: Node) -> str:
    """The base of the name of a node's value."""
    name = node.op.name
    return _LABELS.get(name, name if node.arity == 1 and name.isidentifier() else "z")


def _arguments(roles: Roles) -> list[str]:
    """The bases of the names of the states and rows of a step."""
    return ["state"] * roles.carries + ["row"] * roles.sequences


def names_of_sizes(draft: NumPyDraft, nodes: Iterable[tuple[Node, str]]) -> list[tuple[str, Any]]:
    """Assign the sizes of arguments to names. Returns the other sizes, which must be checked, each as its text and its
    dimension: those that occur twice, or inside an expression."""
    rest: list[tuple[str, Any]] = []
    for node, name in nodes:
        for axis, dim in enumerate(node.type.shape):
            atom = types.as_atom(dim)
            if atom is not None and atom.kind == "size" and atom not in draft.sizes:
                label = identifier(atom.name if types.is_named(atom) else "", f"{name}_{axis}")
                draft.sizes[atom] = draft.assign(label, f"{name}.shape[{axis}]")
            elif not isinstance(dim, int):
                rest.append((f"{name}.shape[{axis}]", dim))
    return rest
