"""Programs in processes of their own, whose functions are those of a script."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent


def script(folder: Path, *parts: str, **environment: str) -> list[str]:
    """The words that a program prints. It runs in a folder, without limits for threads."""
    (folder / "script.py").write_text("\n".join(map(textwrap.dedent, parts)), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.endswith("NUM_THREADS")}
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    run = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=kept | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not run.returncode, run.stdout + run.stderr
    return run.stdout.split()
