"""The disk cache of generated kernels: real files, content-addressed, safe for any number of processes at once.

The entry of a kernel is two files with one stem: `<stem>.py`, the generated source (so that tracebacks and readers see
real code), and `<stem>.o`, its object code. The stem holds the kernel's name and a key. The key covers the source and
everything else that decides the object code (`version()`), so an entry never becomes stale: it is either right or never
asked for. The entry of a function is one file, `<stem>.recipe`: which kernels it calls, and how. The machine code of
the threads, `<stem>.native`, is the same for all functions (see `native`).

Object code that is read here is executed, as recipes say. So a file counts only if it belongs to this user, nobody else
may write to it, and its digest fits. Any other file counts as missing, and is replaced. Every write is a rename of a
complete file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import os
import re
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scanjit.errors import ScanjitError, from_signal_handler, suppressed, warn
from scanjit.target import Target

GENERATOR_VERSION = "1"
"""Raise this number when generated code changes its meaning, but no file that `version()` covers has changed."""

DEFAULT_SIZE = 512 * 1024**2
_MAGIC = b"SCANJIT1"  # the last character is the version of the format
_ENTRY = re.compile(r"(?P<stem>\w+_[0-9a-f]{20})\.(?:py|o|recipe|native)")
_TEMPORARY = ".scanjit-"
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


# ---- what decides object code, besides the source ----------------------------------------------------------------


@functools.lru_cache
def version(target: Target) -> str:
    """A digest of everything that decides the object code of a kernel, except its source: the generator (its version
    and its source files), llvmlite and the target."""
    import llvmlite

    facts = [GENERATOR_VERSION, source_digest(GENERATOR), llvmlite.__version__, target.code]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


GENERATOR = ("simd/", "codegen/", "runtime/translation/", "runtime/compiler.py")
"""The source files that generate object code. After an edit of these, older code is not used again."""


def source_digest(beginnings: tuple[str, ...] = ("",)) -> str:
    """A digest of the source files of this package whose paths begin with one of these; by default of all."""
    found = {path: digest for path, digest in _digests().items() if path.startswith(beginnings)}
    return hashlib.sha256(repr(found).encode()).hexdigest()


@functools.cache
def _digests() -> dict[str, bytes]:
    """The digests of all source files of this package, by their paths in it."""
    package, folders, found = Path(__file__).parent.parent, [""], {}
    while folders:
        folder = folders.pop()
        for file in os.scandir(package / folder):
            if file.name.endswith(".py"):
                with open(file.path, "rb", buffering=0) as source:
                    found[folder + file.name] = hashlib.sha256(source.read()).digest()
            elif file.is_dir() and file.name != "__pycache__":
                folders.append(f"{folder}{file.name}/")
    return dict(sorted(found.items()))


# ---- where, and how much -----------------------------------------------------------------------------------------


def default() -> Cache:
    """The cache that the environment variables describe.

    `SCANJIT_CACHE_DIR` names its directory, by default `scanjit` in this user's directory for caches. A `~` at its
    beginning is the home: only shells replace it, and not where a file or another program sets the variable.
    `SCANJIT_CACHE_SIZE` is its limit, in bytes or as in `256MB`, by default 512 MB.
    """
    given = os.path.expanduser(os.environ.get("SCANJIT_CACHE_DIR", ""))
    return _default(given or _user_directory(), os.environ.get("SCANJIT_CACHE_SIZE") or None)


@functools.lru_cache
def _default(directory: str | Path | None, size: str | None) -> Cache:
    return Cache(None if directory is None else Path(directory), parse_size(size) if size else DEFAULT_SIZE)


def parse_size(text: str) -> int:
    """Bytes, from a text such as `1000000`, `256MB` or `1.5 GiB` (powers of 1024).

    Raises
    ------
    ScanjitError : the text is not a size.

    Examples
    --------
    >>> parse_size("512 MB") == 512 * 1024**2
    True
    """
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([kmg]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not match:
        raise ScanjitError(
            "the environment variable SCANJIT_CACHE_SIZE is not a size",
            got=repr(text),
            expected="bytes, or a size such as 256MB",
            where="",
        )
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _user_directory() -> Path | None:
    """This user's directory for caches; None where there is no home."""
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "scanjit" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "scanjit"
        base = os.environ.get("XDG_CACHE_HOME", "")  # its standard says to ignore a relative path
        return Path(base if os.path.isabs(base) else Path.home() / ".cache") / "scanjit"
    except RuntimeError:
        return None


