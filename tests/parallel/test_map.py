"""A function of many parts: in this process, in those of joblib, on the workers of Dask."""

import operator
import sys

import numpy as np
import pytest

import scanjit as sj
from scanjit.parallel import travel
from scanjit.runtime import cache, processors
from tests.scripts import script

# ---- here ------------------------------------------------------------------------------------------------------------


@sj.jit(mode="reference")
def last(a, xs):
    return sj.scan(lambda x, h: a * h + x, sequences=xs, outputs_info=0.0)[-1]


def test_results_are_in_the_order_of_the_parts():
    assert sj.parallel.map(last, (0.0, 0.5, 1.0), common=[np.ones(3)]) == [1.0, 1.75, 3.0]
    assert sj.parallel.map(last, []) == []
    assert sj.parallel.map(last, [], combine=operator.add) is None


@pytest.mark.parametrize(
    ("count", "expected"), [(1, "0"), (2, "(0+1)"), (5, "(((0+1)+(2+3))+4)"), (7, "(((0+1)+(2+3))+((4+5)+6))")]
)
def test_results_are_combined_in_pairs(count, expected):
    assert sj.parallel.map(str, range(count), combine=lambda a, b: f"({a}+{b})") == expected


def failing(x):
    if x % 3 == 1:
        raise ValueError(f"no {x}")
    return x * 10


@pytest.mark.parametrize("combine", [None, operator.add])
def test_an_error_names_the_part_and_has_the_other_results(combine):
    with pytest.raises(sj.parallel.PartError, match="part 1 of 6 failed, and 1 more: 4") as caught:
        sj.parallel.map(failing, range(6), combine=combine)
    error = caught.value
    assert error.part == 1 and error.results == [0, None, 20, 30, None, 50]
    assert {i: str(e) for i, e in error.errors.items()} == {1: "no 1", 4: "no 4"}
    assert error.__cause__ is error.errors[1]
    assert "ValueError: no 1" in str(error) and "the part 1" in str(error)


def test_an_error_shows_a_part_in_a_line():
    def refuse(part):
        raise ValueError

    for part, shown in [
        (np.zeros((300, 4)), r"the part ndarray of shape \(300, 4\)"),
        ([0.0] * 1000, "the part list of 1000"),
        ("x" * 1000, r"the part 'x{96}\.\.\."),
    ]:
        with pytest.raises(sj.parallel.PartError, match=shown):
            sj.parallel.map(refuse, [part])


def test_parts_do_not_change_what_was_there_before():
    count = sj.shared(0.0, "count")
    step = sj.function([], count, updates={count: count + 1}, mode="reference")
    stream = sj.random.Stream(1)
    draw = sj.jit(lambda x: x + stream.normal(), mode="reference")
    with pytest.raises(sj.NotSupportedError, match="function updates shared variables") as refused:
        sj.parallel.map(step, [])
    assert "'count'" in str(refused.value)
    for function in (lambda x: step(), lambda x: count.set_value(x), lambda x: sj.set_values({count: x}), draw):
        with pytest.raises(sj.parallel.PartError) as caught:
            sj.parallel.map(function, [1.0])
        assert isinstance(caught.value.__cause__, sj.NotSupportedError)
        assert "must not change here" in str(caught.value)
    assert count.get_value() == 0 and step() == 0


def test_parts_may_have_variables_of_their_own():
    def summed(x):
        total = sj.shared(0.0)
        add = sj.function([], total, updates={total: total + x}, mode="reference")
        return [float(add()) for _ in range(3)]

    assert sj.parallel.map(summed, [1.0, 2.0]) == [[0, 1, 2], [0, 2, 4]]


def test_bad_arguments():
    for wrong, message in [
        ({"parts": None}, "parts must be a list"),
        ({"parts": [1], "common": 3}, "common must be a list"),
        ({"parts": [1], "combine": 3}, "combine must be a function"),
    ]:
        with pytest.raises(sj.ArgumentError, match=message):
            sj.parallel.map(abs, **wrong)
    with pytest.raises(sj.ArgumentError, match="map calls a function on each part"):
        sj.parallel.map(3, [])
    pytest.importorskip("distributed")
    with pytest.raises(sj.ArgumentError, match="the client is none of Dask's"):
        sj.parallel.map(last, [], client="tcp://localhost")


def test_without_dask_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "scanjit.parallel.cluster", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'scanjit\[dask\]'"):
        sj.parallel.map(last, [], client=object())


