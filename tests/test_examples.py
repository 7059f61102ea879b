"""The examples run, small."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_fit_recurrence(mode, capsys):
    main = runpy.run_path(str(EXAMPLES / "fit_recurrence.py"))["main"]
    main(["--steps", "small", "--mode", mode])  # asserts itself that it finds the parameters
    printed = capsys.readouterr().out
    assert "descend" in printed and "stiffness" in printed and "ms" in printed


def test_any_number_of_steps(capsys):
    main = runpy.run_path(str(EXAMPLES / "fit_recurrence.py"))["main"]
    main(["--steps", "1", "--mode", "reference"])
    assert "in 1 steps" in capsys.readouterr().out


def test_the_code_of_the_readme():
    blocks = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    data = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 5.0]])  # what the reader of the last block has
    names = {
        "sj": sj,
        "misfit": lambda level, y: ((y - level[0]) ** 2).sum(),
        "starts": np.zeros((2, 1)),
        "series": data,
    }
    names |= {"f": sj.jit(lambda y: y.sum()), "parts": list(data), "client": None}
    for block in blocks:
        exec(block, names)
    h, total, carried = 0.0, 0.0, 0.0
    for _ in range(100_000):  # the same by hand: carried is dh/da
        new = np.tanh(1.0 + 0.5 * h)
        carried = (1 - new**2) * (h + 0.5 * carried)
        h = new
        total += 2 * h * carried / 100_000
    np.testing.assert_allclose(names["slope"], total)
    np.testing.assert_allclose(names["fits"].x[:, 0], data.mean(axis=1))
    assert names["results"] == [6.0, 9.0]


@pytest.fixture
def example(read_example):
    """The main function of an example."""
    return lambda name: read_example(name).main


def test_char_rnn(example, tmp_path, capsys):
    main = example("char_rnn")
    file = str(tmp_path / "rhymes.npz")
    trained = main(["--steps", "small", "--no-progress", "--save", file])
    assert "loss per character" in capsys.readouterr().out
    assert main(["--load", file, "--steps", "small"]) == trained
    assert len(capsys.readouterr().out.splitlines()[-1]) <= 31  # what it wrote


def test_char_rnn_says_what_is_wrong_with_a_text(example, tmp_path):
    """Before it learns anything."""
    main = example("char_rnn")
    file = tmp_path / "text.txt"
    for content, message in [
        (b"", "has 0 characters: too few to learn from, it takes 640"),
        (b"a few words", "has 11 characters"),
        ("naïve ".encode("latin-1") * 200, "is no text in UTF-8: byte 2 does not fit"),
    ]:
        file.write_bytes(content)
        with pytest.raises(SystemExit, match=f"text.txt {message}"):
            main([str(file), "--steps", "small"])
    with pytest.raises(SystemExit, match=r"cannot read .*missing.txt"):
        main([str(tmp_path / "missing.txt")])
    file.write_text("größer als 日本語 🙂\n" * 60, encoding="utf-8")
    with pytest.raises(SystemExit, match="not in the text that was learned from: 'Q' 'q'"):
        main([str(file), "--steps", "small", "--begin", "gqQr"])
    with pytest.raises(SystemExit):
        main(["--steps", "small", "--save", str(tmp_path / "missing" / "file.npz")])


def test_numbers_of_characters_and_a_loss_in_windows(example):
    program = example("char_rnn").__globals__
    text = "größer als 日本語 🙂"
    alphabet = sorted(set(text))
    numbers = program["encode"](text, alphabet)
    assert "".join(alphabet[i] for i in numbers) == text
    calls = []

    def evaluate(x, following):
        assert (following[:, :-1] == x[:, 1:]).all()
        calls.append(x.shape)
        return x.mean()

    loss = program["loss_of_text"](evaluate, np.arange(23), window=5, batch=3)
    assert calls == [(3, 5), (1, 5)]
    assert loss == np.arange(20).mean()


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", ["adding_problem", "sequence_labelling", "timeseries", "custom_cell"])
def test_an_example_learns_something(name, example):
    example(name)(["--steps", "small"])  # asserts itself that it does


def test_grid_search(example, capsys):
    pytest.importorskip("sklearn")
    example("grid_search")(["--steps", "small", "--processes", "1"])  # asserts itself that it learns
    assert "best: {'units': 8}" in capsys.readouterr().out


@pytest.mark.slow
def test_digit_lines(example, capsys):
    pytest.importorskip("sklearn")
    program = example("digit_lines").__globals__
    assert program["decoded"]([10, 1, 1, 10, 1, 2, 2, 10]) == [1, 1, 2]
    assert program["distance"]([1, 2, 3], [2, 3, 4, 4]) == 3
    program["main"](["--steps", "small"])  # asserts itself that it learns to read
    assert "read" in capsys.readouterr().out


def test_a_plot_says_what_it_needs(example, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot = example("timeseries").__globals__["plot"]
    with pytest.raises(ImportError, match=r"pip install 'scanjit\[plot\]'"):
        plot(tmp_path / "forecast.png", [1, 2], [0.0, 1.0], [1.0])


@pytest.mark.slow
def test_many_series_dask(example, capsys):
    pytest.importorskip("distributed")
    theta, same = example("many_series_dask")(["--series", "small", "--parts", "3"])
    assert same and theta.shape == (20, 3) and np.isfinite(theta).all(axis=1).sum() > 10
    assert "20 fits in 3 parts, 2 worker threads" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_many_series(library, example, capsys, monkeypatch, tmp_path):
    """From a frame of either kind to a plot; simulated where arch is not installed."""
    pytest.importorskip("narwhals")
    pytest.importorskip(library)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" != library else real(name))
    plot = str(tmp_path / "lives.png")
    example("many_series")(["--series", "small", *(["--plot", plot] if real("matplotlib") else [])])
    printed = capsys.readouterr().out
    assert printed.startswith("30 series, ") and "converged" in printed and "half of a shock" in printed
    assert ("shape:" in printed) == (library == "polars")


def test_jax_neuron(example, capsys):
    pytest.importorskip("jax")
    example("jax_neuron")(["--steps", "300"])  # asserts itself that both give the same
    assert "with gradient" in capsys.readouterr().out
