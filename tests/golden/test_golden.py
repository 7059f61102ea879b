"""Generated code is kept as files, so that a change of the generator shows in review as a change of its output.

After a deliberate change: `SCANJIT_UPDATE_GOLDEN=1 python -m pytest tests/golden`, and read the difference.
"""

import os
import pathlib

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen.generate import generate
from scanjit.rewrite import run as rewrite
from scanjit.schedule.pipeline import schedule
from scanjit.target import target_for
from scanjit.target.value import AVX512
from tests.golden.programs import PROGRAMS

HERE = pathlib.Path(__file__).parent
TARGETS = {
    "avx512": target_for("x86_64-linux-gnu", features=",".join(f"+{name}" for name in AVX512)),
    "sse": target_for("x86_64-linux-gnu"),
}
KEPT = [(name, "avx512") for name in PROGRAMS] + [("lstm", "sse")]


def generated(name: str, target: str) -> str:
    """The code of a program for a machine that need not be this one."""
    leaves, outputs = PROGRAMS[name]()
    rewritten = rewrite(outputs)
    program = schedule(leaves, rewritten.outputs, TARGETS[target])
    code = generate(program, name)
    notes = [str(note).split(" (")[0].split(" at /")[0] for note in rewritten.notes]
    head = "\n".join(f"# {note}" for note in notes)
    return head + "\n\n" + "\n\n".join(source.text for source in reversed(code.functions))


@pytest.mark.parametrize("name, target", KEPT)
def test_generated_code_is_as_reviewed(name, target):
    path = HERE / f"{name}_{target}.txt"
    text = generated(name, target)
    if os.environ.get("SCANJIT_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} is out of date: see the docstring of this module"


def test_generated_code_calls_no_numpy():
    text = "".join(path.read_text() for path in HERE.glob("*.txt"))
    assert "np." not in text and "numpy" not in text


def test_names_of_inputs_never_meet_variables_of_the_generator():
    names = [
        "begin",
        "end",
        "low",
        "high",
        "column",
        "columns",
        "shares",
        "stopped",
        "row",
        "rows",
        "step",
        "first",
        "block",
        "ran",
        "n",
        "thread",
        "table",
        "i",
        "def",
    ]
    inputs = [sj.vector(name) for name in names]
    f = sj.function(inputs, [x * 2 for x in inputs], mode="emulate")
    for i, result in enumerate(f(*(np.full(3, float(i)) for i in range(len(names))))):
        np.testing.assert_array_equal(result, np.full(3, 2.0 * i))


def test_the_core_of_the_lstm_is_one_nest_of_four_products():
    text = generated("lstm", "avx512")
    loop = text.split("for step0 in range")[1].split("\n\n")[0]
    single, several = loop.split("else:")  # one call a step, in the form for a batch of one or that for more
    assert single.count("contract_") == several.count("contract_") == 1
