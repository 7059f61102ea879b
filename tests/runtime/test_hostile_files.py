"""Small saved functions, checksum and all, that ask for what never ends or fits no memory: bounded, or refused."""

import copy
import json
import tracemalloc

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops.scan import MOST_UNROLLED
from scanjit.runtime import container


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file's content and arrays: loops inside each other, of a known and of an unknown number of steps; constants."""
    x, w = sj.tensor(("T", 3), name="x"), sj.shared(np.eye(3), "w")
    h = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros(3), unroll=4, checkpoint=2, name="rnn")
    count = sj.scan(lambda h: h * 0.5, outputs_info=1.0, n_steps=7, name="count", unroll=True)
    inner = sj.scan(lambda row, total: total + sj.scan(lambda v, a: a * 0.5 + v, row, sj.constant(0.0))[-1], x, 0.0)
    outputs = [h, count, inner, x + sj.ones((4, 1, 3)), sj.arange(9) * 2, x @ sj.constant(np.arange(6.0).reshape(3, 2))]
    path = tmp_path_factory.mktemp("saved") / "f"
    sj.function([x], outputs, mode="reference").save(path)
    return container.read(path)


def loaded(tmp_path, content, arrays, mode="emulate"):
    container.write(tmp_path / "f", content, arrays)
    return sj.load(tmp_path / "f", mode)


def scans(content):
    return [node for node in content["graph"]["nodes"] if node[0] == "scan"]


def numbers(data, path=()):
    """The paths of all integers."""
    if type(data) is int:
        yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from numbers(value, (*path, key))


def test_no_number_makes_it_endless(whole, tmp_path):
    """Any number in a file replaced by a large one: it is refused, or the code that is generated is no longer."""
    content, arrays = whole
    text = json.dumps(content)
    usual = len(loaded(tmp_path, content, arrays).source)
    accepted = 0
    for i, path in enumerate(numbers(content["graph"])):
        changed = json.loads(text)
        *place, last = path
        inside = changed["graph"]
        for key in place:
            inside = inside[key]
        inside[last] = (10**6, 2**40, 2**62)[i % 3]
        try:
            f = loaded(tmp_path, changed, arrays)
        except sj.ScanjitError:
            continue
        accepted += 1
        assert len(f.source) < 3 * usual, path
    assert accepted > 5


@pytest.mark.parametrize("unroll", [MOST_UNROLLED + 1, 10**6, 2**62])
def test_more_copies_of_a_step_than_make_sense(whole, tmp_path, unroll):
    content, arrays = copy.deepcopy(whole)
    scans(content)[0][2]["unroll"] = unroll
    with pytest.raises(sj.FormatError, match=f"(?s)unroll of scan is not what it may be.*{unroll}"):
        loaded(tmp_path, content, arrays)
    with pytest.raises(sj.ScanError, match=f"(?s)unroll={unroll} would write the step {unroll} times.*at most 1024"):
        sj.scan(lambda h: h + 1, outputs_info=0.0, n_steps=sj.lscalar(), unroll=unroll)


def test_all_steps_of_a_long_loop_are_a_loop_over_stretches(rng):
    given = rng.normal(size=(MOST_UNROLLED + 3, 2, 3)), rng.normal(size=(3, 3)) * 0.3

    def made(length, mode):
        x, w = sj.tensor((length, 2, 3)), sj.tensor((3, 3))
        h = sj.scan(lambda row, h: np.tanh(row + h @ w), x, sj.zeros((2, 3)), unroll=True)
        return sj.function([x, w], [h, sj.grad((h**2).sum(), w)], mode=mode)

    for got, expected in zip(
        made(len(given[0]), "emulate")(*given), made(len(given[0]), "reference")(*given), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-10)
    assert len(made(10**9, "emulate").source) < 1.1 * len(made(MOST_UNROLLED + 3, "emulate").source)


def test_copies_of_a_large_step_are_few():
    def made(operations):
        def step(h):
            for k in range(operations):
                h = np.tanh(h + k)
            return h

        return sj.function([], sj.scan(step, outputs_info=0.5, n_steps=10**6, unroll=True), mode="emulate")

    assert len(made(100).source.splitlines()) < 12_000


