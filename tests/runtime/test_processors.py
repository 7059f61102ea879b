"""How many threads there are: what the user says, else the least of what the machine and those around us allow."""

import os
import textwrap

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import processors
from scanjit.schedule.cost import rates
from tests.scripts import python, script

ALL = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.fixture(autouse=True)
def nobody_limits(monkeypatch):
    monkeypatch.setattr(processors, "_limit", None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processors, "quota", lambda: None)
    monkeypatch.setattr(processors, "_known", processors._UNKNOWN)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    sj.config.threads = 0


def in_a_process(code, **environment):
    """The words that a program of its own prints. It has as many processors as there are."""
    return python("import os, sys\n" + textwrap.dedent(code), **environment).split()


@pytest.mark.parametrize(
    "text, threads",
    [("1", 1), ("3", 3), ("3,2", 3), (" 5 ", 5), ("99", 8), ("0", 8), ("-1", 8), ("many", 8), ("", 8), ("²", 8)],
)
def test_openmps_variable(monkeypatch, text, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert processors.count() == threads


def test_the_least_of_all_counts_and_the_users_setting_before_them(monkeypatch):
    assert processors.count() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert processors.count() == 6
    processors.limit(4)
    assert processors.count() == 4
    monkeypatch.setattr(processors, "quota", lambda: 3)
    monkeypatch.setattr(processors, "_known", processors._UNKNOWN)
    assert processors.count() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5, 7})
    assert processors.count() == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    sj.config.threads = 7
    assert processors.count() == 7


def test_a_limit_that_is_none_is_lifted():
    before = processors.count()
    processors.limit(2)
    processors.limit(before)  # as threadpoolctl sets back what it found
    sj.config.threads = 0
    assert processors.count() == 8 and processors._limit is None
    processors.limit(0)
    assert processors.count() == 1


def test_more_processors_than_there_is_scratch_memory_for(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(500)))
    assert processors.count() == 64


