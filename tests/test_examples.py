"""The examples run, small."""

import runpy
from pathlib import Path

import pytest

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
