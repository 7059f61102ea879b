"""Do the tests notice when the compiler is changed? `python -m tests.mutants --count 300 --seed 1`.

A mutant is one file of `scanjit` with one small change: another comparison, a number that is one larger, `or` for
`and`, a call that is left out, two arguments swapped. It is killed if a test that reaches the line fails (or does not
end). Those that survive are printed: each is a change that no test sees, so a fault there would stay unseen too.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import hashlib
import inspect
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import numba.core.compiler  # noqa: F401
import numpy  # noqa: F401
import pytest
import scipy.special  # noqa: F401
import sympy  # noqa: F401

from tests.reached import Only, Reached, Watch

ROOT = Path(__file__).parent.parent
FOLDERS = ["scanjit/ops", "scanjit/rewrite", "scanjit/schedule"]
"""Where mutants are made."""
NAMES = "golden rewrite ops linalg complex_numbers random autodiff loops guests compiler test_show.py"
TESTS = ["tests/test_architecture.py", *(f"tests/{name}" for name in NAMES.split())]
"""What is to kill them."""
MEMORY = 16 * 2**30
"""What a test may take: some mutants fill a list without end."""
OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed file: which, where (the line of the change, and that of its statement), what the line was and is, and
    the whole new file."""

    path: str
    line: int
    statement: int
    before: str
    after: str
    tree: ast.Module


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
    statements = {
        id(inner): node.lineno for node in ast.walk(root) if isinstance(node, ast.stmt) for inner in ast.walk(node)
    }
    lines = path.read_text().splitlines()
    found: list[Callable[[], Mutant | None]] = []
    for place, node in enumerate(ast.walk(root)):
        for number, _ in enumerate(changes(node) if id(node) not in skipped else ()):

            def make(place: int = place, number: int = number, node: ast.AST = node) -> Mutant | None:
                tree = copy.deepcopy(root)
                changed = list(ast.walk(tree))[place]
                was = ast.unparse(changed)
                list(changes(changed))[number](changed)
                if ast.unparse(ast.fix_missing_locations(tree)) == ast.unparse(root):
                    return None
                line, statement = node.lineno, statements[id(node)]
                return Mutant(name, line, statement, lines[line - 1].strip(), f"{was} -> {ast.unparse(changed)}", tree)

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


# ---- trying them -----------------------------------------------------------------------------------------------------


def ends_well(run: Callable[[], int], limit: float) -> bool:
    """Whether a function gives 0 in a fork of this process, within so many seconds of CPU time."""
    child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1,) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY,) * 2)
        os._exit(run())
    end = time.monotonic() + 20 * limit  # a busy machine gives a part of its time, and some mutants wait for ever
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def run_tests(copied: Path, tests: list[str], plugin: Callable[[], object]) -> int:
    """Run tests of a copy of the project, in a fork of a process that has imported what all of them import, except the
    project."""
    os.chdir(copied)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = sys.path[0] = str(copied)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    return pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests], [plugin()])


Tell = Callable[[Mutant, bool], None]
"""Is told of each mutant whether it is alive."""


class Trial:
    """Tries mutants of functions in forks of a process that has collected all tests, by giving the functions their new
    code. A plugin of pytest."""

    def __init__(self, copied: Path, mutants: list[Mutant], reached: Reached, most: float, tell: Tell) -> None:
        self.copied, self.mutants, self.reached, self.most, self.tell = copied, mutants, reached, most, tell
        self.failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests."""
        items = {item.nodeid: item for item in session.items}
        gc.freeze()
        for mutant in self.mutants:
            tests, spent = chosen(self.reached, mutant, self.most)
            some = [items[name] for name in tests if name in items]
            self.tell(
                mutant, not some or ends_well(lambda mutant=mutant, some=some: self._run(mutant, some), 20 + 3 * spent)
            )
        return True

    def _run(self, mutant: Mutant, items: list[pytest.Item]) -> int:
        change_code(str(self.copied / mutant.path), mutant.tree)
        for item in items:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            if self.failed:
                return 1
        return 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What is remembered of a test."""
        self.failed = self.failed or report.failed


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a file or function, and that of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def is_of_functions(mutant: Mutant, text: str) -> bool:
    """Whether the code of functions is all that is changed: nothing that runs while the file is imported."""
    changed, was = compile(mutant.tree, "", "exec"), compile(text, "", "exec")
    own = [[c for c in codes(code) if not c.co_flags & inspect.CO_OPTIMIZED] for code in (changed, was)]

    def facts(code: CodeType) -> object:
        return code.co_code, code.co_names, [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]

    return len(own[0]) == len(own[1]) and all(facts(a) == facts(b) for a, b in zip(*own, strict=True))