GROUPS = {
    "version 2, in a container": ({"cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
    "version 2, without a limit": ({"cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
    "version 2, the group around it": (
        {"cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "100000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100000"},
        1,
    ),
    "version 2, less than one": ({"cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "5000 100000\n"}, 1),
    "version 2, outside its own": ({"cgroup": "0::/../../x", "sys/fs/cgroup/cpu.max": "300000 100000"}, 3),
    "version 1": (
        {
            "cgroup": "5:cpuset:/\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/",
            "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "400000",
            "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000",
        },
        4,
    ),
    "version 1, in a container": (
        {
            "cgroup": "1:cpu:/docker/x\n0::/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "25000",
        },
        2,
    ),
    "version 1, without a limit": (
        {
            "cgroup": "1:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        None,
    ),
    "nonsense": ({"cgroup": "what\n0::/\n:::", "sys/fs/cgroup/cpu.max": "1 0"}, None),
    "none": ({}, None),
}


@pytest.mark.parametrize("case", GROUPS)
def test_quotas_of_control_groups(monkeypatch, tmp_path, case):
    monkeypatch.undo()
    files, expected = GROUPS[case]
    for name, text in files.items():
        path = tmp_path / ("proc/self/cgroup" if name == "cgroup" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert processors.quota(tmp_path) == expected


def test_a_quota_is_asked_for_again(monkeypatch):
    assert processors.count() == 8
    monkeypatch.setattr(processors, "quota", lambda: 2)
    assert processors.count() == 8
    monkeypatch.setattr(processors, "KNOWN_SECONDS", 0.0)
    assert processors.count() == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity")
def test_changes_in_a_child(monkeypatch):
    monkeypatch.undo()
    before = min(ALL, processors.quota() or ALL)
    for change in (
        "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])",
        "os.environ['OMP_NUM_THREADS'] = '1'",
    ):
        code = f"""
        from scanjit.runtime import processors
        before = processors.count()
        {change}
        print(before, processors.count())
        """
        assert in_a_process(code) == [str(before), "1"]
    count = "from scanjit.runtime import processors; print(processors.count())"
    assert in_a_process(count, OMP_NUM_THREADS="1") == ["1"]
    assert in_a_process(count, OMP_NUM_THREADS="1", SCANJIT_NUM_THREADS="3") == ["3"]


@pytest.mark.parametrize("first", ["scanjit", "threadpoolctl"])
def test_threadpoolctl_limits_us_whichever_is_imported_first(first):
    pytest.importorskip("threadpoolctl", "3.2")
    code = f"""
    import importlib.util
    import {first}, scanjit
    assert importlib.util.find_spec("threadpoolctl")  # which imports nothing
    import threadpoolctl
    assert not any("scanjit" in type(finder).__module__ for finder in sys.meta_path)
    from scanjit.runtime import processors
    from threadpoolctl import threadpool_info, threadpool_limits
    os.sched_getaffinity = lambda pid: set(range(8))
    processors.quota = lambda: None
    processors._forget()
    ours = [info for info in threadpool_info() if info["internal_api"] == "scanjit"]
    assert len(ours) == 1 and ours[0]["num_threads"] == 8, ours
    seen = [processors.count()]
    with threadpool_limits(3):
        seen.append(processors.count())
        with threadpool_limits(1):
            seen.append(processors.count())
        seen.append(processors.count())
        with threadpool_limits({{"scanjit": 2}}):
            seen.append(processors.count())
    seen.append(processors.count())
    with threadpool_limits(1, user_api="blas"):
        seen.append(processors.count())
    scanjit.config.threads = 5
    with threadpool_limits(1):
        seen.append(processors.count())
    scanjit.config.threads = 0
    print(*seen, processors.count())
    assert type(sys.modules["threadpoolctl"].__loader__).__module__.startswith("_frozen_importlib")
    """
    assert in_a_process(code) == ["8", "3", "1", "3", "2", "8", "8", "5", "8"]


def test_to_import_us_imports_no_threadpoolctl():
    assert in_a_process("import scanjit; print('threadpoolctl' in sys.modules)") == ["False"]


def test_what_is_allowed_is_what_runs(monkeypatch):
    monkeypatch.setattr(rates, "WAKING", 0.0)
    x = sj.matrix("x")
    f = sj.function([x], np.tanh(x @ x))
    monkeypatch.setitem(sj.config.__dict__, "profile", True)
    for threads in (1, 2):
        processors.limit(threads)
        f(np.ones((300, 300)))
        assert f.profile().threads == threads


POOLS = {
    "fork": "multiprocessing.get_context('fork').Pool(n)",
    "spawn": "multiprocessing.get_context('spawn').Pool(n)",
    "forkserver": "multiprocessing.get_context('forkserver').Pool(n)",
    "executor": "ProcessPoolExecutor(n)",
}


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")
@pytest.mark.parametrize("name", POOLS)
def test_workers_of_a_pool_share_the_processors(tmp_path, name):
    """Two workers on all processors use half of them each; one worker, or a process that is alone, all of them."""
    code = f"""
    import multiprocessing, time
    from concurrent.futures import ProcessPoolExecutor
    from scanjit.runtime import processors

    def threads(_):
        time.sleep(1.1)  # until all workers are there, and what is known of them is asked for again
        return processors.count()

    if __name__ == "__main__":
        own = processors.count()
        for n in (1, 2):
            with {POOLS[name]} as pool:
                print(own, *sorted(set(pool.map(threads, range(n)))))
    """
    own, alone, *shared = script(tmp_path, code)
    assert alone == own and shared == [own, str(max(int(own) // 2, 1))]


def test_a_limit_that_is_said_is_not_shared(monkeypatch):
    monkeypatch.setattr(processors, "workers", lambda: 4)
    assert processors.count() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    processors._forget()
    assert processors.count() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    sj.config.threads = 5
    assert processors.count() == 5
