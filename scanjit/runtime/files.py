"""Writes a file completely or not at all."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from scanjit.errors import suppressed


def replace(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a temporary file, then rename it over the old one. After an error the old file is unchanged."""
    path = Path(path)
    temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # `open` applies the umask; reading the umask would change it for a moment
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppressed(OSError):
            os.unlink(temporary)
        raise
