"""The recurrences: for each the data, a plain loop in NumPy that is the reference, scanjit's program and its peers'."""

from __future__ import annotations

import importlib

from benchmarks.case import Case

MODULES = (
    *("lstm", "gru", "gated", "linear", "rnn", "garch", "likelihoods", "chains", "filters", "ode"),
    *(
        "markov",
        "ctc",
        "spectral",
        "orders",
        "windows",
        "ragged",
        "stack",
        "layers",
        "streaming",
        "convolution",
        "training",
        "letters",
        "wide",
        "narrow",
        "special",
        "forecasting",
        "byhand",
        "machines",
        "processes",
        "memories",
    ),
)


def all_cases() -> list[Case]:
    """Every case, in the order of the tables."""
    return [case for name in MODULES for case in importlib.import_module(f"benchmarks.cases.{name}").CASES]


def find(name: str) -> Case:
    """The case of this name."""
    return next(case for case in all_cases() if case.name == name)
