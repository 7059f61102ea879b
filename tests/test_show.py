"""Formulas, listings and drawings of graphs."""

import io
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import scanjit as sj
from scanjit.show import svg

x, y, z = (sj.tensor(("N", "N"), name=name) for name in "xyz")
v = sj.tensor(("N",), name="v")


@pytest.mark.parametrize(
    "text",
    [
        "x + y * z",
        "(x + y) * z",
        "x - (y - z)",
        "x - y - z",
        "x / (y * z)",
        "x / y / z",
        "-x ** y",
        "(-x) ** y",
        "x ** -y",
        "x ** y ** z",
        "(x ** y) ** z",
        "-(x + y)",
        "x * -y",
        "(x < y) & (y <= z)",
        "(x + y < z) | (x == y)",
        "x @ y",
        "x @ y.T",
        "x.T @ (y @ z)",
        "x @ y @ v",
        "(x + y) @ v",
        "v @ v",
        "x * 2.0 + 1.5",
        "x ** 2.5",
        "x * -1.5",
        "x[1:3]",
        "x[:, 2:]",
        "x[::-1]",
        "(x + y)[1:]",
        "x.T",
        "v[None]",
        "v[:, None]",
        "x[0]",
        "x[-1]",
        "x[:, 2]",
        "x[:-1]",
        "x[1::2]",
        "x[:3]",
        "x // y % z",
    ],
)
def test_formulas_are_python_with_few_parentheses(text):
    node = eval(text)
    assert sj.pprint(node) == text
    assert eval(sj.pprint(node)) is node, "the formula means the node"


def test_formulas_of_calls():
    assert sj.pprint(np.tanh(x + y)) == "tanh(x + y)"
    assert sj.pprint(sj.specify_shape(x, x.shape) + y) == "x + y"
    assert sj.pprint(x.sum()) == "sum(x)"
    assert sj.pprint(x.sum(0)) == "sum(x, axis=0)"
    assert sj.pprint(sj.where(x > 0.0, x, y)) == "where(x > 0.0, x, y)"
    assert sj.pprint(x.astype("float32")) == "float32(x)"
    assert sj.pprint(x.shape[0] + v.sum()) == "float64(N) + sum(v)"
    assert sj.pprint(v.reshape(1, -1)) in ("v.reshape(1, N)", "v[None]")
    assert sj.pprint(sj.shared(1.0, "w") * 2.0) == "w * 2.0"
    assert sj.pprint(sj.constant([1.0, 2.0])) == "[1.0, 2.0]"
    assert sj.pprint(sj.concatenate([v, v])) == "concatenate([v, v])"


def test_formulas_of_leaves_without_names():
    a, b = sj.vector(), sj.vector()
    assert sj.pprint(a + b + a) == "x + x1 + x"
    assert sj.pprint(a + sj.vector("x")) == "x1 + x"


def test_formulas_of_scans():
    a, h = sj.scalar("a"), sj.scalar("h0")
    states = sj.scan(lambda v, h: a * h + v, v, h)
    assert sj.pprint(states) == "scan{t < N: h <- a * h + v[t] from h0; y <- h'}[1]"
    nested = sj.scan(lambda row: sj.scan(lambda e, h: h + e, row, sj.constant(0.0))[-1], x)
    text = sj.pprint(nested)
    assert "x[t][s]" in text and "scan{t < N: y <- scan{s < N: " in text


def test_very_long_formulas_are_cut_short():
    node = x
    for _ in range(60):
        node = node * node + node
    assert len(sj.pprint(node)) < 100_000 and "..." in sj.pprint(node)
    for _ in range(3000):
        node = node + 1.0
    assert sj.pprint(node)


def test_listings_name_each_node_once():
    shared_part = np.tanh(x @ y)
    text = sj.dprint(shared_part * shared_part + x, file="str")
    assert text.splitlines() == [
        "%0: float64(N, N) = input 'x'",
        "%1: float64(N, N) = input 'y'",
        "%2: float64(N, N) = contract %0 %1 {left=(0, 1), right=(1, 2), out=(0, 2)}",
        "%3: float64(N, N) = tanh %2",
        "%4: float64(N, N) = mul %3 %3",
        "%5: float64(N, N) = add %4 %0",
        "return %5",
    ]


