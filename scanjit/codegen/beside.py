"""Loops side by side: calls of their functions by all threads together, or by threads of its own for each loop."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from scanjit.codegen.common import Common, Draft, StatementPlace
from scanjit.codegen.jobs import Jobs
from scanjit.codegen.places import SYNC, SYNC_WORDS
from scanjit.schedule.nests import Beside, Wave

BranchCall = Callable[[str, str, str, Mapping[str, str]], str]
"""Writes the call of a function that runs a branch of loops side by side, by a thread of a team: gets the number of the
thread and of the threads of its team, where the team meets, and other text for some counters."""


class BesideWriter:
    """Writes the lines of one function that run loops side by side."""

    def __init__(self, common: Common, draft: Draft, jobs: Jobs) -> None:
        self.common, self.draft, self.jobs = common, draft, jobs

    def write(self, beside: Beside, calls: Sequence[BranchCall], at: StatementPlace) -> None:
        """Write loops side by side. Each loop is a function, which all threads call, or only those of its team. What
        one thread does for its team is one share of the work. If a thread is late, another one computes its share."""
        number, sync = self.common.number, self.common.address(SYNC, 0, at)
        together = [call("thread", "threads", sync, {}) for call in calls]
        self.draft.add(at, f"if {number(beside.apart)} == 0 or threads == 1:")
        if beside.wave is None:
            self.draft.add(at.inside, *together)
        else:
            self.jobs.begin_loop(at.inside, beside.wave.total)
            self.draft.add(at.inside, f"for {number(beside.wave.number)} in range({number(beside.wave.many)}):")
            self.draft.add(at.inside.inside, *together)
            self.jobs.look(at.inside.inside)
            self.draft.add(at.inside, "end_loop(line)")
        self.draft.add(at, "else:")
        if beside.wave is None:
            self._teams(beside, at.inside, [(call, {}, "") for call in calls])
        else:
            self._turns(beside, beside.wave, calls, at.inside)

    def _turns(self, beside: Beside, wave: Wave, calls: Sequence[BranchCall], at: StatementPlace) -> None:
        """The turns of a wave. All threads run a block together if no other loop has one."""
        number, turn, inside = self.common.number, self.draft.fresh("turn"), at.inside
        many, latest = number(wave.many), max(wave.delays)
        behind = [{number(wave.number): f"{turn} - {delay}"} for delay in wave.delays]
        self.jobs.begin_loop(at, wave.total)
        self.draft.add(at, f"for {turn} in range({many} + {latest}):")
        word = "if"
        for delay, which in ((0, "0"), (latest, f"{many} + {latest - 1}")):
            if wave.delays.count(delay) == 1:
                i, sync = wave.delays.index(delay), self.common.address(SYNC, 0, at)
                self.draft.add(inside, f"{word} {turn} == {which}:")
                self.draft.add(inside.inside, calls[i]("thread", "threads", sync, behind[i]))
                word = "elif"
        if word == "elif":
            self.draft.add(inside, "else:")
        has_block = [f" and {delay} <= {turn} < {many} + {delay}" for delay in wave.delays]
        self._teams(beside, inside.inside if word == "elif" else inside, zip(calls, behind, has_block, strict=True))
        self.jobs.look(inside)
        self.draft.add(at, "end_loop(line)")

    def _teams(
        self, beside: Beside, at: StatementPlace, runs: Iterable[tuple[BranchCall, Mapping[str, str], str]]
    ) -> None:
        """Each branch with threads of its own: its call, its turn, and the condition for it to have one."""
        number, base = self.common.number, self.common.address(SYNC, 0, at)
        with self.jobs.shares(at, "threads") as (inside, share):
            teams = zip(beside.first, beside.many, beside.place, strict=True)
            for (first, many, place), (call, turn, condition) in zip(teams, runs, strict=True):
                begin, count = number(first), number(many)
                run = call(f"{share} - {begin}", count, f"{base} + {number(place)}*{8 * SYNC_WORDS}", turn)
                self.draft.add(inside, f"if {begin} <= {share} < {begin} + {count}{condition}:", "    " + run)
