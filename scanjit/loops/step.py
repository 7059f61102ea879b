"""The step function: calling it, and reading what it returns."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scanjit.errors import ScanError, ScanjitError
from scanjit.ir import Node, is_number
from scanjit.loops import entries
from scanjit.loops.entries import Entry, symbol
from scanjit.loops.frozen import warn_of_draws
from scanjit.loops.structure import REAL, Mismatch, Tree, describe, flatten, is_container
from scanjit.loops.updates import is_updates
from scanjit.records import record


class Until:
    """A condition to end a loop: see `until`."""

    def __init__(self, condition: Any) -> None:
        self.condition = condition

    def __repr__(self) -> str:
        return f"until({self.condition!r})"


def until(condition: Any) -> Until:
    """End a scan after the first step whose condition is true; returned by the step as `(outputs, until(condition))`.

    Parameters
    ----------
    condition : Node
        A boolean scalar.

    Examples
    --------
    >>> import scanjit as sj
    >>> doubled = sj.scan(lambda h: (h * 2, sj.until(h * 2 > 100)), outputs_info=7.0, n_steps=50)
    >>> sj.function([], doubled, mode="reference")()
    array([ 14.,  28.,  56., 112.])
    """
    return Until(condition)


@record
class Returned:
    """The result of a step: each output's structure and leaves (nodes, or Python numbers), a condition, and new values
    of shared variables. `infos` are the entries of `outputs_info`. A real Python number among them has become complex
    if the step returned a complex number for it."""

    infos: Sequence[Entry] | None
    trees: tuple[Tree, ...]
    groups: tuple[tuple[Any, ...], ...]
    until: Node | None
    updates: Mapping[Any, Any]


def called(fn: Callable[..., Any], args: Sequence[Any], names: Sequence[str], where: str) -> Any:
    """Call the step with these arguments. If it takes another number of arguments, the error says so. If it takes no
    dict, the error says what a dict is to a scan."""
    check_takes(
        fn,
        args,
        "the step does not take the arguments that the scan passes",
        got=f"{len(args)} arguments: {', '.join(names)}",
        fix="the step gets the rows of the sequences, then the previous outputs, then the non_sequences",
        where=where,
    )
    warn_of_draws(fn)
    try:
        return fn(*args)
    except TypeError as error:
        for name, arg in zip(names, args, strict=True):
            if isinstance(arg, dict):
                keys = ", ".join(map(repr, arg))
                taken_apart = "only dict(input=x, taps=...) and dict(initial=x, taps=...) are taken apart"
                error.add_note(f"the step gets a dict of {keys} ({name}): {taken_apart}")
        raise


def check_takes(fn: Callable[..., Any], args: Sequence[Any], what: str, got: str, fix: str, where: str) -> None:
    """Raise an error that says `what` is wrong if a function cannot be called with this many arguments."""
    try:
        inspect.signature(fn).bind(*args)
    except TypeError as error:
        expected = f"{getattr(fn, '__name__', fn)}{inspect.signature(fn)}"
        raise ScanError(what, got=f"{got} ({error})", expected=expected, fix=fix, where=where) from None
    except ValueError:  # a function written in C, which has no signature
        pass


def read_result(returned: Any, infos: Sequence[Entry] | None, where: str) -> Returned:
    """What a step returned, as `Returned`: outputs in the order of `outputs_info`."""
    returned, ending = _split_until(returned, where)
    returned, updates = _split_updates(returned)
    values = _listed(returned, infos)
    if infos is None and not values and not updates:
        raise ScanError("the step returned no output", got=describe(returned), expected="at least one", where=where)
    if infos is not None and len(values) != len(infos):
        raise ScanError(
            "the step returned the wrong number of outputs",
            got=f"{len(values)}: {', '.join(map(describe, values))}",
            expected=f"{len(infos)}, one for each entry of outputs_info",
            fix="give outputs_info an entry for each output: None for one that is not fed back; "
            "a state that is a vector is one output: sj.stack([a, b]); "
            "JAX's lax.scan(f, init, xs) is sj.scan(lambda x, h: f(h, x), sequences=xs, outputs_info=[init, None])",
            where=where,
        )
    trees, groups = [], []
    for i, value in enumerate(values):
        leaves, tree = flatten(value)
        if infos is not None and infos[i].taps:
            entry, leaves = _fed_back(infos[i], value, f"output {i}", where)
            tree = entry.tree
            infos = infos if entry is infos[i] else [*infos[:i], entry, *infos[i + 1 :]]
        trees.append(tree)
        groups.append(tuple(_tensor(v, f"output {i}{p}", where) for v, p in zip(leaves, tree.paths(), strict=True)))
    stop = None if ending is None else entries.condition(ending.condition, "until", where=where)
    return Returned(infos, tuple(trees), tuple(groups), stop, updates)


def _fed_back(entry: Entry, value: Any, label: str, where: str) -> tuple[Entry, list[Any]]:
    """The leaves of a value that an entry begins; and the entry, with complex numbers where the value needs them."""
    try:
        return entry, entry.tree.leaves_of(value)
    except Mismatch as error:
        at = entry.tree.paths().index(error.path) if error.expected == REAL else None
        if at is not None and is_number(entry.leaves[at].value):
            return _fed_back(entry.with_complex(at), value, label, where)
        raise ScanError(
            f"{label}{error.path} has another structure than its initial value",
            got=error.got,
            expected=error.expected,
            fix=None if at is None else "begin with complex numbers, such as sj.zeros(n, 'complex128')",
            where=where,
        ) from None


def _split_until(returned: Any, where: str) -> tuple[Any, Until | None]:
    if isinstance(returned, Until):
        return [], returned
    if type(returned) not in (tuple, list):
        return returned, None
    found = [value for value in returned if isinstance(value, Until)]
    if not found:
        return returned, None
    if len(found) > 1 or returned[-1] is not found[0]:
        raise ScanError("until comes last", expected="(outputs, until(condition))", where=where)
    rest = returned[:-1]
    return (rest[0] if len(rest) == 1 else rest), found[0]


def _split_updates(returned: Any) -> tuple[Any, Mapping[Any, Any]]:
    """Divide what a step returned into outputs and updates of shared variables. Updates come last, or alone."""
    if is_updates(returned):
        return [], returned
    if type(returned) not in (tuple, list) or not returned or not is_updates(returned[-1]):
        return returned, {}
    rest = returned[:-1]
    return (rest[0] if len(rest) == 1 else rest), returned[-1]


def _listed(returned: Any, infos: Sequence[Entry] | None) -> list[Any]:
    """The outputs of a step, one or several.

    A tuple is several outputs. The exception: `outputs_info` has one entry, and its structure is such a tuple."""
    if infos is not None and len(infos) == 1 and infos[0].taps and is_container(returned):
        tree = infos[0].tree
        listed = type(returned) in (tuple, list) and len(returned) == 1 and tree.fits(returned[0])
        if tree.kind is not None and not listed and flatten(returned)[1].names == tree.names:
            return [returned]
    return list(returned) if type(returned) in (tuple, list) else [returned]


def _tensor(value: Any, label: str, where: str) -> Any:
    if is_number(value):
        return value
    if value is None or isinstance(value, str | bytes):
        hint = "does it lack a return statement?" if value is None else None
        raise ScanError(f"the step returned {value!r} as {label}", expected="a tensor", fix=hint, where=where)
    try:
        return symbol(value, label)
    except ScanjitError as error:
        raise ScanError(
            f"the step returned something that is no tensor as {label}", got=error.got, expected="a tensor", where=where
        ) from None
