"""The arguments of a scan, read and checked: sequences, outputs_info, non_sequences, taps, n_steps and the options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scanjit import types
from scanjit.arrays import array_of
from scanjit.errors import ScanError, ScanjitError
from scanjit.ir import Node, as_dim, as_node, is_number, is_symbol
from scanjit.kinds import holds_numbers
from scanjit.loops.structure import PARTS, Tree, describe, flatten, is_container
from scanjit.ops.scan import MOST_UNROLLED
from scanjit.records import record
from scanjit.types import Dim, Dimension


@record
class Leaf:
    """One tensor of an entry. `value` is a node, or a Python number: a weak scalar whose dtype the step decides."""

    value: Any
    label: str
    """The name of the argument in errors: "sequence 0", "output 1['c']"."""
    name: str
    """Its name in prints: the variable's own name, or one derived from it."""

    def __str__(self) -> str:
        named = isinstance(self.value, Node) and self.value.name
        return f"{self.label} ({named!r})" if named else self.label


@record
class Entry:
    """One entry of `sequences` or `outputs_info`: a structure of tensors that are read at the same taps.

    `taps` is empty for an output that is not fed back. Its structure is then known only when the step has returned.
    """

    label: str
    tree: Tree
    leaves: tuple[Leaf, ...]
    taps: tuple[Dimension, ...]

    @property
    def lag(self) -> Dimension:
        """How many earlier steps are read."""
        return _largest([-1 * tap for tap in self.taps])

    @property
    def ahead(self) -> Dimension:
        """How many later rows are read."""
        return _largest(self.taps)

    def with_complex(self, at: int) -> Entry:
        """The entry with a complex number in place of leaf `at`, a real one."""
        leaf = self.leaves[at]
        parts = [Leaf(part, leaf.label, leaf.name) for part in (float(leaf.value), 0.0)]
        tree = self.tree.with_leaves(PARTS if i == at else Tree() for i in range(len(self.leaves)))
        return Entry(self.label, tree, (*self.leaves[:at], *parts, *self.leaves[at + 1 :]), self.taps)


def _largest(numbers: Iterable[Dimension]) -> Dimension:
    """The largest of some numbers and zero."""
    found: Dimension = 0
    for number in numbers:
        found = types.maximum(found, number)
    return found


def moment(tap: Dimension) -> str:
    """The name of a tap in prints: `[t-12]`."""
    text = "" if tap == 0 else str(tap)
    return f"[t{text if not text or text.startswith('-') else '+' + text}]"


def listed(given: Any) -> list[Any]:
    """The entries of an argument: a list or a plain tuple holds entries, anything else is the only entry."""
    if given is None:
        return []
    return list(given) if type(given) in (list, tuple) else [given]


# ---- entries ---------------------------------------------------------------------------------------------------------


def sequences(given: Any) -> list[Entry]:
    """The entries of `sequences`: tensors (or structures of them), or `dict(input=..., taps=...)`."""
    result = []
    for i, entry in enumerate(listed(given)):
        label = f"sequence {i}"
        value, taps = _unpack(entry, label, "input")
        if value is None:
            raise ScanError(
                f"{label} has no input", got=describe(entry), expected="a tensor, or dict(input=x, taps=[...])"
            )
        tree, leaves = _leaves(value, label, "x" if i == 0 else f"x{i}")
        for leaf in leaves:
            if is_number(leaf.value) or leaf.value.ndim == 0:
                raise ScanError(
                    f"{leaf} is a scalar: there is nothing to iterate over",
                    got=describe(leaf.value),
                    expected="a tensor whose first axis is time",
                    fix="pass a list of numbers as one sequence, np.array([...])"
                    if isinstance(given, list) and all(map(is_number, given))
                    else "pass it in non_sequences, or give n_steps and drop it from sequences; the order is "
                    "scan(fn, sequences, outputs_info), not lax.scan's (fn, init, xs)",
                )
        result.append(Entry(label, tree, leaves, _taps(taps, label, default=(0,))))
    return result


