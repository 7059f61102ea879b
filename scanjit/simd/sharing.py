"""What threads do together, as LLVM instructions: look whether to end, tell how far they are, share loops, meet.

Each of these functions takes the address of the line of a thread as an operand (see `simd.line`). Some of them call
functions whose names begin with `TOGETHER`. A process has these once, for all kernels that it loads
(`scanjit.runtime.sharing_source`, which also says what a place is).
"""

from collections.abc import Sequence

from llvmlite import ir

from .line import LineFields
from .llvm_calls import I32, I64, call
from .llvm_values import TargetModule, internal, phi
from .memory import load_i64, store_i64

TOGETHER = "scanjit_together_"
ACTIONS = {name: number for number, name in enumerate(("BEGIN", "ATTEND", "NEXT", "MEET"))}
"""What a thread does when it asks for a share of a work: see `scanjit.runtime.sharing_source`."""
_BEGIN, _ATTEND, _NEXT, _MEET = map(I64, ACTIONS.values())


def _field(builder: ir.IRBuilder, line: ir.Value, name: str) -> ir.Value:
    """The address of a field of a line."""
    return builder.add(line, I64(getattr(LineFields, name).offset))


def interrupted(builder: ir.IRBuilder, line: ir.Value, *where: ir.Value) -> ir.Value:
    """Whether this thread is to end what it does.

    If the number at which the line points has another value than expected, the line's function is called with `line`
    and `where`, and says whether to end. Nearly always it has that value, and all of this is three loads and a
    comparison.

    `where` tells how far a nest with time is: its step, and for which of how many elements it makes all steps (0 of 0
    if it makes each step for all of them). Left out, it is step -1: nothing is told.

    Code for a target that is `alone` never looks, and tells nothing of its loops."""
    if builder.module.target.alone:
        return ir.Constant(ir.IntType(1), 0)
    where = where or (I64(-1), I64(0), I64(0))
    number = builder.inttoptr(load_i64(builder, line), I64.as_pointer())
    expected = load_i64(builder, _field(builder, line, "expected"))
    before = builder.block
    changed = builder.icmp_signed("!=", builder.load_atomic(number, "monotonic", 8), expected)
    with builder.if_then(changed, likely=False):
        kind = ir.FunctionType(I64, [I64] * 4)
        function = builder.inttoptr(load_i64(builder, _field(builder, line, "function")), kind.as_pointer())
        told = builder.icmp_signed("!=", builder.call(function, [line, *where]), I64(0))
        after = builder.block
    return phi(builder, (ir.Constant(ir.IntType(1), 0), before), (told, after))


def begin_loop(builder: ir.IRBuilder, line: ir.Value, steps: ir.Value, early: ir.Value) -> None:
    """Note in a line (see `interrupted`) that a loop over time begins."""
    if builder.module.target.alone:
        return
    loops = _field(builder, line, "loops")
    store_i64(builder, loops, builder.add(load_i64(builder, loops), I64(1)))
    for name, value in (("total", steps), ("early", early), ("done", I64(-1))):
        store_i64(builder, _field(builder, line, name), value)


def count_steps(builder: ir.IRBuilder, line: ir.Value, steps: ir.Value) -> None:
    """Note in a line how many steps the loop has made."""
    if not builder.module.target.alone:
        store_i64(builder, _field(builder, line, "done"), steps)


def end_loop(builder: ir.IRBuilder, line: ir.Value) -> None:
    """Note in a line that the loop has ended."""
    if not builder.module.target.alone:
        store_i64(builder, _field(builder, line, "total"), I64(0))


def first_piece(builder: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    """Begin a loop that threads share. Returns where the first piece of this thread begins; -1 if there is none.

    The operands are the address of a place, the number of this thread, how many threads there
    are, the bounds `low` and `high` of the loop's counter, how many of its turns stay together (`unit`), the most turns
    in one piece (`turns`; 0: a share is one piece), and a line. A thread looks whether to end before each piece, but
    not if a share is one piece. A thread that is `alone` has one piece.
    """
    if builder.module.target.alone:
        low, high, line = operands[3], operands[4], operands[7]
        store_i64(builder, _field(builder, line, "reached"), high)
        return builder.select(builder.icmp_signed("<", low, high), low, I64(-1))
    return builder.call(_together(builder.module, "first", 8), operands)


def piece_end(builder: ir.IRBuilder, line: ir.Value) -> ir.Value:
    """Where this thread's present piece ends."""
    return load_i64(builder, _field(builder, line, "reached"))


def next_piece(builder: ir.IRBuilder, line: ir.Value) -> ir.Value:
    """Where the next piece begins, in the same share or in a share that a late thread has not begun. -1 if this thread
    is to end, or if all shares are computed."""
    if builder.module.target.alone:
        return I64(-1)
    return builder.call(_together(builder.module, "next", 2), [line, _NEXT])


def barrier(builder: ir.IRBuilder, *operands: ir.Value) -> None:
    """Wait until all threads have come here, or this thread is interrupted. A single thread does not wait. The operands
    are the address of a place, the number of this thread, how many there are, and a line."""
    address, thread, threads, line = operands
    if builder.module.target.alone:
        return
    with builder.if_then(builder.icmp_signed(">", threads, I64(1))):
        builder.call(_share_function(builder.module), [address, thread, threads, line, _MEET])


def first_share(builder: ir.IRBuilder, *operands: ir.Value) -> ir.Value:
    """Begin work that is divided into shares, each of which is computed as a whole. Returns the number of the share
    that this thread computes first; -1 if there is none.

    The operands are the address of a place, the number of this thread, how many threads there
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


def _together(module: TargetModule, name: str, operands: int) -> ir.Function:
    """One of the functions that a process has once, or a library (`scanjit.runtime.sharing_source`)."""
    function, _ = internal(module, TOGETHER + name, I64, operands)
    function.linkage = "external"
    return function


def _share_function(module: TargetModule) -> ir.Function:
    """The function that counts, takes and waits: it says which share of a work a thread is to compute."""
    return _together(module, "share", 5)


def pause(builder: ir.IRBuilder) -> None:
    """Let the processor wait for some of its cycles."""
    if builder.module.target.is_x86:
        call(builder, "llvm.x86.sse2.pause", ir.VoidType(), [])
    elif builder.module.target.is_arm64:  # its `yield` does nothing on most processors; this empties the pipeline
        call(builder, "llvm.aarch64.isb", ir.VoidType(), [I32(15)])
