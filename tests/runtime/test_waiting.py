"""Who waits for a function to be compiled is told how far it is, in a terminal and in a notebook only."""

import errno
import io
import os
import re
import struct
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import bars, cache, waiting
from scanjit.runtime.kernels import kernels
from tests.terminals import Terminal, without_tqdm


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(bars, "SILENT", 0.0)
    monkeypatch.setattr(bars, "OFTEN", 0.01)
    return Terminal.instead_of_stderr(monkeypatch)


@pytest.fixture
def no_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    without_tqdm(monkeypatch)


def wait_until_shown() -> None:
    progress, deadline = waiting.current(), time.monotonic() + 20
    assert progress is not None
    while not progress.shown and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_line_of_text(terminal: Terminal, no_tqdm: None) -> None:
    with waiting.told("train"):
        progress = waiting.current()
        assert progress is not None
        progress.kernels, progress.done, progress.kept = 77, 34, 77
        wait_until_shown()
        time.sleep(0.05)
    lines = terminal.getvalue().split("\r")
    assert any(line.startswith("compiling train: 34 of 77 kernels, 0 s") for line in lines)
    assert lines[-2].strip() == ""  # the line is empty before the last word
    assert lines[-1].startswith("compiled train: 77 kernels in ") and lines[-1].endswith("from the cache\n")


def test_a_bar_of_tqdm(terminal: Terminal) -> None:
    pytest.importorskip("tqdm")
    with waiting.told("train"):
        progress = waiting.current()
        assert progress is not None
        progress.kernels, progress.done = 8, 4
        wait_until_shown()
        time.sleep(0.05)
    assert "compiling train: 4 of 8 kernels, 0 s |" in terminal.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_terminal_without_a_width_gets_a_line_of_text() -> None:
    """As tools make them that run a program in a terminal of their own: tqdm would cut all of its text off."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with open(theirs, "w") as stream:
        bar = bars.Bar(stream)
        bar.draw("train: step 5 of 10", 5, 10)
        assert os.read(ours, 100) == b"\rtrain: step 5 of 10"
        bar.clear()
    os.close(ours)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_line_of_text_stays_in_one_line_of_a_narrow_terminal() -> None:
    pty, fcntl, termios = map(pytest.importorskip, ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 10, 0, 0))
    with open(theirs, "w") as stream:
        bar = bars.Bar(stream)
        bar._tqdm = None
        bar.draw("train: step 5 of 10", 5, 10)
        assert os.read(ours, 100) == b"\rtrain: st"
        bar.clear()
    os.close(ours)


def test_without_new_kernels_it_counts_none(terminal: Terminal, no_tqdm: None) -> None:
    with waiting.told("train"):
        wait_until_shown()
    assert re.search(r"\rcompiled train in \d+\.\d s\n$", terminal.getvalue())


def test_what_is_quick_says_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "SILENT", 100.0)
    with waiting.told("f"):
        time.sleep(0.03)
    assert terminal.getvalue() == ""


def test_it_can_be_turned_off(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "progress", False)
    with waiting.told("f"):
        assert waiting.current() is None
    with pytest.raises(sj.ArgumentError, match=r"config\.progress(.|\n)*expected: one of False, True\n"):
        sj.config.progress = "yes"  # type: ignore[assignment]


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_without_a_terminal_it_says_nothing(stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with waiting.told("f"):
        assert waiting.current() is None


def test_a_notebook_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with waiting.told("f"):
        assert waiting.current() is not None


def test_an_exception_ends_it(terminal: Terminal, no_tqdm: None) -> None:
    with pytest.raises(KeyboardInterrupt), waiting.told("f"):
        wait_until_shown()
        raise KeyboardInterrupt
    terminal.wait_for_nothing()
    assert "compiled" not in terminal.getvalue() and waiting.current() is None


def test_compiling_counts_its_kernels(
    terminal: Terminal, no_tqdm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path))
    seen: list[waiting.Progress] = []
    told = waiting.Progress.__init__
    monkeypatch.setattr(waiting.Progress, "__init__", lambda self, name: (seen.append(self), told(self, name))[1])
    x = sj.vector("x", "float64")
    f = sj.function([x], np.cos(np.tanh(x) * 1.2345), name="waited_for")
    assert f(np.zeros(3)).tolist() == [1.0] * 3
    assert [each.name for each in seen] == ["waited_for"]
    assert seen[0].done == seen[0].kernels > 0
    assert "the next process takes them from the cache" in terminal.getvalue()


@pytest.mark.filterwarnings("ignore:time.monotonic runs once")
def test_tracing_and_derivatives_are_told_of_too(terminal: Terminal, no_tqdm: None) -> None:
    """All of it is one thing that is waited for."""
    seen: list[waiting.Progress | None] = []

    @sj.value_and_grad
    def loss(x: sj.Node) -> sj.Node:
        seen.append(waiting.current())
        wait_until_shown()
        return (x * x).sum()

    loss(np.ones(3))
    assert [each is not None and each.name for each in seen] == ["loss"]
    assert "compiling loss: 0 s" in terminal.getvalue()
    assert terminal.getvalue().count("compiled loss") == 1
    assert waiting.current() is None


@pytest.mark.filterwarnings("ignore:compiled kernels are kept in memory only")
@pytest.mark.parametrize("room", [0, 1])
def test_a_cache_that_cannot_be_written_is_not_promised(
    room: int, terminal: Terminal, no_tqdm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for so many entries."""
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path / str(room)))
    written: list[str] = []

    def replace(source: object, path: object) -> None:
        written.extend([str(path)] if str(path).endswith(".o") else [])
        if len(written) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, path)

    real = cache.os.replace
    monkeypatch.setattr(cache.os, "replace", replace)
    with waiting.told("f"):
        wanted = [
            (f"from scanjit.simd import store_i64\n\n\ndef unkept{room}{i}(a):\n    store_i64(a, {i})\n", name, {})
            for i in range(3)
            for name in [f"unkept{room}{i}"]
        ]
        assert len(kernels(wanted)) == 3
        wait_until_shown()
    assert "compiled f: 3 kernels" in terminal.getvalue() and "cache" not in terminal.getvalue()