def outputs(given: Any) -> list[Entry]:
    """The entries of `outputs_info`: None, tensors (or structures), or `dict(initial=..., taps=...)`."""
    result = []
    for i, entry in enumerate(listed(given)):
        label = f"output {i}"
        value, taps = (None, None) if entry is None else _unpack(entry, label, "initial")
        if value is None:
            if taps is not None and taps != []:
                raise ScanError(
                    f"{label} has taps without an initial value: what does its first step read?",
                    got=describe(entry),
                    fix=f"give the initial rows: dict(initial=x, taps={taps})",
                )
            result.append(Entry(label, Tree(), (), ()))
            continue
        tree, leaves = _leaves(value, label, "h" if i == 0 else f"h{i}")
        result.append(Entry(label, tree, leaves, _past(_taps(taps, label, default=(-1,)), label)))
    return result


def state(given: Any) -> Entry:
    """An entry for a structure that is fed back whole, with tap -1."""
    tree, leaves = _leaves(given, "the state", "state")
    return Entry("the state", tree, leaves, (-1,))


def non_sequences(given: Any) -> list[Any]:
    """The values of `non_sequences` for the step: arrays become constants, Python numbers stay as they are (weak)."""
    result = []
    for i, entry in enumerate(listed(given)):
        tree, leaves = _leaves(entry, f"non_sequence {i}", f"c{i}")
        result.append(tree.unflatten([leaf.value for leaf in leaves]))
    return result


def _unpack(entry: Any, label: str, key: str) -> tuple[Any, Any]:
    """The value and the taps of an entry, which may be `dict(<key>=value, taps=taps)`."""
    if not isinstance(entry, dict) or not (entry.keys() & {"input", "initial", "taps"} or not entry):
        return entry, None
    unknown = entry.keys() - {key, "taps"}
    if unknown:
        raise ScanError(
            f"{label} has unknown keys: {', '.join(map(repr, entry.keys() - {key, 'taps'}))}",
            got=", ".join(map(repr, entry)),
            expected=f"'{key}' and 'taps'",
            fix=f"a nested state with such names is written dict({key}={{...}})",
        )
    return entry.get(key), entry.get("taps")


def _leaves(value: Any, label: str, name: str) -> tuple[Tree, tuple[Leaf, ...]]:
    flat, tree = flatten(value)
    leaves = []
    for leaf, path in zip(flat, tree.paths(), strict=True):
        node = leaf if is_number(leaf) else symbol(leaf, f"{label}{path}")
        own = node.name if isinstance(node, Node) else None
        leaves.append(Leaf(node, label + path, own or name + path))
    return tree, tuple(leaves)


def symbol(value: Any, label: str) -> Node:
    """The node of a value, which must be a tensor, an array or a number."""
    if not is_symbol(value):
        if not holds_numbers(array_of(value).dtype):
            raise ScanError(f"{label} is not a tensor", got=describe(value), expected="a symbol, an array or a number")
    return as_node(value)


def condition(value: Any, of: str, error: type[ScanjitError] = ScanError, fix: str = "", where: str = "") -> Node:
    """The node of a condition of `ifelse`, `until` or `while_loop`, which must be a boolean scalar."""
    node = as_node(value) if is_symbol(value) or isinstance(value, bool | np.bool_ | np.ndarray) else value
    if not isinstance(node, Node) or node.ndim or node.dtype != bool:
        raise error(
            f"the condition of {of} must be a boolean scalar",
            got=describe(value),
            expected="bool()",
            fix="compare (x.sum() > 0), and reduce what has axes: .all() or .any()" + fix,
            where=where or None,
        )
    return node


# ---- taps ------------------------------------------------------------------------------------------------------------


def _taps(given: Any, label: str, default: tuple[int, ...]) -> tuple[Dimension, ...]:
    if given is None:
        return default
    listed = given if isinstance(given, list | tuple | range | np.ndarray) else [given]
    if not len(listed) or not all(map(_is_tap, listed)):
        raise ScanError(
            f"the taps of {label} must be integers, at least one",
            got=given,
            expected=f"such as {list(default)}; an integer scalar is a number of steps that is known when it runs",
        )
    taps = tuple(map(as_dim, listed))
    repeated = list(dict.fromkeys(tap for tap in taps if taps.count(tap) > 1))
    if repeated:
        raise ScanError(f"the taps of {label} are repeated: {repeated}", got=list(taps), fix="give each tap once")
    return taps


def _is_tap(given: Any) -> bool:
    if isinstance(given, bool | np.bool_):
        return False
    symbolic = isinstance(given, Node) and not given.ndim and given.type.kind.integral
    return symbolic or isinstance(given, int | np.integer | Dim)


