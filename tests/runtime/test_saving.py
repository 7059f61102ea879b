"""Functions in files: the same bits come back, without the defining code, and nothing else is ever taken for one."""

import contextlib
import functools
import gc
import io
import json
import os
import pickle
import random
import sys
import tracemalloc
import zipfile
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.ir import OPS
from scanjit.runtime import container, saving
from tests.saved import programs
from tests.scripts import python


@pytest.fixture
def again(tmp_path):
    """The function that comes back from a file."""

    def through(f, mode=None):
        f.save(tmp_path / "f.sj")
        return sj.load(tmp_path / "f.sj", mode)

    return through


def equal(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape and got.tobytes() == expected.tobytes()


# ---- what comes back -------------------------------------------------------------------------------------------------


def test_every_op_of_the_table_comes_back(again):
    _, symbols, outputs, _, values = programs.every_op()
    f = sj.function(symbols, outputs, mode="reference")
    g = again(f)
    used = {node.op.name for node in ir.walk(g.graph.roots)}
    inner = {
        n.op.name for node in ir.walk(g.graph.roots) if node.op.name == "scan" for n in node.params["body"].nodes()
    }
    here = {"complex", "guest", "guest_call"}  # complex numbers are saved in two parts, functions of users not at all
    assert used | inner | here == set(OPS), "some op is not tested here"
    with np.errstate(all="ignore"):
        for got, expected in zip(g(*values), f(*values), strict=True):
            equal(got, expected)


@pytest.mark.quick(3)
@pytest.mark.parametrize("case", list(programs.loops()), ids=lambda case: case[0])
def test_the_same_bits(again, case):
    name, symbols, outputs, updates, given = case
    mode = "reference" if name == "nested" else "emulate"
    f = sj.function(symbols, outputs, updates=updates, name=name, mode=mode)
    g = again(f)
    assert (g.name, g.mode) == (name, mode) and again(f, "reference").mode == "reference"
    for _ in range(2):  # what is drawn goes on, and so does what is updated
        for got, expected in zip(g(*given), f(*given), strict=True):
            equal(got, expected)


def test_the_same_bits_compiled(again):
    _, symbols, outputs, updates, given = next(programs.loops())
    f = sj.function(symbols, outputs, updates=updates)
    g = again(f)
    for got, expected in zip(g(*given), f(*given), strict=True):
        equal(got, expected)


def test_functions_of_jit(again):
    @sj.jit(mode="reference")
    def scaled(x, factor):
        return {"x": x * factor}

    g = again(scaled.function(np.zeros(3), 1.0))
    assert g(np.arange(3.0), 2.0)["x"].tolist() == [0, 2, 4]


def test_shared_variables_are_those_of_the_file(again):
    w, b = sj.shared([1.0, 2.0], "w", shape=(None,)), sj.shared(np.float32(3), "b")
    f = sj.function([], [w, b, w], updates={w: w * 2}, mode="reference")
    w.name = "renamed"
    f()
    g = again(f)
    assert [v.name for v in g.shared] == ["renamed", "b"] and not set(g.shared) & {w, b}
    assert [v.tolist() for v in g()] == [[2, 4], 3, [2, 4]] and g.shared[0].get_value().tolist() == [4, 8]
    assert w.get_value().tolist() == [2, 4]
    g.shared[0].set_value([1.0, 2.0, 3.0])
    total = sj.function([], g.shared[0].sum(), mode="reference")
    g()
    assert total() == 12
    with pytest.raises(sj.ShapeError):
        g.shared[1].set_value([1.0])


def test_what_symbols_have_in_common_is_pickled_once():
    x = sj.vector("x")
    y = functools.reduce(lambda y, k: sj.tanh(y) + k, map(float, range(1000)), x)
    h = sj.scan(lambda r, s: sj.tanh(r + s), y, 0.0)
    symbols = {k: h.sum() * k + y for k in range(50)}
    one, all_of_them = (len(pickle.dumps(some)) for some in ({1: symbols[1]}, symbols))
    assert all_of_them < 3 * one
    copied = pickle.loads(pickle.dumps([x, *symbols.values()]))
    before = sj.function([x], list(symbols.values()), mode="reference")([0.5, 1.0])
    after = sj.function([copied[0]], copied[1:], mode="reference")([0.5, 1.0])
    for found, wanted in zip(after, before, strict=True):
        equal(found, wanted)


@pytest.mark.quick(1)
@pytest.mark.parametrize("pickler", [pickle.Pickler, pickle._Pickler])
def test_a_deep_symbol_is_pickled_without_recursion(pickler):
    x = sj.scalar("x")
    y = functools.reduce(lambda y, k: sj.tanh(y) + k, map(float, range(4000)), x)
    y = sj.map(lambda r: r * y, sj.stack([x, y]))[-1]
    held = io.BytesIO()
    pickler(held).dump(y)
    copied = pickle.loads(held.getvalue())
    (origin,) = (node for node in ir.walk([copied]) if node.op is ir.INPUT)
    equal(sj.function([origin], copied, mode="reference")(0.5), sj.function([x], y, mode="reference")(0.5))


def test_a_stream_goes_on_in_new_functions_too(again):
    stream = sj.random.Stream(5)
    f = sj.function([], stream.uniform((3,)), mode="reference")
    f()
    g = again(again(f))
    equal(g(), f())
    count = sj.function([], g.shared[0][1], mode="reference")  # updates the state, as `function` does for streams
    assert (count(), count()) == (2, 3)
    (copied,) = pickle.loads(pickle.dumps([g]))
    equal(copied(), g())


Pair = namedtuple("Pair", "first second")


@dataclass
class State:
    """A structure of the user's."""

    h: object
    c: object


def test_structures(again):
    x = sj.scalar("x")
    outputs = {"a": (x, [x + 1, {3: x}]), "pair": Pair(x * 2, State(x * 3, x * 4)), "none": ()}
    g = again(sj.function([x], outputs, mode="reference"))
    got = g(1.0)
    assert got["a"] == (1, [2, {3: 1}]) and got["none"] == () and list(got) == ["a", "pair", "none"]
    assert repr(got["pair"]).startswith("Pair(first=") and got["pair"].second.c == 4
    assert again(sj.function([x], None, mode="reference"))(1.0) is None
    with pytest.raises(sj.NotSupportedError, match="keys"):
        again(sj.function([x], {(1, 2): x}, mode="reference"))


def test_places_of_the_definition_come_back(again):
    x = sj.tensor(("T", 3), name="x")
    f = sj.function([x], x + 1, mode="reference")
    assert again(f).graph.outputs[0].where == f.graph.outputs[0].where
    assert again(f).graph.inputs[0].type.shape[0] == x.type.shape[0], "named sizes join those of their name"


def test_another_process_loads_it(tmp_path):
    x = sj.tensor(("Rows", 2), name="x")
    sj.function([x], sj.scan(lambda row, h: h * 0.5 + row, x, sj.zeros(2))[-1], mode="reference").save(tmp_path / "f")
    code = f"import scanjit as sj; print(sj.load({str(tmp_path / 'f')!r})([[1, 2], [3, 4]]).tolist())"
    assert python(code).strip() == "[3.5, 5.0]"


def test_numpy_reads_the_arrays(tmp_path):
    w = sj.shared([1.0, 2.0], "w")
    sj.function([], w * 2, mode="reference").save(tmp_path / "f")
    assert np.load(tmp_path / "f", allow_pickle=False)["arrays/0"].tolist() == [1, 2]


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    x = sj.scalar("x")
    f, path = sj.function([x], x * 2, mode="reference"), tmp_path / "f"
    f.save(path)
    before = path.read_bytes()
    f.save(path)
    assert path.read_bytes() == before, "equal functions are equal files"

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(container.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        sj.function([x], x * 3, mode="reference").save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["f"]


def test_nothing_holds_the_bytes_after_an_error(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with pytest.raises(OSError, match=tmp_path.name):
        sj.function([], sj.constant(1.0), mode="reference").save(tmp_path)
    gc.collect()
    assert not told


def test_names_of_bytes(tmp_path):
    path = os.fsencode(tmp_path / "f")
    sj.function([], sj.constant(1.0), mode="reference").save(path)
    assert sj.load(path, "reference")() == 1.0


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """The path of a file with a loop, a product, sizes, draws and an update in it."""
    x, w, stream = sj.tensor(("T", None), name="x"), sj.shared(np.eye(2), "w"), sj.random.Stream(1)
    h = sj.scan(lambda row, h: np.tanh(row + h @ w), x, stream.uniform((2,)))
    cost = (h[x.shape[0] // 2 :] ** 2).sum()
    sj.function([x], {"cost": cost, "h": h}, updates={w: w - sj.grad(cost, w)}, mode="reference").save(tmp_path / "f")
    return tmp_path / "f"


def test_any_changed_byte_is_noticed(saved):
    data = saved.read_bytes()
    for i in [*range(0, len(data), 23), *range(len(data) - 120, len(data))]:
        changed = bytearray(data)
        changed[i] ^= 1 << i % 8
        saved.write_bytes(changed)
        with pytest.raises(sj.FormatError):
            sj.load(saved)


def test_any_cut_is_noticed(saved):
    data = saved.read_bytes()
    for n in [*range(0, len(data), 37), *range(len(data) - 90, len(data))]:
        saved.write_bytes(data[:n])
        with pytest.raises(sj.FormatError):
            sj.load(saved)
    saved.write_bytes(data + b"\0")
    with pytest.raises(sj.FormatError, match="not whole"):
        sj.load(saved)


def test_other_files(tmp_path):
    path = tmp_path / "other"
    np.savez(path.with_suffix(".npz"), x=np.zeros(3))
    for data in (b"", b"text", pickle.dumps(print), path.with_suffix(".npz").read_bytes()):
        path.write_bytes(data)
        with pytest.raises(sj.FormatError, match="no saved function"):
            sj.load(path)
    with pytest.raises(FileNotFoundError):
        sj.load(tmp_path / "missing")
    with pytest.raises(sj.ArgumentError, match="mode"):
        sj.load(path, "fast")


def test_a_newer_version_is_named(saved):
    content, arrays = container.read(saved)
    container.write(saved, {**content, "version": saving.VERSION + 1, "graph": "of another kind"}, arrays)
    with pytest.raises(sj.NotSupportedError, match="newer version"):
        sj.load(saved)


def node_of(content, op):
    return next(node for node in content["graph"]["nodes"] if node[0] == op)


def wrong_graphs():
    """Changes after which a file, checksum and all, holds no graph that could be run."""

    def change(op, k, value):
        return lambda content: node_of(content, op).__setitem__(k, value)

    def param(op, name, value):
        return lambda content: node_of(content, op)[2].__setitem__(name, value)

    yield "dtypes", param("random_uniform", "dtype", ["dtype", "float32"])
    yield "no dtype", param("random_uniform", "dtype", ["dtype", "object"])
    yield "arity", lambda content: node_of(content, "tanh")[1].append(0)
    yield "later", change("tanh", 1, [10**6])
    yield "negative", change("tanh", 1, [-1])
    yield (
        "itself",
        lambda content: change("tanh", 1, [content["graph"]["nodes"].index(node_of(content, "tanh"))])(content),
    )
    yield "op", change("tanh", 0, "system")
    yield "parameter", param("tanh", "dtype", ["dtype", "float64"])
    yield "missing", change("contract", 2, {})
    yield "labels", param("contract", "out", ["tuple", 1, 1])
    yield "carries", param("scan", "carries", -1)
    yield "body", param("scan", "body", ["graph", [], []])
    yield "until", param("scan", "until", True)
    yield "huge", param("iota", "length", 2**63)
    yield "negative size", param("iota", "length", -3)
    yield "format", param("slice", "start", ["tuple", "{left:>999999999999}", 0])
    yield "kind", param("iota", "length", ["__class__", []])
    yield "inputs", lambda content: content.update(inputs=2)
    yield (
        "input twice",
        lambda content: (
            content.update(inputs=2),
            content["graph"]["roots"].insert(0, content["graph"]["roots"][0]),
        ),
    )
    yield "tree", lambda content: content.update(tree=["named", ["value", "value"], ["a b", "import os"], "X"])
    yield "keys", lambda content: content.update(tree=["dict", ["value", "value"], ["a", "a"]])
    yield "update", lambda content: content["graph"]["roots"].__setitem__(3, content["graph"]["roots"][1])
    yield "updated twice", lambda content: content.update(updated=[0, 0])
    yield "mode", lambda content: content.update(mode="eval")
    yield "array", lambda content: content["shared"][0].update(value=99)
    yield "deep", lambda content: content.update(tree=json.loads("[" * 900 + "]" * 900))
    yield (
        "loose input of a loop",
        lambda content: content["graph"]["roots"].__setitem__(
            1, content["graph"]["nodes"].index(node_of(content, "bound"))
        ),
    )


@pytest.mark.parametrize("name, change", list(wrong_graphs()))
def test_wrong_graphs_are_refused(saved, name, change):
    content, arrays = container.read(saved)
    change(content)
    container.write(saved, content, arrays)
    with pytest.raises((sj.FormatError, sj.NotSupportedError)):
        sj.load(saved)


def test_formats_in_errors_do_what_they_should(saved):
    """The text of an `expect` goes through `str.format`, where a field could ask for attributes and much memory."""
    x = sj.tensor(("T",), name="x")
    expected = OPS["expect"](x, bounds=((3, x.type.shape[0], "{left} {right}"),))
    sj.function([x], expected, mode="reference").save(saved)
    for text in ("{left:>99999999999}", "{left.__class__}", "{right!r}", "{0}"):
        content, arrays = container.read(saved)
        node_of(content, "expect")[2]["bounds"][1][3] = text
        container.write(saved.with_suffix(".bad"), content, arrays)
        with pytest.raises(sj.FormatError):
            sj.load(saved.with_suffix(".bad"))


def test_names_are_no_code_and_no_formats(saved):
    content, arrays = container.read(saved)
    mark = saved.with_suffix(".mark")
    evil = f"x):\n    open({str(mark)!r}, 'w')\ndef y(z=open({str(mark)!r}, 'w')"
    content.update(name=evil, sizes=[f"{evil}{i}" for i in range(len(content["sizes"]))])
    content["graph"]["places"] = [evil] * len(content["graph"]["places"])
    for data in content["shared"]:
        data.update(name=evil, place=evil)
    for node in content["graph"]["nodes"]:
        if node[2].get("name"):
            node[2]["name"] = evil
    container.write(saved, content, arrays)
    assert sj.load(saved, "emulate")(np.ones((3, 2)))["h"].shape == (3, 2) and not mark.exists()
    hostile = "{left:>99999999999}{left.__class__}"
    content["sizes"] = [f"{hostile}{i}" for i in range(len(content["sizes"]))]
    node_of(content, "input")[2]["name"] = hostile
    container.write(saved, content, arrays)
    assert sj.load(saved, "reference")(np.ones((3, 2)))["h"].shape == (3, 2)


def test_random_changes_never_do_more_than_raise(saved):
    """Whatever a file says: it is refused, or it holds a graph that builds and runs, to an error at worst."""
    content, arrays = container.read(saved)
    text, chosen, loaded = json.dumps(content), random.Random(0), 0
    for _ in range(120):
        changed = json.loads(text)
        for _ in range(chosen.randint(1, 2)):
            vary(changed, chosen)
        container.write(saved, changed, arrays)
        try:
            g = sj.load(saved)
        except (sj.FormatError, sj.NotSupportedError):
            continue
        loaded += 1
        with np.errstate(all="ignore"), contextlib.suppress(sj.ScanjitError):
            g(np.ones((3, 2)))
    assert loaded > 5


def vary(content, chosen):
    """Change one thing somewhere in nested lists and dicts."""
    here = content
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = chosen.choice(keys)
        if not isinstance(here[key], dict | list) or chosen.random() < 0.05:
            break
        here = here[key]
    others = [
        None,
        True,
        -1,
        0,
        1,
        2,
        3,
        10**30,
        2**40,
        0.5,
        "x",
        "float32",
        "mul",
        [],
        {},
        ["tuple", 1, 0],
        ["size", 0],
    ]
    here[key] = chosen.choice(others)


def test_arrays_are_no_objects_and_not_larger_than_the_file(saved):
    content, arrays = container.read(saved)
    with pytest.raises(ValueError, match="pickle"):
        container.write(saved, content, [np.array([print], object)])

    def header(shape, descr="<f8"):
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": descr})
        return file.getvalue()

    bad = [header((10**13,)) + bytes(8), header((-1,)) + bytes(8), header((2,), "|O") + pickle.dumps([1, 2]), b""]
    for array in bad:
        rewrite(saved, content, [array] * len(arrays))
        tracemalloc.start()
        with pytest.raises(sj.FormatError):
            sj.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 10**7
        tracemalloc.stop()


def test_compressed_entries_are_refused(saved):
    content, _ = container.read(saved)
    rewrite(saved, content, [bytes(10**7)], zipfile.ZIP_DEFLATED)
    with pytest.raises(sj.FormatError, match="compressed"):
        sj.load(saved)


def rewrite(path, content, arrays, method=zipfile.ZIP_STORED):
    """A file with entries of one's own, and a checksum that is right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("scanjit-function.json", json.dumps(content))
        for i, data in enumerate(arrays):
            archive.writestr(f"arrays/{i}.npy", data)
        archive.comment = container._COMMENT + b"0" * 64
    data = file.getvalue()[:-64]
    path.write_bytes(data + container.hashlib.sha256(data).hexdigest().encode())
