"""What threads do together, as LLVM instructions: look whether to end, tell how far they are, share loops, meet.

Each of these functions takes the address of the *line* of a thread as an operand (see `runtime.structures`). Three of
them call functions whose names begin with `TOGETHER`. A process has these once, for all kernels that it loads
(`functions_together`).
"""

from collections.abc import Sequence

from llvmlite import ir

from scanjit.target import Target

from .llvm_calls import I32, I64, call
from .llvm_values import TargetModule, internal, phi
from .memory import clock, load_i64, store_i64

TOGETHER = "scanjit_together_"
PATIENCE = 1000
"""A thread looks at most this many times whether the others are there (some ten microseconds) before it sleeps."""
FEWEST_LOOKS = 50
"""It looks at least this many times. In between, it looks for as long as it worked since the last meeting. If others
are later than that, the system may have taken the processor from one of them, and needs a free one to give back."""
LONGEST_SLEEP = 10_000_000
"""After this many nanoseconds it wakes, to look whether it is interrupted."""
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
"""The numbers of Linux's system call with which a thread sleeps until another one has changed a word in memory."""
_SLEEP, _WAKE = I64(128), I64(129)
"""The two actions of this call, for threads of one process."""


def interrupted(builder: ir.IRBuilder, line: ir.Value, *where: ir.Value) -> ir.Value:
    """Whether this thread is to end what it does.

    `line` is the address of three words: the address of a number, the value that the number is expected to have, and a
    function. If the number has another value, the function is called with `line` and `where`, and says whether to end.
    Nearly always it has that value, and all of this is three loads and a comparison.

    `where` tells how far a nest with time is: its step, and for which of how many elements it makes all steps (0 of 0
    if it makes each step for all of them). Left out, it is step -1: nothing is told.

    Code for a target that is `alone` never looks, and tells nothing of its loops."""
    if builder.module.target.alone:
        return ir.Constant(ir.IntType(1), 0)
    where = where or (I64(-1), I64(0), I64(0))
    number = builder.inttoptr(load_i64(builder, line), I64.as_pointer())
    expected = load_i64(builder, builder.add(line, I64(8)))
    before = builder.block
    changed = builder.icmp_signed("!=", builder.load_atomic(number, "monotonic", 8), expected)
    with builder.if_then(changed, likely=False):
        kind = ir.FunctionType(I64, [I64] * 4)
        function = builder.inttoptr(load_i64(builder, builder.add(line, I64(16))), kind.as_pointer())
        told = builder.icmp_signed("!=", builder.call(function, [line, *where]), I64(0))
        after = builder.block
    return phi(builder, (ir.Constant(ir.IntType(1), 0), before), (told, after))


_LOOPS, _TOTAL, _EARLY, _DONE = (I64(offset) for offset in (24, 32, 40, 48))
"""The words of a line that say how far its thread is: how many loops over time have begun; and for the running loop,
how many steps it has (0: none runs), whether it may end earlier, and how many steps it has made (-1: not known)."""


def begin_loop(builder: ir.IRBuilder, line: ir.Value, steps: ir.Value, early: ir.Value) -> None:
    """Note in a line (see `interrupted`) that a loop over time begins."""
    if builder.module.target.alone:
        return
    loops = builder.add(line, _LOOPS)
    store_i64(builder, loops, builder.add(load_i64(builder, loops), I64(1)))
    for place, value in ((_TOTAL, steps), (_EARLY, early), (_DONE, I64(-1))):
        store_i64(builder, builder.add(line, place), value)


def count_steps(builder: ir.IRBuilder, line: ir.Value, steps: ir.Value) -> None:
    """Note in a line how many steps the loop has made."""
    if not builder.module.target.alone:
        store_i64(builder, builder.add(line, _DONE), steps)


def end_loop(builder: ir.IRBuilder, line: ir.Value) -> None:
    """Note in a line that the loop has ended."""
    if not builder.module.target.alone:
        store_i64(builder, builder.add(line, _TOTAL), I64(0))


