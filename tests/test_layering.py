"""Each layer imports only those above it: read from the imports themselves, wherever in a file they stand."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = (
    "version records scoped tracebacks errors arrays config walks contents interned target signatures kinds types "
    "symbol ir tracing ops show tensor loops autodiff batching derivatives rewrite schedule simd codegen runtime "
    "streaming random export library onnx optimize timeseries frames bridge torch jax pytensor plot parallel numba "
    "guests precision"
).split()
COMPILED = {"simd", "runtime", "numba"}  # the only layers that may know LLVM; the last one knows Numba
FRONT = {"__init__", "__main__"}  # scanjit's own face: may see every layer


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """The dotted path of every import in a file, relative ones made absolute."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            yield from (base + (alias.name,) for alias in node.names)


@pytest.mark.quick(136)
@pytest.mark.parametrize("path", modules("scanjit"), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_layer_imports_only_those_above(path: Path) -> None:
    layer = path.relative_to(ROOT / "scanjit").with_suffix("").parts[0]
    if layer in FRONT:
        return
    assert layer in ORDER, f"{layer} is in no layer: give it a place in ORDER"
    for target in imports(path):
        assert target[0] != "lasagne_like", f"{path} imports {'.'.join(target)}"
        assert target[0] != "llvmlite" or layer in COMPILED, f"{path} imports {'.'.join(target)}"
        assert target[0] != "numba" or layer == "numba", f"{path} imports {'.'.join(target)}"
        if target[0] == "scanjit":
            assert target[1:] and target[1] in ORDER, f"{path} imports {'.'.join(target)}, which is in no layer"
            assert ORDER.index(target[1]) <= ORDER.index(layer), f"{path} imports {'.'.join(target)} from below"


@pytest.mark.parametrize("path", modules("lasagne_like"), ids=lambda path: str(path.relative_to(ROOT)))
def test_lasagne_like_uses_only_public_names(path: Path) -> None:
    for target in imports(path):
        assert target[0] not in ("numba", "llvmlite"), f"{path} imports {'.'.join(target)}"
        if target[0] == "scanjit":
            private = (ROOT / "scanjit" / target[1]).with_suffix(".py") if target[1:] else None
            assert len(target) <= 2 and not (private and (private.exists() or private.with_suffix("").is_dir())), (
                f"{path} imports {'.'.join(target)}: use the public names of scanjit"
            )