def test_the_processors_are_shared(monkeypatch):
    monkeypatch.setattr(processors, "_processors", lambda: (12, 3))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert processors.available() == 1
    for threads, share in [(1, 12), (5, 2), (13, 1), (0, 12)]:
        with processors.sharing(threads):
            assert processors.count() == share
            monkeypatch.setattr(sj.config, "threads", 7)
            assert processors.count() == 7  # what the user says comes first
            monkeypatch.setattr(sj.config, "threads", 0)


# ---- kernels that travel ---------------------------------------------------------------------------------------------


@pytest.fixture
def there(tmp_path, monkeypatch):
    """What another process could send, and an empty cache for it."""
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path / "here"))
    store = cache.default()
    stems = [f"{word}_{'0123456789abcdef0123'}" for word in ("kernel", "older")]
    for stem in reversed(stems):
        store.source(stem, "text")
        store.store(stem, cache.CacheEntry({"symbol": stem}, b"code" * 10))
    names = travel.used()
    assert names == [(stem, "o") for stem in stems]
    contents = travel.packed(names)
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path / "there"))
    return names, contents


def test_entries_travel(there):
    names, contents = there
    assert [name for name, _ in contents] == [(stem, kind) for stem, _ in names for kind in ("o", "py")]
    assert travel.lacking(travel.machine(), names) == names
    assert travel.unpack(travel.machine(), contents) == 4
    assert travel.lacking(travel.machine(), names) == [] and travel.unpack(travel.machine(), contents) == 0
    assert cache.default().load(names[0].stem).payload == b"code" * 10 and cache.default().text(names[0].stem) == "text"


def test_only_what_was_made_for_this_machine_is_kept(there):
    names, contents = there
    assert travel.lacking("another", names) == [] and travel.unpack("another", contents) == 0
    assert not cache.default().entries()


def test_only_what_is_whole_is_kept(there):
    (_, _), contents = there
    name, data = contents[0]
    for place in (0, 8, 40, len(data) - 1):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert travel.unpack(travel.machine(), [(name, damaged)]) == 0
    for stem, kind in [("../outside_0123456789abcdef0123", "o"), (name.stem, "so"), ("kernel", "o")]:
        assert travel.unpack(travel.machine(), [(travel.Name(stem, kind), data)]) == 0
    assert not cache.default().directory.exists()


def test_not_too_much_travels(there, monkeypatch):
    _, contents = there
    monkeypatch.setattr(travel, "MOST_BYTES", sum(len(data) for _, data in contents[:2]))
    assert list(travel._limited(contents)) == contents[:2]


# ---- joblib ----------------------------------------------------------------------------------------------------------

FITS = """
    import os
    import time
    from pathlib import Path

    import numpy as np

    import scanjit as sj
    from scanjit.runtime import cache, processors
    from scanjit.runtime.kernels import compile_count
    from tests import workers

    def loss(theta, series):
        decay, level = theta
        errors = sj.scan(lambda x, h: x - decay * h - level, sequences=[series[1:], series[:-1]])
        return (errors**2).sum()

    def minimized(series):
        found = sj.optimize.minimize(loss, np.zeros((len(series), 2)), [series], batched=True, method="lbfgs")
        return found.x

    slopes = sj.jit(lambda theta, series: sj.grad(sj.vmap(loss)(theta, series).sum(), theta))

    def descended(series):
        theta = np.zeros((len(series), 2))
        for _ in range(10):
            theta -= 1e-4 * slopes(theta, series)
        return theta

    def told(series, fit):
        theta = fit(series)
        time.sleep(0.02)
        facts = os.getpid(), compile_count(), processors.count(), workers.count()
        temporary = Path(f"{os.getpid()}of{series[0, 0]}")
        temporary.write_text(repr(facts))
        temporary.rename(f"part{temporary}")
        return theta

    SERIES = np.random.default_rng(0).normal(size=(1000, 40)).cumsum(axis=1)
    PARTS = np.split(SERIES, 20)

    def same(found, fit):
        local = [fit(part) for part in PARTS]
        return all(np.array_equal(a, b) for a, b in zip(found, local, strict=True))

    def check_facts():
        facts = [eval(path.read_text()) for path in Path().glob("part*")]
        assert len(facts) >= 20
        compiled = {}
        for pid, count, threads, started in facts:
            compiled[pid] = max(count, compiled.get(pid, 0))
            assert threads == max(len(os.sched_getaffinity(0)) // 2, 1) and started < threads, facts
        kernels = len(list(cache.default().directory.glob("*.o")))
        assert sum(compiled.values()) == kernels and os.getpid() not in compiled, (compiled, kernels)
        return len(compiled)
"""


