"""An engine in a process of its own: `python -m benchmarks.fits.worker CASE TITLE SERIES FILE`.

It writes the likelihoods of a first call to the file, and then answers each line of its input with the seconds of a
call."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

from benchmarks.fits.data import CASES
from benchmarks.fits.engines import MAKERS


def main(case: str, title: str, count: str, file: str) -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")  # of series that are hard to fit
    call = MAKERS[case][title].make(CASES[case](int(count)))
    np.save(file, np.asarray(call()))
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        call()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
