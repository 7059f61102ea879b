"""The functions of `models.py` as WebAssembly modules, called from Node: within the bounds of rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import scanjit as sj
from scanjit.library.model import interface
from scanjit.runtime import sizes
from tests.library.models import BOUND, CASES
from tests.library.pages import linked, told

SCRIPT = """
import { load } from "./model.js";
const model = await load();
const inputs = Object.fromEntries($NAMES.map((name, i) => [name, given[i]]));
let found;
for (let call = 0; call < $CALLS; call++) found = model.run(inputs, $SIZES);
tell([found, model.state].map((some) => Object.values(some).map((array) => Array.from(array, Number))));
"""


@pytest.mark.quick(3)
@linked
@pytest.mark.parametrize("name", CASES)
def test_node_computes_what_python_does(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "threads", 1)
    case = CASES[name]()
    sj.export_library(case.f, tmp_path, kind="wasm")
    face = interface("model", case.f.graph, {})
    names = str([each.name for each in face.inputs])
    known = sizes.bind(case.f.graph.inputs, [np.shape(arg) for arg in case.args])
    of_call = str({made: known[atom] for atom, made in face.sizes.items()})
    script = SCRIPT.replace("$NAMES", names).replace("$CALLS", str(case.calls)).replace("$SIZES", of_call)
    results, state = told(tmp_path, script, *map(np.asarray, case.args))
    for _ in range(case.calls):
        wanted = case.f(*case.args)
    arrays = [*(wanted if isinstance(wanted, list) else [wanted]), *(held.get_value() for _, held in face.state)]
    for one, other in zip([*results, *state], arrays, strict=True):
        assert len(one) == max(other.size, 1)
        bound = BOUND * np.finfo(other.dtype).eps * abs(other).max() if other.dtype.kind == "f" else 0
        np.testing.assert_allclose(one, other.ravel(), rtol=0, atol=bound)
