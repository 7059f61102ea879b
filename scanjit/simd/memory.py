"""Loads and stores as LLVM instructions. Only element alignment is assumed; off lanes never touch memory."""

from collections.abc import Sequence

from llvmlite import ir

from scanjit.kinds import KINDS, Kind

from .llvm_lanes import (
    I8,
    I32,
    I64,
    LlvmLanes,
    TargetModule,
    call,
    constant,
    element_type,
    indices,
    overload_suffix,
    splat_scalar,
    vector_type,
)


def _stored(kind: Kind) -> Kind:
    """What is moved from and to memory where lanes are of a kind."""
    return KINDS[kind.moved]


def _finish(builder: ir.IRBuilder, value: ir.Value, kind: Kind, lanes: int) -> LlvmLanes:
    return LlvmLanes(builder, value, _stored(kind), lanes).cast(kind)


def _memory_form(value: LlvmLanes) -> LlvmLanes:
    return value.cast(_stored(value.kind))


def pointer(builder: ir.IRBuilder, address: ir.Value, target: ir.Type) -> ir.Value:
    """An address as a pointer to `target`. (LLVM ignores the type of what is pointed to; llvmlite asks for it.)"""
    return builder.inttoptr(address, target.as_pointer())


def load(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value) -> LlvmLanes:
    """Consecutive elements."""
    stored = _stored(kind)
    value = builder.load(pointer(builder, address, vector_type(stored, lanes)))
    value.align = stored.size
    return _finish(builder, value, kind, lanes)


def load_masked(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, mask: ir.Value) -> LlvmLanes:
    """Consecutive elements where the mask is set, else 0."""
    stored = _stored(kind)
    if lanes == 1:
        before = builder.block
        with builder.if_then(mask):
            value, inside = load(builder, stored, 1, address).value, builder.block
        found = builder.phi(value.type)
        found.add_incoming(constant(stored, 1, 0), before)
        found.add_incoming(value, inside)
        return _finish(builder, found, kind, lanes)
    place = pointer(builder, address, vector_type(stored, lanes))
    operands = [place, ir.Constant(I32, stored.size), mask, constant(stored, lanes, 0)]
    name = f"llvm.masked.load.{overload_suffix(stored, lanes)}.p0"
    return _finish(builder, call(builder, name, vector_type(stored, lanes), operands), kind, lanes)


def broadcast(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value) -> LlvmLanes:
    """One element in every lane."""
    stored = _stored(kind)
    scalar = builder.load(pointer(builder, address, element_type(stored)))
    scalar.align = stored.size
    return _finish(builder, splat_scalar(builder, scalar, lanes), kind, lanes)


def strided_offsets(builder: ir.IRBuilder, lanes: int, stride: ir.Value) -> ir.Value:
    """0, stride, 2*stride, ... in bytes."""
    counter = LlvmLanes(builder, constant(KINDS["i64"], lanes, 0), KINDS["i64"], lanes).iota(KINDS["i64"])
    return builder.mul(counter.value, splat_scalar(builder, stride, lanes))


def _pointers(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, offsets: ir.Value) -> ir.Value:
    addresses = builder.add(splat_scalar(builder, address, lanes), offsets)
    return builder.inttoptr(addresses, ir.VectorType(element_type(kind).as_pointer(), lanes))


def gather(
    builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, offsets: ir.Value, mask: ir.Value
) -> LlvmLanes:
    """Elements at ``address + offsets`` where the mask is set, else 0."""
    if lanes == 1:
        return load_masked(builder, kind, lanes, builder.add(address, offsets), mask)
    stored = _stored(kind)
    operands = [
        _pointers(builder, stored, lanes, address, offsets),
        ir.Constant(I32, stored.size),
        mask,
        constant(stored, lanes, 0),
    ]
    name = f"llvm.masked.gather.{overload_suffix(stored, lanes)}.v{lanes}p0"
    return _finish(builder, call(builder, name, vector_type(stored, lanes), operands), kind, lanes)


