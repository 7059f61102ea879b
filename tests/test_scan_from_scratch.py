"""The essay runs, and what its prose says of the engine that it builds is so."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import scanjit as sj


@pytest.fixture(scope="module")
def engine():
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).parent.parent / "docs" / "scan_from_scratch.py")))


def test_the_essay(engine, capsys):
    engine.main()  # asserts itself that derivatives of both orders are those of scanjit and of finite differences
    assert capsys.readouterr().out.count("agree") == 3


def test_equal_nodes_are_one_node(engine):
    x = engine.variable("T")
    assert np.tanh(x * 2.0) is np.tanh(x * 2) and np.tanh(x) is not np.tanh(x * 2)
    assert engine.variable("T") is not x


def test_what_does_not_change_is_computed_before_the_loop(engine):
    xs, scale, W = engine.variable("T", 2, 3), engine.variable(), engine.variable(3, 3)
    hs = engine.scan(lambda x, h: np.tanh(x + h @ (W * scale)), xs, engine.variable(2, 3))
    node = next(node for node in engine.walk([hs]) if node.op == "scan")
    assert W * scale in node.args and W not in node.args


def test_stacks_are_only_stored_if_somebody_reads_them(engine):
    xs, a = engine.variable("T"), engine.variable()
    hs = engine.scan(lambda x, h: np.tanh(x + a * h), xs, 0.0)
    total = hs.sum()
    stacks = lambda outputs: engine.function([xs, a], outputs).source.count("np.empty")
    assert stacks([total]) == 1
    assert stacks([total, *engine.grad(total, [a])]) == 2  # that, and what h was before each step
    assert stacks([total, *engine.grad(total, [a, xs])]) == 3


def test_errors(engine):
    xs, w = engine.variable("T", 2), engine.variable(3)
    with pytest.raises(TypeError, match=r"do not go together: \(2,\) and \(3,\)"):
        engine.scan(lambda x: x + w, xs, [None])
    with pytest.raises(TypeError, match=r"carry 0 is \(\) at first, and \(2,\) after a step"):
        engine.scan(lambda x, h: x + h, xs, 0.0)
    with pytest.raises(TypeError, match="1 variables are used that are no inputs"):
        engine.function([xs], [xs.sum() * w])
    both = engine.function([xs, engine.variable("T")], [xs.sum()])
    assert both(np.ones((3, 2)), np.ones(3)) == (6.0,)
    with pytest.raises(AssertionError):
        both(np.ones((3, 2)), np.ones(4))


def test_derivatives_of_third_order(engine):
    program = lambda scan, xs, a: scan(lambda x, h: np.tanh(x + a * h * h), xs, 0.5).sum()

    def third(scan, inputs, grad):
        result = program(scan, *inputs)
        for _ in range(3):
            (result,) = grad(result, [inputs[1]])
        return result

    ours = [engine.variable("T"), engine.variable()]
    theirs = [sj.vector(), sj.scalar()]
    values = np.linspace(-1, 1, 6), 0.7
    found = engine.function(ours, [third(engine.scan, ours, engine.grad)])(*values)[0]
    wanted = sj.function(theirs, third(sj.scan, theirs, sj.grad), mode="reference")(*values)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
