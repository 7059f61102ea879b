"""Do the tests notice when the compiler is changed? `python -m tests.mutants --count 300 --seed 1`.

A mutant is one file of `scanjit` with one small change: another comparison, a number that is one larger, `or` for
`and`, a call that is left out, two arguments swapped. It is killed if the tests of its folder fail (or do not end).
Those that survive are printed: each is a change that no test sees, so a fault there would stay unseen too.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numba.core.compiler  # noqa: F401
import numpy  # noqa: F401
import pytest
import scipy.special  # noqa: F401
import sympy  # noqa: F401

ROOT = Path(__file__).parent.parent
RANDOM = [f"tests/compiler/test_random.py::test_emulated[{first}]" for first in range(0, 200, 10)]
TESTS = {
    "scanjit/ops": ["tests/golden", "tests/ops", "tests/linalg", "tests/random", "tests/autodiff", "tests/rewrite"],
    "scanjit/rewrite": ["tests/golden", "tests/rewrite", "tests/loops/test_ifelse.py", "tests/linalg", *RANDOM],
    "scanjit/schedule": [
        "tests/golden", *RANDOM[:8], "tests/loops/test_checkpoint.py", "tests/loops/test_checkpoint_families.py",
        "tests/loops/test_lags.py",
        *sorted(f"tests/compiler/{path.name}" for path in (ROOT / "tests/compiler").glob("test_*.py")),
    ],
}  # fmt: skip
"""For the files of a folder: the tests that are to kill their mutants, the quick ones first."""
OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed file: which, where, what the line was and is, and the whole new source."""

    path: str
    line: int
    before: str
    after: str
    source: str


def changes(node: ast.AST) -> Iterator[Callable[[ast.AST], object]]:
    """The changes that can be made to a node of a syntax tree, each as a function that makes it."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            yield lambda n, i=i, op=op: n.ops.__setitem__(i, OTHER[type(op)]())
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OTHER:
        yield lambda n: setattr(n, "op", OTHER[type(n.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda n: setattr(n, "value", not n.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield lambda n: setattr(n, "value", n.value + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):  # `not x` becomes `not not x`
        yield lambda n: setattr(n, "operand", ast.UnaryOp(ast.Not(), n.operand))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield lambda n: setattr(n, "value", ast.Constant(None))
    elif isinstance(node, ast.Call) and len(node.args) > 1 and not isinstance(node.args[1], ast.Starred):
        yield lambda n: n.args.__setitem__(slice(0, 2), n.args[1::-1])


def mutants(path: Path, name: str, root: ast.Module) -> list[Callable[[], Mutant | None]]:
    """All mutants of a file, to be made when they are chosen."""
    skipped = {id(inner) for node in ast.walk(root) for inner in _unread(node)}
    lines = path.read_text().splitlines()
    found: list[Callable[[], Mutant | None]] = []
    for place, node in enumerate(ast.walk(root)):
        for number, _ in enumerate(changes(node) if id(node) not in skipped else ()):

            def make(place: int = place, number: int = number, line: int = getattr(node, "lineno", 0)) -> Mutant | None:
                tree = copy.deepcopy(root)
                changed = list(ast.walk(tree))[place]
                was = ast.unparse(changed)
                list(changes(changed))[number](changed)
                source = ast.unparse(ast.fix_missing_locations(tree))
                same = source == ast.unparse(root)
                return (
                    None
                    if same
                    else Mutant(name, line, lines[line - 1].strip(), f"{was} -> {ast.unparse(changed)}", source)
                )

            found.append(make)
    return found


def _unread(node: ast.AST) -> Iterator[ast.AST]:
    """What no test can notice: annotations, the texts of errors, `strict=True`, the order of `max` and `min`."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield from ast.walk(node.annotation)
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        yield from ast.walk(node.returns)
    if isinstance(node, ast.Raise | ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        yield from ast.walk(node)
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("max", "min", "maximum", "minimum"):
        yield node


def passes(copied: Path, tests: list[str], limit: float) -> bool:
    """Whether tests pass in a copy of the project, within so many seconds.

    They run in a fork of this process, which has imported what all of them import, except the project.
    """
    child = os.fork()
    if not child:
        _run(copied, tests)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run(copied: Path, tests: list[str]) -> NoReturn:
    os.setsid()
    os.chdir(copied)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = sys.path[0] = str(copied)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    os._exit(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after so long")
    parser.add_argument("folders", nargs="*", default=list(TESTS), help="the folders to change files of")
    given = parser.parse_args()
    start, chance = time.monotonic(), random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place) / "project"
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".git", ".*_cache", "__pycache__"))
        makers, limits = [], {}
        for folder in given.folders:
            begin = time.monotonic()
            if not passes(copied, TESTS[folder], 3600):
                raise SystemExit(f"the tests of {folder} fail without any change")
            limits[folder] = 60 + 3 * (time.monotonic() - begin)
            for path in sorted((ROOT / folder).rglob("*.py")):
                name = str(path.relative_to(ROOT))
                makers += [(folder, make) for make in mutants(path, name, ast.parse(path.read_text()))]
        print(f"{len(makers)} mutants are possible; tests take {limits} s at most", flush=True)
        made = killed = 0
        for folder, make in chance.sample(makers, min(given.count, len(makers))):
            if time.monotonic() - start > given.seconds:
                break
            mutant = make()
            if mutant is None:
                continue
            target = copied / mutant.path
            original = target.read_text()
            target.write_text(mutant.source)
            alive = passes(copied, TESTS[folder], limits[folder])
            target.write_text(original)
            made, killed = made + 1, killed + (not alive)
            if alive:
                print(f"SURVIVED {mutant.path}:{mutant.line}: {mutant.after}\n    {mutant.before}", flush=True)
        print(f"{killed} of {made} mutants killed ({killed / max(made, 1):.0%}) in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
