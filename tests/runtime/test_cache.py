"""The disk cache: what is whole comes back, what is not is as if it were not there, old entries go, nothing raises."""

import functools
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import llvmlite
import numpy as np
import pytest

import scanjit as sj
from scanjit import __main__ as command
from scanjit.errors import ScanjitError
from scanjit.runtime import cache, host, kernels
from scanjit.runtime.cache import Cache, CacheEntry
from scanjit.runtime.inventory import age as age_in_words, inventory

ENTRY = CacheEntry({"symbol": "f", "undefined": ["exp"]}, bytes(range(256)) * 8)


def stem(number: int) -> str:
    return f"kernel_{number:020x}"


def age(store: Cache, number: int, seconds: int) -> None:
    assert store.directory is not None
    for path in store.directory.glob(f"{stem(number)}.*"):
        used = path.stat().st_mtime - seconds
        os.utime(path, (used, used))


def stems(store: Cache) -> set[str]:
    assert store.directory is not None
    return {path.stem for path in store.directory.iterdir()}


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    store = Cache(tmp_path / "a" / "b")
    assert store.load(stem(1)) is None
    store.store(stem(1), ENTRY)
    assert store.load(stem(1)) == ENTRY
    assert Cache(tmp_path / "a" / "b").load(stem(1)) == ENTRY
    assert store.load(stem(2)) is None


def test_the_source_is_a_real_file_that_heals(tmp_path: Path) -> None:
    store, text = Cache(tmp_path), "def f(a):\n    'Δt'\n"
    path = store.source(stem(1), text)
    assert path is not None and Path(path).read_text(encoding="utf-8") == text
    for damaged in ("", text[:5], text + "#"):
        Path(path).write_text(damaged, encoding="utf-8")
        assert store.source(stem(1), text) == path
        assert Path(path).read_text(encoding="utf-8") == text


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    store.store(stem(1), ENTRY)
    path = tmp_path / f"{stem(1)}.o"
    good = path.read_bytes()
    damages = [good[:length] for length in (0, 1, 8, 39, 40, 47, 60, len(good) - 1)]
    damages += [good + b"\0", b"\x7fELF" + good[4:], bytes(len(good)), b"SCANJIT0" + good[8:]]
    damages += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in (0, 7, 8, 39, 40, 48, 100, len(good) - 1)]
    for damage in damages:
        path.write_bytes(damage)
        assert store.load(stem(1)) is None
        store.store(stem(1), ENTRY)
        assert store.load(stem(1)) == ENTRY


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
def test_files_that_others_could_have_written_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cache(tmp_path / "cache")
    store.store(stem(1), ENTRY)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    path = tmp_path / "cache" / f"{stem(1)}.o"
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o620)
    assert store.load(stem(1)) is None
    path.chmod(0o600)
    assert store.load(stem(1)) == ENTRY

    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert store.load(stem(1)) is None
    path.unlink()
    elsewhere.rename(path)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert store.load(stem(1)) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs are POSIX's")
@pytest.mark.parametrize("linked", [False, True])
def test_a_fifo_is_not_waited_for_and_gets_replaced(tmp_path: Path, linked: bool) -> None:
    store = Cache(tmp_path / "cache")
    store.store(stem(1), ENTRY)
    for suffix in ("o", "py"):
        path = tmp_path / "cache" / f"{stem(1)}.{suffix}"
        path.unlink(missing_ok=True)
        os.mkfifo(tmp_path / suffix if linked else path)
        if linked:
            path.symlink_to(tmp_path / suffix)
    assert store.load(stem(1)) is None
    assert store.source(stem(1), "text") and path.read_text() == "text" and not path.is_symlink()
    store.store(stem(1), ENTRY)
    assert store.load(stem(1)) == ENTRY


def test_an_entry_that_is_a_directory_does_not_count(tmp_path: Path) -> None:
    (tmp_path / f"{stem(1)}.o").mkdir()
    with pytest.warns(RuntimeWarning, match="in memory only"):
        Cache(tmp_path).store(stem(1), ENTRY)
    free = []
    for _ in range(2):
        assert Cache(tmp_path).load(stem(1)) is None
        with open(os.devnull) as other:
            free.append(other.fileno())
    assert free[0] == free[1], "the directory is closed again"


