"""The pages that follow something through the code name files and functions: all of them exist."""

import ast
import re
import sys
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import pytest

import scanjit as sj

ROOT = Path(__file__).parent.parent
WALKS = sorted((ROOT / "docs" / "walks").glob("*.md"))


def exists(path: str, name: str = "") -> bool:
    """Whether a file exists, and defines a function or a class, or (for `Class.name`) a class its method."""
    if not (ROOT / path).exists():
        return False
    body: list[ast.stmt] = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    for part in filter(None, name.split(".")):
        kinds = (ast.FunctionDef, ast.ClassDef)
        found = next((node for node in body if isinstance(node, kinds) and node.name == part), None)
        if found is None:
            return False
        body = found.body
    return True


@pytest.mark.parametrize("page", WALKS, ids=lambda path: path.stem)
def test_what_a_walk_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", text)
    assert len(names) == len(re.findall(r"\.py\b", text)) > 5, "a file stands in backquotes, with its path"
    missing = [f"{path}::{name}" for path, name in names if not exists(path, name)]
    assert not missing


def code_of(page: Path) -> str:
    """The program that a walk begins with."""
    found = re.search(r"(?:^    .+\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return re.sub("^    ", "", found[0], flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["checkpoint", "node"])
def test_a_walk_is_in_the_order_of_the_calls(name: str) -> None:
    page = ROOT / "docs" / "walks" / f"{name}.md"
    first: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            first.setdefault(frame.f_code)

    api = SimpleNamespace(**{**vars(sj), "function": partial(sj.function, mode="emulate")})
    sys.setprofile(note)
    try:
        exec(compile(code_of(page), page.name, "exec"), {"sj": api})
    finally:
        sys.setprofile(None)
    called = [(str(Path(code.co_filename)), code.co_qualname) for code in first]
    named = re.findall(r"`([\w/]+\.py)::([\w.]+)`", page.read_text(encoding="utf-8"))
    walked = [(str(ROOT / path), name) for path, name in named if name.split(".")[-1].lstrip("_")[0].islower()]
    assert [place for place in walked if place not in called] == []
    assert sorted(walked, key=called.index) == walked


def test_a_name_that_does_not_exist_is_found() -> None:
    path = "tests/test_walks.py"
    assert exists(path) and exists(path, "exists")
    assert not exists("tests/walks.py") and not exists(path, "missing") and not exists(path, "exists.inner")
