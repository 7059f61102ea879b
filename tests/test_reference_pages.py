"""The reference in docs/: every public name stands there, and everything that stands there exists."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

import scanjit as sj

PAGES = sorted((Path(__file__).parent.parent / "docs" / "reference").glob("*.md"))


def listed(page: Path) -> list[tuple[str, str]]:
    """The names on a page, each after its module."""
    names, module = [], ""
    for line in page.read_text().splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   ([A-Za-z_][\w.]*)", line):
            names.append((module, found[1]))
    return names


ALL = {pair for page in PAGES for pair in listed(page)}


def test_every_public_name_stands_in_the_reference():
    names = [*sj.__all__, *(f"plot.{name}" for name in sj.plot.__all__)]
    assert not {name for name in names if ("scanjit", name) not in ALL} - {"config", "TensorLike"}


@pytest.mark.parametrize("package", ["frames", "optimize", "parallel", "timeseries"])
def test_every_name_of_a_package_stands_in_the_reference(package):
    assert not {name for name in getattr(sj, package).__all__ if ("scanjit", f"{package}.{name}") not in ALL}


@pytest.mark.parametrize(
    "module", ["cells", "layers", "objectives", "updates", "init", "training", "metrics", "schedules", "distributed"]
)
def test_every_name_of_lasagne_like_stands_in_the_reference(module):
    place = f"lasagne_like.{module}"
    offered = vars(importlib.import_module(place))
    own = {name for name, value in offered.items() if getattr(value, "__module__", "").startswith(place)}
    on_pages = {f"{where}.{name}" for where, name in ALL}
    assert not {name for name in own if not name.startswith("_") and f"{place}.{name}" not in on_pages}


def test_what_the_reference_lists_exists():
    for module, name in ALL:
        if not name.startswith(("onnx.", "torch.", "estimators.")):  # they need packages of their own
            assert reduce(getattr, name.split("."), importlib.import_module(module)) is not None
