"""Run the benchmarks, or report on them: see `python -m benchmarks --help`."""

import sys

from benchmarks.driver import main

sys.exit(main())
