"""Kernels: compiled once, kept on disk, loaded without Numba; safe with damage, threads, processes and forks."""

import _thread
import contextlib
import ctypes
import functools
import linecache
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scanjit.errors import InternalError
from scanjit.runtime import cache, compiler, host, kernels
from scanjit.runtime.claims import Claims
from scanjit.runtime.kernels import Kernel, compile_count, kernel
from scanjit.runtime.undisturbed import undisturbed
from scanjit.runtime.unit import Unit
from scanjit.simd import table
from scanjit.simd.llvm_calls import F64, call
from tests.alarms import Stop, alarms
from tests.at_once import at_once

ROOT = Path(__file__).parents[2]

MEMORY = "from scanjit.simd import clock, load_i64, store_i64\n"
SCALE = MEMORY + "\n\ndef scale(address, factor):\n    store_i64(address, load_i64(address) * factor)\n"
TWICE = "def twice(address, factor):\n    scale(address, factor)\n    scale(address + 8, factor)\n"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has made no kernels, and an empty cache."""
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path / "cache"))
    start_afresh(monkeypatch)
    return tmp_path / "cache"


def start_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_kernels", {})
    monkeypatch.setattr(kernels, "_engine", functools.cache(kernels._engine.__wrapped__))


def apply(made: Kernel, *values: int, factor: int = 3) -> list[int]:
    memory = (ctypes.c_int64 * len(values))(*values)
    made(ctypes.addressof(memory), factor)
    return list(memory)


def object_file(made: Kernel) -> Path:
    return Path(made.path).with_suffix(".o")


PRELUDE = f"""if True:
    import ctypes, os, sys, threading
    from scanjit.runtime.kernels import compile_count, kernel
    def apply(made, *values, factor=3):
        memory = (ctypes.c_int64 * len(values))(*values)
        made(ctypes.addressof(memory), factor)
        return list(memory)
    SCALE, TWICE = {SCALE!r}, {TWICE!r}
