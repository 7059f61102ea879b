"""`python -m scanjit`: look after the cache of compiled kernels."""

import argparse
import os
import sys
from collections.abc import Sequence

from scanjit import ScanjitError, __version__
from scanjit.runtime import cache
from scanjit.runtime.inventory import Inventory, age, inventory
from scanjit.show import Table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, given or the process's own; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scanjit", description="Tools of scanjit.")
    parser.add_argument("--version", action="version", version=f"scanjit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "cache",
        help="the disk cache of compiled kernels",
        description="The disk cache of compiled kernels: SCANJIT_CACHE_DIR is its place, SCANJIT_CACHE_SIZE its limit.",
    )
    action = command.add_mutually_exclusive_group()
    what = "show where it is, and what it holds of which function (the default)"
    action.add_argument("--info", action="store_true", help=what)
    action.add_argument("--clear", action="store_true", help="delete everything in it; programs compile anew")
    options = parser.parse_args(arguments)

    kernels = cache.default()
    before = kernels.info()
    if options.clear:
        print(f"deleted {kernels.clear()} kernels, {_readable(before.size)}, from {before.directory or 'memory'}")
        return 0
    note = "" if before.writable else " (not writable: kernels live in memory only)"
    print(f"directory  {before.directory or 'none'}{note}")
    print(f"kernels    {before.kernels}")
    print(f"recipes    {before.recipes}, by which functions start without being compiled again")
    print(f"size       {_readable(before.size)} of at most {_readable(before.limit)}")
    _print_functions(inventory(kernels))
    return 0


def _print_functions(found: Inventory) -> None:
    """Print a line for each function: what several of them share is counted for each."""
    if found.rows:
        rows = [
            (row.name, f"{row.programs}", f"{row.kernels}", _readable(row.size), age(row.made), age(row.used))
            for row in found.rows
        ]
        print(f"\n{Table(('function', 'programs', 'kernels', 'size', 'made', 'last used'), rows)}")
    for count, what in ((found.others, "of no function that is still there"), (found.useless, "that cannot be used")):
        if count:
            print(f"{count} kernel{'s' if count > 1 else ''} {what}")


def _readable(size: int) -> str:
    return f"{size / 1024**2:.1f} MB" if size >= 1024**2 else f"{size / 1024:.0f} kB"


if __name__ == "__main__":
    try:
        status = main()
        print(end="", flush=True)
    except ScanjitError as error:  # a setting that is wrong
        raise SystemExit(f"python -m scanjit: error: {error}") from None
    except BrokenPipeError:  # of `| head`, which needs no more lines
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    raise SystemExit(status)
