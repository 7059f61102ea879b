"""Pictures: what is drawn are the numbers that were given, and what cannot be drawn is said."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like.training import History

pytest.importorskip("matplotlib")
from matplotlib import pyplot

TEXTS = ("a$b$", "$\\frac{$", "\\", "\0", "\ud800", "α", "<script>")


@pytest.fixture(autouse=True)
def closed() -> Any:
    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()  # all that is drawn can be drawn
    pyplot.close("all")


@pytest.fixture(scope="module")
def f() -> sj.CompiledFunction:
    x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    h = sj.scan(lambda row, h: sj.tanh(row + h @ w), x, np.zeros(3), name="$\\frac{$")
    f = sj.function([x, w], [h, sj.grad(h.sum(), w)], name="rnn$")
    sj.config.profile = True
    for _ in range(2):
        f(np.ones((50, 3)), np.eye(3))
    sj.config.profile = False
    return f


def test_profiles(f: sj.CompiledFunction) -> None:
    found = f.profile()
    for axes in (sj.plot.profile(found), sj.plot.profile(f)):
        measured, limits = ([bar.get_width() for bar in bars] for bars in axes.containers)
        lines = sorted(found.lines, key=lambda line: -line.seconds)
        np.testing.assert_allclose(measured, [line.seconds * 1e3 / 2 for line in lines])
        np.testing.assert_allclose(limits, [line.limit * 1e3 / 2 for line in lines])
        assert [label.get_text() for label in axes.get_yticklabels()] == [line.label for line in lines]
        assert axes.yaxis_inverted() and axes.get_xlabel() == "milliseconds a call"
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["measured", "limit of the machine"]


def test_profiles_of_many_statements(f: sj.CompiledFunction) -> None:
    line = type(f.profile().lines[0])
    lines = [line(f"statement {i}", 1, seconds=1.0 + i, limit=0.5) for i in range(100)]
    found = type(f.profile())("many", 1, 5050.0, 1, lines)
    axes = sj.plot.profile(found)
    widths = [bar.get_width() for bar in axes.containers[0]]
    assert len(widths) == 41 and sum(widths) == pytest.approx(5050e3)
    assert axes.get_yticklabels()[-1].get_text() == "60 others"


def test_functions_that_were_not_profiled(f: sj.CompiledFunction) -> None:
    x = sj.vector("x")
    with pytest.raises(sj.ArgumentError, match="no call of never was profiled"):
        sj.plot.profile(sj.function([x], x + 1, name="never"))
    with pytest.raises(sj.ArgumentError, match=r"the profile of a compiled function(.|\n)*f.function\(\*args\)"):
        sj.plot.profile(sj.jit(lambda x: x))  # type: ignore[arg-type]
    with pytest.raises(sj.ArgumentError, match="the profile of a compiled function"):
        sj.plot.profile("f")  # type: ignore[arg-type]


def test_memory(f: sj.CompiledFunction) -> None:
    found = f.memory(T=5000)
    for axes in (sj.plot.memory(found), sj.plot.memory(f, T=5000)):
        drawn = sorted((p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in axes.patches)
        given = [(t.first, t.offset / 1e6, t.last + 1 - t.first, t.nbytes / 1e6) for t in found.temporaries if t.nbytes]
        np.testing.assert_allclose(drawn, sorted(given))
        top = max(t.offset + t.nbytes for t in found.temporaries) / 1e6
        assert axes.lines[0].get_ydata()[0] == pytest.approx(top) and axes.get_ylim()[1] > top
        largest = max(found.temporaries, key=lambda t: t.nbytes)
        assert largest.name in [text.get_text() for text in axes.texts]
        assert axes.get_ylabel() == "place in the workspace, MB"
    x = sj.tensor(("N",), name="x")
    assert not sj.plot.memory(sj.function([x], x + 1, mode="emulate"), N=9).patches


def test_memory_that_is_not_known(f: sj.CompiledFunction) -> None:
    with pytest.raises(sj.ArgumentError, match=r"depends on sizes that are not given(.|\n)*T"):
        sj.plot.memory(f)
    with pytest.raises(sj.ArgumentError, match=r"sizes are for functions(.|\n)*T"):
        sj.plot.memory(f.memory(T=5), T=5)
    with pytest.raises(sj.ArgumentError, match="planned where it is compiled"):
        sj.plot.memory(sj.function([], sj.zeros(3), mode="reference"))
    with pytest.raises(sj.ArgumentError, match="the memory of a compiled function"):
        sj.plot.memory(3)  # type: ignore[arg-type]


def test_histories() -> None:
    history = History()
    for epoch in range(7):
        history.add(training=1 / (epoch + 1), **({"tested": 0.5} if epoch % 3 == 2 else {}))
    axes = sj.plot.history(history)
    training, tested = axes.lines
    np.testing.assert_array_equal(training.get_xdata(), range(1, 8))
    np.testing.assert_array_equal(training.get_ydata(), history["training"])
    np.testing.assert_array_equal(tested.get_xdata(), [3, 6])  # and a line from one to the other
    assert training.get_linestyle() != tested.get_linestyle() and training.get_marker() != tested.get_marker()
    assert axes.get_xlabel() == "epoch" and axes.get_ylabel() == "score"
    (line,) = sj.plot.history([3.0, 2.0]).lines
    np.testing.assert_array_equal(line.get_ydata(), [3, 2])
    axes = sj.plot.history({"loss": [1.0, np.inf, 0.5]})
    assert (
        axes.get_ylabel() == "loss"
        and list(axes.lines[0].get_xdata()) == [1, 3]
        and list(axes.lines[1].get_xdata()) == [2]
    )
    assert sj.plot.history({"loss": [np.nan]}).lines and sj.plot.history({"a": [], "b": [1]}).lines


@pytest.mark.parametrize("empty", [{}, [], History(), {"loss": []}])
def test_histories_without_an_epoch(empty: Any) -> None:
    with pytest.raises(sj.ArgumentError, match="a history without an epoch"):
        sj.plot.history(empty)


@pytest.mark.parametrize("wrong", [{"loss": ["low"]}, {"loss": 3}, [(1, 2), (3, 4)], None, {"loss": [[1], [2, 3]]}])
def test_histories_of_no_numbers(wrong: Any) -> None:
    with pytest.raises(sj.ArgumentError, match=r"the score 'loss' is no sequence of numbers"):
        sj.plot.history(wrong)


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "bool"])
def test_states(dtype: str) -> None:
    states = np.arange(12).reshape(4, 3).astype(dtype)
    axes = sj.plot.states(states)
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), states.T)
    assert axes.get_xlabel() == "step" and axes.get_ylabel() == "unit" and axes.get_title() == ""
    assert len(axes.figure.axes) == 2 and axes.figure.axes[1].get_ylabel() == "value"
    np.testing.assert_array_equal(sj.plot.states(states[:, 0]).images[0].get_array(), [states[:, 0]])


def test_several_states() -> None:
    """What `scan` returns for several states is a list of arrays: each is a row, or rows."""
    first, second = np.arange(4.0), np.arange(8).reshape(4, 2)
    axes = sj.plot.states([first, second])
    np.testing.assert_array_equal(axes.images[0].get_array(), [first, *second.T])
    axes = sj.plot.states({"$a": first, "b": second})
    np.testing.assert_array_equal(axes.images[0].get_array(), [first, *second.T])
    assert [label.get_text() for label in axes.get_yticklabels()] == [r"\$a", "b"]
    assert list(axes.get_yticks()) == [0, 1.5] and axes.get_ylabel() == "state"
    np.testing.assert_array_equal(
        sj.plot.states([[1, 2], [3, 4], [5, 6]]).images[0].get_array(), [[1, 3, 5], [2, 4, 6]]
    )
    for wrong in ([first, second[:3]], {"a": first, "b": first[:2]}, {}, []):
        with pytest.raises(sj.ArgumentError, match=r"same number of steps(.|\n)*(0|a): 4(.|\n)*: [23]|no state"):
            sj.plot.states(wrong)
    with pytest.raises(sj.ArgumentError, match=r"got:      float64\(4, 1, 2\)(.|\n)*one sequence of a batch"):
        sj.plot.states([first, np.zeros((4, 1, 2))])


def test_errors_of_symbols_that_matplotlib_is_given_name_the_users_line() -> None:
    x = sj.vector("x")
    series = sj.scan(lambda h: h / 2, outputs_info=1.0, n_steps=9)
    for y, advice in ((x, "call a compiled function"), (x[0], "compile it with"), (series, "compile it with")):
        with pytest.raises(sj.ArgumentError, match=rf"{advice}(.|\n)*test_plot.py:") as caught:
            pyplot.plot(y)
        shown = traceback.format_exception(caught.value)
        assert sum(line.startswith("  File ") for line in shown) == 2  # the line above, and what it called


def test_states_with_nan_and_infinity() -> None:
    states = np.arange(12.0).reshape(4, 3)
    states[2, 1], states[3, 0] = np.nan, -np.inf
    axes = sj.plot.states(states)
    np.testing.assert_array_equal(np.ma.getmaskarray(axes.images[0].get_array()), ~np.isfinite(states.T))
    assert axes.images[0].get_clim() == (0, 11) and axes.get_title().endswith("first in step 2")
    assert list(axes.lines[0].get_xdata()) == [2, 3]
    assert sj.plot.states(np.full((3, 2), np.nan)).get_title().endswith("step 0")


@pytest.mark.parametrize("shape", [(), (3, 2, 4), (0, 3), (3, 0)])
def test_states_of_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(sj.ArgumentError, match=r"of shape \(steps, units\)") as error:
        sj.plot.states(np.zeros(shape))
    assert ("states[:, 0]" in str(error.value)) == (len(shape) == 3) and str(shape) in str(error.value)


@pytest.mark.parametrize("wrong", [np.array(["a"]), np.zeros((2, 2), "complex64"), None, [[1], [2, 3]]])
def test_states_of_no_numbers(wrong: Any) -> None:
    with pytest.raises(sj.ArgumentError, match="the states of one sequence are drawn"):
        sj.plot.states(wrong)


def row(case: str, *passed: float) -> dict[str, Any]:
    times = {"scanjit": {"passed": passed}, "torch": {"passed": [9.0]}}
    return {"case": case, "kind": "forward", "sizes": {"T": 1000}, "dtype": "float32", "times": times}


def test_runs_of_benchmarks(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps({"rows": [row("LSTM", 4.0, 2.0, 3.0), row("GRU", 6.0), row("old", 1.0)]}))
    after.write_text(json.dumps({"rows": [row("GRU", 2.0), row("LSTM", 6.0), row("new", 1.0), row("failed")]}))
    axes = sj.plot.runs({"before": before, "after": str(after)})
    marks, one = axes.lines
    np.testing.assert_allclose(marks.get_xdata(), [0.5, 3.0])
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"{case}, forward: T=1,000, float32" for case in ("LSTM", "GRU")
    ]
    assert one.get_xdata() == [1, 1] and axes.get_xscale() == "log" and "before" in axes.get_xlabel()
    first, second, _ = sj.plot.runs({"a": {"x": 1.0, "y": 2.0}, "b": {"y": 1.0}, "c": {"x": 4, "y": 1}}).lines
    assert list(first.get_ydata()) == [1] and list(second.get_xdata()) == [0.25, 2.0]
    assert first.get_marker() != second.get_marker()


def test_what_benchmarks_write_can_be_drawn(tmp_path: Path) -> None:
    from benchmarks.measure import Row, Times
    from benchmarks.report import Report, save

    own = Row("LSTM", "lstm", "forward", "float32", {"T": 3}, None, "", False, {"scanjit": Times(0.0, 1.0, 1.0, [0.5])})
    save(Report(1, rows=[own]), str(tmp_path / "run.json"))
    axes = sj.plot.runs(dict.fromkeys(("before", "after"), tmp_path / "run.json"))
    assert list(axes.lines[0].get_xdata()) == [1.0]
    assert axes.get_yticklabels()[0].get_text() == own.title


def test_runs_that_cannot_be_compared(tmp_path: Path) -> None:
    for wrong in ({}, {"a": {"x": 1.0}}, ["a.json", "b.json"]):
        with pytest.raises(sj.ArgumentError, match=r"two runs or more(.|\n)*before.json"):
            sj.plot.runs(wrong)  # type: ignore[arg-type]
    with pytest.raises(sj.ArgumentError, match=r"no row of the run 'a' is in another run(.|\n)*x"):
        sj.plot.runs({"a": {"x": 1.0}, "b": {"y": 1.0}})
    for seconds in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(sj.ArgumentError, match=r"a row of the run 'b' has no time(.|\n)*x: "):
            sj.plot.runs({"a": {"x": 1.0}, "b": {"x": seconds}})
    with pytest.raises(sj.ArgumentError, match=r"the run 'b' is no file and no mapping(.|\n)*3"):
        sj.plot.runs({"a": {"x": 1.0}, "b": 3})
    other = tmp_path / "other.json"
    for text in (
        "",
        "[1]",
        "{}",
        '{"rows": [{}]}',
        '{"rows": 3}',
        '{"rows": [{"times": {"scanjit": {"passed": "x"}}}]}',
    ):
        other.write_text(text)
        with pytest.raises(sj.FormatError, match=r"no file of python -m benchmarks --json(.|\n)*other.json"):
            sj.plot.runs({"a": other, "b": other})
    with pytest.raises(FileNotFoundError):
        sj.plot.runs({"a": tmp_path / "none.json", "b": other})


DRAWN: dict[str, Any] = {
    "history": [1.0, 0.5],
    "states": np.zeros((3, 2)),
    "runs": {"a": {"x": 1.0}, "b": {"x": 2.0}},
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", [*DRAWN, "profile", "memory"])
def test_axes_of_your_own(name: str, f: sj.CompiledFunction) -> None:
    draw = getattr(sj.plot, name)
    given = {**DRAWN, "profile": f, "memory": f.memory(T=9)}[name]
    figure, (left, right) = pyplot.subplots(1, 2)
    assert draw(given, ax=right) is right and right.has_data() and not left.has_data()
    assert pyplot.get_fignums() == [figure.number]
    for wrong in (figure, np.array([left, right]), "ax"):
        with pytest.raises(sj.ArgumentError, match=rf"ax is no Axes(.|\n)*{type(wrong).__name__}"):
            draw(given, ax=wrong)
    assert pyplot.get_fignums() == [figure.number], "an error leaves no figure behind"
    assert draw(given) is not right and len(pyplot.get_fignums()) == 2


@pytest.mark.quick(3)
@pytest.mark.parametrize("text", TEXTS)
def test_any_text_can_be_drawn(text: str, f: sj.CompiledFunction, tmp_path: Path) -> None:
    found, memory = f.profile(), f.memory(T=1000)
    lines = [type(found.lines[0])(text, 1, 1.0, limit=0.5)]
    sj.plot.profile(type(found)(text, 1, 1.0, 1, lines)).figure.savefig(tmp_path / "profile.svg")
    temporaries = tuple(t._replace(name=text) for t in memory.temporaries)
    sj.plot.memory(type(memory)(10, 10, text, temporaries)).figure.savefig(tmp_path / "memory.svg")
    sj.plot.history({text: [1.0, 2.0]}).figure.savefig(tmp_path / "history.svg")
    sj.plot.runs({text: {text: 1.0}, text + "2": {text: 2.0}}).figure.savefig(tmp_path / "runs.svg")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pictures need matplotlib: pip install 'scanjit\[plot\]'"):
        sj.plot.history([1.0])
