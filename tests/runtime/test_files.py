"""Files that replace others: as Windows does it, which refuses while somebody has the old file open."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import scanjit as sj
from lasagne_like.training import Checkpoint


def write_new(path: Path) -> None:
    with sj.replace_file(path) as file:
        file.write(b"new")


def function(path: Path) -> None:
    x = sj.vector("x")
    sj.function([x], x + 1, mode="reference").save(path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "replace": write_new,
    "function": function,
    "checkpoint": lambda path: Checkpoint(path, sj.shared(1.0, "w")).save(),
}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long we waited each time; others close the file after three refusals, unless a test says more."""
    pauses: list[float] = []
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if len(pauses) < int(os.environ["REFUSALS"]):
            raise PermissionError(13, "opened by another process", str(target))
        replace(source, target)

    monkeypatch.setenv("REFUSALS", "3")
    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(sys, "platform", "win32")
    return pauses


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_that_is_open_for_a_while(write: Callable[[Path], object], opened: list[float], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write(path)
    assert path.read_bytes() != b"old" and os.listdir(tmp_path) == ["file"]
    assert len(opened) == 3 and opened == sorted(opened)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_that_stays_open(
    write: Callable[[Path], object], opened: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REFUSALS", "1000")
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(PermissionError, match="opened by another process"):
        write(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    assert 1 < sum(opened) < 5


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_other_systems_do_not_wait(
    write: Callable[[Path], object], opened: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(PermissionError):
        write(tmp_path / "file")
    assert not opened and not os.listdir(tmp_path)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_an_error_names_the_file_that_was_asked_for(write: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as caught:
        write(path)
    assert caught.value.filename == str(path)