def test_listings_indent_bodies_and_print_them_once():
    step = lambda v, h: h * 0.5 + v
    one, two = sj.scan(step, v, sj.constant(0.0)), sj.scan(step, 2 * v, sj.constant(1.0))
    text = sj.dprint([one, two], file="str")
    assert "  | " in text and "carry 0" in text and "row 0" in text and "; emit %" in text
    assert text.count("  | the body of %") == 1
    assert "truncate" not in text and "carries" not in text
    assert "truncate=3" in sj.dprint(sj.scan(step, v, sj.constant(0.0), truncate_gradient=3), file="str")


def test_loops_by_their_names():
    inner = lambda row: sj.scan(lambda e, h: h * e, row, sj.constant(1.0), name="inner")[-1]
    total = sj.scan(lambda row, h: h + inner(row), x, sj.constant(0.0), name="outer")[-1]
    f = sj.function([x], [total, sj.grad(total, x)], mode="reference")
    text = sj.dprint(f, "str", loop="outer")
    assert text.startswith("scan {length=N, name=outer}\n  | %0: float64() = carry 0")
    assert "name=inner}\n  |   | " in text
    assert sj.dprint(f, "str", loop="inner").count("scan {") == 2, "the gradient has one that keeps its carry"
    assert "reverse=True, name=outer.grad" in sj.dprint(f, "str", loop="outer.grad")
    assert sj.dprint([total], "str", loop="inner").endswith("carry %2; emit %2\n")
    with pytest.raises(sj.ArgumentError, match=r"one of outer, .*inner"):
        sj.dprint(f, loop="other")
    with pytest.raises(sj.ArgumentError, match="a graph with loops"):
        sj.dprint(x + y, loop="outer")


def test_listings_of_functions_with_places_and_files(capsys):
    w = sj.shared(1.0, "w")
    f = sj.function([v], [v * w, v.sum()], updates={w: w + 1}, name="f", mode="reference")
    assert sj.dprint(f) is None
    printed = capsys.readouterr().out
    assert printed.startswith("<f(v: float64(N))") and "shared 'w'" in printed and "update w = %" in printed
    file = io.StringIO()
    sj.dprint(f, file=file)
    assert file.getvalue() == printed
    assert __file__ in sj.dprint(f, file="str", locations=True)
    assert sj.dprint(w, file="str").startswith("%0: float64() = shared 'w'")


def test_what_cannot_be_shown():
    with pytest.raises(sj.ArgumentError, match="no graph to show"):
        sj.dprint(3)
    with pytest.raises(sj.ArgumentError, match="one expression"):
        sj.pprint([x, y])


def test_drawings():
    node = sj.scan(lambda v, h: h * 0.5 + v, v, sj.constant(0.0)) * 2.0
    root = ElementTree.fromstring(node._repr_svg_())
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "v" in texts and "mul" in texts and any(t.startswith("scan, ") for t in texts)
    lines = [element for element in root.iter() if element.tag.endswith("line")]
    assert lines and all(float(line.get("y1")) < float(line.get("y2")) for line in lines), "arguments are above"


def test_drawings_are_limited():
    node = v
    for k in range(200):
        node = np.tanh(node) * float(k)
    text = svg(node)
    assert "more nodes" in text and text.count("<rect") <= 60
    ElementTree.fromstring(text)


STAGES = ("graph", "rewritten", "nests", "blocks", "source", "assembly")


def recurrence():
    """A product in each step of a loop: it has statements of every usual kind."""
    rows, m = sj.tensor(("T", "B", 8), "float32", "rows"), sj.tensor((8, 8), "float32", "m")
    h = sj.scan(lambda row, h: np.tanh(h @ m + row @ m), rows, sj.zeros((rows.shape[1], 8), "float32"), name="net")
    return [rows, m], h


