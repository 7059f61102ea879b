"""Programs in processes of their own: Python's, scripts, and any others."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent


def printed(*command: object, folder: Path | None = None, **environment: str) -> str:
    """What a program prints, which must end without an error. It finds our packages, and has no limits for threads."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    words = [str(word) for word in command]
    run = subprocess.run(
        words,
        cwd=folder,
        env=kept | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not run.returncode, f"{' '.join(words)} ended with {run.returncode}:\n{run.stdout}{run.stderr[-3000:]}"
    return run.stdout


def python(code: str, *arguments: object, folder: Path | None = None, **environment: str) -> str:
    """What a program in Python prints."""
    return printed(sys.executable, "-c", textwrap.dedent(code), *arguments, folder=folder, **environment)


def script(folder: Path, *parts: str, **environment: str) -> list[str]:
    """The words that a script in a folder prints. Other processes can import it."""
    (folder / "script.py").write_text("\n".join(map(textwrap.dedent, parts)), encoding="utf-8")
    return printed(sys.executable, "script.py", folder=folder, **environment).split()
