"""Run the benchmarks, or report on them: see `python -m benchmarks --help`."""

import os
import signal
import sys

for name in ("OPENBLAS", "MKL", "OMP", "BLIS", "VECLIB_MAXIMUM"):
    os.environ[f"{name}_NUM_THREADS"] = "1"  # of the references, which are computed while the engines compile

from benchmarks.driver import main  # noqa: E402

signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the workers are ended
sys.exit(main())
