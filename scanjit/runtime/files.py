"""Files that are written whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def replace(path: str | os.PathLike[str], *parts: bytes | memoryview) -> None:
    """Write a file beside the one that it then replaces; after an error that one is as it was."""
    path = Path(path)
    temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # which makes its mode what the umask says: to ask for that would change it
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
