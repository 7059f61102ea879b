"""Many random programs: `python -m tests.fuzz --count 100000`."""

from __future__ import annotations

import argparse
import collections
import faulthandler
import gc
import multiprocessing
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from functools import partial

from tests.fuzz.cases import Case, cases, run_one
from tests.fuzz.check import Config, Outcome, check, localized


def smallest(seed: int) -> int | None:
    """The smallest number of nodes with which the program of a seed still fails."""
    for most in range(1, 26):
        try:
            run_one(seed, most=most)
        except Exception:
            return most
    return None


def _work(job: tuple[int, bool]) -> tuple[int, Outcome | None, set[str], str]:
    seed, numba = job
    try:
        outcome, features = run_one(seed, numba)
        return seed, outcome, features, ""
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.split('/')[-1]}:{last.lineno}"
        return (
            seed,
            None,
            set(),
            f"{type(error).__name__} at {place}: {str(error).splitlines()[0] if str(error) else ''}",
        )
    finally:
        if seed % 200 == 0:
            gc.collect()


def _memory() -> str:
    """How much memory this process has taken, where the system tells."""
    try:
        import resource
    except ImportError:
        return ""
    return f", {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"


def show(seed: int, most: int | None) -> int:
    """Run all checks of a seed again, with everything about what fails printed."""
    from scanjit.show import listing

    found = cases(seed)
    for config in (Config(rewrite=False), Config(width=4)):
        found.append(Case(str(config), found[0].make, partial(check, configs=[config])))
    for case in found:
        p = case.make(seed, most)
        try:
            case.check(p)
            print(f"{case.name}: passed")
        except Exception:
            print("inputs:", *[f"{x!r}" for x in p.inputs], "sizes:", list(p.sizes.values()), p.features)
            for node in p.outputs:
                print(listing(node), end="")
            print(f"{case.name}: fails")
            traceback.print_exc()
            print(localized(p, case.check))
            return 1
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--numba", type=int, default=0, metavar="EVERY", help="compile every so-manieth program too")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--only", type=int, help="run the program of this seed and show it")
    parser.add_argument("--most", type=int, help="with --only: with at most so many nodes; 0 looks for the fewest")
    parser.add_argument("--stop", action="store_true", help="stop at the first failure")
    given = parser.parse_args()
    faulthandler.enable()
    if given.only is not None:
        return show(given.only, smallest(given.only) if given.most == 0 else given.most)
    seeds = range(given.seed, given.seed + given.count)
    jobs: Iterator[tuple[int, bool]] = ((s, bool(given.numba) and s % given.numba == 0) for s in seeds)
    start = report = time.monotonic()
    total, failures, features, done = Outcome(), collections.Counter[str](), collections.Counter[str](), 0
    pool = None
    if given.jobs > 1:
        pool = multiprocessing.get_context("fork" if hasattr(os, "fork") else None).Pool(
            given.jobs, maxtasksperchild=2000
        )
        results = pool.imap_unordered(_work, jobs, chunksize=8)
    else:
        results = iter(map(_work, jobs))  # type: ignore[assignment]
    for seed, outcome, found, failure in results:
        done += 1
        features.update(found)
        if outcome is not None:
            total.add(outcome)
        else:
            failures[re.sub(r"-?\d+", "#", failure)[:90]] += 1
            print(f"FAILED {seed}: {failure}\n  python -m tests.fuzz --only {seed} --most 0", flush=True)
            if given.stop:
                break
        now = time.monotonic()
        if now - report > 30:
            report = now
            print(
                f"{done} programs, {sum(failures.values())} failures, {(now - start) / done * 1e3:.1f} ms a program"
                f"{_memory()}", flush=True
            )  # fmt: skip
        if given.seconds and now - start > given.seconds:
            break
    if pool is not None:
        pool.terminate()
    print(f"{done} programs from seed {given.seed}, {total.runs} runs, {total.raised} raised as they should, ", end="")
    print(f"{total.unstable} within noise only, {sum(failures.values())} failures in {time.monotonic() - start:.0f} s")
    print("features:", dict(features))
    print("ms a program:", {what: round(s / max(done, 1) * 1e3, 2) for what, s in total.seconds.items()})
    for text, count in failures.most_common():
        print(f"{count:6d} {text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