"""


def start(program: str) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + program], stdout=subprocess.PIPE, text=True, env=environment
    )


def finish(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.strip()


# ---- making and calling ------------------------------------------------------------------------


def test_a_kernel_is_compiled_once_and_called() -> None:
    before = compile_count()
    made = kernel(SCALE, "scale")
    assert made.compiled and made.seconds > 0 and made.arity == 2 and made.address
    assert apply(made, 5) == [15]
    assert kernel(SCALE, "scale") is made
    assert compile_count() == before + 1
    with pytest.raises(TypeError, match="takes 2 arguments, got 3"):
        made(1, 2, 3)


def test_its_source_is_a_real_file(directory: Path) -> None:
    made = kernel(SCALE, "scale")
    assert Path(made.path).parent == directory
    assert Path(made.path).read_text() == SCALE
    assert made.name in repr(made) and made.path in repr(made)


def test_assembly_is_of_the_same_code() -> None:
    made = kernel(SCALE, "scale")
    before = compile_count()
    assert re.search(rf"^{made.symbol}:", made.asm(), re.MULTILINE)
    assert compile_count() == before


def test_a_kernel_pickles() -> None:
    made = kernel(SCALE, "scale")
    assert pickle.loads(pickle.dumps(made)) is made


def test_kernels_call_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compile_count()
    for _ in range(2):
        kernel(SCALE, "scale")
        assert apply(kernel(TWICE, "twice", {"scale": 2}), 1, 2, factor=7) == [7, 14]
        start_afresh(monkeypatch)
    assert compile_count() == before + 2


def test_a_call_releases_the_gil() -> None:
    wait = (
        "from scanjit.simd import interrupted, store_i64\n\n\n"
        "def wait(line, address, turns):\n"
        "    for i in range(turns):\n"
        "        if interrupted(line):\n"
        "            store_i64(address, 2)\n"
        "            break\n"
    )
    made, memory = kernel(wait, "wait"), (ctypes.c_int64 * 2)()
    ends = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda line: 1)
    line = (ctypes.c_int64 * 3)(ctypes.addressof(memory), 0, ctypes.cast(ends, ctypes.c_void_p).value)
    thread = threading.Thread(target=made, args=(ctypes.addressof(line), ctypes.addressof(memory) + 8, 20_000_000_000))
    thread.start()
    time.sleep(0.01)
    memory[0] = 1
    thread.join()
    assert memory[1] == 2


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "    return undefined_name + a",
        "    load_i64(a, a)",
        "    store_i64(a, 'text' + 1)",
        "    store_i64(a, 1.5)",
        "    return a",
        "    return a(",
        "    if a > 1:\n        raise ValueError('seen by nobody')",
        "    b, c = a, a",
        "    store_i64(a, store_i64(a, 1))",
        "    store_i64(a, a @ a)",
        "    store_i64(a, a is 1)",
        "    store_i64(a, value=1)",
        "    store_i64(a, b)\n    b = 1",
        "    b = 1\n    b = 1.5",
        "    for i in (1, 2):\n        pass",
        "    for i in range(3):\n        pass\n    else:\n        pass",
        "    unknown(a)",
        "    break",
        "    if a:\n        break",
        "    a + 1",
        "    yield a",
        "    for i in range():\n        pass",
        "    for i in range(1, a, 1, 1):\n        pass",
        "    for i in range(a, step=2):\n        pass",
        "    for i in range(a, 3, 0):\n        pass",
        "    x = 18446744073709551616",
        "    b = c = a",
        "    b = a\n    while b < 3:\n        b += 1\n    else:\n        b = 1",
        "    store_i64(a, 1.5 + 2.5)",
        f"    store_i64(a, {'-' * 1500}a)",
        "    if a == 0:\n        return\n"
        + "".join(f"    elif a == {i}:\n        store_i64(a, {i})\n" for i in range(999)),
        "".join("    " + " " * i + "if a:\n" for i in range(200)) + " " * 210 + "return",
    ],
)
def test_what_does_not_compile_names_the_kernel_and_its_file(body: str) -> None:
    before = compile_count()
    with pytest.raises(InternalError, match="kernel broken does not compile") as caught:
        kernel(f"{MEMORY}\n\ndef broken(a):\n{body}\n", "broken")
    assert caught.value.where is not None and Path(caught.value.where).exists()
    assert compile_count() == before
    assert kernel(f"{MEMORY}\n\ndef broken(a):\n    store_i64(a, 1)\n", "broken").arity == 1  # nothing is left behind


def test_only_positional_arguments() -> None:
    for signature in ("a, *b", "a, b=1", "a, *, b", "**a"):
        with pytest.raises(InternalError, match="positional"):
            kernel(f"def broken({signature}):\n    pass\n", "broken")


def test_one_name_one_source() -> None:
    kernel(SCALE, "scale")
    with pytest.raises(InternalError, match="two different kernels are called scale"):
        kernel(SCALE + "\n# another", "scale")
    with pytest.raises(InternalError, match="identifier"):
        kernel(SCALE, "../scale")


def test_a_callee_has_to_be_there_and_fit() -> None:
    with pytest.raises(InternalError, match=r"twice calls scale.*\n.*no such kernel"):
        kernel(TWICE, "twice", {"scale": 2})
    kernel(SCALE, "scale")
    with pytest.raises(InternalError, match="a kernel of 2 arguments"):
        kernel(TWICE, "twice", {"scale": 3})


def test_an_unknown_symbol_is_an_error_and_not_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = table.VectorFunction(lambda x: x._new(call(x.builder, "no_such_function_anywhere", F64, [x.value])))
    monkeypatch.setitem(table.FUNCTIONS, "odd", odd)
    source = "from scanjit.simd import load_f64x1, odd, store\n\n\ndef calls(a):\n    store(a, odd(load_f64x1(a)))\n"
    for _ in range(2):  # the second time from the cache
        with pytest.raises(InternalError, match="no_such_function_anywhere"):
            kernel(source, "calls")
    assert apply(kernel(SCALE, "scale"), 5) == [15]


# ---- the cache ---------------------------------------------------------------------------------


def test_another_process_neither_compiles_nor_imports_numba() -> None:
    log_gamma = (
        "from scanjit.simd import any_of, gammaln, splat_f64x1, store_i64\n\n\n"
        "def digits(a, b):\n    if any_of(gammaln(splat_f64x1(b)) > 0.2):\n        store_i64(a, b)\n"
    )
    kernel(SCALE, "scale"), kernel(TWICE, "twice", {"scale": 2})
    expected = apply(kernel(log_gamma, "digits"), 0)
    program = f"""
    kernel(SCALE, "scale")
    print(apply(kernel(TWICE, "twice", {{"scale": 2}}), 1, 2), apply(kernel({log_gamma!r}, "digits"), 0))
    print(compile_count(), "numba" in sys.modules)
    """
    assert finish(start(program)).split("\n") == [f"[3, 6] {expected}", "0 False"]


@pytest.mark.parametrize("damage", [b"", b"SCANJIT1", b"\x7fELF" * 100])
def test_a_damaged_object_is_compiled_again(damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = object_file(kernel(SCALE, "scale"))
    good = path.read_bytes()
    path.write_bytes(damage or good[:-1])
    before = compile_count()
    start_afresh(monkeypatch)
    made = kernel(SCALE, "scale")
    assert made.compiled and compile_count() == before + 1 and apply(made, 5) == [15]
    assert cache.decode(path.read_bytes()) is not None
    start_afresh(monkeypatch)
    assert not kernel(SCALE, "scale").compiled


def test_somebody_elses_object_in_its_place_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = kernel(SCALE, "scale")
    other = kernel(SCALE.replace("def scale(", "def other(").replace("*", "+"), "other")
    object_file(scale).write_bytes(object_file(other).read_bytes())
    start_afresh(monkeypatch)
    made = kernel(SCALE, "scale")
    assert made.compiled and apply(made, 5) == [15]


@pytest.mark.parametrize("damage", [None, "", "import nothing"])
def test_a_damaged_source_file_heals(damage: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(kernel(SCALE, "scale").path)
    path.unlink() if damage is None else path.write_text(damage)
    start_afresh(monkeypatch)
    assert not kernel(SCALE, "scale").compiled
    assert path.read_text() == SCALE


def test_another_generator_compiles_anew_and_both_live_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    old = kernel(SCALE, "scale")
    monkeypatch.setattr(kernels, "_kernels", {})
    monkeypatch.setattr(cache, "version", lambda target: "another")
    new = kernel(SCALE, "scale")
    assert new.compiled and new.symbol != old.symbol and new.address != old.address and new.path != old.path
    assert apply(old, 5) == apply(new, 5) == [15]


def test_without_a_place_on_disk_kernels_live_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="in memory only") as caught:
        assert apply(kernel(SCALE, "scale"), 5) == [15]
        assert apply(kernel(TWICE, "twice", {"scale": 2}), 1, 2) == [3, 6]
    assert len(caught) == 1
    linecache.checkcache()
    assert "".join(linecache.getlines(kernel(SCALE, "scale").path)) == SCALE


# ---- threads, processes, forks -----------------------------------------------------------------


def test_what_a_handler_raises_while_kernels_are_made_is_raised_as_it_is() -> None:
    """Whenever it comes; and nothing is left in the middle: the same kernels are made then."""
    raised = []

    def handler(*_: object) -> None:
        raised.append(Stop())
        raise raised[-1]

    for i in range(12):
        wanted = [(SCALE.replace("def scale(", f"def late{i}_{k}("), f"late{i}_{k}", {}) for k in range(3)]
        try:
            with alarms(handler, 0.0005 * 1.6**i):
                kernels.kernels(wanted)
        except Stop as error:
            assert error is raised[-1]
        assert [apply(made, 5) for made in kernels.kernels(wanted)] == [[15]] * 3
    assert raised


def test_work_that_nobody_waits_for_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended, main = threading.Event(), threading.Event(), threading.main_thread().ident

    def work(abandoned: Callable[[], bool]) -> None:
        begun.set()
        _thread.interrupt_main()
        while not abandoned():
            time.sleep(0.001)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        undisturbed(work)
    with contextlib.suppress(KeyboardInterrupt):
        assert begun.is_set() and ended.wait(20)
    assert undisturbed(lambda _: threading.get_ident()) != main
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: (_ for _ in ()).throw(RuntimeError("no more")))
    assert undisturbed(lambda _: threading.get_ident()) == main


def several(prefix: str, *bodies: str) -> list[kernels.Wanted]:
    """Kernels with these bodies."""
    return [(f"{MEMORY}\n\ndef {prefix}{i}(a, b):\n    {body}\n", f"{prefix}{i}", {}) for i, body in enumerate(bodies)]


@pytest.mark.parametrize("wrong", ["b, c = a, a", "store_i64(a, c)"])
def test_what_comes_after_an_error_is_not_compiled(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised as soon as what LLVM compiles at the moment is done."""
    seen: list[str] = []
    failed = threading.Event()

    def to_load(translated: compiler.Translated) -> tuple[bytes, list[str]]:
        seen.append(translated.unit.name)
        assert failed.wait(60)
        time.sleep(0.05)
        return real_to_load(translated)

    def refuse(unit: Unit, error: Exception) -> InternalError:
        failed.set()
        return real_failed(unit, error)

    real_failed, real_to_load = compiler._failed, compiler.to_load
    monkeypatch.setattr(compiler, "_failed", refuse)
    monkeypatch.setattr(compiler, "to_load", to_load)
    monkeypatch.setattr(kernels.processors, "count", lambda: 2)
    with pytest.raises(InternalError, match="kernel after5 does not compile"):
        kernels.kernels(several("after", *["store_i64(a, b)"] * 5, f"{wrong}  # the longest is taken first", "pass"))
    assert len(seen) <= 1
    assert not any(thread.name.startswith("scanjit-compiler") for thread in threading.enumerate())


