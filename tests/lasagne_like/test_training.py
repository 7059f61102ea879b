"""The helper for training loops: minibatches, early stopping, progress bars, checkpoints."""

import contextlib
import io
import math
import os
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.packing import Packing
from lasagne_like.training import Checkpoint, EarlyStopping, minibatches, progress


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the file system, in order; waiting for a busy disk is no part of these tests."""
    asked: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: asked.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *paths: (asked.append("replace"), replace(*paths)))
    return asked


# ---- minibatches -----------------------------------------------------------------------------------------------------


def ragged(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [rng.normal(size=(length, 2)) for length in rng.integers(1, 30, count)]


@pytest.mark.parametrize("bucket", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sequence_comes_once_padded_and_masked(shuffle: bool, bucket: bool, rng: np.random.Generator) -> None:
    sequences = ragged(rng, 53)
    steps = [sequence[:, :1] > 0 for sequence in sequences]
    found = {}
    for x, mask, t in minibatches(sequences, steps, 8, shuffle=shuffle, rng=rng, bucket=bucket):
        assert x.shape[:2] == mask.shape == t.shape[:2] and len(x) <= 8 and x.shape[1] == mask.sum(1).max()
        assert mask.dtype == sj.config.floatX and t.dtype == bool
        for row, own, answer in zip(x, mask, t, strict=True):
            length = int(own.sum())
            assert own[:length].all() and not row[length:].any() and not answer[length:].any()
            found[row[:length].tobytes()] = answer[:length].tolist()
    assert found == {x.tobytes(): t.tolist() for x, t in zip(sequences, steps, strict=True)}


def test_buckets_save_padding_and_order_is_drawn_from_the_generator() -> None:
    sequences = ragged(np.random.default_rng(0), 200)

    def batches(seed: int, **options: Any) -> list[np.ndarray]:
        return [mask for _, mask in minibatches(sequences, None, 10, rng=np.random.default_rng(seed), **options)]

    def size(masks: list[np.ndarray]) -> int:
        return sum(mask.size for mask in masks)

    assert size(batches(0)) < 0.65 * size(batches(0, bucket=False))
    assert [m.shape for m in batches(0)] == [m.shape for m in batches(0)] != [m.shape for m in batches(1)]
    lengths = [mask.shape[1] for mask in batches(0)]
    assert lengths != sorted(lengths)  # long batches do not all come last
    lasagne.random.set_rng(np.random.default_rng(3))
    first = [mask.shape for _, mask in minibatches(sequences)]
    lasagne.random.set_rng(np.random.default_rng(3))
    assert first == [mask.shape for _, mask in minibatches(sequences)]


def test_targets_of_one_shape_are_stacked() -> None:
    sequences = [[1, 2], [3], [4, 5, 6]]
    ((x, mask, t),) = minibatches(sequences, [7, 8, 9], shuffle=False, bucket=False)
    assert x.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]] and t.tolist() == [7, 8, 9] and mask.sum() == 6
    ((_, _, t),) = minibatches(sequences, [[1, 2]] * 3, shuffle=False)
    assert t.tolist() == [[1, 2]] * 3
    assert list(minibatches([])) == []


def test_minibatches_names_what_does_not_fit() -> None:
    for wrong in (0, 2.5, 2.0, np.inf, "2", None):
        with pytest.raises(ValueError, match=f"batch_size must be a whole number of at least 1, got {wrong!r}"):
            minibatches([[1]], batch_size=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 1 sequences but 2 targets"):
        minibatches([[1]], [1, 2])
    with pytest.raises(ValueError, match=r"number 0 has the shape \(1, 2\), number 1 \(1, 3\)"):
        minibatches([np.zeros((1, 2)), np.zeros((1, 3))])
    with pytest.raises(ValueError, match=r"target 1 has the shape \(3,\), its sequence \(2,\)"):
        minibatches([[1], [2, 3]], [[1], [1, 2, 3]])
    with pytest.raises(ValueError, match="at least one axis, time, but number 0"):
        minibatches([1, 2])
    with pytest.raises(sj.ArgumentError, match="sequence 1 has masked entries"):
        minibatches([[1], np.ma.array([2, 3], mask=[0, 1])])
    with pytest.raises(sj.ArgumentError, match="target 0 has masked entries"):
        minibatches([[1, 2]], [np.ma.array([2, 3], mask=[0, 1])])
    with pytest.raises(sj.ArgumentError, match="sequence 0 has masked entries"):
        minibatches([[np.ma.array([2, 3], mask=[0, 1]), [4, 5]]])


# ---- early stopping --------------------------------------------------------------------------------------------------


def test_early_stopping() -> None:
    stopping = EarlyStopping(patience=2, min_delta=0.1)
    decisions = []
    for loss in (1.0, 0.5, 0.45, math.nan, 0.3):
        decisions.append((stopping(loss), stopping.improved))
    assert decisions == [(False, True), (False, True), (False, False), (True, False), (False, True)]
    assert stopping.best == 0.3 and stopping.waited == 0
    rising = EarlyStopping(1, larger_is_better=True)
    assert [rising(accuracy) for accuracy in (0.5, 0.6, 0.6)] == [False, False, True]
    other = EarlyStopping(1, larger_is_better=True)
    other.set_state(rising.get_state())
    assert vars(other) == vars(rising)
    for wrong in ((0,), ("a",), (1.5,), (None,), (1, -1.0), (1, "a")):
        with pytest.raises(ValueError, match="patience must be at least 1"):
            EarlyStopping(*wrong)


def test_what_minibatches_refuse() -> None:
    for wrong, message in [({"sequences": 3}, "sequences must be a list"), ({"rng": 3}, "rng must be a generator")]:
        with pytest.raises(TypeError, match=message):
            minibatches(**{"sequences": [[1, 2], [3]]} | wrong)


# ---- progress --------------------------------------------------------------------------------------------------------


def test_progress_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert list(progress(range(3), lambda: "loss")) == list(progress(range(3), show=False)) == [0, 1, 2]
    with pytest.raises(ImportError, match=r"pip install 'scanjit\[progress\]'"):
        progress(range(3), show=True)


def test_progress_with_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Bar:
        def __init__(self, iterable: Any, **options: Any) -> None:
            self.iterable, self.options, self.shown = iterable, options, []
            made.append(self)

        def __iter__(self) -> Any:
            return iter(self.iterable)

        def set_description_str(self, text: str, refresh: bool) -> None:
            self.shown.append(text)

    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    done: list[int] = []
    for i in progress(range(3), lambda: f"{len(done)} done", show=True):
        done.append(i)
    assert done == [0, 1, 2] and made[0].shown == ["1 done", "2 done", "3 done"]
    assert list(progress("ab", "letters")) == ["a", "b"]
    assert [bar.options for bar in made] == [{"desc": None, "disable": False}, {"desc": "letters", "disable": None}]


# ---- checkpoints -----------------------------------------------------------------------------------------------------


def program(mode: str) -> tuple[Any, np.random.Generator, Any]:
    """A training step with dropout and Adam, the generator of its batches, and one epoch of it."""
    lasagne.random.set_rng(np.random.default_rng(1))
    l_in, l_mask = lasagne.layers.InputLayer((None, None, 2)), lasagne.layers.InputLayer((None, None))
    network = lasagne.layers.GRULayer(
        lasagne.layers.DropoutLayer(l_in, 0.3), 3, mask_input=l_mask, only_return_final=True
    )
    network = lasagne.layers.DenseLayer(network, 1, nonlinearity=None)
    target = sj.vector("target")
    loss = lasagne.objectives.squared_error(lasagne.layers.get_output(network)[:, 0], target).mean()
    updates = lasagne.updates.adam(loss, lasagne.layers.get_all_params(network, trainable=True), 0.05)
    train = sj.function([l_in.input_var, l_mask.input_var, target], loss, updates=updates, mode=mode)
    rng = np.random.default_rng(5)
    sequences = ragged(np.random.default_rng(0), 9)
    sums = [sequence.sum() for sequence in sequences]

    def epoch() -> list[bytes]:
        return [train(*batch).tobytes() for batch in minibatches(sequences, sums, 4, rng=rng)]

    return train, rng, epoch


@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_a_run_goes_on_bit_for_bit(tmp_path: Path, mode: str) -> None:
    train, rng, epoch = program(mode)
    whole = Checkpoint(tmp_path / "unused.npz", train, rng=rng)
    losses = [epoch() for _ in range(4)]
    final = [variable.get_value() for variable in whole.variables]
    trained = [variable for variable in whole.variables if variable.name and variable.name.endswith(".m")]
    assert trained and "random_state" in [variable.name for variable in whole.variables]

    train, rng, epoch = program(mode)
    half = Checkpoint(tmp_path / "run.npz", train, rng=rng)
    assert [epoch() for _ in range(2)] == losses[:2]
    half.save(epoch=2)

    train, rng, epoch = program(mode)  # as another process would
    rng.normal(size=3)
    rest = Checkpoint(tmp_path / "run.npz", train, rng=rng)
    assert rest.load() == {"epoch": 2}
    assert [epoch() for _ in range(2)] == losses[2:]
    for variable, value in zip(rest.variables, final, strict=True):
        assert variable.get_value().tobytes() == value.tobytes(), variable.name
    assert os.listdir(tmp_path) == ["run.npz"]


KILLED = """
import os, signal, sys
import numpy as np
from lasagne_like.training import Checkpoint
from tests.lasagne_like.test_training import program

