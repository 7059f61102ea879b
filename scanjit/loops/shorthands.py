"""`map`, `reduce`, `foldl`, `foldr`, `filter` and `associative_scan`: scans of a usual form, with less to write."""

import functools
from collections.abc import Callable
from typing import Any

from scanjit import ir
from scanjit.errors import ScanError
from scanjit.ir import Node, apply, constant
from scanjit.loops import entries, windows
from scanjit.loops.results import loop
from scanjit.loops.scan import build, scan
from scanjit.loops.structure import describe, function_location
from scanjit.ops.elementwise import WHERE
from scanjit.ops.index import GATHER, SCATTER
from scanjit.ops.promotion import cast
from scanjit.ops.shape import CONCATENATE, IOTA, row, window
from scanjit.ops.stretch import full
from scanjit.tensor.looping import check_callable
from scanjit.types import Dimension


@loop
def map(
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    name: str | None = None,
) -> Any:
    """Apply a function to each row of the sequences, and stack what it returns.

    Parameters
    ----------
    fn : callable
        Gets the rows of the sequences, then `non_sequences`.
    sequences, non_sequences, truncate_gradient, go_backwards, name
        As for `scan`.

    Returns
    -------
    Node, or list of them
        As for `scan`.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.function([x], sj.map(lambda x: x * x, x), mode="reference")([1.0, 2.0, 3.0])
    array([1., 4., 9.])
    """
    return scan(
        fn, sequences, None, non_sequences, truncate_gradient=truncate_gradient, go_backwards=go_backwards, name=name
    )


@loop
def reduce(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    go_backwards: bool = False,
    name: str | None = None,
) -> Any:
    """What the last step of a scan returns.

    Parameters
    ----------
    fn, sequences, outputs_info, non_sequences, go_backwards, name
        As for `scan`.

    Returns
    -------
    Node, or list of them
        The last value of each output. Over no rows, it is the (last row of the) initial value.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.function([x], sj.reduce(lambda x, total: total + x, x, 0.0), mode="reference")([1.0, 2.0, 3.0])
    array(6.)
    """
    built = build(
        fn,
        entries.sequences(sequences),
        entries.outputs(outputs_info) if outputs_info is not None else None,
        entries.non_sequences(non_sequences),
        go_backwards=go_backwards,
        name=name,
    )
    results = built.last()
    return results[0] if len(results) == 1 else results


@loop
def foldl(
    fn: Callable[..., Any], sequences: Any, outputs_info: Any, non_sequences: Any = None, name: str | None = None
) -> Any:
    """`reduce` from the first row to the last, with the same arguments.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.foldl(lambda x, y: 10 * y + x, sj.constant([1, 2, 3]), 0), mode="reference")()
    array(123)
    """
    return reduce(fn, sequences, outputs_info, non_sequences, go_backwards=False, name=name)


@loop
def foldr(
    fn: Callable[..., Any], sequences: Any, outputs_info: Any, non_sequences: Any = None, name: str | None = None
) -> Any:
    """`reduce` from the last row to the first, with the same arguments.

    Examples
    --------
    >>> import scanjit as sj
    >>> sj.function([], sj.foldr(lambda x, y: 10 * y + x, sj.constant([1, 2, 3]), 0), mode="reference")()
    array(321)
    """
    return reduce(fn, sequences, outputs_info, non_sequences, go_backwards=True, name=name)


def filter(fn: Callable[..., Any], sequences: Any, non_sequences: Any = None, name: str | None = None) -> Any:
    """The rows for which a function is true, in order.

    Parameters
    ----------
    fn : callable
        Gets the rows of the sequences, then `non_sequences`; returns a boolean scalar for all sequences, or a list of
        them, one for each sequence.
    sequences : tensor, structure of tensors, or list of them
    non_sequences, name
        As for `scan`.

    Returns
    -------
    Node, or list of them
        The sequences with the other rows left out: bare if it is one. Their number is known only at run time. The
        gradient is that of taking these rows.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.function([x], sj.filter(lambda x: x > 1, x), mode="reference")([3.0, 1.0, 2.0])
    array([3., 2.])
    """
    check_callable(fn, "the condition of filter")
    seqs = entries.sequences(sequences)
    length = entries.count_of_steps(seqs, None)
    where = function_location(fn)

    @functools.wraps(fn)
    def conditions(*args: Any) -> list[Node]:
        found = fn(*args)
        given = list(found) if type(found) in (tuple, list) else [found]
        if len(given) not in (1, len(seqs)) or any(not _is_condition(value) for value in given):
            raise ScanError(
                "the function of filter must return a boolean scalar, or one for each sequence",
                got=describe(found),
                expected="bool()" + (f", or a list of {len(seqs)}" if len(seqs) > 1 else ""),
                where=where,
            )
        return given

    masks = build(conditions, seqs, None, entries.non_sequences(non_sequences), name=name).stacked()
    kept = [_places_of_true(mask, length) for mask in masks] * (len(seqs) // len(masks))
    results = [
        entry.tree.unflatten([GATHER(leaf.value, rows, axis=0) for leaf in entry.leaves])
        for entry, rows in zip(seqs, kept, strict=True)
    ]
    return results[0] if len(results) == 1 else results


def _is_condition(value: Any) -> bool:
    return isinstance(value, Node) and not value.ndim and value.dtype == bool


def _places_of_true(mask: Node, length: Dimension) -> Node:
    """The places at which a mask is true, in order."""

    def place(keep: Node, count: Node) -> tuple[Node, Node]:
        """The place of a row, behind those before it, or one past the end; and how many come before the next row."""
        return apply(WHERE, keep, count, ir.dim_node(length)), count + cast(keep, "int64")

    built = build(place, entries.sequences(mask), entries.outputs([None, constant(0)]), [])
    places, count = built.stacked()[0], built.last()[1]
    found = SCATTER(full(0, (length + 1,), "int64"), IOTA(length=length), places, axis=0, add=False)
    return window(found, 0, 0, ir.as_dim(count))


def associative_scan(fn: Callable[..., Any], xs: Any) -> Any:
    """All partial results of combining the rows of a tensor: `x[0]`, `fn(x[0], x[1])`, `fn(fn(x[0], x[1]), x[2])`...

    Parameters
    ----------
    fn : callable
        Combines two rows (or structures of them) into one. `fn(fn(a, b), c)` equals `fn(a, fn(b, c))`, so the compiler
        may combine rows in any grouping.
    xs : tensor, or structure of tensors
        At least one row.

    Returns
    -------
    Node, or structure of them
        Of the type of `xs`.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.function([x], sj.associative_scan(lambda a, b: a * b, x), mode="reference")([1.0, 2.0, 3.0])
    array([1., 2., 6.])
    """
    check_callable(fn, "the first argument of associative_scan")
    (entry,) = entries.sequences([xs])
    needs = "associative_scan needs at least one row, got {right}"
    whole = [windows.with_rows(leaf.value, 1, needs, "leave it out where there are no rows") for leaf in entry.leaves]

    @functools.wraps(fn)
    def step(row: Any, before: Any) -> list[Any]:
        return [fn(before, row)]

    first = entry.tree.unflatten([row(x, 0) for x in whole])
    others = entry.tree.unflatten([window(x, 0, 1, x.type.shape[0] - 1) for x in whole])
    rest = entry.tree.leaves_of(scan(step, [{"input": others}], [{"initial": first}]))
    return entry.tree.unflatten([CONCATENATE(window(x, 0, 0, 1), y, axis=0) for x, y in zip(whole, rest, strict=True)])
