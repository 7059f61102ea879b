"""What editors make of a script: the types of a right one, each mistake of a wrong one, and what they complete."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MISTAKES = {
    number
    for number, line in enumerate((HERE / "wrong.py").read_text(encoding="utf-8").splitlines(), 1)
    if "  # " in line
}


def output(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-m", *command]
    return subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def by_pyright(script: Path, folder: Path) -> dict[int, str]:
    found = json.loads(output(folder, "pyright", "--pythonpath", sys.executable, "--outputjson", str(script)))
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in errors}


def by_mypy(script: Path, folder: Path) -> dict[int, str]:
    text = output(folder, "mypy", "--strict", str(script))
    assert re.search("^(Success|Found)", text, re.MULTILINE), text
    return {int(line): message for line, message in re.findall(r":(\d+): error: (.*)", text)}


Checker = Callable[[Path, Path], dict[int, str]]
CHECKERS = [
    pytest.param(checker, marks=pytest.mark.skipif(not find_spec(name), reason=f"{name} is not installed"), id=name)
    for name, checker in {"pyright": by_pyright, "mypy": by_mypy}.items()
]


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_right_script_has_the_types_that_it_says(checker: Checker, tmp_path: Path) -> None:
    assert checker(HERE / "right.py", tmp_path) == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_of_a_wrong_script_is_found(checker: Checker, tmp_path: Path) -> None:
    found = checker(HERE / "wrong.py", tmp_path)
    assert len(MISTAKES) > 60
    assert {line: found.get(line) for line in MISTAKES ^ found.keys()} == {}


def test_the_right_script_runs(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(HERE / "right.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "expression",
    [
        "sj.vector('v')",
        "sj.grad(x.sum(), x)",
        "sj.tanh(x @ x)",
        "x.T.mean(axis=0)",
    ],
)
def test_tensor_methods_are_completed(expression: str) -> None:
    jedi = pytest.importorskip("jedi")
    code = f"import scanjit as sj\nx = sj.matrix('x')\ny = {expression}\ny."
    project = jedi.Project(ROOT)
    names = {found.name for found in jedi.Script(code, project=project).complete()}
    assert names >= {"sum", "mean", "reshape", "astype", "dimshuffle", "T", "shape", "dtype"}
