"""Random programs as ONNX models: what is read again computes what the reference computes."""

from __future__ import annotations

import importlib.util
import time

import numpy as np

from scanjit import errors, onnx
from scanjit.runtime.function import function
from tests.fuzz.check import Outcome, compare, outcome_of
from tests.fuzz.programs import Program

INSTALLED = importlib.util.find_spec("onnx") is not None


def check_exported(p: Program, runs: int = 2) -> Outcome:
    """Write a program as a model, read it, and run what was read. Raises `Mismatch`, or what the reader raises."""
    outcome, start = Outcome(), time.perf_counter()
    try:
        model = onnx.export((p.inputs, p.outputs), cells=p.seed % 32 < 16)
    except errors.NotSupportedError:  # for ops that models lack
        p.features.add("no model")
        return outcome
    p.features.add("model")
    read = onnx.load(model)
    again = function(list(read.inputs), list(read.outputs), mode="reference")
    oracle = function(p.inputs, p.outputs, mode="reference")
    rng = np.random.default_rng(p.seed)
    for sizes in p.bindings(rng, runs if p.sizes else 1):
        arguments = p.draw(rng, sizes)
        expected = outcome_of(oracle, arguments)
        if not isinstance(expected, Exception):  # models check nothing
            where = f"read from a model; sizes {[int(n) for n in sizes.values()]}"
            compare(p, arguments, expected, outcome_of(again, arguments), where, outcome)
            outcome.runs += 1
    outcome.spent("models", start)
    return outcome
