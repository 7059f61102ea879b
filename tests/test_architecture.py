"""docs/architecture.md shows what the engine does today.

After a deliberate change, run `SCANJIT_UPDATE_GOLDEN=1 python -m pytest tests/test_architecture.py` and read the
difference.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import scanjit as sj
from scanjit.rewrite import pipeline as rewriting
from scanjit.runtime import host
from scanjit.schedule import pipeline as scheduling
from scanjit.target import target_for
from tests.scripts import python

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PROGRAM = re.compile(r"<!-- program -->\n+```python\n(.*?)```\n", re.S)
BLOCK = re.compile(r"<!-- (stage|passes): (\w+) -->\n(?:\n```text\n.*?```\n|\n\|.*?\n\n)?", re.S)
AVX2 = target_for("x86_64-linux-gnu", features="+avx2,+fma")


def stage(f: Any, name: str) -> str:
    """The text of a stage; of the source, the function of the step's nest for one row."""
    text: str = sj.dprint(f, "str", stage=name)
    if name != "source":
        return text
    functions = re.split(r"\n\n\n(?=from )", text)
    nests = [source for source in functions if re.search(r"^def contract_add\w*\(", source, re.M)]
    return min(nests, key=len).rstrip() + "\n"


def passes(module: ModuleType, table: str) -> str:
    """A pipeline as a table of Markdown: each pass, what its docstring says, and the reason that stands behind it."""
    source = inspect.getsource(module).split(f"\n{table}: ")[1].split("\n)\n")[0]
    functions = dict(getattr(module, table))
    lines = ["| pass | what it does | why it is done here |", "| --- | --- | --- |"]
    for name, reason in re.findall(r'^    \("(\w+)", \w+\),(?:  # (.*))?$', source, re.M):
        doc = " ".join((inspect.getdoc(functions[name]) or "").split("\n\n")[0].split())
        lines.append(f"| `{name}` | {doc} | {reason} |")
    return "\n".join(lines) + "\n\n"


PASSES: dict[str, Callable[[], str]] = {
    "rewrite": lambda: passes(rewriting, "PIPELINE"),
    "loops": lambda: passes(rewriting, "LOOPS"),
    "schedule": lambda: passes(scheduling, "PASSES"),
}


def in_a_new_process() -> str:
    """The page as it should be. In which order factors of a size stand depends on the symbols made before."""
    program = "import sys; from tests.test_architecture import written; sys.stdout.buffer.write(written().encode())"
    return python(program, folder=ROOT)


def written() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    found = PROGRAM.search(text)
    assert found is not None
    space: dict[str, Any] = {}
    with host.using(AVX2):
        exec(compile(found.group(1), "lstm.py", "exec"), space)

        def block(match: re.Match[str]) -> str:
            kind, name = match.groups()
            shown = PASSES[name]() if kind == "passes" else f"```text\n{stage(space['f'], name)}```\n"
            return f"<!-- {kind}: {name} -->\n\n{shown}"

        return BLOCK.sub(block, text)


def test_the_page_shows_what_the_engine_does() -> None:
    text = in_a_new_process()
    if os.environ.get("SCANJIT_UPDATE_GOLDEN"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, (
        "docs/architecture.md is out of date: see the docstring of this file"
    )


def test_every_folder_is_on_the_map() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = page.split("## The folders")[1].split("\n## ")[0]
    listed = set(re.findall(r"`([\w/.]+)`", "".join(re.findall(r"^\| (`.*?) \|", rows, re.M))))
    packages = [*ROOT.glob("scanjit/*/__init__.py"), *ROOT.glob("scanjit/schedule/*/__init__.py")]
    there = {f"{path.parent.relative_to(ROOT / 'scanjit').as_posix()}/" for path in packages}
    there |= {path.name for path in ROOT.glob("scanjit/*.py") if not path.name.startswith("__")}
    assert listed == there
