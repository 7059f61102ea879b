"""What people see on the package index, and what they get from there."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINKS = re.findall(r"\[[^\]]*\]\(([^)]+)\)", README)


def test_links_of_the_readme_are_found() -> None:
    assert len(LINKS) >= 7


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_readme_works_on_the_package_index(link: str) -> None:
    """It is absolute, and what it names in this project is there."""
    place = re.fullmatch(r"https://(?:github\.com|raw\.githubusercontent\.com)/scanjit/scanjit/(.+)", link)
    assert place or link.startswith("https://"), f"{link} is relative: the package index does not know to what"
    if place:
        path = re.sub(r"^(?:(?:blob|tree)/)?main/", "", place[1])
        assert (ROOT / path).exists(), path


def test_the_source_distribution_holds_what_tests_read() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").split()
    packages = {"scanjit", "lasagne_like"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and list(path.rglob("*.py"))} - {".venv", "build"}
    assert {folder for folder in folders if not folder.endswith("cache")} <= packages | set(manifest)
    assert {path.name for path in ROOT.glob("*.py")} <= set(manifest)


def test_an_editable_installation_is_a_folder_on_the_path() -> None:
    """Type checkers read `.pth` files. Without this setting, setuptools writes an import hook instead."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert settings["package-dir"] == {"": "."}


def test_every_supported_python_is_tested() -> None:
    tested = re.search(r"^SUPPORTED=\(([^)]*)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert tested
    stated = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.", c)}
    assert stated <= set(tested[1].split())
    assert PROJECT["requires-python"] == f">={min(stated, key=lambda version: int(version.partition('.')[2]))}"


def test_annotations_of_arrays_are_not_evaluated() -> None:
    """Python 3.11, the oldest that is supported, knows no `array[int]`."""
    found = []
    for path in sorted(path for package in ("scanjit", "lasagne_like") for path in (ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "from array import array" in text and "from __future__ import annotations" not in text:
            subscripts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Subscript)]
            found += [f"{path}:{each.lineno}" for each in subscripts if ast.unparse(each.value) == "array"]
    assert not found, "write `from __future__ import annotations`:\n" + "\n".join(found)


def test_packages_hold_the_files_that_they_read() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    for package, patterns in settings["package-data"].items():
        held = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
        files = {path for path in (ROOT / package).rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
        assert held == files, package
