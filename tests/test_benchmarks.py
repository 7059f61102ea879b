"""The benchmarks run, and everybody in them computes the same; how fast is nobody's business here."""

import functools
import importlib.util
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import scanjit as sj
from benchmarks import columns, libraries, models, picture, remote, report, startup, tape, tiles
from benchmarks.case import Task, check
from benchmarks.cases import all_cases, find
from benchmarks.driver import WORDS, main
from benchmarks.engines import PACKAGES, PEERS
from benchmarks.fits import driver as fits
from benchmarks.measure import Row, Times, settle
from benchmarks.memory import Memory
from benchmarks.remote import Absent, Engine, EngineError, interpreter
from benchmarks.report import Report
from benchmarks.startup import Start
from benchmarks.targets import best_peer, fraction, ratio, targets
from benchmarks.threads import Scaling, in_company
from benchmarks.worker import task_data
from scanjit.schedule.fuse import groups
from scanjit.target import measured

TASKS = [task for case in all_cases() if case.reference is not None for task in case.tasks(True)]
TASKS += [replace(task, kind="hessian") for task in TASKS if task.gradient and "hessian" in task.case.starts]
NAMES = [f"{task.case.name}, {task.kind}" for task in TASKS]
SLOPES = [task for task in TASKS if task.kind == "gradient"]


def reference_mode(task: Task) -> Task:
    return replace(task, mode="reference")


# ---- the cases -------------------------------------------------------------------------------------------------------


@pytest.mark.quick(42)
@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_scanjit_computes_what_the_reference_does(task: Task) -> None:
    own = {name for name in ("scanjit", "lasagne_like") if name in task.case.make}
    expected = task.expected()
    for name in own:
        program = task.case.make[name](reference_mode(task))
        check(task, name, program.read(program.call()), expected)


@pytest.mark.parametrize("task", SLOPES, ids=[task.case.name for task in SLOPES])
def test_gradients_of_the_reference_are_its_slopes(task: Task, rng: np.random.Generator) -> None:
    arguments = {name: np.asarray(a, np.float64) if a.dtype.kind == "f" else a for name, a in task.arguments().items()}
    moves = {name: rng.standard_normal(arguments[name].shape) for name in task.case.wrt}
    if task.case.group == "stack":  # thirty weights at once: a short way
        moves = {name: 0.1 * move for name, move in moves.items()}
    step = 1e-6

    def cost(t: float) -> float:
        moved = {n: a + t * moves[n] if n in moves else a for n, a in arguments.items()}
        wrapped = {n: tape.Array(a) if a.dtype.kind == "f" else a for n, a in moved.items()}
        return float((task.case.reference(**wrapped).value * task.cotangent()).sum())

    found = task.expected()[1:]
    along = sum(float((g * moves[name]).sum()) for name, g in zip(task.case.wrt, found, strict=True))
    size = sum(float(np.abs(g * moves[name]).sum()) for name, g in zip(task.case.wrt, found, strict=True))
    assert abs((cost(step) - cost(-step)) / (2 * step) - along) <= 1e-6 * size


def test_wrong_results_are_found() -> None:
    task = next(task for task in find("GRU").tasks(True) if task.gradient)
    wrong = [np.array(result, task.dtype) for result in task.expected()]
    wrong[2][0, 0] += 0.01
    with pytest.raises(AssertionError, match="somebody, result 2: off by"):
        check(task, "somebody", wrong, task.expected())
    with pytest.raises(AssertionError, match="result 0: float16 of"):
        check(task, "somebody", [a.astype("float16") for a in wrong], task.expected())


def test_every_engine_has_a_name_and_every_program_an_engine() -> None:
    used = {engine for case in all_cases() for engine in (*case.make, *case.absent)}
    assert used <= set(PACKAGES) and set(PEERS) <= used


def test_arrays_that_share_a_gradient_keep_their_own() -> None:
    x = tape.Array(np.ones(3))
    a = x + 1.0
    y = (a + x).sum() + x[0] * 2.0  # the row of x is added in place to what a's gradient also is
    assert tape.gradients(y, np.ones(()), {"x": x, "a": a})["x"].tolist() == [4.0, 2.0, 2.0]


