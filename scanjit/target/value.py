"""A target: the machine that code is made for. It may be another one than this process runs on."""

from dataclasses import dataclass, field
from functools import cache

from scanjit import errors
from scanjit.target.measured import FAST_PAIRS, HALVED, SLOW_MASKS, Speeds, is_intels, speeds

AVX512 = ("avx512f", "avx512vl", "avx512dq", "avx512bw")
"""The parts of AVX-512 that make vectors of 64 bytes pay."""
_BUILDS_ON = {
    **dict.fromkeys((*AVX512[1:], "avx512bf16", "avx512vnni"), ("avx512f",)),
    "avx512f": ("avx2", "fma", "f16c"),
    "avxvnni": ("avx2",),
    **dict.fromkeys(("amx-bf16", "amx-int8"), ("amx-tile",)),
    **dict.fromkeys(("avx2", "fma", "f16c"), ("avx",)),
}
"""Features of x86-64, each with those that it implies. A feature comes before those that it implies."""
POSIX = ("linux", "darwin", "macos", "bsd")
"""Words in the triples of systems that have the functions of POSIX."""
LEVEL1_BYTES, LEVEL2_BYTES = 2**15, 2**20
"""The cache sizes of a target if nobody knows them. They are no larger than those of most processors, as code that
expects too much cache is slower than code that expects too little."""
MATRIX_ROWS, MATRIX_ROW_BYTES = 16, 64
"""The rows of a register for matrices (`Target.has_matrices`), and the bytes of a row."""