# ---- the cache ---------------------------------------------------------------------------------------------------


class CacheEntry(NamedTuple):
    """Object code, and the names that loading it needs; or a recipe, and its arrays."""

    metadata: dict[str, Any]
    payload: bytes


class Files(NamedTuple):
    """The files of an entry: how many bytes they have, when they were written, when they were last used (both in
    seconds since 1970), and their paths."""

    size: int
    made: float
    used: float
    paths: list[Path]

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel."""
        return any(path.suffix in (".py", ".o") for path in self.paths)

    @property
    def is_recipe(self) -> bool:
        """Whether it is a recipe."""
        return any(path.suffix == ".recipe" for path in self.paths)


class Info(NamedTuple):
    """The state of a cache. `limit` and `size` are in bytes; `directory` is None if the cache is in memory only."""

    directory: Path | None
    kernels: int
    size: int
    limit: int
    writable: bool
    recipes: int


class Cache:
    """A directory of kernels.

    Nothing here raises because of the file system. Where the directory cannot be written, there is one warning, and
    kernels live as long as the process.

    Parameters
    ----------
    directory : made with mode 0700 when first written to; None keeps nothing.
    limit : in bytes; the entries that were used least recently go when they exceed it.
    """

    def __init__(self, directory: Path | None, limit: int = DEFAULT_SIZE) -> None:
        self.directory = Path(os.path.abspath(directory)) if directory is not None else None
        self.limit = limit
        self._warned = False
        self.used: dict[tuple[str, str], None] = {}
        """The entries that this process has read or written, each with its kind; the newest are the last."""
        self._unchecked = limit  # bytes written since the size was last checked: the first write of a process checks

    def load(self, stem: str, kind: str = "o") -> CacheEntry | None:
        """The entry of this kind with this stem, marked as just used. None if there is none, or if it is damaged or
        another user's."""
        if self.directory is None:
            return None
        entry = self.peek(stem, kind)
        if entry is not None:
            self._use(stem, kind)
            with suppressed(OSError):
                os.utime(self.directory / f"{stem}.{kind}")
        return entry

    def has(self, stem: str, kind: str = "o") -> bool:
        """Whether there is a file for an entry."""
        return self.directory is not None and os.path.exists(self.directory / f"{stem}.{kind}")

    def peek(self, stem: str, kind: str = "o") -> CacheEntry | None:
        """The entry that `load` returns, which is not marked as used."""
        data = None if self.directory is None else _read_own(self.directory / f"{stem}.{kind}")
        return None if data is None else decode(data)

    def store(self, stem: str, entry: CacheEntry, kind: str = "o") -> bool:
        """Write an entry, which replaces an older one with this stem. Then delete old entries if the limit is
        exceeded. Returns whether the entry could be written."""
        data = encode(entry)
        if not self._write(f"{stem}.{kind}", data):
            return False
        self._use(stem, kind)
        self._unchecked += len(data)
        # A scan costs milliseconds in a full cache: once per process, then once per sixteenth of the limit.
        if self._unchecked > self.limit // 16:
            self.prune(keep=stem)
        return True

    def _use(self, stem: str, kind: str) -> None:
        self.used.pop((stem, kind), None)
        self.used[stem, kind] = None

    def source(self, stem: str, text: str) -> str | None:
        """The path of a file with this text. Writes it if it does not exist; None if it cannot be written."""
        if self.directory is None:
            return None
        path, data = self.directory / f"{stem}.py", text.encode()
        return str(path) if _read_own(path) == data or self._write(path.name, data) else None

    def text(self, stem: str) -> str | None:
        """The source of a kernel; None if it is not there, or another user's."""
        data = None if self.directory is None else _read_own(self.directory / f"{stem}.py")
        return None if data is None else data.decode(errors="replace")

    def prune(self, limit: int | None = None, keep: str | None = None) -> int:
        """If the limit is exceeded, delete the least recently used entries until three quarters of it remain.

        Parameters
        ----------
        limit : in bytes; the cache's own if not given.
        keep : a stem that stays in any case.

        Returns
        -------
        The number of entries that were deleted.
        """
        self._unchecked = 0
        limit = self.limit if limit is None else limit
        entries = self.entries()
        total, deleted = sum(files.size for files in entries.values()), 0
        if total > limit:
            for stem, files in sorted(entries.items(), key=lambda item: item[1].used):
                if total <= limit * 3 // 4:
                    break
                if stem != keep:
                    _delete(files.paths)
                    total, deleted = total - files.size, deleted + 1
        an_hour_ago = time.time() - 3600  # a younger one may be about to be renamed
        _delete([path for path, status in self._files(_TEMPORARY) if status.st_mtime < an_hour_ago])
        return deleted

    def clear(self) -> int:
        """Delete all entries, and no other file in the directory. Returns the number of deleted kernels."""
        entries = self.entries()
        for files in entries.values():
            _delete(files.paths)
        _delete([path for path, _ in self._files(_TEMPORARY)])
        return sum(files.is_kernel for files in entries.values())

    def info(self) -> Info:
        """The state of the cache now."""
        entries = self.entries().values()
        kernels, recipes = sum(files.is_kernel for files in entries), sum(files.is_recipe for files in entries)
        size = sum(files.size for files in entries)
        return Info(self.directory, kernels, size, self.limit, self._writable(), recipes)

    def _writable(self) -> bool:
        if self.directory is None:
            return False
        existing = next(path for path in (self.directory, *self.directory.parents) if os.path.exists(path))
        return os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)

    def _files(self, prefix: str = "") -> Iterator[tuple[Path, os.stat_result]]:
        """The files in the directory, without those that another process deletes meanwhile."""
        if self.directory is None:
            return
        names: list[str] = []
        with suppressed(OSError):
            names = os.listdir(self.directory)
        for name in names:
            if name.startswith(prefix):
                path = self.directory / name
                with suppressed(OSError):
                    yield path, path.lstat()

    def entries(self) -> dict[str, Files]:
        """The files of each entry, by stem."""
        entries: dict[str, Files] = {}
        for path, status in self._files():
            if match := _ENTRY.fullmatch(path.name):
                time = status.st_mtime
                files = entries.get(match["stem"], Files(0, time, time, []))
                size, paths = files.size + status.st_size, [*files.paths, path]
                entries[match["stem"]] = Files(size, min(files.made, time), max(files.used, time), paths)
        return entries

    def _write(self, name: str, data: bytes) -> bool:
        if self.directory is None or self._warned:
            return False
        path, temporary = self.directory / name, None
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.directory, prefix=_TEMPORARY)  # mode 0600
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
            return True
        except OSError as error:
            if temporary is not None:
                _delete([Path(temporary)])
            if from_signal_handler(error):
                raise
            if os.name == "nt" and isinstance(error, PermissionError) and path.exists():
                return False  # Windows: another process has it open, so it is being used, so it is there
            self._warned = True
            warn(
                f"compiled kernels are kept in memory only: cannot write to {self.directory} ({error.strerror}). "
                "Set SCANJIT_CACHE_DIR to a directory that can be written.",
                RuntimeWarning,
            )
            return False


