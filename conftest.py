"""What tests need before they are collected."""

import signal
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings

# First: of a file that is run alone, pytest would execute the module once more after its package has imported it, and
# examples would use another copy than the package does.
import lasagne_like  # noqa: F401
from scanjit.runtime import host
from scanjit.schedule.nests import verify as verifier

verifier.VERIFY = True  # every program that a test compiles
host.cache_sizes = lambda: {1: 32 * 1024, 2: 2**20}  # blocks are as large as a cache, and tests look at their sizes

# A shell ignores Ctrl-C in what it starts in the background, and so would the tests that interrupt themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("scanjit", deadline=None)  # on a busy machine any example may take long
settings.load_profile("scanjit")

collect_ignore_glob = [] if find_spec("onnx") else ["scanjit/onnx/*"]
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
