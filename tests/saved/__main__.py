"""Save functions with this version of scanjit: `python -m tests.saved FOLDER`.

Run it once for each release, with `tests/saved/VERSION` as the folder, and keep the files for ever: what was released
is never written again. Each program becomes a file NAME.sj, and NAME.npz with what calls were given and gave.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

import scanjit as sj
from scanjit.runtime import container, saving
from tests.saved import programs

ROOT = Path(__file__).absolute().parent.parent.parent


def main(folder: Path) -> None:
    """Write all files into a new folder."""
    folder.mkdir()
    for program in programs.all_programs():
        f = sj.function(program.symbols, program.outputs, updates=program.updates, name=program.name, mode="reference")
        content, encoded = saving.contents(f.graph, f.name, f.mode)
        text = json.dumps(content).replace(f"{ROOT}{os.sep}", "")  # where this machine has these files says nobody else
        container.write(folder / f"{program.name}.sj", json.loads(text), encoded.arrays)
        arrays = {f"given{i}": np.asarray(value) for i, value in enumerate(program.given)}
        with np.errstate(all="ignore"):
            for call in range(2 if f.graph.updates else 1):  # what is drawn goes on, and so does what is updated
                found = f(*program.given)
                results = list(found.values()) if isinstance(found, dict) else found
                arrays |= {f"call{call}_{i}": value for i, value in enumerate(results)}
        np.savez_compressed(folder / f"{program.name}.npz", allow_pickle=False, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
