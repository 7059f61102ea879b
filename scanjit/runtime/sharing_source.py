"""The code with which threads share work, and meet (see `scanjit.simd.sharing`).

`scanjit_together_share` says which share of a work a thread is to compute. Each share of a work has a number. The
operands are the address of a place, the number of this thread, how many shares there are, a line, and what this thread
does: it begins a work, waits for one, goes on after a share, or meets the others. The result is the number of the share
that it is to compute: its own, if nobody has begun that. Otherwise, if it begins or goes on, a share that a late thread
has not begun. -1 if all shares are computed.

A place counts the shares that have been computed, in all works so far. The thread that computes the last share of a
work copies the count to where the others look. For each thread number, two words say which work it was in which this
share was begun last, and how many shares there were in all works that the thread of this number has left. A work is
identified by such a sum of shares: a late thread finds that the works it comes to are done, until it has caught up. All
words begin at 0.
"""

import re

from scanjit.simd.sharing import ACTIONS
from scanjit.target import Target

PATIENCE = 1000
"""A thread looks at most this many times whether the others are there (some ten microseconds) before it sleeps."""
FEWEST_LOOKS = 50
"""It looks at least this many times. In between, it looks for as long as it worked since the last meeting. If others
are later than that, the system may have taken the processor from one of them, and needs a free one to give back."""
LONGEST_SLEEP = 10_000_000
"""After this many nanoseconds it wakes, to look whether it is interrupted."""
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
"""The numbers of Linux's system call with which a thread sleeps until another one has changed a word in memory. Its
actions for threads of one process are 128, to sleep, and 129, to wake others."""

_SOURCE = """
def scanjit_together_first(place, thread, threads, low, high, unit, turns, line):
    if threads <= 1:
        line.place = 0
        line.end = high
        if turns == 0:
            line.reached = high
            if low < high:
                return low
            return -1
        line.reached = low
    else:
        pieces = (high - low + unit - 1) // unit
        if pieces <= 0:
            return -1
        line.place = place
        line.thread = thread
        line.shares = min(pieces, threads)
        line.low = low
        line.high = high
        line.unit = unit
        line.reached = 0
        line.end = 0
    line.turns = turns
    return scanjit_together_next(line, BEGIN)


def scanjit_together_next(line, action):
    reached = line.reached
    end = line.end
    while reached >= end:
        if line.place == 0:
            return -1
        share = scanjit_together_share(line.place, line.thread, line.shares, line, action)
        if share < 0:
            return -1
        pieces = (line.high - line.low + line.unit - 1) // line.unit
        reached = line.low + pieces*share // line.shares*line.unit
        end = min(line.low + pieces*(share + 1) // line.shares*line.unit, line.high)
        line.end = end
        action = NEXT
    turns = line.turns
    if turns == 0:
        line.reached = end
        return reached
    if interrupted(line):
        return -1
    line.reached = min(reached + turns, end)
    return reached


def scanjit_together_share(place, thread, shares, line, action):
    own = place.threads + 64*thread
    before = own[1]
    after = before + shares
    now = clock()
    latest = now + now - line.met
    if action <= ATTEND:
        if thread < shares and taken(place, thread, before):
            return thread
    elif add(place.computed, 1) == after - 1:
        add(place.complete, after - place.complete)
        if get(place.asleep) != 0:
            wake(place)
    looks = 0
    complete = get(place.complete)
    while complete < after:
        pause()
        looks += 1
        if looks >= FEWEST_LOOKS and not (looks < PATIENCE and clock() < latest):
            if interrupted(line):
                break
            if action == BEGIN or action == NEXT:
                for share in range(shares):
                    if taken(place, share, before):
                        return share
            sleep(place, complete)
            looks = FEWEST_LOOKS
        complete = get(place.complete)
    own[1] = after
    line.met = clock()
    return -1


def taken(place, share, before):
    word = place.threads + 64*share
    begun = get(word[0])
    return begun <= before and change(word[0], begun, before + 1)
"""
_FUTEX = """
def sleep(place, complete):
    time = stack(16)
    time[0] = 0
    time[1] = LONGEST_SLEEP
    add(place.asleep, 1)
    syscall(FUTEX, at(place.complete), 128, complete & 0xFFFFFFFF, time)
    add(place.asleep, -1)


def wake(place):
    syscall(FUTEX, at(place.complete), 129, 1 << 30, 0)
"""
_GIVE_WAY = """
def sleep(place, complete):
    GIVE_WAY


def wake(place):
    pass
"""


def sharing_source(target: Target) -> str:
    """The source for a target. If its system cannot let a thread sleep until a word changes, it offers the processor to
    other threads."""
    architecture, _, system = target.triple.partition("-")
    futex = _FUTEX_NUMBERS.get(architecture) if "linux" in system else None
    numbers = {
        **ACTIONS,
        "PATIENCE": PATIENCE,
        "FEWEST_LOOKS": FEWEST_LOOKS,
        "LONGEST_SLEEP": LONGEST_SLEEP,
        "FUTEX": futex,
        "GIVE_WAY": f"{target.gives_way}()" if target.gives_way else "pass",
    }
    source = _SOURCE + (_GIVE_WAY if futex is None else _FUTEX)
    return re.sub(rf"\b({'|'.join(numbers)})\b", lambda name: str(numbers[name[0]]), source)