def test_in_processes_of_joblib(tmp_path):
    pytest.importorskip("joblib")
    code = """
    import joblib

    def failing(x):
        if x % 3 == 1:
            raise ValueError(f"no {x}")
        return x * 10

    with joblib.parallel_config(n_jobs=2):
        found = sj.parallel.map(told, PARTS, common=[descended])
        try:
            sj.parallel.map(failing, range(6))
        except sj.parallel.PartError as error:
            assert error.results == [0, None, 20, 30, None, 50] and str(error.errors[4]) == "no 4", error
            print("fails")
        total = sj.parallel.map(descended, PARTS[:5], combine=np.add)
    print(np.array_equal(total, sj.parallel.map(descended, PARTS[:5], combine=np.add)))
    print(check_facts() <= 2, same(found, descended))
    """
    assert script(tmp_path, FITS, code, SCANJIT_CACHE_DIR=str(tmp_path / "cache")) == "fails True True True".split()


# ---- Dask ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_is_killed_is_no_loss(tmp_path):
    """Each kernel is compiled once on a machine, and there are no more threads than processors."""
    pytest.importorskip("distributed")
    code = """
    import signal
    import threading

    from distributed import Client, LocalCluster

    def kill():
        while len(found := list(Path().glob("part*"))) < 6:
            time.sleep(0.01)
        os.kill(eval(found[0].read_text())[0], signal.SIGKILL)
        print("killed")

    if __name__ == "__main__":
        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            killer = threading.Thread(target=kill, daemon=True)
            killer.start()
            found = sj.parallel.map(told, PARTS, common=[minimized])
            killer.join()
            print(check_facts() >= 2)
        print(same(found, minimized), compile_count())
    """
    printed = script(tmp_path, FITS, code, SCANJIT_CACHE_DIR=str(tmp_path / "cache"))
    assert printed == ["killed", "True", "True", "0"]


@pytest.mark.slow
def test_on_workers_of_dask(tmp_path):
    """Errors, sums, arrays and delayed calls; kernels come with the function."""
    pytest.importorskip("distributed")
    pytest.importorskip("dask.array")
    code = """
    import operator

    import dask
    import dask.array
    from distributed import Client, LocalCluster

    count = sj.shared(0, "count")
    step = sj.function([], count, updates={count: count + 1}, mode="reference")

    def failing(x):
        if x == 3:
            return step()
        if x % 3 == 1:
            raise ValueError(f"no {x}")
        return x * 10

    @sj.jit
    def smooth(xs):
        return sj.scan(lambda x, h: 0.5 * h + x, sequences=xs.T, outputs_info=0 * xs[:, 0]).T

    def compiled(x, *rest):
        smooth(SERIES)
        return compile_count()

    def nested(x):
        return sj.parallel.map(lambda y: y + x, range(3))

    def fails(*arguments, **options):
        try:
            sj.parallel.map(*arguments, **options)
        except sj.parallel.PartError as error:
            return error
        raise AssertionError("it did not fail")

    if __name__ == "__main__":
        expected = smooth(SERIES)
        options = {"threads_per_worker": 2, "dashboard_address": None}
        with LocalCluster(1, env={"SCANJIT_CACHE_DIR": "elsewhere"}, **options) as cluster, Client(cluster) as client:
            assert set(sj.parallel.map(compiled, range(4), common=[1, 2])) == {0}
            for combine in (None, operator.add):
                error = fails(failing, range(6), combine=combine)
                results = [0, None, 20, None, None, 50] if combine is None else [None] * 6
                assert error.part == 1 and error.results == results, error
                assert [str(error.errors[1]), "must not change" in str(error.errors[3])] == ["no 1", True]
            join = lambda a, b: f"({a}+{b})"
            assert sj.parallel.map(str, range(5), combine=join) == "(((0+1)+(2+3))+4)"
            assert sj.parallel.map(nested, [1, 2]) == [[1, 2, 3], [2, 3, 4]]
            assert sj.parallel.map(processors.limit, [4]) == [None]
            shares = sj.parallel.map(lambda x: processors.available(), range(4))
            assert set(shares) == {max(len(os.sched_getaffinity(0)) // 2, 1)}, shares

            blocks = dask.array.from_array(SERIES, chunks=(300, -1)).map_blocks(smooth, dtype=float)
            assert np.array_equal(blocks.compute(), expected)
            calls = [dask.delayed(smooth)(part) for part in PARTS[:4]]
            assert np.array_equal(np.concatenate(dask.compute(*calls)), expected[:200])
            print("fine")
    """
    assert script(tmp_path, FITS, code, SCANJIT_CACHE_DIR=str(tmp_path / "cache")) == ["fine"]