def test_the_longest_is_compiled_first_behind_what_calls_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no thread is left with it alone at the end."""
    seen: list[str] = []

    def to_load(translated: compiler.Translated) -> tuple[bytes, list[str]]:
        seen.append(translated.unit.name)
        return real_to_load(translated)

    real_to_load = compiler.to_load
    monkeypatch.setattr(compiler, "to_load", to_load)
    monkeypatch.setattr(kernels, "native", lambda: seen.append("native"))
    monkeypatch.setattr(kernels.processors, "count", lambda: 1)
    kernels.kernels(several("order", "pass", "store_i64(a, b)", "store_i64(a, b*b)"))
    assert seen == ["native", "order2", "order1", "order0"]


def test_one_thread_translates_and_passes_pythons_lock_on_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others then wait for LLVM, and not for each other."""
    translate, to_load = compiler.translate, compiler.to_load
    seen: dict[str, list[tuple[int, float]]] = {"translate": [], "to_load": []}

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            seen[name].append((threading.get_ident(), sys.getswitchinterval()))
            return function(*given)

        return run

    monkeypatch.setattr(compiler, "translate", noted("translate", translate))
    monkeypatch.setattr(compiler, "to_load", noted("to_load", to_load))
    monkeypatch.setattr(kernels.processors, "count", lambda: 3)
    usual = sys.getswitchinterval()
    kernels.kernels(several("beside", *[f"store_i64(a, b + {i})" for i in range(9)]))
    assert len({thread for thread, _ in seen["translate"]}) == 1 and len(seen["to_load"]) == 9
    assert max(interval for some in seen.values() for _, interval in some) < 0.001 <= usual == sys.getswitchinterval()


