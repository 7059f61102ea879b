"""What is checked of a seed: its programs, and the checks of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz.check import Config, Outcome, check, configs_of
from tests.fuzz.checkpoints import CHOICES, check_checkpoints
from tests.fuzz.curvature import second_order
from tests.fuzz.exported import INSTALLED, check_exported
from tests.fuzz.known import known
from tests.fuzz.narrow import check_bounds, few_bits
from tests.fuzz.programs import Program, program


@dataclass(frozen=True)
class Case:
    """A program, and one check of it. Cases of one seed with the same `make` share the program."""

    name: str
    make: Callable[[int, int | None], Program]
    check: Callable[[Program], Outcome]


def apart(seed: int, most: int | None = None) -> Program:
    """The program of a seed, each of whose inputs declares sizes of its own."""
    return program(seed, most=most, apart=True)


def _mixed(seed: int, most: int | None = None) -> Program:
    return program(seed, most=most)


def cases(seed: int, numba: bool = False) -> list[Case]:
    """All that is checked of a seed, in a long run and in one that shows it again."""
    found = _cases(seed, _mixed, configs_of(seed, numba))
    others = configs_of(seed // 8, numba)  # a kind has one remainder by 8: `configs_of(seed)` has one width for it
    if seed % 8 == 3:
        found.append(Case("sizes declared apart: as the reference", apart, lambda p: check(p, others)))
    if seed % 8 == 5:
        found += _cases(seed, second_order, others)
    if seed % 8 == 1 and INSTALLED:
        found.append(Case("read from a model: as the reference", _mixed, check_exported))
    if seed % 8 == 6:
        found += _cases(seed, known, others)
    if seed % 8 == 7:
        found.append(Case("few bits: within bounds", few_bits, lambda p: check_bounds(p, others)))
    return found


def _cases(seed: int, make: Callable[[int, int | None], Program], configs: Sequence[Config]) -> list[Case]:
    choice = CHOICES[seed // 5 % len(CHOICES)]
    kind = {second_order: "second derivatives: ", known: "known sizes: "}.get(make, "")
    found = [Case(f"{kind}as the reference", make, lambda p: check(p, configs))]
    for config in configs:
        if config.rewrite:
            name = f"{kind}checkpoint={choice!r} changes nothing, {config}"
            found.append(Case(name, make, lambda p, config=config: _checkpoints(p, choice, config)))  # type: ignore[misc]
    return found


def _checkpoints(p: Program, choice: int | str, config: Config) -> Outcome:
    outcome, start = Outcome(), time.perf_counter()
    if check_checkpoints(p, choice, config):
        p.features.add("checkpoints")
    outcome.spent("checkpoints", start)
    return outcome


def run_one(seed: int, numba: bool = False, most: int | None = None) -> tuple[Outcome, set[str]]:
    """Make and check the programs of a seed."""
    outcome, made = Outcome(), dict[Callable[[int, int | None], Program], Program]()
    for case in cases(seed, numba):
        if case.make not in made:
            start = time.perf_counter()
            made[case.make] = case.make(seed, most)
            outcome.spent("make", start)
        outcome.add(case.check(made[case.make]))
    return outcome, set[str]().union(*(p.features for p in made.values()))
