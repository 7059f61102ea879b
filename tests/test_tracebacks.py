"""What a user sees of an error: the own frames and one of ours, in every display; the line of a notebook's cell."""

import logging
import os
import re
import subprocess
import sys
import traceback
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors

PROGRAM = """
import logging, sys, threading, traceback
import numpy as np
import scanjit as sj

def step(x):
    return sj.concatenate([x, x], axis=7)

@sj.jit
def model(xs):
    return sj.map(step, xs)

def main():
    return model(np.ones((3, 2, 2, 5)))

"""
ROOT = str(Path(__file__).parent.parent)
USERS = ["<module>", "main", "model", "step"]


def run(tmp_path: Path, end: str, **environment: str) -> str:
    """What a program writes, all of it."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + end, encoding="utf-8")
    given = {name: text for name, text in os.environ.items() if name != "SCANJIT_TRACEBACK"}
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env=given | {"PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8"} | environment,
    )
    return done.stdout + done.stderr


def frames(text: str) -> list[tuple[str, str]]:
    """(File, function) of every frame in what Python displays."""
    return re.findall(r'File "(.*)", line \d+, in (\S+)', text)


def ours(text: str) -> list[str]:
    return [name for file, name in frames(text) if "program.py" not in file]


def users(text: str) -> list[str]:
    return [name for file, name in frames(text) if "program.py" in file]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "end",
    [
        "main()",
        "try:\n    main()\nexcept sj.ShapeError:\n    print(traceback.format_exc())",
        "try:\n    main()\nexcept sj.ShapeError:\n    logging.exception('failed')",
        "try:\n    main()\nexcept sj.ShapeError as error:\n    traceback.print_exception(error)",
    ],
)
def test_a_display_has_the_users_frames_and_one_of_ours(tmp_path: Path, end: str) -> None:
    text = run(tmp_path, end)
    assert users(text) == USERS, text
    assert ours(text) == [frames(text)[-1][1]], text
    assert "ShapeError" in text and "program.py:7" in text


def test_plain_errors_of_layers_are_short_too(tmp_path: Path) -> None:
    end = """
import lasagne_like as lasagne
def layers():
    return lasagne.layers.RNNLayer(lasagne.layers.InputLayer((None, 3)), lasagne.cells.GRU(4))
layers()
"""
    text = run(tmp_path, end)
    assert users(text) == ["<module>", "layers"], text
    assert ours(text) == [frames(text)[-1][1]] and "Error: " in text, text
    assert len(ours(run(tmp_path, end, SCANJIT_TRACEBACK="full"))) > 1


def test_other_errors_beneath_layers_are_whole(tmp_path: Path) -> None:
    end = """
import lasagne_like as lasagne
def own(shape):
    return {}[shape]
