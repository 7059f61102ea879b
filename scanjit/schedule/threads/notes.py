"""What `explain` says about threads."""

from collections import Counter

from scanjit.schedule.nests import Beside, Blocks, Program, RowsApart
from scanjit.schedule.threads.rows import with_rows
from scanjit.schedule.threads.sharing import Sharing
from scanjit.schedule.threads.teams import Assignment


def notes(program: Program, sharing: Sharing | None) -> list[str]:
    """Notes on the loops that stand side by side, on the loops in which threads may compute their own rows, and on what
    was decided for the last new sizes. `sharing` is None if there was no call yet. It may belong to a program that was
    made earlier from the same graph: that has the same statements in the same order."""
    together = [statement for statement in program.suite if isinstance(statement, Beside)]
    teams = [None] * len(together) if sharing is None else sharing.teams.values()
    beside = Counter(_beside(s, sharing, assigned) for s, assigned in zip(together, teams, strict=True))
    loops = with_rows(program.suite)
    decided = [False] * len(loops) if sharing is None else sharing.rows_apart.values()
    rows = [f"{_loop(s)} never meet; {_rows(sharing, apart)}" for s, apart in zip(loops, decided, strict=True)]
    return [*(note if times == 1 else f"{note} (so {times} times)" for note, times in beside.items()), *rows]


def _beside(beside: Beside, sharing: Sharing | None, assigned: Assignment | None) -> str:
    names = Counter(branch.title for branch in beside.branches).items()
    how = "side by side" if beside.wave is None else "side by side in turns"
    text = f"{how}: {', '.join(name if many == 1 else f'{many} of {name}' for name, many in names)}"
    if sharing is None or assigned is None:
        return f"{text}; whether each gets threads of its own depends on sizes"
    if not sharing.several or sharing.threads < 2:
        return f"{text}; {_why_one_thread(sharing)}"
    teams, apart, together, turns = assigned
    costs = f"about {apart:.1e} operations apart, {together:.1e} together"
    if teams is None:
        return f"{text}; all {sharing.threads} threads share the steps of each ({costs})"
    numbers = [f"{t.first}" if t.many == 1 else f"{t.first}-{t.first + t.many - 1}" for t in teams]
    if beside.wave is None:
        return f"{text}; on threads {', '.join(numbers)}, without waiting for each other ({costs})"
    return f"{text}; on threads {', '.join(numbers)}, in {turns.many} blocks of {turns.size} steps ({costs})"


def _loop(loop: RowsApart | Blocks) -> str:
    return f"{loop.title}: its rows" if isinstance(loop, RowsApart) else "points of different bands"


def _rows(sharing: Sharing | None, apart: bool) -> str:
    if sharing is None:
        return "whether each thread computes its own rows through all steps depends on sizes"
    if not sharing.several or sharing.threads < 2:
        return _why_one_thread(sharing)
    return "each thread computes its own rows through all steps" if apart else "threads share each step"


def _why_one_thread(sharing: Sharing) -> str:
    return "one thread" if sharing.threads < 2 else "too little work for several threads"
