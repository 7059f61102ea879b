"""The benchmarks run, and everybody in them computes the same; how fast is nobody's business here."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import measure
from benchmarks.cases import CASES
from benchmarks.driver import main
from benchmarks.task import check, check_reference, wide

TASKS = [(name, kind) for name in CASES for kind in ("forward", "gradient")]


@pytest.mark.parametrize(("name", "kind"), TASKS)
def test_all_compute_the_same(name: str, kind: str) -> None:
    task = next(t for t in CASES[name](True).tasks("reference") if t.kind == kind)
    check_reference(task)
    expected = task.reference(*wide(task.arguments))
    for contender in task.contenders:
        if contender.package != "numba":
            check(task, contender.name, contender.make()(*task.arguments), expected)


def test_wrong_results_are_found() -> None:
    task = CASES["rnn"](True).tasks("reference")[1]
    expected = task.reference(*wide(task.arguments))
    wrong = [np.array(result, np.float32) for result in expected]
    wrong[2][0, 0] += 0.01
    with pytest.raises(AssertionError, match="result 2: off by"):
        check(task, "somebody", wrong, expected)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    assert main(["garch", "--quick", "--no-fresh", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "| Numba loop " in printed and "GARCH(1,1), gradient" in printed
    tables = json.loads(path.read_text())["tables"]
    assert [table["kind"] for table in tables] == ["forward", "gradient"]
    assert main(["--read", str(path)]) == 0
    assert capsys.readouterr().out.strip() == printed.strip()


def test_processes_of_their_own() -> None:
    start = measure.start("rnn", "forward", "scanjit", "numba", quick=True, repeats=1)
    assert start.cold.make > 0 and start.warm.first > 0


def test_a_case_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="no case 'gru'; there are lstm, garch, rnn"):
        main(["gru"])


def test_the_picture(tmp_path: Path) -> None:
    command = ["rnn", "--quick", "--no-fresh", "--no-numba-peer", "--mode", "reference"]
    path = tmp_path / "picture.svg"
    if importlib.util.find_spec("matplotlib"):
        assert main([*command, "--plot", str(path)]) == 0
        assert "<svg" in path.read_text()
    else:
        with pytest.raises(SystemExit, match=r"scanjit\[docs\]"):
            main([*command, "--plot", str(path)])
