"""The recipes of docs/recipes.md are followed: in a copy of the source, each edit is made and each check is run.

An edit is a block of Python after a comment: `<!-- new: FILE -->`, `<!-- append: FILE -->` or
`<!-- after: FILE: LINE -->` (it goes behind that line).
A check is a block after `<!-- check -->`. All checks must run in a new process.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.scripts import python

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "recipes.md"
BLOCK = re.compile(r"<!-- (new|append|after|check)(?:: (\S+?)(?:: (.*?))?)? -->\n+```python\n(.*?)```\n", re.S)


def recipes() -> dict[str, str]:
    """The text of each recipe by its title."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def files_of(text: str) -> list[str]:
    """The files that a recipe says it touches: the list under "You touch"."""
    head = text.split("You touch", 1)[1].split("\n\n", 2)[1]
    return re.findall(r"- `([^`]+)`", head)


def follow(text: str, folder: Path) -> list[str]:
    """Make the edits of a recipe below a folder; returns its checks."""
    checks = []
    for kind, file, line, code in BLOCK.findall(text):
        path = folder / file
        if kind == "check":
            checks.append(code)
        elif kind == "new":
            assert not path.exists(), f"{file} exists already"
            path.write_text(code, encoding="utf-8")
        elif kind == "append":
            path.write_text(path.read_text(encoding="utf-8") + "\n\n" + code, encoding="utf-8")
        else:
            lines = path.read_text(encoding="utf-8").split("\n")
            assert lines.count(line) == 1, f"{line!r} is not one line of {file}"
            lines.insert(lines.index(line) + 1, code.rstrip("\n"))
            path.write_text("\n".join(lines), encoding="utf-8")
    return checks


def test_there_are_six() -> None:
    assert len(recipes()) == 6


@pytest.mark.parametrize("title", recipes())
def test_a_recipe_touches_the_files_that_it_names(title: str) -> None:
    text = recipes()[title]
    touched = dict.fromkeys(file for kind, file, _, _ in BLOCK.findall(text) if kind != "check")
    assert list(touched) == files_of(text)


def test_all_of_them_work(tmp_path: Path) -> None:
    """All in one copy and one process: to start Python and to import the package takes longer than the checks."""
    for package in ("scanjit", "lasagne_like"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    checks = [check for text in recipes().values() for check in follow(text, tmp_path)]
    script = "\n".join(["import scanjit", f"assert scanjit.__file__.startswith({str(tmp_path)!r})", *checks])
    python(script, folder=tmp_path, PYTHONPATH=str(tmp_path), SCANJIT_VERIFY="1")
