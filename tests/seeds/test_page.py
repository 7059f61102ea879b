"""The commands of docs/seeds.md: their files exist, and what `-k` chooses is there to be chosen."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
COMMANDS = dict.fromkeys(re.findall(r"`((?:python -m )?pytest [^`]+|python [^`]+)`", PAGE))


def sources(paths: list[str]) -> str:
    files = [
        file for path in paths for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    ]
    assert files and all(file.is_file() for file in files), paths
    return "\n".join(file.read_text(encoding="utf-8") for file in files).lower()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_name_what_there_is(command: str) -> None:
    paths = re.findall(r"\b(?:tests|examples)/[\w/.]+", command)
    if not paths:
        (name,) = re.findall(r"python -m (\w+)", command)
        assert (ROOT / name).is_dir()
        return
    text = sources(paths)
    chosen = re.search(r'-k "?([^"]+)"?$', command)
    if chosen:
        functions = " ".join(re.findall(r"def (test_\w+)", text)) + text
        for word in re.split(r" or | and ", chosen[1]):
            assert word.lower() in functions, f"{word!r} chooses no test"
    for option in re.findall(r"--[a-z]+", command):
        assert f'"{option}"' in text


def test_the_page_has_every_seed() -> None:
    assert re.findall(r"^## (\d+)", PAGE, re.MULTILINE) == ["000", "001", "002", "003", "004"]
    assert len(COMMANDS) > 40
