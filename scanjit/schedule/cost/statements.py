"""The costs of statements: operations and bytes.

A `Price` holds dimensions: it is found once for a program. A `Cost` holds numbers: it is found for the sizes of a call.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from scanjit import types
from scanjit.schedule.nests import Blocks, Job, OwnRows, RowsApart, Statement, Traffic
from scanjit.schedule.nests.statement import Counters
from scanjit.types import Dimension, Numbers


class Run(NamedTuple):
    """A job that runs `runs` times, at the same cost each time.

    Each run makes `operations`, can be divided into `pieces` among threads, and touches the `traffic`. In a step whose
    threads may keep their rows, `shared` is the part of the traffic that belongs to no single row, such as the weights.
    Elsewhere it is empty.
    """

    runs: Dimension
    operations: Dimension
    pieces: Dimension
    traffic: tuple[Traffic, ...]
    shared: tuple[Traffic, ...]


class Price(NamedTuple):
    """The cost of a job that computes in `dtype`: the cost of the most expensive one of `samples`. `rows` are the rows
    that threads may keep in the loop around the job, if there is such a loop."""

    dtype: str
    samples: tuple[Run, ...]
    rows: OwnRows | None


class Cost(NamedTuple):
    """The cost of a job for the sizes of a call. `nbytes` are the bytes of its traffic, `shared` the bytes that belong
    to no single row, and `new` those of them that each call writes anew. The other fields are those of its `Price` and
    its most expensive `Run`."""

    dtype: str
    runs: int
    operations: float
    nbytes: float
    pieces: int
    rows: OwnRows | None = None
    shared: float = 0.0
    new: float = 0.0


def prices(suite: Sequence[Statement]) -> tuple[Price, ...]:
    """The price of every job of these statements, in order. A loop that may end early counts with all of its steps.
    Blocks of time count as equally long."""
    return tuple(_prices(suite, [({}, 1)], None))


def _prices(
    suite: Sequence[Statement],
    samples: Sequence[tuple[Counters, Dimension]],
    rows: OwnRows | None,
    bands: bool = False,
) -> Iterator[Price]:
    """The price of every job. `samples` has some runs of the suite that stand for all: the counters around it, and how
    many runs each stands for. If `rows` are `bands`, all that a job touches is one thread's."""
    for statement in suite:
        if isinstance(statement, Job):
            yield Price(statement.dtype, _runs(statement, samples, rows is not None and not bands), rows)
            continue
        own = statement.own_rows if isinstance(statement, RowsApart | Blocks) else None
        mine = isinstance(statement, Blocks) if own is not None else bands
        inner, inside = statement.samples, list[tuple[Counters, Dimension]]()
        for at, runs in samples:
            for counters, times in inner:
                known = {atom: types.substitute(dim, at) for atom, dim in counters.items()}
                inside.append(({**at, **known}, _together(types.substitute(times, at), runs)))
        yield from _prices(statement.inner, inside, own or rows, mine)


def _together(times: Dimension, runs: Dimension) -> Dimension:
    """How often something runs that runs `times` in each of some runs. A loop without a bound counts as the `LARGEST`
    number, wherever it stands."""
    product = times * runs
    too_many = types.LARGEST in (times, runs) or (isinstance(product, int) and product > types.LARGEST)
    return types.LARGEST if too_many else product


def _runs(job: Job, samples: Sequence[tuple[Counters, Dimension]], with_rows: bool) -> tuple[Run, ...]:
    """The different runs of a job, whose threads may keep rows."""
    shared, traffic = job.traffic(True) if with_rows else (), job.traffic()
    touched = [dim for each in (*traffic, *shared) for some in (*each.areas, (each.most,)) for dim in some]
    used = set(types.atoms(job.operations, job.pieces, *touched))
    found: dict[tuple[object, ...], Run] = {}
    for at, runs in samples:
        known = {atom: dim for atom, dim in at.items() if atom in used}
        key = runs, *known.items()
        if key not in found:
            operations, pieces = (types.substitute(dim, known) for dim in (job.operations, job.pieces))
            found[key] = Run(runs, operations, pieces, _traffic(traffic, known), _traffic(shared, known))
    return tuple(dict.fromkeys(found.values()))


def _traffic(traffic: tuple[Traffic, ...], at: Counters) -> tuple[Traffic, ...]:
    if not at:
        return traffic

    def inside(dim: Dimension) -> Dimension:
        return types.substitute(dim, at)

    return tuple(
        Traffic(tuple(tuple(map(inside, some)) for some in touched.areas), inside(touched.most), touched.new)
        for touched in traffic
    )


def costs(priced: Iterable[Price], number: Numbers) -> list[Cost]:
    """The costs of jobs for some sizes. Operations and bytes that depend on sizes which are not given count as 0."""
    dearness = lambda cost: (cost.operations * cost.runs, cost.nbytes * cost.runs)
    return [max((_cost(price, run, number) for run in price.samples), key=dearness) for price in priced]


def _cost(price: Price, run: Run, number: Numbers) -> Cost:
    operations = 0
    with contextlib.suppress(KeyError):
        operations = number(run.operations)
    touched = run.traffic, run.shared, [some for some in run.shared if some.new]
    nbytes, shared, new = (_nbytes(traffic, number) for traffic in touched)
    return Cost(price.dtype, number(run.runs), operations, nbytes, number(run.pieces), price.rows, shared, new)


def _nbytes(traffic: Iterable[Traffic], number: Numbers) -> int:
    """How many different bytes a run touches: of each buffer, no more than the buffer has."""
    total = 0
    with contextlib.suppress(KeyError):
        for touched in traffic:
            reached = sum(max(map(number, some)) for some in touched.areas)
            total += min(reached, number(touched.most))
    return total