def load_every_second(builder: ir.IRBuilder, kind: Kind, lanes: int, address: ir.Value, mask: ir.Value) -> LlvmLanes:
    """Every second element where the mask is set, else 0. Where a processor masks parts of loads, two loads and a
    shuffle are several times as fast as a gather."""
    stored, target = _stored(kind), builder.module.target
    if lanes == 1 or stored.bits < 32 or not (target.is_x86 and target.has("avx2")):
        offsets = strided_offsets(builder, lanes, I64(2 * stored.size))
        return gather(builder, kind, lanes, address, offsets, mask)
    halves, off = [], ir.Constant(mask.type, None)
    for half in range(2):
        chosen = [half * lanes // 2 + k // 2 if k % 2 == 0 else lanes for k in range(lanes)]
        place = builder.add(address, I64(half * lanes * stored.size))
        halves.append(
            load_masked(builder, stored, lanes, place, builder.shuffle_vector(mask, off, indices(chosen))).value
        )
    return _finish(builder, builder.shuffle_vector(*halves, indices(range(0, 2 * lanes, 2))), kind, lanes)


def store(builder: ir.IRBuilder, address: ir.Value, value: LlvmLanes) -> None:
    """Consecutive elements."""
    value = _memory_form(value)
    builder.store(value.value, pointer(builder, address, value.value.type)).align = value.kind.size


def store_masked(builder: ir.IRBuilder, address: ir.Value, value: LlvmLanes, mask: ir.Value) -> None:
    """Consecutive elements where the mask is set."""
    if value.lanes == 1:
        with builder.if_then(mask):
            store(builder, address, value)
        return
    value = _memory_form(value)
    if value.kind.bits < 32:
        value = _apart(builder, value)
    operands = [value.value, pointer(builder, address, value.value.type), ir.Constant(I32, value.kind.size), mask]
    call(builder, f"llvm.masked.store.{overload_suffix(value.kind, value.lanes)}.p0", ir.VoidType(), operands)


def _apart(builder: ir.IRBuilder, value: LlvmLanes) -> LlvmLanes:
    """The same lanes; LLVM does not know what they were made of. Of a truncation and a masked store, it makes one store
    of four bytes where the mask is known to have one lane."""
    bits = value.lanes * value.kind.bits
    if bits > 64:
        return LlvmLanes(builder, opaque(builder, value.value), value.kind, value.lanes)
    if not builder.module.target.is_x86:
        return value
    number = ir.IntType(bits)
    hidden = builder.asm(ir.FunctionType(number, [number]), "", "=r,0", [builder.bitcast(value.value, number)], False)
    return LlvmLanes(builder, builder.bitcast(hidden, value.value.type), value.kind, value.lanes)


def scatter(builder: ir.IRBuilder, address: ir.Value, offsets: ir.Value, value: LlvmLanes, mask: ir.Value) -> None:
    """Elements to ``address + offsets`` in the order of lanes."""
    if value.lanes == 1:
        return store_masked(builder, builder.add(address, offsets), value, mask)
    value = _memory_form(value)
    pointers = _pointers(builder, value.kind, value.lanes, address, offsets)
    operands = [value.value, pointers, ir.Constant(I32, value.kind.size), mask]
    name = f"llvm.masked.scatter.{overload_suffix(value.kind, value.lanes)}.v{value.lanes}p0"
    call(builder, name, ir.VoidType(), operands)


def load_i64(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """One 64-bit integer as a scalar."""
    value = builder.load(pointer(builder, address, I64))
    value.align = 8
    return value


def peek_i64(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """The same, where another thread may write it meanwhile: either the integer before, or the one after."""
    if builder.module.target.alone:
        return load_i64(builder, address)
    return builder.load_atomic(pointer(builder, address, I64), "monotonic", 8)


def store_i64(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    """One 64-bit integer."""
    builder.store(value, pointer(builder, address, I64)).align = 8


def transpose(builder: ir.IRBuilder, kind: Kind, lanes: int, operands: Sequence[ir.Value]) -> None:
    """Copy a square block: row i is `lanes` elements at `source + i*source_step`; lane j of all rows goes to
    `target + j*target_step`. The operands are target, target_step, source, source_step (steps in bytes)."""
    builder.call(_transpose_function(builder.module, _stored(kind), lanes), operands)


def _transpose_function(module: ir.Module, kind: Kind, lanes: int) -> ir.Function:
    """The copying itself, one function in a module: blocks of 1, 2, 4... lanes change places across the diagonal."""
    name = f"scanjit_transpose_{kind.name}x{lanes}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 4), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    target, target_step, source, source_step = function.args
    rows = [load(b, kind, lanes, b.add(source, b.mul(source_step, I64(i)))).value for i in range(lanes)]
    size = 1
    while size < lanes:
        low = [lane + lanes - size if lane & size else lane for lane in range(lanes)]
        high = [lane + lanes if lane & size else lane + size for lane in range(lanes)]
        for i in (i for i in range(lanes) if not i & size):
            pair = rows[i], rows[i + size]
            rows[i], rows[i + size] = (b.shuffle_vector(*pair, indices(chosen)) for chosen in (low, high))
        size *= 2
    for i, row in enumerate(rows):
        store(b, b.add(target, b.mul(target_step, I64(i))), LlvmLanes(b, row, kind, lanes))
    b.ret_void()
    return function


def opaque(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The same value, hidden from LLVM. If LLVM knew that zeros are moved into a vector's lanes, it would choose an
    instruction that takes several times as long."""
    if not builder.module.target.is_x86:
        return value
    return builder.asm(ir.FunctionType(value.type, [value.type]), "", "=x,0", [value], False)


def clock(builder: ir.IRBuilder) -> ir.Value:
    """The time, in ticks of the processor's own clock: nearly free to read, and of no unit."""
    name = "llvm.readcyclecounter" if builder.module.target.is_x86 else "llvm.readsteadycounter"
    return call(builder, name, I64, [])


def stack(builder: ir.IRBuilder, nbytes: ir.Value) -> ir.Value:
    """The address of so many bytes, a number that is known, which belong to this run of the function."""
    with builder.goto_entry_block():
        place = builder.alloca(I8, nbytes)
    place.align = 64
    return builder.ptrtoint(place, I64)


PATIENCE = 1000
"""A thread looks at most so often whether the others are there (some ten microseconds) before it sleeps."""
FEWEST_LOOKS = 50
"""It looks at least so often. In between, it looks for as long as it worked since the last meeting: if somebody is
later than that, the system may have taken the processor from it, and needs one to give it back."""
LONGEST_SLEEP = 10_000_000
"""After so many nanoseconds it wakes, to look whether it is interrupted."""
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
"""The numbers of Linux's system call with which a thread sleeps until another one has changed a word in memory."""
_WAIT, _WAKE = I64(128), I64(129)
"""What this call is to do, for threads of one process."""


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
    found = builder.phi(ir.IntType(1))
    found.add_incoming(ir.Constant(ir.IntType(1), 0), before)
    found.add_incoming(told, after)
    return found


_LOOPS, _TOTAL, _EARLY, _DONE = (I64(offset) for offset in (24, 32, 40, 48))
"""Where a line says how far its thread is: how many loops over time have begun; of the one that runs, how many steps it
has (0: none runs), whether it may end earlier, and how many steps it has made (-1: not known)."""


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
"""Where a line says when its thread left the last meeting."""
_PLACE, _THREAD, _SHARES, _LOW, _HIGH, _UNIT, _TURNS, _REACHED, _END = (I64(offset) for offset in range(128, 200, 8))
"""Where a line says what its thread shares with others: the operands of `first_piece` (`_SHARES` in place of the number
of threads), how far the thread has come in its share, and where this share ends."""
_MEETINGS, _ASLEEP, _WORDS, _WORD_BYTES, _BASE = (I64(offset) for offset in (128, 136, 256, 64, 8))
"""Where the words of a place lie at which threads share work (see `_share_function`)."""


def first_piece(builder: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    """Begin a loop that threads share: where the first piece of this thread begins; -1 if there is none.

    The operands are the address of a place (see `_share_function`), the number of this thread, how many threads there
    are, the bounds `low` and `high` of the loop's counter, how many of its turns stay together (`unit`), how many are
    one piece at most (`turns`; 0: a share is one piece), and a line. A thread looks before each piece whether to end,
    except where a share is one piece. One that is `alone` has one piece."""
    if builder.module.target.alone:
        low, high, line = operands[3], operands[4], operands[7]
        store_i64(builder, builder.add(line, _REACHED), high)
        return builder.select(builder.icmp_signed("<", low, high), low, I64(-1))
    return builder.call(_first_function(builder.module), operands)


def piece_end(builder: ir.IRBuilder, line: ir.Value) -> ir.Value:
    """Where the piece ends that this thread is to compute."""
    return load_i64(builder, builder.add(line, _REACHED))


def next_piece(builder: ir.IRBuilder, line: ir.Value) -> ir.Value:
    """Where the next piece begins, in the same share or in one that a late thread has not begun. -1 if this thread is
    to end, or once all shares are computed."""
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


_BEGIN, _NEXT, _MEET = (I64(number) for number in range(3))


def _internal(module: TargetModule, name: str, operands: int) -> tuple[ir.Function, bool]:
    """A function of integers that is called from many places, once in a module; and whether it is new there."""
    if name in module.globals:
        return module.globals[name], False
    function = ir.Function(module, ir.FunctionType(I64, [I64] * operands), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function, True


class _Line:
    """The words of a line as variables."""

    def __init__(self, builder: ir.IRBuilder, address: ir.Value) -> None:
        self._builder, self._address = builder, address

    def __getitem__(self, word: ir.Constant) -> ir.Value:
        return load_i64(self._builder, self._builder.add(self._address, word))

    def __setitem__(self, word: ir.Constant, value: ir.Value) -> None:
        store_i64(self._builder, self._builder.add(self._address, word), value)


def _first_function(module: TargetModule) -> ir.Function:
    """`first_piece`."""
    function, new = _internal(module, "scanjit_first_piece", 8)
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
    """`next_piece`, and the rest of `first_piece`."""
    function, new = _internal(module, "scanjit_next_piece", 2)
    if not new:
        return function
    entry, look, left, ask, share = (function.append_basic_block(word) for word in "entry look left ask share".split())
    address, what = function.args
    b = ir.IRBuilder(entry)
    line = _Line(b, address)
    b.branch(look)

    b.position_at_end(look)
    to_do = b.phi(I64)
    to_do.add_incoming(what, entry)
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
    """How many times `unit` turns a loop has, rounded up; at most 0 if it has none."""
    return builder.sdiv(builder.add(builder.sub(high, low), builder.sub(unit, I64(1))), unit)


def _share_function(module: TargetModule) -> ir.Function:
    """Counting, taking and waiting: which share of a work a thread is to compute.

    Each share of a work has a number. The operands are the address of a place, the number of this thread, how many
    shares there are, a line, and what this thread does: it begins a work, goes on after it computed a share, or meets
    the others. The result is the number of the share that it is to compute: its own, if nobody has begun that. Else -1
    once all shares are computed; before that, a share which another thread has not begun, if it is late.

    At the address is a count of the shares that are computed, in all works so far. A second cache line has two words:
    the thread that computes the last share of a work writes the count into the first; the second says how many threads
    sleep. Then comes a cache line for each number, also with two words: the work in which this share was begun last,
    and how many shares there were in all works that the thread of this number has left. Works are told apart by such
    sums of shares: a thread that is late finds that the works it comes to are done, until it has caught up. All words
    begin at 0."""
    function, new = _internal(module, "scanjit_share", 5)
    if not new:
        return function
    labels = "entry begin own count last wake look wait pause long help other take mine rest leave done"
    entry, begin, own, count, last, wake, look, wait, pause, long, help_, other, take, mine, rest, leave, done = (
        function.append_basic_block(label) for label in labels.split()
    )
    b = ir.IRBuilder(entry)
    address, thread, shares, line, what = function.args
    computed, meetings, asleep = (
        b.inttoptr(b.add(address, offset), I64.as_pointer()) for offset in (I64(0), _MEETINGS, _ASLEEP)
    )
    base_word = b.add(b.add(address, b.add(_WORDS, b.mul(thread, _WORD_BYTES))), _BASE)
    base, met = load_i64(b, base_word), b.add(line, _MET)
    target, now = b.add(base, shares), clock(b)
    latest = b.add(now, b.sub(now, load_i64(b, met)))
    b.cbranch(b.icmp_signed("==", what, _BEGIN), begin, count)
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
    looks = b.phi(I64)
    looks.add_incoming(I64(0), wait)
    seen = b.load_atomic(meetings, "acquire", 8)
    b.cbranch(b.icmp_signed("<", seen, target), pause, leave)
    b.position_at_end(pause)
    if module.target.is_x86:
        b.call(_declared(module, "llvm.x86.sse2.pause", ir.VoidType()), [])
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
    helping = b.icmp_signed("!=", what, _MEET)
    before_other = b.block
    b.cbranch(told, leave, other)
    b.position_at_end(other)
    which = b.phi(I64)
    which.add_incoming(I64(0), before_other)
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
    found = b.phi(I64)
    found.add_incoming(thread, own)
    found.add_incoming(which, mine)
    found.add_incoming(I64(-1), leave)
    b.ret(found)
    return function


def _taken(builder: ir.IRBuilder, address: ir.Value, share: ir.Value, base: ir.Value) -> ir.Value:
    """Whether this thread takes a share: nobody has begun it in this work, or a later one."""
    word = builder.inttoptr(
        builder.add(address, builder.add(_WORDS, builder.mul(share, _WORD_BYTES))), I64.as_pointer()
    )
    seen = builder.load_atomic(word, "monotonic", 8)
    free = builder.icmp_signed("<=", seen, base)
    new = builder.select(free, builder.add(base, I64(1)), seen)
    pair = builder.cmpxchg(word, seen, new, "acq_rel", "monotonic")
    return builder.and_(free, builder.extract_value(pair, 1))


def _sleep(builder: ir.IRBuilder, word: ir.Value, seen: ir.Value, asleep: ir.Value) -> None:
    """Sleep while a word has the value that was seen there, for a while at most; `asleep` counts who does. Where this
    cannot be, offer the processor to other threads."""
    module = builder.module
    if _futex_number(module) is None:
        if (give_way := module.target.gives_way) is not None:
            builder.call(_declared(module, give_way, I32), [])
        return
    with builder.goto_entry_block():
        time = builder.alloca(I64, 2)
    builder.store(I64(0), time)
    builder.store(I64(LONGEST_SLEEP), builder.gep(time, [I64(1)]))
    builder.atomic_rmw("add", asleep, I64(1), "seq_cst")
    _futex(builder, word, _WAIT, builder.and_(seen, I64(0xFFFFFFFF)), time)
    builder.atomic_rmw("sub", asleep, I64(1), "seq_cst")


def _futex(builder: ir.IRBuilder, word: ir.Value, what: ir.Value, value: ir.Value, time: ir.Value) -> None:
    module = builder.module
    number = _futex_number(module)
    if number is not None:
        call = module.globals.get("syscall")
        if call is None:
            call = ir.Function(module, ir.FunctionType(I64, [I64], var_arg=True), "syscall")
        builder.call(call, [I64(number), word, what, value, time])


def _futex_number(module: TargetModule) -> int | None:
    system = module.target.triple.partition("-")
    return _FUTEX_NUMBERS.get(system[0]) if "linux" in system[2] else None


def _declared(module: ir.Module, name: str, result: ir.Type) -> ir.Function:
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, ir.FunctionType(result, []), name)