def test_loops_that_hold_each_other_again_and_again(whole, tmp_path):
    """Each of 30 bodies runs the one before twice: 2**30 loops in a file of some kilobytes."""
    x = sj.vector("x")

    def outer(row, h, x):
        return sj.scan(lambda v, a: np.tanh(v + a), x, h)[-1] + row

    f = sj.function([x], sj.scan(outer, x, sj.constant(0.0), x), mode="reference")
    f.save(tmp_path / "f")
    content, arrays = container.read(tmp_path / "f")
    nodes = content["graph"]["nodes"]
    last = max(i for i, node in enumerate(nodes) if node[0] == "scan")
    params = nodes[last][2]
    inputs = params["body"][1]
    state, fixed = inputs[0], inputs[-1]
    start = nodes[last][1][0]
    for depth in (3, 30):
        made, body = nodes[:last], ["graph", inputs, params["body"][2][:1]]
        for _ in range(depth):
            first = len(made)
            for before in (state, first + 1):
                made.append(["scan", [before, fixed, fixed], params | {"body": body}, 0])
                made.append(["part", [len(made) - 1], {"index": 0}, 0])
            body = ["graph", inputs, [first + 3]]
        made.append(["scan", [start, 0, 0], params | {"body": body}, 0])
        made.append(["part", [len(made) - 1], {"index": 0}, 0])
        changed = copy.deepcopy(content)
        changed["graph"] |= {"nodes": made, "roots": [0, len(made) - 1]}
        if depth == 3:
            assert loaded(tmp_path, changed, arrays, "reference")(np.zeros(2)).shape == ()
        else:
            with pytest.raises(sj.FormatError, match=r"(?s)hold more nodes than they may.*expected: [0-9]{4,5}\b"):
                loaded(tmp_path, changed, arrays, "reference")


def test_an_array_that_is_asked_for_again_and_again_is_there_once(tmp_path):
    x = sj.vector("x")
    f = sj.function([x], [x + sj.constant(np.arange(100_000.0))], mode="reference")
    f.save(tmp_path / "f")
    content, arrays = container.read(tmp_path / "f")
    nodes = content["graph"]["nodes"]
    constant = next(node for node in nodes if node[0] == "constant")
    for _ in range(300):
        nodes += [constant, ["add", [len(nodes) - 1, len(nodes)], {}, 0]]
    content["graph"]["roots"][1] = len(nodes) - 1
    container.write(tmp_path / "f", content, arrays)
    tracemalloc.start()
    try:
        sj.load(tmp_path / "f", "reference")
        assert tracemalloc.get_traced_memory()[1] < 10 * (tmp_path / "f").stat().st_size
    finally:
        tracemalloc.stop()
    w, v = sj.shared(np.zeros(9), "w"), sj.shared(np.zeros(9), "v")
    sj.function([], w + v, mode="reference").save(tmp_path / "f")
    content, arrays = container.read(tmp_path / "f")
    content["shared"][1]["value"] = content["shared"][0]["value"]
    with pytest.raises(sj.FormatError, match="two shared variables of a saved function have one array"):
        loaded(tmp_path, content, arrays)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_results_that_are_nested_without_end(whole, tmp_path, monkeypatch, depth):
    content, arrays = whole
    nested = '["list",[' * depth + '"value"' + "]]" * depth
    text = json.dumps(content | {"tree": "nested"}).replace('"nested"', nested)
    monkeypatch.setattr(json, "dumps", lambda content, **options: text)
    with pytest.raises(sj.FormatError):
        loaded(tmp_path, content, arrays)


def test_long_texts(whole, tmp_path):
    """A name of a size stands in the text of each of its conditions."""
    content, arrays = copy.deepcopy(whole)
    content["name"] = "x" * 5000
    with pytest.raises(sj.FormatError, match="longer than it may be"):
        loaded(tmp_path, content, arrays)
    x, w = sj.vector("x"), sj.shared(1.0, "w" * 5000)
    for f in (
        sj.function([x], x, name="f" * 5000, mode="reference"),
        sj.function([sj.vector("x" * 5000)], w, mode="reference"),
        sj.function([sj.tensor(("n" * 5000,), name="x")], 2, mode="reference"),
    ):
        with pytest.raises(sj.NotSupportedError, match="5000 characters"):
            f.save(tmp_path / "g")


def test_powers_of_powers_of_sizes(tmp_path):
    """Functions of sizes that are read as the product of two others: each would be twice as long as the one before."""
    x = sj.tensor(("n",), name="x")
    f = sj.function([x], x[1:], mode="reference")
    f.save(tmp_path / "f")
    content, arrays = container.read(tmp_path / "f")
    calls = content["graph"]["calls"]
    (node,) = (node for node in content["graph"]["nodes"] if node[0] == "slice")
    node[2]["length"] = ["tuple", ["dim", [[["call", len(calls) + 60]], 1]]]
    calls.append(["min", *content["graph"]["nodes"][0][2]["type"][2:], 3])
    for _ in range(60):
        last = ["call", len(calls) - 1]
        calls.append(["//", ["dim", [[last, last], 2]], 2])
    with pytest.raises(sj.NotSupportedError, match="a product of sizes has too many terms"):
        loaded(tmp_path, content, arrays)
