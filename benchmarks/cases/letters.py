"""The CRNN of `ddddocr`, which reads the letters of an image: its wheel has it as a file of ONNX. Only starting is
measured: loading and compiling, beside ONNX Runtime's making of a session."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks import models
from benchmarks.case import Arrays, Case, Program, Sizes, Task
from benchmarks.cases.common import Draw, grid
from benchmarks.engines import scanjit


def data(sizes: Sizes, dtype: str, rng: np.random.Generator) -> Arrays:
    """An image."""
    return {"input1": Draw(rng, dtype).uniform(-1, 1, 1, 1, 64, sizes["width"])}


def by_scanjit(task: Task) -> Program:
    """Loaded for images of this width."""
    arguments = task.arguments()
    function = models.loaded(_file(), arguments, {}, task.mode)
    return Program(scanjit.Call(function, list(arguments.values()), task), lambda result: [result])


def by_onnxruntime(task: Task) -> Program:
    """A session."""
    arguments = task.arguments()
    session = models.session(_file(), task.threads)
    return Program(lambda: session.run(None, arguments), lambda results: results)


def _file() -> Path:
    path = models.packaged("ddddocr/common.onnx")
    if path is None:
        raise NotImplementedError("ddddocr is not installed")
    return path


CASES = [
    Case(
        name="CRNN of ddddocr",
        group="compile",
        sizes=grid("width", (160,)),
        quick={"width": 160},
        data=data,
        reference=None,
        make={"scanjit": by_scanjit, "onnxruntime": by_onnxruntime},
        starts=("forward",),
    )
]