def is_name(stem: str, kind: str) -> bool:
    """Whether the file of an entry can be called so."""
    return _ENTRY.fullmatch(f"{stem}.{kind}") is not None


def encode(entry: CacheEntry) -> bytes:
    """The bytes of a file with this entry, and their digest."""
    metadata = json.dumps(entry.metadata, sort_keys=True).encode()
    body = struct.pack("<Q", len(metadata)) + metadata + entry.payload
    return _MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> CacheEntry | None:
    """The entry that `encode` made bytes of; None if these are others."""
    digest, body = data[8:40], data[40:]
    if data[:8] != _MAGIC or hashlib.sha256(body).digest() != digest:
        return None
    (length,) = struct.unpack_from("<Q", body)
    return CacheEntry(json.loads(body[8 : 8 + length]), body[8 + length :])


def _read_own(path: Path) -> bytes | None:
    """The bytes of a file, if only this user can have written it; else None."""
    data = None
    if not os.access(path, os.F_OK):  # the usual case for a new kernel; an exception would take far longer
        return None
    with suppressed(OSError):
        # The descriptor is what is checked and read: nobody can swap the file in between.
        # (Without O_NONBLOCK, to open a FIFO would wait for somebody who writes to it.)
        flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        how = functools.reduce(operator.or_, flags, os.O_RDONLY)
        with open(path, "rb", opener=lambda name, _: os.open(name, how)) as file:  # a directory is closed again
            status = os.fstat(file.fileno())
            ours = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
            data = file.read() if ours and stat.S_ISREG(status.st_mode) else None
    return data


def _delete(paths: list[Path]) -> None:
    for path in paths:
        with suppressed(OSError):
            path.unlink()