def test_each_stage_of_a_function():
    leaves, h = recurrence()
    f = sj.function(leaves, h, name="net", mode="reference")
    shown = {stage: sj.dprint(f, "str", stage=stage) for stage in STAGES[:-1]}
    assert shown["graph"] == sj.dprint(f, "str") and "scan" in shown["graph"]
    assert "contract" in shown["rewritten"].split("scan")[0], "one product has left the loop"
    assert "for step from 0 to T, row = step:" in shown["nests"]
    assert "blocks" not in shown["nests"] and "lanes" not in shown["nests"]
    for line in ("pack m", "for blocks of ", "for step from first to first + rows", "lanes along i1", "return carry"):
        assert line in shown["blocks"], line
    assert shown["source"] == sj.function(leaves, h, name="net", mode="emulate").source
    assert sj.dprint(sj.function(leaves, h, mode="emulate"), "str", stage="blocks") == shown["blocks"], "stable names"


def test_machine_code_is_the_last_stage():
    f = sj.function([x], x + 1)
    assert sj.dprint(f, "str", stage="assembly") == f.inspect_asm() != ""


def test_stages_of_expressions():
    assert "output add: float64(N, N)" in sj.dprint([x + y], "str", stage="nests")
    assert "def add" in sj.dprint(x + y, "str", stage="source")
    h = sj.scan(lambda row, h: h + row, v, sj.constant(0.0), name="sums")
    assert "carry" in sj.dprint(h, "str", stage="rewritten", loop="sums")


def test_every_kind_of_statement_is_printed():
    leaves, h = recurrence()
    other = sj.scan(
        lambda row, h: np.tanh(h @ leaves[1] - row), leaves[0], sj.zeros((leaves[0].shape[1], 8), "float32")
    )
    text = sj.dprint(sj.function(leaves, [h, other], mode="emulate"), "str", stage="blocks")
    assert "side by side" in text and text.count("branch:") == 2
    text = sj.dprint(sj.ifelse(v.sum() > 0, lambda: np.exp(v), lambda: -v), "str", stage="blocks")
    assert "is not 0:" in text and "\nelse:\n" in text
    ids = sj.tensor(("K",), "int64", "ids")
    text = sj.dprint(sj.grad((v[ids] ** 2).sum(), v), "str", stage="blocks")
    assert "index(" in text and " += " in text
    spd = x @ x.T
    assert "call cholesky of in place cholesky" in sj.dprint(np.linalg.cholesky(spd), "str", stage="blocks")
    text = sj.dprint(sj.scan(lambda row, h: (h + row, sj.until(h > 3.0)), v, sj.constant(0.0)), "str", stage="blocks")
    assert "stop if stop[0] is ran" in text
    text = sj.dprint(sj.scan(lambda row, h: sj.tanh(h) * row, v, sj.constant(0.0)), "str", stage="blocks")
    assert "for t < N:" in text and "r0 = tanh(r0) * v[t]" in text


def test_stages_that_there_are_not():
    with pytest.raises(
        sj.ArgumentError, match=r"the stage is unknown(.|\n)*'tiles'(.|\n)*one of graph, rewritten, nests, blocks"
    ):
        sj.dprint(x, stage="tiles")
    with pytest.raises(sj.ArgumentError, match="loop and locations can be shown of graphs only"):
        sj.dprint(x, stage="nests", loop="rnn")
    with pytest.raises(sj.ArgumentError, match="loop and locations can be shown of graphs only"):
        sj.dprint(x, stage="source", locations=True)
    summed = sj.scan(lambda row, h: h + row, v, sj.constant(0.0))[1:]
    with pytest.raises(sj.ArgumentError, match=r"compiled by itself(.|\n)*show a function of all inputs"):
        sj.dprint(sj.zeros(v.shape[0]), stage="nests")
    assert sj.dprint(summed, "str", stage="nests")
