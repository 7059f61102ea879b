"""What tests need before they are collected."""

import runpy
import signal
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# First: of a file that is run alone, pytest would execute the module once more after its package has imported it, and
# examples would use another copy than the package does.
import lasagne_like
import scanjit as sj
from scanjit.runtime import host
from scanjit.schedule.nests import verify as verifier

verifier.VERIFY = True  # every program that a test compiles
host.cache_sizes = lambda: {1: 32 * 1024, 2: 2**20}  # blocks are as large as a cache, and tests look at their sizes

# A shell ignores Ctrl-C in what it starts in the background, and so would the tests that interrupt themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("scanjit", deadline=None)  # on a busy machine any example may take long
settings.load_profile("scanjit")

collect_ignore_glob = [] if find_spec("onnx") else ["scanjit/onnx/*", "tests/onnx/*"]
if not (find_spec("narwhals") and find_spec("pandas")):
    collect_ignore_glob.append("scanjit/frames/*")
if not find_spec("distributed"):
    collect_ignore_glob.append("scanjit/parallel/cluster.py")
if not find_spec("sklearn"):
    collect_ignore_glob.append("lasagne_like/estimators/*")
if find_spec("matplotlib"):
    import matplotlib

    matplotlib.use("agg")  # also where there is a screen
    matplotlib.rcParams["figure.max_open_warning"] = 0  # each example makes one
else:
    collect_ignore_glob.append("scanjit/plot.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker runs neighbouring tests, which share what they compile; one that has none left takes some of
    another's."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the cases of a test with the mark `quick(n)` as slow, except n of them. The names of cases decide which
    ones, so neighbours are often not alike."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("quick"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        (count,) = found[0].get_closest_marker("quick").args
        for item in sorted(found, key=lambda item: zlib.crc32(item.nodeid.encode()))[count:]:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def settings_of_its_own() -> Iterator[None]:
    """What a test sets for the whole process is set back: settings, and where layers draw their weights from."""
    before, rng = dict(vars(sj.config)), lasagne_like.random.get_rng()
    yield
    vars(sj.config).clear()
    vars(sj.config).update(before)
    lasagne_like.random.set_rng(rng)


@pytest.fixture(autouse=True)
def numbers_of_its_own(request: pytest.FixtureRequest) -> None:
    """A generator that the tests of a module share begins anew in each, so that a test draws the same numbers alone,
    in any order and on any worker."""
    for shared in vars(request.module).values() if isinstance(request.node, pytest.Function) else ():
        if isinstance(shared, np.random.Generator):
            seed = zlib.crc32(request.node.nodeid.encode())
            shared.bit_generator.state = type(shared.bit_generator)(seed).state


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of the random numbers of a test."""
    return np.random.default_rng(0)


@pytest.fixture
def read_example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SimpleNamespace]:
    """Reads an example: an object whose attributes are its functions."""
    folder = Path(__file__).parent / "examples"
    monkeypatch.syspath_prepend(str(folder))
    return lambda name: SimpleNamespace(**runpy.run_path(str(folder / f"{name}.py")))
