"""Rows: the windows of the sequences that the taps read, and the checks that they hold enough rows."""

from collections.abc import Sequence

from scanjit import types
from scanjit.errors import ScanError
from scanjit.ir import Node, new_input
from scanjit.loops.entries import Entry, Leaf, moment, rows_available
from scanjit.ops.expect import NEGATIVE, expect
from scanjit.ops.shape import window
from scanjit.types import Dimension


def of_sequences(seqs: Sequence[Entry], length: Dimension, backwards: bool, asked: bool) -> list[tuple[Node, str]]:
    """The tensors that the loop reads row by row, each with a name for its row: one for each entry, tap and leaf.

    With several taps a tensor is read through several windows. `asked` says that the user gave `n_steps`, so that the
    sequences may be too short.
    """
    result = []
    for entry in seqs:
        checked = [_with_rows(entry, leaf, length if asked else 0) for leaf in entry.leaves]
        for tap in entry.taps:
            for leaf, x in zip(entry.leaves, checked, strict=True):
                start: Dimension = tap + entry.lag
                if backwards:
                    start = start + rows_available(entry, leaf) - 1
                read = x
                if backwards or start != 0 or length != x.type.shape[0]:
                    read = window(x, 0, start, length, -1 if backwards else 1)
                result.append((read, leaf.name + moment(tap)))
    return result


def _with_rows(entry: Entry, leaf: Leaf, length: Dimension) -> Node:
    """The tensor of a sequence, which must have enough rows for the steps. If it has not, there is an error: now, or
    for a symbolic size when the function runs."""
    need = length + entry.lag + entry.ahead
    x = expect(leaf.value, (0, length, NEGATIVE))
    text = f"{types.escaped(leaf.label)} has {{right}} rows, the scan needs {{left}}"
    beyond = entry.lag + entry.ahead
    why = f", {beyond} of them for its taps {list(entry.taps)}" if beyond else ""
    return with_rows(x, need, text, f"give {need} rows{why}, or run fewer steps")


def with_rows(x: Node, need: Dimension, text: str, fix: str) -> Node:
    """`x` with the condition that its first axis has at least `need` rows. `text` is the error, see `ops.expect`."""
    have = x.type.shape[0]
    if types.not_negative(need - have - 1):
        raise ScanError(text.format(right=have, left=need), got=repr(x), fix=fix)
    return expect(x, (need, have, text))


def row_symbol(x: Node, name: str) -> Node:
    """A new input for a row of a tensor."""
    return new_input(x.type.with_shape(x.type.shape[1:]), name)
