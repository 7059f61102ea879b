"""Exporting a function and running what was written."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import scanjit as sj
from scanjit.export import export_numpy

_number = 0


def exported(f: Any, folder: Path) -> Any:
    """The function of an exported package, loaded from its folder; `fn.module` is the module."""
    global _number
    _number += 1
    export_numpy(f, folder / str(_number), "model")
    path = folder / str(_number) / "model" / "__init__.py"
    spec = importlib.util.spec_from_file_location(f"exported_{_number}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    spec.loader.exec_module(module)
    assert not {name for name in set(sys.modules) - before if name.split(".")[0] in ("scanjit", "lasagne_like")}
    text = path.read_text()
    assert "scanjit." not in text and "import scanjit" not in text
    return module


def both(inputs: Any, outputs: Any, args: Any, folder: Path, **options: Any) -> tuple[Any, Any]:
    """What a function gives, and what its export gives."""
    f = sj.function(inputs, outputs, mode="reference", **options)
    return f(*args), exported(f, folder).model(*args)