_MET = I64(120)
"""The word of a line that says when its thread left the last meeting."""
_PLACE, _THREAD, _SHARES, _LOW, _HIGH, _UNIT, _TURNS, _REACHED, _END = (I64(offset) for offset in range(128, 200, 8))
"""The words of a line that say what its thread shares with others: the operands of `first_piece` (`_SHARES` in place of
the number of threads), how far the thread is in its share, and where this share ends."""
_MEETINGS, _ASLEEP, _WORDS, _WORD_BYTES, _BASE = (I64(offset) for offset in (128, 136, 256, 64, 8))
"""Where the words of a place lie at which threads share work (see `_share_function`)."""


def first_piece(builder: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    """Begin a loop that threads share. Returns where the first piece of this thread begins; -1 if there is none.

    The operands are the address of a place (see `_share_function`), the number of this thread, how many threads there
    are, the bounds `low` and `high` of the loop's counter, how many of its turns stay together (`unit`), the most turns
    in one piece (`turns`; 0: a share is one piece), and a line. A thread looks whether to end before each piece, but
    not if a share is one piece. A thread that is `alone` has one piece.
    """
    if builder.module.target.alone:
        low, high, line = operands[3], operands[4], operands[7]
        store_i64(builder, builder.add(line, _REACHED), high)
        return builder.select(builder.icmp_signed("<", low, high), low, I64(-1))
    return builder.call(_first_function(builder.module), operands)


def piece_end(builder: ir.IRBuilder, line: ir.Value) -> ir.Value:
    """Where this thread's present piece ends."""
    return load_i64(builder, builder.add(line, _REACHED))


def next_piece(builder: ir.IRBuilder, line: ir.Value) -> ir.Value:
    """Where the next piece begins, in the same share or in a share that a late thread has not begun. -1 if this thread
    is to end, or if all shares are computed."""
    if builder.module.target.alone:
        return I64(-1)
    return builder.call(_next_function(builder.module), [line, _NEXT])


def barrier(builder: ir.IRBuilder, *operands: ir.Value) -> None:
    """Wait until all threads have come here, or this thread is interrupted. A single thread does not wait. The operands
    are the address of a place (see `_share_function`), the number of this thread, how many there are, and a line."""
    address, thread, threads, line = operands
    if builder.module.target.alone:
        return
    with builder.if_then(builder.icmp_signed(">", threads, I64(1))):
        builder.call(_share_function(builder.module), [address, thread, threads, line, _MEET])


def first_share(builder: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    """Begin work that is divided into shares, each of which is computed as a whole. Returns the number of the share
    that this thread computes first; -1 if there is none.

    The operands are the address of a place (see `_share_function`), the number of this thread, how many threads there
    are, how many shares (0: each thread does its part, and takes over no other), and a line.
    """
    return _whole_share(builder, operands, _BEGIN, operands[1])


def next_share(builder: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    """After a share, with the same operands: the number of a share that a late thread has not begun. -1 if all shares
    are computed."""
    return _whole_share(builder, operands, _NEXT, I64(-1))


def _whole_share(
    builder: ir.IRBuilder, operands: Sequence[ir.Value], action: ir.Constant, otherwise: ir.Value
) -> ir.Value:
    """The number of a share, if several threads share the work; else `otherwise`."""
    place, thread, threads, shares, line = operands
    if builder.module.target.alone:
        return otherwise
    several = builder.and_(builder.icmp_signed(">", threads, I64(1)), builder.icmp_signed(">", shares, I64(0)))
    before = builder.block
    with builder.if_then(several):
        share = builder.call(_share_function(builder.module), [place, thread, shares, line, action])
        after = builder.block
    return phi(builder, (otherwise, before), (share, after))


def wait_for_first(builder: ir.IRBuilder, *operands: ir.Value) -> None:
    """Wait until thread 0 has come here, or this thread is interrupted; thread 0 waits for nobody. The operands are
    those of `barrier`."""
    place, thread, threads, line = operands
    if builder.module.target.alone:
        return
    with builder.if_then(builder.icmp_signed(">", threads, I64(1))):
        action = builder.select(builder.icmp_signed("==", thread, I64(0)), _MEET, _ATTEND)
        builder.call(_share_function(builder.module), [place, thread, I64(1), line, action])


_BEGIN, _ATTEND, _NEXT, _MEET = (I64(number) for number in range(4))


def functions_together(target: Target) -> tuple[str, list[str]]:
    """A module with the functions that kernels call to share work, and the names of these functions."""
    module = TargetModule("", target, "")
    _first_function(module)  # and those that it calls
    names = [name for name in module.globals if name.startswith(TOGETHER)]
    for name in names:
        module.globals[name].linkage = "external"
    return str(module), names


def _together(module: TargetModule, name: str, operands: int) -> tuple[ir.Function, bool]:
    """A function of `functions_together`, and whether it is to be written."""
    function, new = internal(module, TOGETHER + name, I64, operands)
    if module.loaded:
        function.linkage = "external"
    return function, new and not module.loaded


class _Line:
    """The words of a line, read and written like a list."""

    def __init__(self, builder: ir.IRBuilder, address: ir.Value) -> None:
        self._builder, self._address = builder, address

    def __getitem__(self, word: ir.Constant) -> ir.Value:
        return load_i64(self._builder, self._builder.add(self._address, word))

    def __setitem__(self, word: ir.Constant, value: ir.Value) -> None:
        store_i64(self._builder, self._builder.add(self._address, word), value)


def _first_function(module: TargetModule) -> ir.Function:
    """The function of `first_piece`."""
    function, new = _together(module, "first", 8)
    if new:
        place, thread, threads, low, high, unit, turns, address = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        line, several = _Line(b, address), b.icmp_signed(">", threads, I64(1))
        with b.if_else(several) as (many, one):
            with many:
                pieces = _pieces(b, low, high, unit)
                with b.if_then(b.icmp_signed("<=", pieces, I64(0))):
                    b.ret(I64(-1))
                shares = b.select(b.icmp_signed("<", pieces, threads), pieces, threads)
                none = I64(0)  # of its first share
                words = [(_PLACE, place), (_THREAD, thread), (_SHARES, shares), (_LOW, low), (_HIGH, high)]
                for word, value in (*words, (_UNIT, unit), (_TURNS, turns), (_REACHED, none), (_END, none)):
                    line[word] = value
            with one:
                line[_PLACE] = I64(0)
                line[_END] = high
                with b.if_then(b.icmp_signed("==", turns, I64(0))):
                    line[_REACHED] = high
                    b.ret(b.select(b.icmp_signed("<", low, high), low, I64(-1)))
                line[_REACHED] = low
                line[_TURNS] = turns
        b.ret(b.call(_next_function(module), [address, _BEGIN]))
    return function


def _next_function(module: TargetModule) -> ir.Function:
    """The function of `next_piece`, which also does the rest of `first_piece`."""
    function, new = _together(module, "next", 2)
    if not new:
        return function
    entry, look, left, ask, share = (function.append_basic_block(word) for word in "entry look left ask share".split())
    address, action = function.args
    b = ir.IRBuilder(entry)
    line = _Line(b, address)
    b.branch(look)

    b.position_at_end(look)
    to_do = phi(b, (action, entry))
    reached, end = line[_REACHED], line[_END]
    b.cbranch(b.icmp_signed("<", reached, end), left, ask)

    b.position_at_end(left)
    turns = line[_TURNS]
    with b.if_then(b.icmp_signed("==", turns, I64(0))):
        line[_REACHED] = end
        b.ret(reached)
    with b.if_then(interrupted(b, address)):
        b.ret(I64(-1))
    following = b.add(reached, turns)
    line[_REACHED] = b.select(b.icmp_signed("<", following, end), following, end)
    b.ret(reached)

    b.position_at_end(ask)
    place = line[_PLACE]
    with b.if_then(b.icmp_signed("==", place, I64(0))):
        b.ret(I64(-1))
    shares = line[_SHARES]
    found = b.call(_share_function(module), [place, line[_THREAD], shares, address, to_do])
    with b.if_then(b.icmp_signed("<", found, I64(0))):
        b.ret(I64(-1))
    b.branch(share)

    b.position_at_end(share)
    low, high, unit = line[_LOW], line[_HIGH], line[_UNIT]
    pieces = _pieces(b, low, high, unit)
    first, last = (
        b.add(low, b.mul(b.sdiv(b.mul(pieces, number), shares), unit)) for number in (found, b.add(found, I64(1)))
    )
    line[_REACHED] = first
    line[_END] = b.select(b.icmp_signed("<", last, high), last, high)
    to_do.add_incoming(_NEXT, share)
    b.branch(look)
    return function


def _pieces(builder: ir.IRBuilder, low: ir.Value, high: ir.Value, unit: ir.Value) -> ir.Value:
    """How many groups of `unit` turns a loop has, rounded up; at most 0 if it has no turns."""
    return builder.sdiv(builder.add(builder.sub(high, low), builder.sub(unit, I64(1))), unit)


def _share_function(module: TargetModule) -> ir.Function:
    """The function that counts, takes and waits: it says which share of a work a thread is to compute.

    Each share of a work has a number. The operands are the address of a place, the number of this thread, how many
    shares there are, a line, and what this thread does: it begins a work, waits for one, goes on after a share, or
    meets the others. The result is the number of the share that it is to compute: its own, if nobody has begun that.
    Otherwise, if it begins or goes on, a share that a late thread has not begun. -1 if all shares are computed.

    At the address is a count of the shares that have been computed, in all works so far. A second cache line has two
    words. The thread that computes the last share of a work writes the count into the first; the second says how many
    threads sleep. Then comes a cache line for each thread number, also with two words: the work in which this share was
    begun last, and how many shares there were in all works that the thread of this number has left. A work is
    identified by such a sum of shares: a late thread finds that the works it comes to are done, until it has caught up.
    All words begin at 0.
    """
    function, new = _together(module, "share", 5)
    if not new:
        return function
    labels = "entry begin own count last wake look wait pause long help other take mine rest leave done"
    entry, begin, own, count, last, wake, look, wait, pause, long, help_, other, take, mine, rest, leave, done = (
        function.append_basic_block(label) for label in labels.split()
    )
    b = ir.IRBuilder(entry)
    address, thread, shares, line, action = function.args
    computed, meetings, asleep = (
        b.inttoptr(b.add(address, offset), I64.as_pointer()) for offset in (I64(0), _MEETINGS, _ASLEEP)
    )
    base_word = b.add(b.add(address, b.add(_WORDS, b.mul(thread, _WORD_BYTES))), _BASE)
    base, met = load_i64(b, base_word), b.add(line, _MET)
    target, now = b.add(base, shares), clock(b)
    latest = b.add(now, b.sub(now, load_i64(b, met)))
    b.cbranch(b.icmp_signed("<=", action, _ATTEND), begin, count)
    b.position_at_end(begin)
    b.cbranch(b.icmp_signed("<", thread, shares), own, wait)
    b.position_at_end(own)
    b.cbranch(_taken(b, address, thread, base), done, wait)

    b.position_at_end(count)
    number = b.atomic_rmw("add", computed, I64(1), "acq_rel")
    b.cbranch(b.icmp_signed("==", number, b.sub(target, I64(1))), last, wait)
    b.position_at_end(last)
    b.atomic_rmw("xchg", meetings, target, "seq_cst")
    b.cbranch(b.icmp_signed("!=", b.load_atomic(asleep, "seq_cst", 8), I64(0)), wake, leave)
    b.position_at_end(wake)
    _futex(b, meetings, _WAKE, I64(1 << 30), ir.Constant(I64.as_pointer(), None))
    b.branch(leave)

    b.position_at_end(wait)
    b.branch(look)
    b.position_at_end(look)
    looks = phi(b, (I64(0), wait))
    seen = b.load_atomic(meetings, "acquire", 8)
    b.cbranch(b.icmp_signed("<", seen, target), pause, leave)
    b.position_at_end(pause)
    if module.target.is_x86:
        call(b, "llvm.x86.sse2.pause", ir.VoidType(), [])
    elif module.target.is_arm64:  # its `yield` does nothing on most processors; this empties the pipeline
        call(b, "llvm.aarch64.isb", ir.VoidType(), [I32(15)])
    more = b.add(looks, I64(1))
    looks.add_incoming(more, pause)
    b.cbranch(b.icmp_signed("<", more, I64(FEWEST_LOOKS)), look, long)
    b.position_at_end(long)
    patient = b.and_(b.icmp_signed("<", more, I64(PATIENCE)), b.icmp_signed("<", clock(b), latest))
    looks.add_incoming(more, long)
    b.cbranch(patient, look, help_)

    b.position_at_end(help_)
    told = interrupted(b, line)
    helping = b.or_(b.icmp_signed("==", action, _BEGIN), b.icmp_signed("==", action, _NEXT))
    before_other = b.block
    b.cbranch(told, leave, other)
    b.position_at_end(other)
    which = phi(b, (I64(0), before_other))
    b.cbranch(b.and_(helping, b.icmp_signed("<", which, shares)), take, rest)
    b.position_at_end(take)
    which.add_incoming(b.add(which, I64(1)), take)
    b.cbranch(_taken(b, address, which, base), mine, other)
    b.position_at_end(mine)
    b.branch(done)

    b.position_at_end(rest)
    _sleep(b, meetings, seen, asleep)
    looks.add_incoming(I64(FEWEST_LOOKS), b.block)
    b.branch(look)

    b.position_at_end(leave)
    store_i64(b, base_word, target)
    store_i64(b, met, clock(b))
    b.branch(done)
    b.position_at_end(done)
    b.ret(phi(b, (thread, own), (which, mine), (I64(-1), leave)))
    return function


def _taken(builder: ir.IRBuilder, address: ir.Value, share: ir.Value, base: ir.Value) -> ir.Value:
    """Whether this thread takes a share: nobody has begun it in this work or a later one."""
    word = builder.inttoptr(
        builder.add(address, builder.add(_WORDS, builder.mul(share, _WORD_BYTES))), I64.as_pointer()
    )
    seen = builder.load_atomic(word, "monotonic", 8)
    free = builder.icmp_signed("<=", seen, base)
    new = builder.select(free, builder.add(base, I64(1)), seen)
    pair = builder.cmpxchg(word, seen, new, "acq_rel", "monotonic")
    return builder.and_(free, builder.extract_value(pair, 1))


def _sleep(builder: ir.IRBuilder, word: ir.Value, seen: ir.Value, asleep: ir.Value) -> None:
    """Sleep while a word has the value that was seen there, but not for long. `asleep` counts the threads that sleep.
    If the system cannot do this, offer the processor to other threads."""
    module = builder.module
    if _futex_number(module) is None:
        if (give_way := module.target.gives_way) is not None:
            call(builder, give_way, I32, [])
        return
    with builder.goto_entry_block():
        time = builder.alloca(I64, 2)
    builder.store(I64(0), time)
    builder.store(I64(LONGEST_SLEEP), builder.gep(time, [I64(1)]))
    builder.atomic_rmw("add", asleep, I64(1), "seq_cst")
    _futex(builder, word, _SLEEP, builder.and_(seen, I64(0xFFFFFFFF)), time)
    builder.atomic_rmw("sub", asleep, I64(1), "seq_cst")


def _futex(builder: ir.IRBuilder, word: ir.Value, action: ir.Value, value: ir.Value, time: ir.Value) -> None:
    module = builder.module
    number = _futex_number(module)
    if number is not None:
        call = module.globals.get("syscall")
        if call is None:
            call = ir.Function(module, ir.FunctionType(I64, [I64], var_arg=True), "syscall")
        builder.call(call, [I64(number), word, action, value, time])


def _futex_number(module: TargetModule) -> int | None:
    system = module.target.triple.partition("-")
    return _FUTEX_NUMBERS.get(system[0]) if "linux" in system[2] else None
