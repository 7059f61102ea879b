"""What editors make of a script: the types of a right one, each mistake of a wrong one, and what they complete."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.scripts import printed

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


def by_pyright(scripts: list[str], folder: Path) -> list[tuple[str, int, str]]:
    found = json.loads(output(folder, "pyright", "--pythonpath", sys.executable, "--outputjson", *scripts))
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    return [(one["file"], one["range"]["start"]["line"] + 1, one["message"]) for one in errors]


def by_mypy(scripts: list[str], folder: Path) -> list[tuple[str, int, str]]:
    text = output(folder, "mypy", "--strict", *scripts)
    assert re.search("^(Success|Found)", text, re.MULTILINE), text
    found = re.findall(r"^(.*):(\d+): error: (.*)", text, re.MULTILINE)
    return [(path, int(line), message) for path, line, message in found]


Errors = dict[str, dict[int, str]]
CHECKERS = [
    pytest.param(checker, marks=pytest.mark.skipif(not find_spec(name), reason=f"{name} is not installed"), id=name)
    for name, checker in {"pyright": by_pyright, "mypy": by_mypy}.items()
]


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """What a checker finds in both scripts, in one run: most of its time goes into our own types."""
    found: Errors = {"right.py": {}, "wrong.py": {}}
    for path, line, message in request.param([str(HERE / name) for name in found], tmp_path_factory.mktemp("checker")):
        found[Path(path).name][line] = message
    return found


@pytest.mark.quick(1)
def test_a_right_script_has_the_types_that_it_says(errors: Errors) -> None:
    assert errors["right.py"] == {}


def test_each_mistake_of_a_wrong_script_is_found(errors: Errors) -> None:
    found = errors["wrong.py"]
    assert len(MISTAKES) > 60
    assert {line: found.get(line) for line in MISTAKES ^ found.keys()} == {}


def test_the_right_script_runs(tmp_path: Path) -> None:
    printed(sys.executable, HERE / "right.py", folder=tmp_path)


STEPS = """
def step(x_t, h):
    return x_t + h

def two(x_t, h, c):
    return h + x_t, c

"""


COMPLETED = (
    "sj.vector('v')",
    "sj.grad(x.sum(), x)",
    "sj.tanh(x @ x)",
    "x.T.mean(axis=0)",
    "sj.scan(step, sequences=x, outputs_info=0.0)",
    "sj.scan(lambda x_t, h: np.tanh(x_t + h), x, 0.0)",
    "sj.scan(two, x, [0.0, 0.0])[0]",
    "sj.map(lambda row: row * 2, x)",
    "sj.reduce(step, x, 0.0)",
    "sj.while_loop(lambda s: s < 9, lambda s: s + s, x)",
    "sj.ifelse(x.sum() > 0, x, -x)",
    "sj.ifelse(x.sum() > 0, lambda: x, 0.0)",
    "sj.jacobian(x, x)",
    "sj.vjp(x, x, x)",
    "sj.jvp(x, x, x)",
)


@pytest.mark.slow
def test_tensor_methods_are_completed() -> None:
    jedi = pytest.importorskip("jedi")
    before = (
        f"import numpy as np\nimport scanjit as sj\nx = sj.matrix('x')\n{STEPS}y, z = sj.scan(two, x, [0.0, 0.0])\n"
    )
    made = ["y", *(f"y{i}" for i in range(len(COMPLETED)))]
    lines = [*(f"y{i} = {code}" for i, code in enumerate(COMPLETED)), *(f"{name}.sum" for name in made)]
    script = jedi.Script(before + "\n".join(lines), project=jedi.Project(ROOT))
    first = before.count("\n") + len(COMPLETED) + 1
    for at, name in enumerate(made, first):
        names = {found.name for found in script.complete(at, len(name) + 1)}
        assert names >= {"sum", "mean", "reshape", "astype", "dimshuffle", "T", "shape", "dtype"}, name
