"""Engines in processes of their own: where their interpreters are, and how to talk to them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import PACKAGES, REQUIREMENTS

ROOT = Path(__file__).absolute().parent.parent
ENVIRONMENTS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "scanjit-benchmarks"
"""Where `make_environment` puts an interpreter for an engine that does not fit in with the others."""


class EngineError(Exception):
    """An engine failed at an order."""


class Absent(Exception):
    """An engine cannot do this, or is not installed; the message says why."""


def interpreter(engine: str, given: Mapping[str, str]) -> str:
    """The Python for an engine: the one that was asked for, one made for it, or this one if it has the package.

    Raises
    ------
    Absent
        If there is none.
    """
    if engine in given:
        return given[engine]
    own = _python(ENVIRONMENTS / engine)
    if own.exists() and not _unfinished(engine).exists():
        return str(own)
    if importlib.util.find_spec(PACKAGES[engine]):
        return sys.executable
    raise Absent(f"not installed (`python -m benchmarks environment {engine}` makes a place for it)")


def make_environment(engine: str) -> None:
    """A virtual environment with an engine in it, which `interpreter` will find: of the newest Python that is here for
    which there are ready-made packages of it. If this is interrupted, `interpreter` does not find it."""
    folder = ENVIRONMENTS / engine
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    _unfinished(engine).touch()
    for python in pythons():
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        needed = "numpy", *REQUIREMENTS[engine]  # a worker gets and returns arrays
        command = [str(_python(folder)), "-m", "pip", "install", "--only-binary=:all:", *needed]
        if subprocess.run(command, check=False).returncode == 0:
            _unfinished(engine).unlink()
            print(f"{engine}: {folder}, of {python}")
            return
    shutil.rmtree(folder, ignore_errors=True)
    _unfinished(engine).unlink()
    raise SystemExit(f"no Python that is here has packages of {engine}: tried {', '.join(pythons())}")


def pythons() -> list[str]:
    """The interpreters on the path and of pyenv, the newest first; this one counts, too."""
    found = {sys.version_info[1]: sys.executable}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(11, 30):
        places = [shutil.which(f"python3.{minor}"), *sorted(map(str, versions.glob(f"3.{minor}.*/bin/python")))]
        for python in filter(None, places):
            asked = [python, "-c", "import sys, venv, ensurepip; print(sys.version_info[1])"]
            answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
            if answer == str(minor):  # else pyenv stands there in place of a Python that is not installed
                found.setdefault(minor, python)
    return [found[minor] for minor in sorted(found, reverse=True)]


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _unfinished(engine: str) -> Path:
    """A file that is there while the environment of an engine is not complete."""
    return ENVIRONMENTS / f"{engine}.unfinished"


class Engine:
    """A worker. It runs only while it has an order; otherwise it is stopped, with all its threads.

    Bytecode of modules is kept, as an installation keeps it. Without it, each process would compile scanjit's modules
    anew, which takes 0.3 seconds.
    """

    def __init__(self, name: str, python: str, threads: int, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", name, str(threads)],
            env={**inherited, **(environment or {}), "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.hello = self.ask("hello")
        except BaseException:
            self.close()
            raise

    def send(self, do: str, **order: Any) -> None:
        """Give an order; `receive` is to follow."""
        self._signal("SIGCONT")
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, **order}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise EngineError(f"{self.name}: the process has ended") from None

    def receive(self) -> dict[str, Any]:
        """The answer.

        Raises
        ------
        Absent, EngineError
            If it could not do it.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EngineError(f"{self.name}: the process has ended with status {self._process.wait()}")
        self._signal("SIGSTOP")
        answer = json.loads(line)
        if "absent" in answer:
            raise Absent(answer["absent"].partition(": ")[2])
        if "error" in answer:
            raise EngineError(f"{answer['error']}\n{answer['traceback']}")
        return answer

    def _signal(self, name: str) -> None:
        """On Windows, which has no such signals, a worker sleeps as it waits for an order; its threads may not."""
        if hasattr(signal, name):
            self._process.send_signal(getattr(signal, name))

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """Give an order and wait for the answer."""
        self.send(do, **order)
        return self.receive()

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@contextlib.contextmanager
def started(
    names: Sequence[str], threads: int, given: Mapping[str, str], skipped: dict[str, str]
) -> Iterator[dict[str, Engine]]:
    """The engines that are there; why others are not is put into `skipped`."""
    found: dict[str, Engine] = {}
    try:
        for name in names:
            try:
                found[name] = Engine(name, interpreter(name, given), threads)
            except (Absent, EngineError, OSError) as reason:
                skipped[name] = str(reason).splitlines()[0]
        yield found
    finally:
        for engine in found.values():
            engine.close()