def _past(taps: tuple[Dimension, ...], label: str) -> tuple[Dimension, ...]:
    wrong = [t for t in taps if types.not_negative(t)]
    if wrong:
        raise ScanError(
            f"{label} has taps that are not in the past: {wrong}",
            got=list(taps),
            expected="taps < 0: a step can read only what earlier steps returned",
        )
    return taps


# ---- n_steps and the options -----------------------------------------------------------------------------------------


def steps(given: Any, name: str = "n_steps") -> Dimension | None:
    """An argument that counts steps, as a dimension; None if it is not given."""
    if given is None or isinstance(given, Dim):
        return given
    wrong = ScanError(
        f"{name} must be an integer",
        got=describe(given),
        expected="an int or an integer scalar",
        fix="convert it: int(n), or sj.cast(n, 'int64')",
    )
    if isinstance(given, bool | np.bool_ | str) or is_container(given):
        raise wrong
    if isinstance(given, int | np.integer) and given > types.LARGEST:
        raise ScanError(f"{name} is larger than a loop can count", got=given, expected="at most 2**62")
    node = symbol(given, name)
    if node.ndim or not node.type.kind.integral:
        raise wrong
    length = as_dim(given if isinstance(given, int | np.integer) else node)
    if isinstance(length, int) and length < 0:
        backwards = "to run from the end, use go_backwards=True" if name == "n_steps" else None
        raise ScanError(f"{name} is negative", got=length, expected="0 or more", fix=backwards)
    return length


def count_of_steps(seqs: Sequence[Entry], n_steps: Dimension | None) -> Dimension:
    """The number of steps: `n_steps`, or as many as the shortest sequence allows."""
    available = [rows_available(entry, leaf) for entry in seqs for leaf in entry.leaves]
    if n_steps is not None:
        return n_steps
    if not available:
        raise ScanError(
            "there is no information about the number of steps",
            got="no sequences and no n_steps",
            fix="give sequences, n_steps, or both; with until, n_steps is the most steps that may run",
        )
    total = available[0]
    for rows in available[1:]:
        total = types.minimum(total, rows)
    return total


def rows_available(entry: Entry, leaf: Leaf) -> Dimension:
    """How many windows of the entry's taps the tensor holds."""
    return leaf.value.type.shape[0] - (entry.lag + entry.ahead)


def check_options(length: Dimension, seqs: Iterable[Entry], truncate: Any, unroll: Any, checkpoint: Any) -> None:
    """Raise an error for an option with a value that it cannot have."""
    if isinstance(truncate, bool) or not isinstance(truncate, int | np.integer) or truncate < -1:
        raise ScanError(
            "truncate_gradient is a number of steps", got=truncate, expected="-1 (all steps) or an int >= 0"
        )
    if not isinstance(unroll, bool) and (not isinstance(unroll, int | np.integer) or unroll < 1):
        raise ScanError("unroll is a number of steps", got=unroll, expected="False, True (all steps) or an int >= 1")
    if unroll > MOST_UNROLLED:
        raise ScanError(
            f"unroll={unroll} would write the step {unroll} times, which takes minutes to compile and is no faster",
            got=unroll,
            expected=f"at most {MOST_UNROLLED}",
            fix="unroll a few steps: 4 or 8",
        )
    check_checkpoint(checkpoint)
    if unroll is True and not isinstance(length, int):
        sources = [f"{leaf}: {leaf.value.type}" for entry in seqs for leaf in entry.leaves]
        raise ScanError(
            "unroll=True needs a number of steps that is known when the scan is built",
            got=f"{length} steps, which come from " + (" and ".join(sources) or "n_steps"),
            expected="an int",
            fix="give n_steps=<int> or a sequence of a fixed length, or unroll a few steps at a time: unroll=4",
        )


def check_flags(**given: Any) -> None:
    """Raise an error for an option that is neither True nor False."""
    for name, value in given.items():
        if not isinstance(value, int | np.bool_) or value not in (0, 1):
            raise ScanError(f"{name} must be True or False", got=repr(value))


def check_checkpoint(checkpoint: Any) -> None:
    """Raise an error for a `checkpoint` that is unknown."""
    known = checkpoint is None or (isinstance(checkpoint, str) and checkpoint in ("sqrt", "all"))
    if not known and (isinstance(checkpoint, bool) or not isinstance(checkpoint, int | np.integer) or checkpoint < 1):
        raise ScanError("checkpoint is unknown", got=repr(checkpoint), expected="None, 'sqrt', 'all' or an int >= 1")
