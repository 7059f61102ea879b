"""Writes a file completely or not at all."""

import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from scanjit.errors import suppressed


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
    except BaseException:
        with suppressed(OSError):
            os.unlink(temporary)
        raise


def _rename(temporary: Path, path: Path) -> None:
    """Windows refuses to replace a file that somebody has open: wait for two seconds until they have read it."""
    for pause in (0.01, 0.04, 0.15, 0.6, 1.2) if sys.platform == "win32" else ():
        try:
            return os.replace(temporary, path)
        except PermissionError:
            time.sleep(pause)
    return os.replace(temporary, path)