@dataclass(frozen=True)
class Target:
    """What code depends on of the machine that it is made for. `target_for` fills in what follows from the rest.

    Attributes
    ----------
    triple : LLVM's name for processor family, system and file format, such as "aarch64-linux-gnu".
    name : LLVM's name for the processor, such as "znver4"; "" for any of its family.
    features : the instructions that code may use, and those that it may not though other processors of this name have
        them, as LLVM writes them: "+avx2,+fma,-sse4a".
    vector_bytes : the bytes of a vector register; 4 where there are none.
    registers : how many vector registers there are.
    tiles : how fast register tiles of each shape are.
    level1_bytes, level2_bytes : how many bytes of the first and second cache for data a core has for itself.
    alone : whether one thread runs all of a program: it meets no others, and nobody ends it early.
    has_matrices : whether code may use registers that hold small matrices of pairs or quads, and instructions that
        multiply them (Intel's AMX). A process has to ask its system for them.

    Examples
    --------
    >>> target = target_for("x86_64-pc-windows-msvc", features="+avx2,+fma")
    >>> target.vector_bytes, target.registers, target.has_fma
    (32, 16, True)
    """

    triple: str
    name: str
    features: str
    vector_bytes: int
    registers: int
    tiles: Speeds = field(hash=False)
    level1_bytes: int = LEVEL1_BYTES
    level2_bytes: int = LEVEL2_BYTES
    alone: bool = False
    has_matrices: bool = False

    def __post_init__(self) -> None:
        for feature in filter(None, self.features.split(",")):
            if feature[0] not in "+-" or not feature[1:]:
                raise errors.ArgumentError(
                    "features of a target begin with a sign: + for what code may use, - for what it may not",
                    got=repr(feature),
                    fix='separate them by commas alone: features="+avx2,+fma,-sse4a"',
                    where="",
                )

    def has(self, *features: str) -> bool:
        """Whether code may use all these instructions: `target.has("avx2", "fma")`."""
        return _has(self.features, *features)

    @property
    def is_x86(self) -> bool:
        """Whether the processor is one of the family x86-64."""
        return _architecture(self.triple) in ("x86_64", "amd64")

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is an instruction. Without it, LLVM would call a function of the C library."""
        if self.is_arm64:
            return True
        if _architecture(self.triple).startswith("riscv"):
            return self.has("d")
        return self.is_x86 and self.has("fma")

    @property
    def register_bytes(self) -> int:
        """How many bytes a vector register of the processor holds. `vector_bytes` may be fewer, and also more: LLVM
        keeps such a vector in several registers."""
        return _vector_bytes(self.triple, self.features)

    @property
    def has_avx512(self) -> bool:
        """Whether instructions of AVX-512 take vectors of 16, 32 and 64 bytes."""
        return self.is_x86 and self.has("avx512f", "avx512vl")

    @property
    def is_arm64(self) -> bool:
        """Whether the processor is one of the family AArch64."""
        return _is_arm64(self.triple)

    @property
    def multiplies_pairs(self) -> bool:
        """Whether instructions that multiply pairs of bfloat16 are faster than to take the pairs apart. Intel's
        `vdpbf16ps` takes as long as four multiply-adds of float32, AMD's as long as one."""
        if self.is_arm64:
            return self.has("bf16")
        return self.has_avx512 and self.has("avx512bf16") and self.name in FAST_PAIRS

    @property
    def multiplies_quads(self) -> bool:
        """Whether an instruction adds the products of four bytes to a lane. Without it, they are taken apart."""
        if self.is_arm64:
            return self.has("i8mm")
        return self.is_x86 and (self.has("avxvnni") or (self.has_avx512 and self.has("avx512vnni")))

    @property
    def has_masks(self) -> bool:
        """Whether loads and stores of some lanes of a vector take about as long as those of all lanes. Without
        instructions for them, LLVM branches at each lane."""
        return self.has_avx512 or (self.is_x86 and self.has("avx") and self.name not in SLOW_MASKS)

    def masks(self, itemsize: int) -> bool:
        """Whether instructions load and store some lanes of a vector of elements of so many bytes."""
        return self.is_x86 and self.has(*(("avx512bw", "avx512vl") if itemsize < 4 else ("avx",)))

    @property
    def halves_vectors(self) -> bool:
        """Whether two vectors of half the width take as long as a full one."""
        return self.vector_bytes == 64 and self.name in HALVED

    @property
    def outruns_level2(self) -> bool:
        """Whether a core multiplies vectors faster than its second cache delivers them: Intel's have two units for
        multiply-adds of 64 bytes. What register tiles read again is then to stay in the first cache, or to be fetched
        ahead."""
        return is_intels(self.name, self.vector_bytes)

    @property
    def most_sums(self) -> int:
        """How many vector registers may hold sums of products. Operands need the others."""
        return 24 if self.registers >= 32 else 12

    @property
    def is_posix(self) -> bool:
        """Whether the system has shared libraries as Linux and macOS have them."""
        return any(system in self.triple for system in POSIX)

    @property
    def gives_way(self) -> str | None:
        """The name of the system's function with which a thread lets others run; None if the system has no threads."""
        return "sched_yield" if self.is_posix else "SwitchToThread" if "windows" in self.triple else None

    @property
    def code(self) -> tuple[str, str, str, bool]:
        """Everything that object code depends on, other than the source of a kernel."""
        return self.triple, self.name, self.features, self.alone

    @property
    def first_bytes(self) -> int:
        """How many bytes of one kind of data stay in the first cache while a loop reads it again: three quarters of it,
        as what the loop goes along lies there only for a moment."""
        return self.level1_bytes * 3 // 4

    @property
    def near_bytes(self) -> int:
        """How many bytes of one kind of data stay near while a loop reads it again: a quarter of the second-level
        cache, as weights, arguments and results lie there too."""
        return self.level2_bytes // 4

    @property
    def far_bytes(self) -> int:
        """How many bytes stay in the third-level cache while a loop goes through them. Nobody says how large it is, and
        how much of it others use; this was measured with one of 32 times the second-level cache."""
        return self.level2_bytes * 16

    def lanes(self, itemsize: int) -> int:
        """How many elements of this many bytes a vector register holds; 1 if there are no vectors."""
        return max(1, self.vector_bytes // itemsize)


def target_for(
    triple: str,
    name: str = "",
    features: str = "",
    vector_bytes: int | None = None,
    level1_bytes: int | None = None,
    level2_bytes: int | None = None,
) -> Target:
    """A target, from what LLVM calls it.

    Parameters
    ----------
    triple, name, features : as in `Target`.
    vector_bytes : the bytes of a vector register, if code is to use narrower ones than the processor has.
    level1_bytes, level2_bytes : as in `Target`, where they are known.

    Examples
    --------
    >>> target_for("aarch64-linux-gnu").lanes(4)
    4
    >>> target_for("x86_64-linux-gnu", features="+avx2", vector_bytes=16).lanes(4)
    4
    """
    width = _vector_bytes(triple, features) if vector_bytes is None else vector_bytes
    registers = 32 if width == 64 or _is_arm64(triple) else 16
    near = level1_bytes or LEVEL1_BYTES, level2_bytes or LEVEL2_BYTES
    return Target(triple, name, features, width, registers, speeds(name, width, registers), *near)


def _architecture(triple: str) -> str:
    return triple.split("-")[0]


def _is_arm64(triple: str) -> bool:
    return _architecture(triple) in ("aarch64", "arm64")


def _has(listed: str, *features: str) -> bool:
    return _all_features(listed).issuperset(features)


@cache
def _all_features(listed: str) -> frozenset[str]:
    """The features of a list, and those that they build on. A feature that builds on a refused one is refused, too."""
    wanted, refused = ({each[1:] for each in listed.split(",") if each.startswith(sign)} for sign in "+-")
    for feature, others in reversed(_BUILDS_ON.items()):
        if not refused.isdisjoint(others):
            refused.add(feature)
    wanted -= refused
    for feature, others in _BUILDS_ON.items():
        if feature in wanted:
            wanted.update(others)
    return frozenset(wanted)


def _vector_bytes(triple: str, features: str) -> int:
    """The bytes of a vector register."""
    if _architecture(triple) in ("x86_64", "amd64"):
        return 64 if _has(features, *AVX512) else 32 if _has(features, "avx2") else 16
    return 16 if _is_arm64(triple) or _has(features, "simd128") or _has(features, "v") else 4