def test_kernels_are_compiled_where_no_more_threads_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    made = kernels.kernels(several("alone", "store_i64(a, b + 1)", "store_i64(a, b + 2)"))
    assert [apply(each, 0, factor=5) for each in made] == [[6], [7]]


def test_nothing_of_a_workshop_is_left_when_another_thread_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To free a module changes the context, in which that thread works without a lock."""
    modules: list[Any] = []

    class Idle(list[Any]):
        def append(self, workshop: object) -> None:
            assert modules and all(module.closed for module in modules)
            super().append(workshop)

    def parse(text: str, *context: object) -> Any:
        module = real(text, *context)
        modules.extend([module] if context else [])  # what loads code has no context of its own
        return module

    real = compiler.llvm.parse_assembly
    monkeypatch.setattr(compiler.llvm, "parse_assembly", parse)
    monkeypatch.setattr(compiler, "_idle", Idle())
    made = kernel(SCALE, "scale")
    made.asm()
    monkeypatch.setattr(compiler, "_object", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        kernel(TWICE, "twice", {"scale": 2})
    assert len(modules) == 3


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory in use is not told")
def test_memory_of_the_compiler_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    target = host.target()

    def compile_many(first: int) -> int:
        for i in range(first, first + 150):
            wanted = several("many", f"store_i64(a, b*{i}*{i})")
            compiler.to_object([kernels.units(wanted, target)["many0"]], target)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = compile_many(0)
    assert compile_many(150) - before < 150 * 30_000  # if the passes stayed, each would take 100 kB


def test_threads_make_a_kernel_once() -> None:
    before, names = compile_count(), ("one", "two", "three")
    made = at_once(8, lambda i: tuple(kernel(SCALE.replace("def scale(", f"def {name}("), name) for name in names))
    assert len(set(made)) == 1 and len(set(made[0])) == 3
    assert compile_count() == before + 3


def test_processes_make_the_same_kernels_at_once(directory: Path) -> None:
    """Each kernel is compiled by one of them."""
    program = f"""
    from scanjit.runtime import claims
    from scanjit.runtime.kernels import kernels
    claims.PATIENCE = float("inf")
    kernel(SCALE, "scale")
    count = apply(kernel(TWICE, "twice", {{"scale": 2}}), 1, 2)
    kernels({several("each", *[f"store_i64(a, b + {i})" for i in range(20)])!r})
    print(*count, compile_count())
    """
    running = [start(program) for _ in range(3)]
    seen = [finish(process).split() for process in running]
    assert {(a, b) for a, b, _ in seen} == {("3", "6")}
    assert sum(int(count) for *_, count in seen) == 22 == len(list(directory.glob("*.o")))
    assert finish(start(program)) == "3 6 0"


def test_who_waits_for_the_next_kernel_holds_no_claim_to_the_one_before(directory: Path) -> None:
    stems = ["first_" + "0" * 20, "second_" + "1" * 20]
    program = f"""
    from pathlib import Path
    from scanjit.runtime.claims import Claims
    with Claims(Path({str(directory)!r})) as claims:
        print([claims.take(stem) for stem in {stems!r}])
    """
    directory.mkdir(exist_ok=True)
    with Claims(directory) as claims:
        waiting = claims.wait(stems, lambda: False)
        assert [next(waiting), next(waiting)] == stems
        assert finish(start(program)) == "[True, False]"


def test_a_process_that_dies_leaves_what_it_was_compiling(directory: Path) -> None:
    """One that is stopped meanwhile, too: nobody waits for it forever."""
    program = """
    from scanjit.runtime import claims, kernels
    claims.PATIENCE = 0.2 if len(sys.argv) > 1 else 60
    made, kernels._begun = kernels._begun, lambda *a: print("begun", flush=True) or sys.stdin.readline()
    if sys.stdin.readline() != "hold\\n":
        kernels._begun = made
    print(apply(kernel(SCALE, "scale"), 1), compile_count(), flush=True)
    """
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    def run(*arguments: str, first: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", PRELUDE + program, *arguments]
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, **options)
        assert process.stdin is not None
        process.stdin.write(first + "\n")
        process.stdin.flush()
        return process

    holds = run(first="hold")
    assert holds.stdout is not None and holds.stdout.readline() == "begun\n"
    assert run("impatient", first="go on").communicate(timeout=60)[0] == "[3] 1\n"
    for path in directory.glob("*.o"):
        path.unlink()
    waits = run(first="go on")
    time.sleep(0.5)
    assert waits.poll() is None  # (it may still be starting)
    holds.kill()
    assert waits.communicate(timeout=60)[0] == "[3] 1\n"
    holds.communicate()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_calls_and_makes_kernels() -> None:
    program = """
    scale = kernel(SCALE, "scale")
    # Another thread is compiling while we fork: the child must find neither its locks nor its half-made kernels.
    busy = lambda: [kernel(SCALE.replace("def scale(", f"def busy{i}("), f"busy{i}") for i in range(8)]
    thread = threading.Thread(target=busy)
    thread.start()
    while compile_count() < 3:
        pass
    child = os.fork()
    if child == 0:
        ok = apply(scale, 5) == [15] and kernel(SCALE, "scale") is scale
        ok &= apply(kernel(TWICE, "twice", {"scale": 2}), 1, 2) == [3, 6]
        os._exit(0 if ok else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    thread.join()
    print(apply(kernel(TWICE, "twice", {"scale": 2}), 1, 2))
    """
    assert finish(start(program)).split("\n") == ["0", "[3, 6]"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_compiles_that_was_forked_while_another_thread_was_inside_llvmlite() -> None:
    """As a thread that exports, or that compiles with Numba."""
    program = """
    import signal, time
    from llvmlite.binding import ffi
    kernel(SCALE, "scale")
    inside = threading.Event()
    def work():
        with ffi.lib._lock:
            inside.set()
            time.sleep(0.3)
    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if apply(kernel(TWICE, "twice", {"scale": 2}), 1, 2) == [3, 6] else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    thread.join()
    print(apply(kernel(TWICE, "twice", {"scale": 2}), 1, 2))
    """
    assert finish(start(program)).split("\n") == ["0", "[3, 6]"]
