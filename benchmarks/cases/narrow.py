"""LSTMs with products of 16 and 8 bits, beside those of float32, and OpenVINO and ONNX Runtime with so few bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Case, Sizes, Task, Work
from benchmarks.cases import lstm
from benchmarks.cases.common import grid
from benchmarks.engines import onnx, scanjit

SIZES = [*lstm.GRID[1:], *grid("B T I H", (1, 100, 1024, 1024))]
LARGEST = 127


def _integers(arguments: Arrays) -> Arrays:
    """The weights as integers of 8 bits, with one scale for a matrix."""
    floats = lstm.onnx_weights(arguments)
    found: Arrays = {"B": floats["B"]}
    for name in "WR":
        scale = np.abs(floats[name]).max() / LARGEST
        found[name] = np.rint(floats[name].transpose(0, 2, 1) / scale).astype(np.int8)
        found[f"{name}_scale"], found[f"{name}_zero"] = np.array([scale], np.float32), np.zeros(1, np.int8)
    return found


def _quantized_nodes(helper: Any, task: Task) -> list[Any]:
    inputs = ["x", "W", "R", "B", "", "", "", "", "W_scale", "W_zero", "R_scale", "R_zero"]
    domain = "com.microsoft"
    return [helper.make_node("DynamicQuantizeLSTM", inputs, ["y"], domain=domain, hidden_size=task.sizes["H"])]


def _case(name: str, nbytes: int, kinds: tuple[str, ...], tolerance: float, make: Any) -> Case:
    def work(sizes: Sizes, itemsize: int) -> Work:
        """The work with numbers of `nbytes`: an instruction multiplies as many bytes of them as of float32, and those
        of registers for matrices as many as several such instructions."""
        from scanjit.runtime import host  # peers' environments do without scanjit
        from scanjit.schedule.nests.nest import IN_MATRICES

        found = lstm.work(sizes, nbytes)
        at_once = IN_MATRICES if host.target().has_matrices else 1
        return found._replace(flops=found.flops * nbytes / itemsize / at_once)

    like = lstm.CASES[0]
    return replace(
        like, name=name, group="narrow", sizes=SIZES, kinds=kinds, make=make, dtypes=("float32",), starts=(),
        tolerance=(tolerance, tolerance), work=work,
    )  # fmt: skip


_of_bfloat16 = onnx.programs(lstm.onnx_nodes, lstm.onnx_weights, lambda y: y[:, 0], precision="bf16")
_of_integers = onnx.programs(_quantized_nodes, _integers, lambda y: y[:, 0])

CASES = [
    _case(
        "LSTM of bfloat16",
        2,
        ("forward", "gradient"),
        0.1,
        {
            "scanjit": scanjit.program(lstm.by_scanjit, "bfloat16"),
            "float32": scanjit.program(lstm.by_scanjit),
            "openvino": _of_bfloat16["openvino"],
        },
    ),
    _case(
        "LSTM of int8",
        1,
        ("forward",),
        0.2,
        {
            "scanjit": scanjit.program(lstm.by_scanjit, "int8"),
            "float32": scanjit.program(lstm.by_scanjit),
            "onnxruntime": _of_integers["onnxruntime"],
        },
    ),
]