def test_what_was_used_least_recently_goes_first(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    for number in range(8):
        store.store(stem(number), ENTRY)
        store.source(stem(number), "text")
        age(store, number, 1000 - number)
    assert store.load(stem(0)) == ENTRY  # which makes it the youngest
    size = store.info().size // 8
    assert store.prune(limit=8 * size) == 0
    assert store.prune(limit=4 * size) == 5
    assert stems(store) == {stem(0), stem(6), stem(7)}


def test_storing_keeps_the_cache_within_its_limit(tmp_path: Path) -> None:
    size = len(cache.encode(ENTRY))
    store = Cache(tmp_path, limit=6 * size)
    for number in range(30):
        store.store(stem(number), ENTRY)
        age(store, number, 1000 - number)
    assert store.info().size <= 6 * size + size
    assert stem(29) in stems(store) and stem(0) not in stems(store)
    tiny = Cache(tmp_path, limit=0)
    tiny.store(stem(40), ENTRY)
    assert stems(tiny) == {stem(40)}  # what was just made stays


def test_temporary_files_of_the_dead_go(tmp_path: Path) -> None:
    old, young = tmp_path / ".scanjit-old", tmp_path / ".scanjit-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    Cache(tmp_path).store(stem(1), ENTRY)
    assert not old.exists() and young.exists()


def test_clear_leaves_what_is_not_ours(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    for number in range(3):
        store.store(stem(number), ENTRY)
        store.source(stem(number), "text")
    for foreign in ("notes.py", "kernel.o", "kernel_1234.o"):
        (tmp_path / foreign).write_text("mine")
    assert store.info().kernels == 3
    assert store.clear() == 3
    assert {path.name for path in tmp_path.iterdir()} == {"notes.py", "kernel.o", "kernel_1234.o"}
    assert store.info()[1:3] == (0, 0)


def unwritable(tmp_path: Path) -> Path:
    """A directory that cannot be made: its parent is a file (modes do not stop the superuser)."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "cache"


def test_where_nothing_can_be_written_there_is_one_warning(tmp_path: Path) -> None:
    store = Cache(unwritable(tmp_path))
    with pytest.warns(RuntimeWarning, match="SCANJIT_CACHE_DIR") as caught:
        assert store.source(stem(1), "text") is None
        store.store(stem(1), ENTRY)
        store.store(stem(2), ENTRY)
    assert len(caught) == 1
    assert store.load(stem(1)) is None
    assert not store.info().writable
    assert store.prune() == store.clear() == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="modes do not stop the superuser")
def test_a_read_only_directory_is_still_read(tmp_path: Path) -> None:
    Cache(tmp_path).store(stem(1), ENTRY)
    tmp_path.chmod(0o500)
    try:
        store = Cache(tmp_path)
        assert store.load(stem(1)) == ENTRY
        with pytest.warns(RuntimeWarning, match="in memory only"):
            store.store(stem(2), ENTRY)
    finally:
        tmp_path.chmod(0o700)


def test_without_a_home_there_is_no_warning() -> None:
    store = Cache(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.store(stem(1), ENTRY)
        assert store.load(stem(1)) is None and store.source(stem(1), "text") is None
        assert store.info()[:3] == (None, 0, 0) and store.clear() == 0


def test_processes_that_write_and_prune_at_once_only_ever_see_whole_entries(tmp_path: Path) -> None:
    program = """if True:
        import pathlib, sys
        from scanjit.runtime.cache import Cache, CacheEntry
        store, seen = Cache(pathlib.Path(sys.argv[1]), limit=40_000), 0
        for turn in range(300):
            number = turn * 7 % 10
            stem, entry = f"k_{number:020x}", CacheEntry({"number": number}, bytes([number]) * 10_000)
            found = store.load(stem)
            assert found is None or found == entry
            seen += found is not None
            if found is None:
                store.store(stem, entry)
            assert store.source(stem, "text" * number)
        print(seen)
    """
    command_line = [sys.executable, "-W", "error", "-c", program, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    running = [subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(4)]
    seen = [int(process.communicate(timeout=60)[0]) for process in running]
    assert all(process.returncode == 0 for process in running)
    assert sum(seen) > 0
    assert not list(tmp_path.glob(".scanjit-*"))


def test_the_version_covers_the_generator_and_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    here = host.target()
    original = cache.version(here)
    assert cache.version(here) == original
    for other in (replace(here, features="+sse2"), replace(here, name="another"), replace(here, triple="wasm32")):
        assert cache.version(other) != original
    for place, part, other in (
        (cache, "source_digest", lambda beginnings: "another"),
        (llvmlite, "__version__", "another"),
    ):
        with monkeypatch.context() as patch:
            cache.version.cache_clear()
            patch.setattr(place, part, other)
            assert cache.version(here) != original
    cache.version.cache_clear()
    assert cache.version(here) == original


def test_the_environment_decides_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SCANJIT_CACHE_SIZE", "3 kB")
    assert cache.default().info()[:4] == (tmp_path, 0, 0, 3072)
    monkeypatch.delenv("SCANJIT_CACHE_SIZE")
    assert cache.default().limit == cache.DEFAULT_SIZE
    monkeypatch.delenv("SCANJIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform.startswith("linux"):
        assert cache.default().directory == tmp_path / "scanjit"
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache.default().directory == tmp_path / "home" / ".cache" / "scanjit"
        monkeypatch.setenv("SCANJIT_CACHE_DIR", "~/kernels")
        assert cache.default().directory == tmp_path / "home" / "kernels"


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("100", 100), ("1k", 1024), ("1.5 MiB", 1572864), ("2Gb", 2**31)])
def test_sizes(text: str, size: int) -> None:
    assert cache.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1", "1 TB", "1e6"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ScanjitError, match="SCANJIT_CACHE_SIZE"):
        cache.parse_size(text)


def store_function(store: Cache, name: str, number: int, *calls: int) -> str:
    """Store a kernel with a name as generated ones have, which calls others of these numbers."""
    made = f"{name}_{number:012x}_{number:020x}"
    symbols = [f"symbol{callee}" for callee in (*calls, 10_000)]  # the last one is not the cache's
    store.store(made, CacheEntry({"symbol": f"symbol{number}", "arity": 4, "undefined": symbols}, b"code"))
    store.source(made, "text")
    return made


def test_the_kernels_of_each_function(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    for number in (1, 2, 3):
        store_function(store, "nest", number)
    store_function(store, "part", 4, 1, 2)
    before = store_function(store, "train", 5, 4, 3)
    store_function(store, "train", 6, 4)
    store_function(store, "fit_me", 7, 3)
    for path in tmp_path.iterdir():
        os.utime(path, (1000, 1000))
    os.utime(tmp_path / f"{before}.o", (5000, 5000))
    rows = {row.name: row for row in inventory(store).rows}
    assert list(rows) == ["train", "fit_me"]  # the last used first
    assert [(row.programs, row.kernels) for row in rows.values()] == [(2, 6), (1, 2)]
    assert (rows["train"].made, rows["train"].used) == (1000, 5000)
    assert rows["fit_me"].size < rows["train"].size < store.info().size
    assert inventory(store)[1:] == (0, 0)
    assert (tmp_path / f"{before}.o").stat().st_mtime == 5000  # to be listed is not to be used


def test_the_inventory_of_a_directory_in_any_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Cache(tmp_path)
    store_function(store, "nest", 1)
    main = store_function(store, "train", 2, 1)
    store_function(store, "orphan", 3)
    store.source(stem(4), "text")  # compiling did not end
    store.store(stem(5), ENTRY)
    (tmp_path / f"{stem(5)}.o").write_bytes(b"damaged")
    store.store(stem(6), CacheEntry({}, b"code"))  # of a version that noted nothing else
    (tmp_path / "notes.txt").write_text("mine")
    assert [row.name for row in inventory(store).rows] == ["train"]
    assert inventory(store)[1:] == (2, 2)
    peek = store.peek

    def clears(wanted: str, kind: str = "o") -> CacheEntry | None:  # as another process may, in the middle
        if wanted == main:
            Cache(tmp_path).clear()
        return peek(wanted, kind)

    monkeypatch.setattr(store, "peek", clears)
    assert inventory(store).rows == []
    for nothing in (Cache(None), Cache(tmp_path / "missing"), Cache(unwritable(tmp_path))):
        assert inventory(nothing) == ([], 0, 0)


def test_the_cache_of_compiled_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sj.function([], np.tanh(sj.zeros(3)))  # what the first function of a process writes belongs to none
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "_kernels", {})  # those that other tests made are not written again
    monkeypatch.setattr(kernels, "_engine", functools.cache(kernels._engine.__wrapped__))
    x = sj.matrix("x", "float64")
    f = sj.function([x], sj.scan(lambda row, h: np.tanh(h @ x.T @ x + 7.25 * row), x, sj.zeros(3))[-1], name="my fit")
    (row,) = inventory(cache.default()).rows
    assert (row.name, row.programs, row.kernels) == ("my_fit", 1, len(f.executable.stages[0].kernels))
    assert inventory(cache.default())[1:] == (0, 0) and row.size == cache.default().info().size


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "now"), (59, "now"), (60, "1 minute ago"), (7199, "1 hour ago"), (86400 * 3, "3 days ago"), (-50, "now")],
)
def test_ages(seconds: float, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanjit.runtime.inventory.time.time", lambda: 1e9)
    assert age_in_words(1e9 - seconds) == shown


def test_the_command_line_as_a_program(tmp_path: Path) -> None:
    program = f"{sys.executable} -m scanjit cache"
    settings = {**os.environ, "SCANJIT_CACHE_DIR": str(tmp_path)}
    wrong = subprocess.run(
        program.split(), env=settings | {"SCANJIT_CACHE_SIZE": "much"}, text=True, capture_output=True
    )
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(
        "python -m scanjit: error: the environment variable SCANJIT_CACHE_SIZE is not a size"
    )
    assert "at: " not in wrong.stderr  # there is no line of the user's
    with subprocess.Popen(program.split(), env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as unread:
        assert unread.stdout is not None and unread.stderr is not None
        unread.stdout.close()  # as `| head` does
        assert unread.stderr.read() == b""
    closed = [
        sys.executable,
        "-c",
        "import runpy, sys; sys.stdout = None; runpy.run_module('scanjit', None, '__main__')",
    ]
    silent = subprocess.run([*closed, "cache"], env=settings, text=True, capture_output=True)
    assert (silent.returncode, silent.stderr) == (0, "")


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path))
    cache.default().store(stem(1), CacheEntry({}, bytes(2**20)))
    assert command.main(["cache", "--info"]) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path) in shown and "kernels    1" in shown and "1.0 MB" in shown
    assert command.main(["cache", "--clear"]) == 0
    assert "deleted 1 kernel" in capsys.readouterr().out
    assert command.main(["cache"]) == 0
    assert "kernels    0" in capsys.readouterr().out
    store_function(cache.default(), "nest", 1)
    store_function(cache.default(), "train", 2, 1)
    store_function(cache.default(), "orphan", 3)
    assert command.main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert "function  programs  kernels  size  made  last used\n" in shown
    assert re.search(r"^train            1        2 +\d kB  now +now$", shown, re.MULTILINE)
    assert "1 kernel of no function that is still there\n" in shown
    with pytest.raises(SystemExit):
        command.main(["cache", "--info", "--clear"])


def test_the_warning_is_at_the_line_that_the_user_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled in a thread of their own, where there is no such line."""
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(unwritable(tmp_path)))
    f = sj.jit(lambda x: np.tanh(x) * 0.71093)
    with pytest.warns(RuntimeWarning, match="in memory only") as caught:
        f(np.ones(3))
    (warning,) = caught
    line = Path(warning.filename).read_text().splitlines()[warning.lineno - 1]
    assert warning.filename == __file__ and line.strip() == "f(np.ones(3))"