def change_code(path: str, tree: ast.Module) -> None:
    """Give the functions of a file, wherever they are, the code of a changed file."""
    new = {(code.co_qualname, code.co_firstlineno): code for code in codes(compile(tree, path, "exec"))}
    gc.unfreeze()
    for f in gc.get_objects():
        if isinstance(f, FunctionType) and f.__code__.co_filename == path:
            f.__code__ = new[f.__code__.co_qualname, f.__code__.co_firstlineno]


def chosen(reached: Reached, mutant: Mutant, most: float) -> tuple[list[str], float]:
    """The quickest tests that reach a mutant, as many as take so many seconds, and how long they take."""
    tests, spent = [], 0.0
    for i in reached.nearest(mutant.path, mutant.line, mutant.statement):
        if spent < most:
            tests.append(reached.tests[i])
            spent += reached.seconds[i]
    return tests, spent


def try_file(copied: Path, mutant: Mutant, reached: Reached, most: float) -> bool:
    """Whether a mutant is alive, by importing the changed project."""
    tests, spent = chosen(reached, mutant, most)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    target = copied / mutant.path
    original = target.read_text()
    target.write_text(ast.unparse(mutant.tree))
    alive = not tests or ends_well(lambda: run_tests(copied, files, lambda: Only(tests)), 60 + 3 * spent)
    target.write_text(original)
    return alive


def look(copied: Path, place: Path) -> Reached:
    """Which tests reach which lines of the copy; read from a file if it was found before and nothing has changed."""
    sources = [path for part in ("scanjit", "tests") for path in sorted((copied / part).rglob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    result = place / f"{digest}.pickle"
    if not result.exists() and not ends_well(
        lambda: run_tests(copied, TESTS, lambda: Watch(copied, FOLDERS, result)), 3600
    ):
        raise SystemExit("the tests fail without any change")
    return Reached(*pickle.loads(result.read_bytes()))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--most", type=float, default=60, help="of the tests that reach a mutant: so many seconds")
    parser.add_argument("--reached", type=Path, help="a folder that keeps which tests reach which lines")
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="the folders to change files of")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, open(os.dup(1), "w") as out:
        copied = Path(place) / "project"
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".git", ".*_cache", "__pycache__"))
        reached = look(copied, given.reached or Path(place))
        makers = []
        for path in (path for folder in given.folders for path in sorted((ROOT / folder).rglob("*.py"))):
            makers += mutants(path, str(path.relative_to(ROOT)), ast.parse(path.read_text()))
        print(f"{len(makers)} mutants are possible", file=out, flush=True)
        some = random.Random(given.seed).sample(makers, min(given.count, len(makers)))
        made = [mutant for make in some if (mutant := make()) is not None]
        results = Path(place) / "results"

        def tell(mutant: Mutant, alive: bool) -> None:
            with results.open("a") as file:
                file.write("s" if alive else "k")
            if alive:
                print(
                    f"SURVIVED {mutant.path}:{mutant.line}: {mutant.after}\n    {mutant.before}", file=out, flush=True
                )

        inside = [mutant for mutant in made if is_of_functions(mutant, (ROOT / mutant.path).read_text())]
        ends_well(lambda: run_tests(copied, TESTS, lambda: Trial(copied, inside, reached, given.most, tell)), 3600 * 24)
        for mutant in made:
            if mutant not in inside:
                tell(mutant, try_file(copied, mutant, reached, given.most))
        found = results.read_text()
        print(f"{found.count('k')} of {len(found)} mutants killed ({found.count('k') / len(found):.0%})", file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
