"""Errors that name what is wrong, and the line of the user."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(kind: type[Exception], *words: str) -> Iterator[None]:
    """A context in which an error of this kind must be raised. Its message has all these words, and names the file of
    the test."""
    with pytest.raises(kind) as caught:
        yield
    file = next(entry.path.name for entry in caught.traceback if entry.path.name.startswith("test_"))
    text = str(caught.value)
    for word in (*words, file):
        assert word in text, f"{word!r} is not in:\n{text}"
