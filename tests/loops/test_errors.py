"""Every error of scan: what it says, and that it points to the user's line."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.errors import ScanError
from scanjit.ir import Node, constant
from scanjit.loops import foldl, reduce, scan, until
from tests.loops.test_scan import run, symbol

X = symbol("x", "T")
TEN = symbol("ten", 10)
M = symbol("m", "B", 3)
F = symbol("f", "T", dtype="float32")
W = symbol("w")
N = symbol("n", dtype="int64")
COUNT = sj.shared(0, "count")
STATE = sj.shared(np.zeros(2), "state")


def identity(a: Node) -> Node:
    return a


def add(a: Node, h: Node) -> Node:
    return a + h


def nothing(a: Node) -> None:
    a + 1


def unpack(a: Node, h: Node) -> tuple[Node, Node]:
    return a, h


ERRORS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    # the number of steps
    "no length": (lambda: scan(lambda: 1.0), ["no information about the number of steps", "n_steps"]),
    "no length, until": (
        lambda: scan(lambda h: (h, until(h > 1)), outputs_info=0.0),
        ["no information about the number of steps", "the most steps"],
    ),
    "negative": (lambda: scan(identity, X, n_steps=-1), ["n_steps is negative", "-1", "go_backwards"]),
    "negative constant": (lambda: scan(identity, X, n_steps=constant(np.int32(-4))), ["n_steps is negative", "-4"]),
    "float": (lambda: scan(identity, X, n_steps=3.0), ["n_steps must be an integer", "3.0 (float)"]),
    "float scalar": (lambda: scan(identity, X, n_steps=W), ["n_steps must be an integer", "<w: float64()>", "cast"]),
    "bool": (lambda: scan(identity, X, n_steps=True), ["n_steps must be an integer", "True (bool)"]),
    "vector": (lambda: scan(identity, X, n_steps=symbol("v", 3, dtype="int64")), ["n_steps must be an integer"]),
    "text": (lambda: scan(identity, X, n_steps="3"), ["n_steps must be an integer", "'3' (str)"]),
    "tuple": (lambda: scan(identity, X, n_steps=(3,)), ["n_steps must be an integer"]),
    "too short": (lambda: scan(identity, TEN, n_steps=20), ["sequence 0 has 10 rows, the scan needs 20"]),
    "too short with taps": (
        lambda: scan(add, [X, dict(input=TEN, taps=[-2])], n_steps=9),
        ["sequence 1 has 10 rows, the scan needs 11", "give 11 rows, 2 of them for its taps [-2]"],
    ),
    "always one too short": (
        lambda: scan(identity, X, n_steps=X.type.shape[0] + 1),
        ["sequence 0 has T rows, the scan needs T + 1"],
    ),
    "shorter than its taps": (
        lambda: scan(unpack, dict(input=symbol("two", 2), taps=[-2, 1])),
        ["sequence 0 has 2 rows, the scan needs 3"],
    ),
    # sequences
    "scalar sequence": (lambda: scan(identity, W), ["sequence 0 ('w') is a scalar", "non_sequences"]),
    "number as sequence": (lambda: scan(add, [X, 3.0]), ["sequence 1 is a scalar", "3.0"]),
    "list of numbers as sequence": (lambda: scan(identity, [1.0, 2.0]), ["sequence 0 is a scalar", "np.array([...])"]),
    "None as sequence": (lambda: scan(add, [X, None]), ["sequence 1 has no input"]),
    "text as sequence": (lambda: scan(identity, "abc"), ["sequence 0 is not a tensor", "'abc'"]),
    "text in a structure": (lambda: scan(identity, [(X, {"k": "abc"})]), ["sequence 0[1]['k'] is not a tensor"]),
    "unknown key": (
        lambda: scan(identity, dict(input=X, tap=[1])),
        ["sequence 0 has unknown keys: 'tap'", "'input' and 'taps'"],
    ),
    "no input": (lambda: scan(identity, dict(taps=[1])), ["sequence 0 has no input"]),
    "repeated": (lambda: scan(identity, dict(input=X, taps=[1, 0, 1])), ["taps of sequence 0 are repeated: [1]"]),
    "no taps": (lambda: scan(identity, dict(input=X, taps=[])), ["taps of sequence 0 must be integers"]),
    "float taps": (lambda: scan(identity, dict(input=X, taps=[0.5])), ["taps of sequence 0 must be integers", "[0.5]"]),
    # outputs_info
    "tap 0 of an output": (
        lambda: scan(add, X, dict(initial=X, taps=[0])),
        ["output 0 has taps that are not in the past: [0]", "only what earlier steps returned"],
    ),
    "future tap": (
        lambda: scan(add, X, [None, dict(initial=X, taps=[-1, 2])]),
        ["output 1 has taps that are not in the past: [2]"],
    ),
    "repeated tap": (lambda: scan(add, X, dict(initial=X, taps=[-1, -1])), ["taps of output 0 are repeated: [-1]"]),
    "no initial": (lambda: scan(add, X, dict(taps=[-2])), ["output 0 has taps without an initial value", "[-2]"]),
    "initial None": (lambda: scan(add, X, dict(initial=None, taps=-1)), ["output 0 has taps without an initial value"]),
    "unknown key of an output": (
        lambda: scan(add, X, dict(initial=W, tap=[-1])),
        ["output 0 has unknown keys: 'tap'", "'initial' and 'taps'"],
    ),
    "key of a sequence": (lambda: scan(add, X, dict(input=W)), ["output 0 has unknown keys: 'input'"]),
    "text as initial": (lambda: scan(add, X, "zero"), ["output 0 is not a tensor"]),
    "too few initial rows": (
        lambda: scan(lambda a, h: h, X, dict(initial=symbol("h", 2), taps=[-3])),
        ["initial holds 2 rows, taps [-3] need 3"],
    ),
    "scalar initial": (
        lambda: scan(add, X, dict(initial=W, taps=[-2])),
        ["is a scalar, taps [-2] need 2 rows"],
    ),
    "number as initial": (lambda: scan(add, X, dict(initial=0.0, taps=[-2])), ["initial is a scalar, taps [-2] need"]),
    # what the step returns
    "dtype": (
        lambda: scan(lambda a, h: h + a, X, symbol("h0", dtype="float32")),
        ["output 0 ('h0') changes its dtype", "initial is float32", "returns float64", "start from float64", "cast"],
    ),
    "dtype down": (
        lambda: scan(lambda a, h: a > h, X, symbol("h0")),
        ["output 0 ('h0') changes its dtype", "float64()", "bool()"],
    ),
    "shape": (
        lambda: scan(lambda r, h: r + h, M, 0.0),
        ["output 0 changes its shape: initial has shape (), the step returns (3,)", "sj.zeros((3,), 'float64')"],
    ),
    "a column of a table": (
        lambda: scan(lambda r, h: r + h, symbol("x", "n", 1), 0.0),
        ["the step returns (1,)", "sj.zeros((1,), 'float64')", "a column's numbers: xs[:, 0]"],
    ),
    "shape with symbols": (
        lambda: scan(lambda a, h: M * a + h, X, [W]),
        ["output 0 ('w')", "initial has shape (), the step returns (B, 3)", "use sj.zeros((B, 3), 'float64')"],
    ),
    "stretched": (
        lambda: scan(lambda a, h: M * a + h, X, symbol("h0", 1, 3)),
        ["output 0 ('h0')", "initial has shape (1, 3), the step returns (B, 3)", "sj.broadcast_to(initial, (B, 3))"],
    ),
    "reduced": (
        lambda: scan(lambda a, h: reduce(lambda r, t: r + t, h, 0.0), X, symbol("h0", 3)),
        ["initial has shape (3,), the step returns ()", "as many axes"],
    ),
    "other size": (
        lambda: scan(lambda a, h: symbol("g", 4) * a, X, symbol("h0", 3)),
        ["initial has shape (3,), the step returns (4,)", "the shape that the step is given"],
    ),
    "named by its place": (
        lambda: scan(lambda a, s: {"h": s["h"], "c": s["c"] > 0}, X, [{"h": 0.0, "c": W}]),
        ["output 0['c'] ('w') changes its dtype"],
    ),
    "too few": (
        lambda: scan(identity, X, [None, None]),
        ["wrong number of outputs", "1: <x[t]: float64()>", "2, one for each entry of outputs_info"],
    ),
    "too many": (lambda: scan(unpack, X, [0.0]), ["wrong number of outputs", "got:      2", "None for one"]),
    "None": (lambda: scan(nothing, X), ["the step returned None as output 0", "return statement"]),
    "text as output": (lambda: scan(lambda a: (a, "b"), X), ["the step returned 'b' as output 1"]),
    "empty list": (lambda: scan(lambda a: [], X), ["no output", "an empty list"]),
    "an object": (lambda: scan(lambda a: object(), X), ["the step returned something that is no tensor as output 0"]),
    "no outputs": (lambda: scan(lambda a: (), X), ["the step returned no output"]),
    "only until": (lambda: scan(lambda a: until(a > 0), X), ["the step returned no output"]),
    "updates of a symbol": (
        lambda: scan(lambda a: (a, {W: W + 1}), X, return_updates=True),
        ["no shared variable", "<w: float64()>", "make it an output"],
    ),
    "updates": (
        lambda: scan(lambda a: (a, {COUNT: COUNT + 1}), X),
        ["updates of shared variables", "the shared variable 'count'", "return_updates=True"],
    ),
    "updates of a reduction": (
        lambda: reduce(lambda a, h: (a + h, {COUNT: COUNT + 1}), X, 0.0),
        ["updates of shared variables", "return_updates=True"],
    ),
    "an update of another dtype": (
        lambda: scan(lambda a: (a, {COUNT: COUNT + a}), X, return_updates=True),
        ["the step's update of the shared variable 'count' does not fit it", "float64()", "int64(), as its value"],
    ),
    "an update of another shape": (
        lambda: scan(lambda: {STATE: sj.zeros((3,))}, n_steps=2, return_updates=True),
        ["the step's update of the shared variable 'state' does not fit it", "float64(3)", "float64(2)"],
    ),
    "structure": (
        lambda: scan(lambda a, s: [{"h": a}], X, [{"h": W, "c": W}]),
        ["output 0 has another structure than its initial value", "a dict of h", "a dict of h, c"],
    ),
    "inner structure": (
        lambda: scan(lambda a, s: {"h": a, "c": (a, a)}, X, [{"h": W, "c": W}]),
        ["output 0['c'] has another structure", "a tuple of 2", "a tensor"],
    ),
    "a size of a step": (
        lambda: scan(lambda a: kept_rows(a), X),
        ["output 0 has a size that may differ from step to step", "pad it"],
    ),
    "float until": (lambda: scan(lambda a: (a, until(a)), X), ["the condition of until must be a boolean scalar"]),
    "vector until": (lambda: scan(lambda r: (r, until(r > 0)), M), ["boolean scalar", "bool(3)", ".all() or .any()"]),
    "until first": (lambda: scan(lambda a: (until(a > 0), a), X), ["until comes last"]),
    # the function and the options
    "no function": (lambda: scan(X, X), ["the step is not a function"]),
    "no function of filter": (lambda: sj.filter(None, X), ["the condition of filter is not a function"]),
    "no function of associative_scan": (
        lambda: sj.associative_scan(X, X),
        ["the first argument of associative_scan is not a function"],
    ),
    "no condition": (lambda: sj.while_loop(True, lambda x: x, X), ["the condition of while_loop is not a function"]),
    "no body": (lambda: sj.while_loop(lambda x: x.sum() < 1, X, X), ["the body of while_loop is not a function"]),
    "arguments": (
        lambda: scan(add, X, None, [W, 3.0]),
        ["does not take the arguments", "3 arguments: x[t], w, non_sequence 1", "add(a: ", "then the non_sequences"],
    ),
    "too few arguments": (lambda: scan(add, X), ["1 arguments: x[t]", "missing a required argument: 'h'"]),
    "strict": (
        lambda: scan(lambda a: a * W, X, strict=True),
        ["strict: the step uses 'w'", "<w: float64()>, made at ", "test_scan.py", "non_sequences"],
    ),
    "text as non_sequence": (lambda: scan(add, X, None, ["mode"]), ["non_sequence 0 is not a tensor"]),
    "None as non_sequence": (lambda: scan(add, X, None, [None]), ["non_sequence 0 is not a tensor"]),
    "truncate": (lambda: scan(identity, X, truncate_gradient=-2), ["truncate_gradient is a number of steps", "-2"]),
    "float truncate": (lambda: scan(identity, X, truncate_gradient=2.5), ["truncate_gradient", "2.5"]),
    "unroll": (lambda: scan(identity, X, unroll=0), ["unroll is a number of steps", "0"]),
    "backwards": (lambda: scan(identity, X, go_backwards="no"), ["go_backwards must be True or False", "'no'"]),
    "strict flag": (lambda: scan(identity, X, strict=None), ["strict must be True or False", "None"]),
    "list flag": (lambda: scan(identity, X, return_list=2), ["return_list must be True or False", "2"]),
    "last flag": (lambda: scan(add, X, W, return_last="no"), ["return_last must be True or False", "'no'"]),
    "updates flag": (lambda: scan(identity, X, return_updates=[]), ["return_updates must be True or False", "[]"]),
    "map backwards": (lambda: sj.map(identity, X, go_backwards="no"), ["go_backwards must be True or False"]),
    "reduce backwards": (lambda: reduce(add, X, W, go_backwards="no"), ["go_backwards must be True or False"]),
    "checkpoint": (lambda: scan(identity, X, checkpoint="cbrt"), ["checkpoint is unknown", "'cbrt'", "'sqrt'"]),
    "checkpoint 0": (lambda: scan(identity, X, checkpoint=0), ["checkpoint is unknown"]),
    "unroll of an unknown length": (
        lambda: scan(identity, X, unroll=True),
        ["unroll=True needs a number of steps that is known", "T steps", "sequence 0 ('x')", "unroll=4"],
    ),
    "unroll of unknown n_steps": (
        lambda: scan(lambda h: h, outputs_info=W, n_steps=N, unroll=True),
        ["unroll=True needs", "n steps, which come from n_steps"],
    ),
}


def kept_rows(a: Node) -> Node:
    from scanjit.loops import filter

    return filter(lambda v: v > a, TEN)


@pytest.mark.parametrize("case", ERRORS)
def test_words_and_place(case: str) -> None:
    call, words = ERRORS[case]
    with pytest.raises(ScanError) as caught:
        call()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    file, line = re.search(r"  at:       (.*):(\d+)$", text).groups()  # type: ignore[union-attr]
    assert file == __file__
    lines, _ = inspect.getsourcelines(call)
    functions = {f.__code__.co_firstlineno for f in (identity, add, nothing, unpack, kept_rows)}
    first = call.__code__.co_firstlineno
    assert int(line) in functions or first <= int(line) < first + max(len(lines), 4), text


def test_the_place_of_a_wrong_result_is_the_step() -> None:
    with pytest.raises(ScanError) as caught:
        foldl(unpack, X, W)
    assert caught.value.where == f"{__file__}:{unpack.__code__.co_firstlineno}"


@pytest.mark.parametrize(
    ("build", "env", "message"),
    [
        (lambda: scan(identity, X, n_steps=N), {X: np.zeros(10), N: 20}, "sequence 0 has 10 rows, the scan needs 20"),
        (lambda: scan(identity, X, n_steps=20), {X: np.zeros(10)}, "sequence 0 has 10 rows, the scan needs 20"),
        (
            lambda: scan(add, [dict(input=X, taps=[-2, 0])], n_steps=N, go_backwards=True),
            {X: np.zeros(3), N: 2},
            "sequence 0 has 3 rows, the scan needs 4",
        ),
        (lambda: scan(add, dict(input=X, taps=[-2, 0])), {X: np.zeros(1)}, "sequence 0 has 1 rows, the scan needs 2"),
        (
            lambda: scan(lambda a, b: a, [np.zeros(5), (X, X)], n_steps=N),
            {X: np.zeros(3), N: 4},
            "sequence 1[0] has 3 rows, the scan needs 4",
        ),
        (lambda: scan(identity, X, n_steps=N), {X: np.zeros(3), N: -1}, "n_steps is -1: a scan cannot run"),
        (lambda: scan(lambda h: h, outputs_info=W, n_steps=N), {W: 0.0, N: -3}, "n_steps is -3: a scan cannot run"),
        (
            lambda: scan(lambda h: h, outputs_info=dict(initial=X, taps=[-3]), n_steps=3),
            {X: np.zeros(2)},
            "output 0: initial holds 2 rows, taps [-3] need 3",
        ),
    ],
)
def test_sizes_that_are_known_only_when_it_runs(build: Any, env: dict[Node, Any], message: str) -> None:
    result = build()
    env = {node: np.asarray(value, node.dtype) for node, value in env.items()}
    with pytest.raises(ScanError, match=re.escape(message)) as caught:
        run(result, env)
    assert caught.value.where.startswith(__file__)


def test_errors_of_the_step_pass_through() -> None:
    def broken(a: Node) -> Node:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        scan(broken, X)


def test_a_dict_that_the_step_does_not_take_is_named() -> None:
    for sequence, state in ((X, dict(init=0.0)), (dict(inputs=X), 0.0)):
        with pytest.raises(TypeError) as caught:
            scan(lambda a, h: a * 2 + h * 2, sequence, [state])
        (note,) = caught.value.__notes__
        assert re.match(r"the step gets a dict of 'in\w+' .*only dict", note)
