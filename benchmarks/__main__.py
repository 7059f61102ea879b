"""Run the benchmarks: one thread each, whatever library computes."""

import os
import sys

for name in ("SCANJIT", "OPENBLAS", "MKL", "OMP", "BLIS", "VECLIB_MAXIMUM", "NUMBA"):
    os.environ[f"{name}_NUM_THREADS"] = "1"  # read when these libraries are loaded, so before any import

from benchmarks.driver import main  # noqa: E402

sys.exit(main())
