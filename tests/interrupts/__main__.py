"""The command line: so many interrupts, shared out among the kinds of calls."""

from __future__ import annotations

import argparse
import sys
import time

from tests.interrupts.kinds import kinds
from tests.interrupts.storm import interrupt


def main() -> int:
    """Run; the number of faults, at most 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.interrupts", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="how many interrupts in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    every = kinds()
    total, faults = 0, list[str]()
    for kind in every:
        start, many = time.monotonic(), -(-options.count // len(every))
        found = interrupt(kind, many, options.seed)
        many = kind.share(many)
        total, faults = total + many, faults + found
        print(f"{many:8} {kind.name}: {len(found)} faults, {time.monotonic() - start:.0f} s", *found[:3], flush=True)
    print(f"{total} interrupts, {len(faults)} faults")
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