lasagne.layers.DenseLayer((None, 3), 4, W=own)
"""
    assert len(ours(run(tmp_path, end))) > 1


def test_a_thread_has_them_too(tmp_path: Path) -> None:
    text = run(tmp_path, "thread = threading.Thread(target=main)\nthread.start()\nthread.join()")
    assert users(text) == USERS[1:], text
    assert sum(file.startswith(ROOT) for file, _ in frames(text)) == 1, text


def test_the_environment_asks_for_all_frames(tmp_path: Path) -> None:
    text = run(tmp_path, "main()", SCANJIT_TRACEBACK="full")
    assert set(users(text)) == set(USERS) and len(ours(text)) > 3, text


def test_a_debugger_and_the_hook_of_somebody_else_get_all_frames(tmp_path: Path) -> None:
    end = "sys.excepthook = lambda kind, error, trace: print('HOOK', len(list(traceback.walk_tb(trace))))\nmain()"
    found = re.search(r"HOOK (\d+)", run(tmp_path, end))
    assert found and int(found[1]) > len(USERS) + 3


def test_what_led_to_an_error_is_short_too_and_other_errors_are_whole(tmp_path: Path) -> None:
    end = "try:\n    main()\nexcept sj.ShapeError as error:\n    raise RuntimeError('mine') from error"
    text = run(tmp_path, end)
    assert users(text) == [*USERS, "<module>"] and len(ours(text)) == 1, text
    text = run(tmp_path, "def step(x):\n    return np.linalg.inv(np.ones(3))\nmain()")
    assert "LinAlgError" in text and len(ours(text)) > 4, text
    group = "try:\n    main()\nexcept sj.ShapeError as error:\n    raise ExceptionGroup('two', [error, ValueError()])"
    text = run(tmp_path, group)
    assert len(ours(text.split("-+-")[-1])) <= 1 and "ShapeError" in text, text


def failing() -> None:
    with np.errstate():
        sj.matrix("x") @ sj.tensor(4, "y").no_such_method()


def test_the_error_itself_stays_whole() -> None:
    with pytest.raises(sj.ScanjitError) as caught:
        failing()
    whole = len(list(traceback.walk_tb(caught.value.__traceback__)))
    short = traceback.TracebackException.from_exception(caught.value).stack
    assert [frame.name for frame in short][:2] == ["test_the_error_itself_stays_whole", "failing"]
    assert len(short) == 3 <= whole == len(list(traceback.walk_tb(caught.value.__traceback__)))
    # A part that somebody chose is not ours to shorten.
    part = caught.value.__traceback__.tb_next if caught.value.__traceback__ else None
    assert len(traceback.format_tb(part)) == whole - 1
    written = StringIO()
    logger = logging.Logger("one")
    logger.addHandler(logging.StreamHandler(written))
    logger.error("failed", exc_info=caught.value)
    assert len(frames(written.getvalue())) == 3


def test_an_error_without_a_traceback_is_displayed() -> None:
    assert traceback.format_exception(errors.ShapeError("wrong"))[0].startswith("scanjit.errors.ShapeError: wrong")
    assert traceback.format_exception(None) == ["NoneType: None\n"]


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="NoColor")
for cell in CELLS:
    print("=== ", flush=True)
    shell.run_cell(cell, store_history=True)
"""


def test_cells_of_a_notebook(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    cells = [
        "import scanjit as sj\nimport numpy as np\ndef step(x):\n    return sj.concatenate([x, x], axis=7)",
        "@sj.jit\ndef model(xs):\n    return sj.map(step, xs)\n\nmodel(np.ones((3, 2, 2, 5)))",
        "sj.scan(step, [sj.vector('x')], outputs_info=[1.0, 2.0, 3.0, 4.0])",
        "import os\nos.environ['SCANJIT_TRACEBACK'] = 'full'\nmodel(np.ones((3, 2, 2, 5)))",
        "len(list(__import__('traceback').walk_tb(__import__('sys').last_traceback)))",
    ]
    environment = {"IPYTHONDIR": str(tmp_path), "SCANJIT_TRACEBACK": ""}
    text = run(tmp_path, f"CELLS = {cells!r}" + CELLS, **environment)
    _, _, short, other, full, count = text.split("=== ")
    assert len(re.findall(r"^File .*scanjit", short, re.M)) == 1, short
    assert re.findall(r"^Cell In\[(\d+)\], line (\d+)", short, re.M) == [("2", "5"), ("2", "3"), ("1", "4")], short
    assert "  at:       Cell In[1], line 4" in short, short
    assert "Cell In[3], line 1" in other or "Cell In[1], line 3" in other, other
    assert "ipykernel" not in other and "<ipython-input" not in other, other
    assert len(re.findall(r"^File .*scanjit", full, re.M)) > 3, full
    found = re.search(r"Out\[5\]: (\d+)", count)
    assert found and int(found[1]) > 6, count


def test_a_location_counts_only_while_the_function_that_gave_it_runs() -> None:
    """An exception of a signal handler may come after `located` has begun to end: then nobody takes it back."""

    def interrupted() -> str:
        block = errors.located("elsewhere.py:1")
        block.__enter__()
        blocks.append(block)  # or Python would end it now
        return sj.vector("x").where

    blocks: list[object] = []
    assert interrupted() == "elsewhere.py:1"
    assert __file__ in sj.vector("x").where
