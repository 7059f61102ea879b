"""Checkpoints: of a loop that a gradient reads, only every k-th carry is kept, and the steps between are made again for
the gradient, a stretch of k steps at a time. What the gradient reads is in memory for one stretch only.

All loops of a family run in blocks of time. A block of one that comes later is a block of each loop that it reads, run
once more from the carries before it (but where that is what was done last), and then its own steps. The nests are those
that run without checkpoints: so are the results, to the last bit.

A loop inside a step whose carries are to be kept has no memory between the steps of the loop around it: that one keeps
its carries before every step, and the step is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scanjit import ir, types
from scanjit.ir import Node
from scanjit.ops.scan import SCAN
from scanjit.schedule.fuse.groups import Group
from scanjit.schedule.lower.region import Block, Region, name_of
from scanjit.schedule.nests import Blocks, Buffer, Nest, Ref, Statement, counter
from scanjit.schedule.time.blocks import Chain, Written, can_be_cut
from scanjit.schedule.time.checkpoint.family import Around, Draft, Family, Phase, block_of, candidates, is_linear
from scanjit.schedule.time.stretch import Stretch
from scanjit.types import Dimension

Wanted = int | str


def families(
    region: Region, groups: list[Group], nests: dict[Group, Nest], chained: Mapping[Group, Chain]
) -> dict[Group, Family]:
    """The families of a region, by their groups. Nests that begin or end a carry that is kept are changed."""
    wanted = {group: size for group in groups if (size := _wanted(group)) is not None}
    if not wanted:
        return {}
    around = Around(region, groups, nests, chained)
    found: dict[Group, Family] = {}
    reasons: dict[Group, str] = {}
    for root in wanted:
        if root in found:
            continue
        text, others = _hopeless(root), [g for g in wanted if g not in found and wanted[g] == wanted[root]]
        loops = [] if text else candidates(around, root, others)
        if len(loops) > 1:
            free = [g for g in nests if g not in found and g not in chained]
            draft = Draft(around, loops, free, _size(root, wanted[root]))
            family = draft.family()
            if family is not None:
                found |= dict.fromkeys(family.groups, family)
                _keep(region, family, draft)
                continue
            text = draft.refused or "what the gradient reads of it is needed by something else too"
        if text or wanted.keys().isdisjoint(around.reached(root)):  # else it is a gradient itself
            reasons[root] = text or "no loop beside it goes over its steps and reads what it stores"
    for group, text in reasons.items():
        if group not in found and _asked(block_of(group).plan.node):
            note = f"checkpoint={_asked(block_of(group).plan.node)!r} is not done, all is stored: {text}"
            region.context.notes.append(f"{block_of(group).label}: {note}")
    return found


def _asked(scan: Node) -> Wanted | None:
    """The checkpoints that a scan asks for, if any."""
    checkpoint = scan.params["checkpoint"]
    return None if checkpoint == "all" else checkpoint


def _wanted(group: Group) -> Wanted | None:
    """The checkpoints that a scan asks for, or a scan inside its step: then this is to be made again step by step."""
    block = group.members[0]
    if not isinstance(block, Block) or block.scan is None:
        return None
    node = block.plan.node
    inside = node.params["checkpoint"] is None and any(_asked(inner) for inner in _inner(node))
    return 1 if inside else _asked(node)


def _inner(scan: Node) -> Iterator[Node]:
    """The scans in the step of a scan."""
    for node in ir.walk(scan.params["body"].outputs):
        if node.op is SCAN:
            yield node
            yield from _inner(node)


def _size(root: Group, wanted: Wanted) -> Dimension:
    length = block_of(root).plan.length
    return wanted if isinstance(wanted, int) else types.maximum(types.square_root(length), 1)


def _hopeless(group: Group) -> str:
    """Why a loop cannot be run a stretch at a time, if so."""
    if not can_be_cut(group):
        return "it may end early, and how many steps the gradient goes back over is known only when all are stored"
    if is_linear(group):
        return "it is linear in numbers, of which several steps are done at a time"
    return ""


def _keep(region: Region, family: Family, draft: Draft) -> None:
    """Memory for carries before each stretch, and after the last, of the loops that need it."""
    count = (family.root.plan.length + (family.size - 1)) // family.size
    for loop in family.chains:
        plan = block_of(loop).plan
        stacks: dict[int, Buffer] = {}
        for i in draft.kept_carries(loop):
            buffer = plan.carries[i].store.buffer
            stacks[i] = Buffer(buffer.dtype, (count + 1, *buffer.shape[1:]), "temporary", "kept")
            region.buffers.add(stacks[i])
        if stacks:
            family.kept[loop] = stacks
            draft.ends.redirect(plan, stacks, family.turned(loop))


# ---- writing a family as statements --------------------------------------------------------------------------------


def statements_of(region: Region, family: Family, phase: Phase, nests: dict[Group, Nest]) -> list[Statement]:
    """The statements of a phase. After the last one the buffers get their size, which nothing asks for any more."""
    made = _Blocks(region, family, phase, nests).statements()
    if phase is family.phases[-1]:
        _shrink(region, family)
    return made


class _Blocks:
    """The stretches of a phase."""

    def __init__(self, region: Region, family: Family, phase: Phase, nests: dict[Group, Nest]) -> None:
        self.family, self.phase = family, phase
        self.first, self.rows = counter("first"), counter("rows")
        self.counters = {*types.atoms(self.first), *types.atoms(self.rows)}
        self.made = Written(region, nests, self.counters, family.shrunk)

    def statements(self) -> list[Statement]:
        """What is made once before, the loop over stretches, then what is left."""
        family, made, total = self.family, self.made, self.family.root.plan.length
        for group, is_there in self.phase.again.items():
            self._again(group, is_there)
        for group in self._ordered():
            self._own(group)
        most = {**dict.fromkeys(types.atoms(self.first), total)}
        most |= dict.fromkeys(types.atoms(self.rows), types.minimum(family.size, total))
        made.hold(most)
        blocks = Blocks(total, family.size, self.first, self.rows, made.body, backwards=self.phase.turned)
        return [*made.first, blocks, *made.last]

    def _ordered(self) -> list[Group]:
        """The groups that are done here first: sums after all else, for they need a stretch of what they sum."""
        own = self.phase.own
        return [g for g in own if g not in self.family.sums] + [g for g in own if g in self.family.sums]

    def _stretch(self, group: Group, count: Dimension = 1) -> Stretch:
        """The part of a group; with a `count` of 0, nothing of it."""
        first, rows = self.first, self.rows
        cut = self.family.windows[group].cut(first, rows)
        shrunk = {buffer: window.cut(first, rows).base for buffer, window in self.family.shrunk.items()}
        loop = self.family.sums.get(group, group)
        reverse = block_of(loop).plan.reverse if loop in self.family.chains else False
        return Stretch(cut.start(reverse), cut.rows, cut.base, shrunk, cut.rows * count)

    def _again(self, group: Group, is_there: bool) -> None:
        """Make again what a group makes; it may be there where the phase begins."""
        total, size = self.family.root.plan.length, self.family.size
        last = (total + (size - 1)) // size * size - size
        passed = last - self.first if self.phase.turned else self.first
        stretch = self._stretch(group, types.minimum(passed, 1) if is_there else 1)
        if group in self.family.chains:
            self._restore(group, stretch)
            self.made.again(block_of(group), stretch)
        else:
            self.made.map(group, stretch)

    def _own(self, group: Group) -> None:
        stretch = self._stretch(group)
        if group in self.family.sums:
            loop = self.family.sums[group]
            found = self.family.chains[loop].sums[group]
            self.made.sum(group, found, stretch, block_of(loop).plan.reverse)
        elif group in self.family.chains:
            self._restore(group, stretch)
            self.made.scan(block_of(group), stretch)
            for i, stack in self.family.kept.get(group, {}).items():
                self.made.copy(stretch.last(block_of(group).plan, i), self._kept(group, stack, after=True))
        else:
            self.made.map(group, stretch)

    def _restore(self, loop: Group, stretch: Stretch) -> None:
        """Put the carries where the steps of a stretch begin."""
        for i, stack in self.family.kept.get(loop, {}).items():
            self.made.copy(self._kept(loop, stack, after=False), stretch.first(block_of(loop).plan, i))

    def _kept(self, loop: Group, stack: Buffer, after: bool) -> Ref:
        """Where a carry is kept before the stretch, or after it."""
        number = self.first // self.family.size
        return Ref.whole(stack).row(number + 1 if after != self.family.turned(loop) else number)


def _shrink(region: Region, family: Family) -> None:
    for buffer, window in family.shrunk.items():
        more = buffer.shape[0] - window.length  # a trajectory holds the carries before the first step too
        buffer.shape = (types.minimum(family.size, window.length) + more, *buffer.shape[1:])
    names = ", ".join(sorted({buffer.name for buffer in family.shrunk}))
    text = f"stretches of {family.size} steps are made again for the gradient, from the carries before them"
    for loop in family.again:
        region.context.notes.append(f"{block_of(loop).label}: {text}; with memory for one stretch of {names}")
    for loop in family.chains:
        _done_around(region.context.notes, block_of(loop))


def _done_around(notes: list[str], block: Block) -> None:
    """Say of loops inside a step that is made again that this is so, instead of that their own steps are not."""
    for inner in _inner(block.plan.node):
        label = name_of(inner)
        undone = next((i for i, note in enumerate(notes) if note.startswith(f"{label}: checkpoint=")), None)
        if undone is not None:
            notes[undone] = f"{label}: made again with the step of the loop around it, for the gradient"