def half(file, **arrays):
    with open(sys.argv[1] + ".whole", "wb") as whole:
        savez(whole, **arrays)
    data = open(whole.name, "rb").read()
    file.write(data[: len(data) // 2])
    file.flush()
    die()

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

os.fsync = lambda handle: None  # a kill does not need it, and a busy disk takes its time
train, rng, epoch = program("reference")
checkpoint = Checkpoint(sys.argv[1], train, rng=rng)
for i in range(2):
    epoch()
    checkpoint.save(epoch=i + 1)
epoch()
savez = np.savez
if sys.argv[2] == "writing":
    np.savez = half
else:
    os.replace = die
checkpoint.save(epoch=3)
"""
"""A run that is killed in its third epoch, while it writes a checkpoint."""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal here")
@pytest.mark.parametrize("moment", ["writing", "renaming"])
def test_a_run_that_is_killed_while_it_saves_goes_on_bit_for_bit(tmp_path: Path, moment: str) -> None:
    train, rng, epoch = program("reference")
    whole = Checkpoint(tmp_path / "unused.npz", train, rng=rng)
    losses = [epoch() for _ in range(4)]
    final = [variable.get_value() for variable in whole.variables]

    path = tmp_path / "run.npz"
    command = [sys.executable, "-c", KILLED, str(path), moment]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    killed = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (part,) = tmp_path.glob(".run.npz-*")
    assert part.stat().st_size > 100

    train, rng, epoch = program("reference")
    rest = Checkpoint(path, train, rng=rng)
    assert rest.load() == {"epoch": 2}
    assert [epoch() for _ in range(2)] == losses[2:]
    for variable, value in zip(rest.variables, final, strict=True):
        assert variable.get_value().tobytes() == value.tobytes(), variable.name
    rest.save(epoch=4)
    assert rest.load() == {"epoch": 4}


def test_files_are_on_the_disk_before_they_get_their_name(tmp_path: Path, synced: list[str]) -> None:
    Checkpoint(tmp_path / "run.npz").save()
    assert synced == ["fsync", "replace"]


def test_a_checkpoint_may_be_read_by_whom_other_files_may(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    Checkpoint(tmp_path / "run.npz").save()
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    "make", [np.random.default_rng, np.random.RandomState, lambda seed: np.random.Generator(np.random.MT19937(seed))]
)
def test_generators_go_on(tmp_path: Path, make: Any) -> None:
    rng, w = make(1), sj.shared(1.0, "w")
    rng.normal(size=3)  # an odd number: a legacy generator keeps half of a pair
    checkpoint = Checkpoint(tmp_path / "run.npz", w, rng=rng)
    checkpoint.save()
    expected = rng.normal(size=5).tobytes()
    rng.permutation(7)
    checkpoint.load()
    assert rng.normal(size=5).tobytes() == expected
    other = np.random.Generator(np.random.Philox(1))
    with pytest.raises(ValueError, match="not of Philox"):
        Checkpoint(tmp_path / "run.npz", w, rng=other).load()


def test_what_a_checkpoint_holds(tmp_path: Path) -> None:
    l_in = lasagne.layers.InputLayer((None, 2))
    network = lasagne.layers.BatchNormLayer(lasagne.layers.DenseLayer(l_in, 3))
    stream, w = sj.random.Stream(1), sj.shared(1.0, "w")
    updates = lasagne.updates.adam(w * w, [w])
    checkpoint = Checkpoint(tmp_path / "run.npz", network, stream, updates, [w])
    names = [variable.name for variable in checkpoint.variables]
    assert len(names) == len(lasagne.layers.get_all_params(network)) + 1 + len(updates)
    assert "random_state" in names and names.count("w") == 1
    with pytest.raises(TypeError, match="a checkpoint holds compiled functions"):
        Checkpoint(tmp_path / "run.npz", 3)
    with pytest.raises(TypeError, match="rng must be a generator"):
        Checkpoint(tmp_path / "run.npz", w, rng=3)


def test_counters_come_back_as_they_were(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run.npz")
    stopping = EarlyStopping(3)
    stopping(0.1 + 0.2)
    checkpoint.save(epoch=np.int64(3), losses=np.array([0.1, math.inf]), stopping=stopping.get_state(), note="a")
    assert checkpoint.load() == {
        "epoch": 3, "losses": [0.1, math.inf], "stopping": {"best": 0.1 + 0.2, "improved": True, "waited": 0},
        "note": "a",
    }  # fmt: skip


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = sj.shared([1.0, 2.0], "w")
    checkpoint = Checkpoint(tmp_path / "run.npz", w)
    checkpoint.save(epoch=1)
    w.set_value([3.0, 4.0])
    with monkeypatch.context() as patched:

        def fails(file: Any, **arrays: Any) -> None:
            file.write(b"half")
            raise KeyboardInterrupt

        patched.setattr(np, "savez", fails)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(epoch=2)
    with pytest.raises(TypeError, match="counters must be numbers"):
        checkpoint.save(epoch=object())
    assert os.listdir(tmp_path) == ["run.npz"]
    assert checkpoint.load() == {"epoch": 1}
    assert w.get_value().tolist() == [1.0, 2.0]


def test_files_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with pytest.raises(FileNotFoundError):
        Checkpoint(path).load()
    a, b = sj.shared(np.zeros(2), "a", shape=(2,)), sj.shared(1.0, "b")
    Checkpoint(path, a, b).save()
    first = sj.shared(np.ones(2), "a", shape=(2,))
    for second, message in [
        (sj.shared(5.0, "c"), "variable 1 of .* is b, float64"),
        (sj.shared(np.float32(5.0), "b"), "does not fit .*float32"),
        (sj.shared([5.0], "b"), "does not fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            Checkpoint(path, first, second).load()
    with pytest.raises(ValueError, match="holds 2 variables, not the 1"):
        Checkpoint(path, first).load()
    with pytest.raises(ValueError, match="does not fit"):
        Checkpoint(path, sj.shared(np.ones(3), "a", shape=(3,)), b).load()
    assert first.get_value().tolist() == [1.0, 1.0]
    np.savez(path, np.zeros(2))
    with pytest.raises(ValueError, match="was not written by Checkpoint"):
        Checkpoint(path, first).load()
    Checkpoint(path, first).save()
    for content in (path.read_bytes()[:100], b"", b"text"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no whole checkpoint"):
            Checkpoint(path, first).load()


def test_batches_of_one_length() -> None:
    batches = list(minibatches([[1, 2, 3], [4], [5, 6]], [[1, 2, 3], [4], [5, 6]], 2, shuffle=False, length=5))
    assert [array.shape for batch in batches for array in batch] == [(2, 5)] * 3 + [(1, 5)] * 3
    assert [mask.sum() for _, mask, _ in batches] == [3, 3]
    with pytest.raises(ValueError, match="cannot pad to length 2: sequence 0 has 3 steps"):
        minibatches([[1, 2, 3], [4]], length=2)
    assert list(minibatches([], length=2)) == []


def test_a_notebook_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is no terminal."""
    pytest.importorskip("tqdm")
    kernel = types.SimpleNamespace(kernel=object())
    shown = []
    for module in (types.SimpleNamespace(get_ipython=lambda: kernel), types.SimpleNamespace(get_ipython=lambda: None)):
        monkeypatch.setitem(sys.modules, "IPython", module)
        with contextlib.redirect_stderr(io.StringIO()) as out:
            assert list(progress(range(3))) == [0, 1, 2]
        shown.append("3/3" in out.getvalue())
    assert shown == [True, False]


def test_lengths_and_targets_of_batches() -> None:
    for length in (2.5, 0, "4", True):
        with pytest.raises(ValueError, match="length must be a whole number of at least 1, got"):
            minibatches([[1, 2]], length=length)
    for targets in (3, {"a": 3}):
        with pytest.raises(TypeError, match="targets must be a list with one for each sequence, got"):
            minibatches([[1, 2]], targets)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"the lengths of sequences must be whole numbers of 1 or more, got \[2.7, 3\]"
    ):
        Packing([2.7, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="row_length must be a whole number of at least 1, got '4'"):
        Packing([2, 3], "4")  # type: ignore[arg-type]
