"""One contender in a process of its own: `python -m benchmarks.fresh CASE KIND CONTENDER MODE quick|full`.

Prints the seconds of processor time that imports, making the function and its first call took, as JSON.
"""

import time

BEGIN = time.process_time()

import importlib  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402

from benchmarks.cases import CASES  # noqa: E402


def main(case: str, kind: str, contender: str, mode: str, size: str) -> None:
    """Measure, and print."""
    before = time.process_time()  # NumPy is imported
    task = next(task for task in CASES[case](size == "quick").tasks(mode) if task.kind == kind)
    chosen = task.contender(contender)
    inputs = time.process_time()
    importlib.import_module(chosen.package)
    imported = time.process_time()
    function = chosen.make()
    made = time.process_time()
    function(*task.arguments)
    called = time.process_time()
    imports = (before - BEGIN) + (imported - inputs)
    json.dump({"imports": imports, "make": made - imported, "first": called - made}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
