"""Writes a file, or the files of a folder, completely or not at all."""

import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from scanjit.errors import ArgumentError, suppressed


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that replaces another one at once, when the `with` block ends, or after an error not at all.

    It is written beside the old one, under a name that begins with a dot. A process that is killed may leave that file.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    OSError
        If the file cannot be written or renamed.

    Examples
    --------
    >>> import os, tempfile, scanjit as sj
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "notes.txt")
    ...     with sj.replace_file(path) as file:
    ...         size = file.write(b"all of it")
    ...     os.listdir(folder)
    ['notes.txt']
    """
    path = Path(os.fsdecode(path))
    temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # `open` applies the umask; reading the umask would change it for a moment
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, path)
    except BaseException as error:
        with suppressed(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)
        raise


def _rename(temporary: Path, path: Path) -> None:
    """Windows refuses to replace a file that somebody has open: wait for two seconds until they have read it."""
    for pause in (0.01, 0.04, 0.15, 0.6, 1.2) if sys.platform == "win32" else ():
        try:
            return os.replace(temporary, path)
        except PermissionError:
            time.sleep(pause)
    return os.replace(temporary, path)


def free_folder(path: str | os.PathLike[str], what: str, mark: str, overwrite: bool) -> Path:
    """The path of a folder that something may be written to, such as a package or a library.

    Raises
    ------
    ArgumentError
        If there is a file of that name, or the folder has the file `mark` already and `overwrite` is false.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"the path of a {what} must be a folder", got=f"the file {str(folder)!r}")
    if (folder / mark).exists() and not overwrite:
        raise ArgumentError(f"the folder has a {what} already", got=str(folder), fix="pass overwrite=True")
    return folder


@contextmanager
def fill_folder(folder: Path) -> Iterator[Path]:
    """Write files to a folder, which is made if there is none. They come there when the `with` block ends, or after an
    error not at all. Files of the folder that have other names stay.

    Until then they are in the folder that the block gets: a new one in the folder, or in the first one above that
    exists. Its name begins with a dot.
    """
    existing = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    temporary = existing / f".{folder.name[:100]}-{secrets.token_hex(8)}"
    temporary.mkdir()
    try:
        yield temporary
        for root, _, files in os.walk(temporary):
            goal = folder / Path(root).relative_to(temporary)
            goal.mkdir(parents=True, exist_ok=True)
            for file in sorted(files):
                _rename(Path(root, file), goal / file)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