@pytest.mark.parametrize("name", ["1 masked bidirectional LSTM layer", "char_rnn"])
def test_a_step_of_training(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss falls. What only starts are measured of has no reference."""
    monkeypatch.setattr(sj, "function", functools.partial(sj.function, mode="reference"))
    monkeypatch.setattr(sj.config, "floatX", sj.config.floatX)
    case = find(name)
    program = case.make["scanjit"](Task(case, case.quick, "float32", "training", mode="reference"))
    losses = [float(program.read(program.call())[0]) for _ in range(40)]
    assert np.isfinite(losses).all() and np.mean(losses[-5:]) < np.mean(losses[:5])


def test_a_model_whose_wheel_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "packaged", lambda name: None)
    case = find("CRNN of ddddocr")
    with pytest.raises(NotImplementedError, match="ddddocr is not installed"):
        case.make["scanjit"](Task(case, case.quick, "float32", "forward"))


# ---- workers ---------------------------------------------------------------------------------------------------------


def test_a_worker_runs_only_while_it_has_an_order(tmp_path: Path) -> None:
    task = reference_mode(find("GARCH(1,1)").tasks(True)[0])
    worker = Engine("scanjit", interpreter("scanjit", {}), 1)
    try:
        worker.ask("make", key="it", case=task.case.name, task=task_data(task))
        worker.ask("first", key="it", path=str(tmp_path / "results.npz"))
        with np.load(tmp_path / "results.npz") as results:
            check(task, "worker", [results["arr_0"]], task.expected())
        state = Path(f"/proc/{worker._process.pid}/stat")
        for _ in range(1000 if state.exists() else 0):
            if state.read_text().rpartition(")")[2].split()[0] == "T":
                break
            time.sleep(0.001)
        else:
            assert not state.exists(), "the worker is not stopped"
        assert worker.ask("time", key="it", seconds=0.0)["passed"] > 0
        with pytest.raises(EngineError, match="KeyError"):
            worker.ask("time", key="nobody", seconds=0.0)
        assert worker.ask("drop") == {}
        worker._process.kill()
        worker._process.wait()
        with pytest.raises(EngineError, match="has ended"):
            worker.ask("drop")
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("ModuleNotFoundError: No module named 'joblib'", Absent, r"not installed \(`.* -m pip install joblib`\)"),
        ("ValueError: no", EngineError, "ValueError: no"),
    ],
)
def test_company_that_is_not_installed(
    said: str, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = SimpleNamespace(returncode=1, stderr=f"Traceback\n{said}\n", stdout="")
    monkeypatch.setattr("benchmarks.threads.subprocess.run", lambda *_, **__: done)
    with pytest.raises(kind, match=message):
        in_company("joblib 2 x 2", 2, sys.executable, SimpleNamespace(rounds=1, seconds=0.1))  # type: ignore[arg-type]


def test_what_is_left_out_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def absent(*_: object) -> Scaling:
        raise Absent("not installed")

    monkeypatch.setattr("benchmarks.driver.threads.in_company", absent)
    assert main(["threads", "--peers", "none", "--only", "PyTorch in turns", "--threads", "1"]) == 0
    assert capsys.readouterr().out.count("- threads, PyTorch in turns: left out, not installed") == 1


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(PACKAGES, "torch", "no_such_package")
    monkeypatch.setattr("benchmarks.remote.ENVIRONMENTS", tmp_path)
    with pytest.raises(Absent, match="python -m benchmarks environment torch"):
        interpreter("torch", {})
    assert interpreter("torch", {"torch": "/a/python"}) == "/a/python"
    (tmp_path / "torch" / "bin").mkdir(parents=True)
    (tmp_path / "torch" / "bin" / "python").touch()
    assert interpreter("torch", {}) == str(tmp_path / "torch" / "bin" / "python")


def test_an_environment_is_of_the_newest_python_that_has_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], check: bool) -> SimpleNamespace:
        asked.append(command)
        return SimpleNamespace(returncode=int("pip" in command and len(asked) < 4))

    monkeypatch.setattr(remote, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(remote, "pythons", lambda: ["/newest", "/older", "/oldest"])
    monkeypatch.setattr(remote.subprocess, "run", run)
    remote.make_environment("onnxruntime")
    assert [command[0] for command in asked[::2]] == ["/newest", "/older"] and "onnx" in asked[1]
    assert "of /older" in capsys.readouterr().out
    asked.clear()
    monkeypatch.setattr(remote, "pythons", lambda: ["/newest"])
    with pytest.raises(SystemExit, match="no Python that is here has packages of torch: tried /newest"):
        remote.make_environment("torch")


def test_an_environment_that_is_not_complete_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its making may be killed at any moment."""
    monkeypatch.setitem(PACKAGES, "torch", "no_such_package")
    monkeypatch.setattr(remote, "ENVIRONMENTS", tmp_path / "new")
    monkeypatch.setattr(remote, "pythons", lambda: ["/newest"])
    python = tmp_path / "new" / "torch" / "bin" / "python"

    def run(command: list[str], check: bool) -> SimpleNamespace:
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        if "pip" in command and not resumed:
            raise KeyboardInterrupt
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(remote.subprocess, "run", run)
    resumed = False
    with pytest.raises(KeyboardInterrupt):
        remote.make_environment("torch")
    assert python.exists()
    with pytest.raises(Absent):
        interpreter("torch", {})
    resumed = True
    remote.make_environment("torch")
    assert interpreter("torch", {}) == str(python)


def test_pythons_that_are_here() -> None:
    assert sys.executable in remote.pythons()


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    command = ["custom", "--quick", "--peers", "none", "--threads", "1", "--only", "GARCH", "--mode", "reference"]
    assert main([*command, "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "| scanjit " in printed and "### GARCH(1,1), gradient: T=300, float64" in printed
    rows = json.loads(path.read_text())["rows"]
    assert [row["kind"] for row in rows] == ["forward", "gradient"]
    assert all(len(times["passed"]) == 3 for row in rows for times in row["times"].values())
    assert all(row["limit"] > 0 for row in rows)


@pytest.mark.slow
def test_starts_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of what is there; why something is not there is said."""
    path = tmp_path / "results.json"
    command = ["compile", "--quick", "--peers", "numpy", "--threads", "1", "--json", str(path)]
    assert main([*command, "--only", "GARCH(1,1), hessian"]) == 0
    start = report.load(str(path)).starts[0]
    assert (start.case, start.kind, start.engine) == ("GARCH(1,1)", "hessian", "scanjit")
    assert start.kernels and start.lines and start.lines > start.kernels and start.cold_used
    assert "| scanjit: GARCH(1,1), hessian |" in capsys.readouterr().out
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    task = Task(find("GARCH(1,1)"), {"T": 3}, "float64", "hessian")
    assert startup.starts(task, ["numpy", "torch"], {}, 1, "", skipped, failed) == [] and not failed
    assert skipped == {f"numpy, {task.title}": "no second derivatives"}


def test_words_that_are_not_there() -> None:
    with pytest.raises(SystemExit, match=f"there is no 'lstn'; there are {', '.join(WORDS)}"):
        main(["lstn"])
    with pytest.raises(SystemExit, match="there is no peer 'theano'"):
        main(["lstm", "--peers", "torch,theano"])


# ---- the report ------------------------------------------------------------------------------------------------------


def canned() -> Report:
    """A run in which everything was measured, with round numbers."""

    def row(case: str, group: str, kind: str, own: float, **others: float) -> Row:
        times = {n: Times(1e-7, 0.5, 0.01, [s, s, 2 * s], [s, s, s]) for n, s in {"scanjit": own, **others}.items()}
        sizes = {"B": 16, "T": 100, "I": 120, "H": 320}
        return Row(case, group, kind, "float32", sizes, 0.5 * own, "a limit", False, times, {}, {})

    result = Report(threads=2, facts=["a machine"], versions={"scanjit": "1", "torch": "2"})
    result.skipped = {"pytensor": "not installed"}
    result.rows = [
        row("LSTM", "lstm", "forward", 0.004, torch=0.008, jax=0.006),
        row("LSTM", "lstm", "gradient", 0.01, torch=0.02, numba=0.001),
        row("GRU", "gru", "forward", 0.004, torch=0.003),
        row("minGRU", "custom", "forward", 0.001, jax=0.003),
        row("two layers", "layers", "forward", 0.01, lasagne_like=0.0102),
    ]
    result.rows[0].absent["onnxruntime"] = "forward only"
    result.starts = [Start("LSTM", "forward", "scanjit", "", 0.1, 0.9, 0.2, 0.01, 0.01, 0.05, 0.06)]
    result.memories = [Memory("LSTM", "scanjit", 130, 20, 100)]
    result.scaling = [Scaling("LSTM", {"1": 0.02, "2": 0.01}, False)]
    result.overhead = 5e-6
    return result


def test_targets_from_measurements() -> None:
    found = {target.what: (target.measured, target.met) for target in targets(canned())}
    assert found["LSTM and GRU, forward: against the best peer, every row"] == ("0.75x to 1.50x; 1 of 2 rows", False)
    assert found["LSTM and GRU, forward: geometric mean"] == ("1.06x of 2 rows", False)
    assert found["LSTM and GRU, with gradient: geometric mean"] == ("2.00x of 1 rows", True)
    assert found["custom recurrences, forward: against the best peer, every row"][1]
    assert found["custom recurrences, with gradient: against the best peer, every row"] == ("-", None)
    assert found["fraction of the fma limit, B >= 16, H >= 128, forward"] == ("0.50 to 0.50; 0 of 2 rows", False)
    assert found["time of a prebuilt layer, relative to the same recurrence written with scan"] == (
        "1.02 to 1.02",
        True,
    )
    assert found["LSTM, forward: cold compile"] == ("0.9 s", True)
    assert found["LSTM, gradient: cold compile"] == ("-", None)
    assert found["call of a compiled scalar function"] == ("5 us", True)
    assert found["memory of forward and backward, relative to the traces that the gradient needs"] == ("1.10", True)
    assert found["results do not depend on the number of threads"] == ("0 of 1 programs", False)


def test_the_best_peer_is_the_fastest_that_is_one() -> None:
    first, second = canned().rows[:2]
    assert best_peer(first) == "jax" and ratio(first) == pytest.approx(1.5) and fraction(first) == pytest.approx(0.5)
    assert best_peer(second) == "torch"  # a loop by hand is none


def test_a_limit_that_was_disturbed_is_raised_to_that_of_most_rows() -> None:
    def row(dtype: str, pace: int) -> Row:
        return Row("a", "lstm", "forward", dtype, {}, 3.0 / pace, f"3 GFLOP at {pace} GFLOP/s", False, {}, {}, {})

    rows = [row("float32", pace) for pace in (200, 210, 120, 190, 205)] + [row("float64", 90)]
    settle(rows)
    assert [3.0 / r.limit for r in rows if r.limit] == pytest.approx([200, 210, 200, 200, 205, 90])
    assert rows[2].limited_by == "3 GFLOP at 200 GFLOP/s"


def test_the_report(tmp_path: Path) -> None:
    saved, written = tmp_path / "results.json", tmp_path / "RESULTS.md"
    report.save(canned(), str(saved))
    assert report.load(str(saved)) == canned()
    assert main(["report", str(saved), str(saved), "--output", str(written)]) == 0
    text = written.read_text()
    assert text.count("## Targets, 2 threads") == 2 and "PyTensor: left out, not installed" in text
    assert "**missed**" in text and "not measured" in text
    assert "| JAX     |       6.00 | 6.00–9.00 |         0.33 |  1.00 |" in text
    assert "ONNX Runtime: forward only." in text


def test_the_picture(tmp_path: Path) -> None:
    saved, path = tmp_path / "results.json", tmp_path / "picture.svg"
    report.save(canned(), str(saved))
    command = ["report", str(saved), "--plot", str(path)]
    if not importlib.util.find_spec("matplotlib"):
        with pytest.raises(ImportError, match=r"scanjit\[plot\]"):
            main(command)
        return
    before = report.RESULTS.read_bytes()
    assert main(command) == 0
    text = path.read_text()
    assert ">LSTM<" in text and "1x: as fast" in text and "part of the hardware" in text
    assert "beside the fastest of PyTorch, JAX" in text and "1.50x JAX" in text
    assert report.RESULTS.read_bytes() == before  # a picture alone was asked for
    kinds = replace(canned(), rows=[row for row in canned().rows if row.case in picture.KINDS])
    report.save(kinds, str(saved))
    assert main(command) == 0
    assert "part of the hardware" not in path.read_text()


def test_the_picture_of_the_readme_is_that_of_these_kinds() -> None:
    text = (Path(__file__).parent.parent / "docs" / "kinds.svg").read_text(encoding="utf-8")
    assert len(picture.KINDS) <= 10 and "1x: as fast" in text
    assert [label for label in picture.KINDS.values() if f">{label}<" not in text] == []
    assert all(find(case).kinds[:2] == ("forward", "gradient") for case in picture.KINDS)


def test_one_row_of_each_kind_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    command = ["kinds", "--quick", "--peers", "none", "--threads", "1", "--mode", "reference", "--json", str(path)]
    assert main([*command, "--only", "filter"]) == 0
    assert [row.case for row in report.load(str(path)).rows] == ["Kalman filter", "Kalman filter"]


def test_widths_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": (3, 33), "ELEMENTS": 1, "STEPS": 2, "ROUNDS": 1}.items():
        monkeypatch.setattr(columns, name, value)
    monkeypatch.setattr(sj, "function", functools.partial(sj.function, mode="emulate"))
    found = list(columns.measure())
    assert [(width.columns, width.gradient) for width in found] == [(3, False), (3, True), (33, False), (33, True)]
    assert all(width.known > 0 and width.unknown > 0 for width in found)


def test_shapes_of_tiles_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is that of the table; the table itself is as before."""
    for name, value in {"DEPTHS": (3,), "ROUNDS": 1, "SECONDS": 0.0}.items():
        monkeypatch.setattr(tiles, name, value)
    monkeypatch.setattr(groups, "MOST_REDUCTIONS", 1)
    before = {key: dict(speeds) for key, speeds in measured.MEASURED.items()}
    found = tiles.measure()
    assert list(found) == [1]
    assert all(rows * vectors <= 24 and speed > 0 for (rows, vectors), speed in found[1].items())
    assert before == measured.MEASURED


def test_models_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BLOCKS": 2, "SECONDS": 0.0, "REST": 0.0}.items():
        monkeypatch.setattr(models, name, value)
    monkeypatch.setattr(sj.config, "threads", 2)
    turns: list[str] = []

    def contender(name: str, result: float) -> Callable[[], list[np.ndarray]]:
        return lambda: (turns.append(name), [np.full(2, result)])[1]

    made = models.Model("a model", "a peer", lambda: (contender("ours", 1.0), contender("theirs", 1.5)))
    monkeypatch.setattr(models, "models", lambda: [made])
    (row,) = models.measure()
    assert row[:3] == ("a model", "a peer", 0.5) and row.ours > 0 and row.theirs > 0
    assert turns == ["ours", "theirs", *(["ours"] * 4 + ["theirs"] * 4) * 2]


def test_fits_take_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ours beside statsmodels where it is installed; an engine whose likelihoods are better than ours is a failure."""
    assert main(["fits", "--only", "local", "--quick"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"scanjit  +20 .* 1\.0   0, 0\n  scanjit, one by one  +20 .*  0, 0", printed)
    assert ("statsmodels, one by one is left out" in printed) == (importlib.util.find_spec("statsmodels") is None)

    class Worker:
        def __init__(self, python: str, case: str, title: str, count: int, folder: Path) -> None:
            self.count, self.likelihoods = count, np.full(count, -100.0 if title == "scanjit" else -90.0)

        def seconds(self) -> float:
            return 0.5

        def close(self) -> None:
            pass

    monkeypatch.setattr(fits, "_Worker", Worker)
    assert main(["fits", "--only", "local", "--quick"]) == 1
    assert "25.0000     1.0   0, 20" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("c++") is None, reason="needs C and C++ compilers")
def test_libraries(capsys):
    assert libraries.main(["--blocks", "3", "--rounds", "1"]) == 0  # raises if somebody computes something else
    printed = capsys.readouterr().out
    assert re.search(r"^library, a sample in each call( +\d+\.\d){4}", printed, re.MULTILINE)
    assert re.search(r"^wheel( +\d+\.\d){3}$", printed, re.MULTILINE)
    assert re.search(r"^cortex-m4( +\d+){6}$", printed, re.MULTILINE)
