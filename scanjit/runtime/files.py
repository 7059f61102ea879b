"""Writes a file completely or not at all."""

import os
import secrets
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from scanjit.errors import suppressed


def replace(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a temporary file, then rename it over the old one. After an error the old file is unchanged."""
    path = Path(os.fsdecode(path))
    temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # `open` applies the umask; reading the umask would change it for a moment
            for part in parts:
                file.write(part)
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
