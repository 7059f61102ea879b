"""docs/migration.md: what stands in its last columns runs, and gives what can be computed."""

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, layers

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|") and not re.match(r"\|[-| ]+$|.*\| here \|$", line)]
BEGIN = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)  # type: ignore[union-attr]
BATCH, LENGTH = 2, 3


def code_of(row: str) -> str:
    found = re.fullmatch(r"\|.*\| `([^`]*)` \|", row)
    assert found, f"the last column should be one piece of code: {row}"
    return found[1]


def ran(code: str) -> tuple[Any, dict[str, Any]]:
    """The value of the last expression of a piece of code, after what the page begins with."""
    space: dict[str, Any] = {}
    exec(BEGIN, space)
    body = ast.parse(code).body
    exec(compile(ast.Module(body[:-1], []), "<row>", "exec"), space)
    if isinstance(body[-1], ast.Expr):
        return eval(compile(ast.Expression(body[-1].value), "<row>", "eval"), space), space
    exec(compile(ast.Module(body[-1:], []), "<row>", "exec"), space)
    return space, space


def given(space: dict[str, Any]) -> dict[Any, np.ndarray]:
    """Values for the symbols of the page."""
    rng = np.random.default_rng(1)
    shapes = {"x": (BATCH, LENGTH, 5), "h0": (BATCH, 5), "mask": (BATCH, LENGTH)}
    values = {space[name]: rng.uniform(0.1, 0.9, shape) for name, shape in shapes.items()}
    for name in ("l_line", "l_picture", "l_volume"):
        layer = space[name]
        values[layer.input_var] = rng.normal(size=(BATCH, LENGTH, *layer.shape[2:]))
    return {**values, space["lengths"]: np.array([3, 1]), space["words"]: np.array([[1, 2, 0], [3, 0, 0]])}


@pytest.mark.quick(44)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("`")[1] if "`" in row else row)
def test_rows_run(row: str) -> None:
    value, space = ran(code_of(row))
    if isinstance(value, cells.EmbeddingWrapper):
        value = layers.RNNLayer(layers.DimshuffleLayer(space["l_words"], (0, 1, "x")), value)
    elif isinstance(value, cells.Cell):
        value = layers.RNNLayer(space["l_in"], value)
    if isinstance(value, layers.Layer):
        shapes, value = cells.structure.flatten(value.output_shape), layers.get_output(value)
        assert [leaf.ndim for leaf in cells.structure.flatten(value)] == [len(shape) for shape in shapes]
    if isinstance(value, cells.StepFunction):
        value(np.ones((BATCH, 5)), value.initial_state(BATCH))
    inputs = given(space)
    leaves = [leaf for leaf in cells.structure.flatten(value) if isinstance(leaf, sj.Node)]
    for array in sj.function(list(inputs), leaves, mode="reference")(*inputs.values()):
        assert np.isfinite(array).all()


def test_the_page_is_read_whole() -> None:
    assert len(ROWS) > 120
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert headings == [
        "TensorFlow: running cells",
        "TensorFlow: cells",
        "Keras",
        "Theano",
        "Lasagne",
        "PyTorch",
        "JAX",
    ]
