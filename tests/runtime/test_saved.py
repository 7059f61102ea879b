"""Functions in the files that older versions wrote are what they were."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import saving
from tests.saved.__main__ import main

KEPT = Path(__file__).parent.parent / "saved"
FOLDERS = sorted(path for path in KEPT.iterdir() if path.name[0].isdigit())
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.sj"))]
COMPILED = {"gradient", "network"}
"""Of which programs the compiled function is looked at, too."""


def names(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def compare(path: Path, mode: str) -> None:
    f = sj.load(path, mode)
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as kept:
        given = [kept[f"given{i}"] for i in range(len(f.graph.inputs))]
        call = 0
        while f"call{call}_0" in kept:
            with np.errstate(all="ignore"):
                found = f(*given)
            for i, value in enumerate(found.values() if isinstance(found, dict) else found):
                want = kept[f"call{call}_{i}"]
                assert value.dtype == want.dtype and value.shape == want.shape
                np.testing.assert_allclose(value, want, 1e-4 if want.dtype == np.float32 else 1e-10, 1e-12)
            call += 1
    assert call == (2 if f.graph.updates else 1)


@pytest.mark.parametrize("path", FILES, ids=names)
def test_a_file_of_an_older_version(path: Path) -> None:
    compare(path, "reference")


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in COMPILED], ids=names)
def test_compiled(path: Path) -> None:
    compare(path, "numba")


def test_files_of_each_format_are_kept() -> None:
    """If this fails, the format is new: `python -m tests.saved tests/saved/VERSION` writes files in it."""
    found = {json.loads(zipfile.ZipFile(path).read("scanjit-function.json"))["version"] for path in FILES}
    assert saving.VERSION in found


def test_what_writes_the_files(tmp_path: Path) -> None:
    """It still runs, and never writes over older ones."""
    main(tmp_path / "new")
    made = {path.name for path in (tmp_path / "new").iterdir()}
    assert made >= {path.name for path in FOLDERS[-1].iterdir()}
    for path in sorted((tmp_path / "new").glob("*.sj")):
        assert str(KEPT.parent).encode() not in path.read_bytes()
        compare(path, "reference")
    with pytest.raises(FileExistsError):
        main(tmp_path / "new")
