"""Object files for machines that this one is not: the kernels of an LSTM for each of six targets."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import llvmlite.binding as llvm
import pytest

import scanjit as sj
from scanjit.codegen.generate import Generated, generate
from scanjit.errors import ArgumentError
from scanjit.rewrite import run as rewrite
from scanjit.runtime import compiler, host, kernels
from scanjit.runtime.undefined import undefined
from scanjit.schedule.pipeline import schedule
from scanjit.target import Target, target_for
from tests.lstm import lstm_outputs

TARGETS = {
    "linux-avx512": target_for("x86_64-linux-gnu", "znver4", "+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw"),
    "linux-sse2": target_for("x86_64-linux-gnu"),
    "linux-arm64": target_for("aarch64-linux-gnu"),
    "windows": target_for("x86_64-pc-windows-msvc", features="+avx2,+fma"),
    "webassembly": target_for("wasm32-unknown-unknown", features="+simd128"),
    "riscv64": target_for("riscv64-linux-gnu", features="+m,+a,+d,+c"),
    "cortex-m": target_for("thumbv7em-none-eabihf", "cortex-m4"),
}
FORMATS = {
    "linux-avx512": b"\x7fELF\x02\x01 \x3e\x00",
    "linux-sse2": b"\x7fELF\x02\x01 \x3e\x00",
    "linux-arm64": b"\x7fELF\x02\x01 \xb7\x00",
    "windows": b"\x64\x86",
    "webassembly": b"\0asm\x01\0\0\0",
    "riscv64": b"\x7fELF\x02\x01 \xf3\x00",
    "cortex-m": b"\x7fELF\x01\x01 \x28\x00",
}
"""What a file begins with. For ELF, behind a space: the number of the machine."""
LANES = {"linux-avx512": 16, "windows": 8, "cortex-m": 1}
"""How many numbers of float32 a vector has; 4 in the others, and 1 where there are no vectors."""
FUSED = re.compile(r"\b(v?fn?m(add|sub)|fml[as]|vfn?m[as]|f32x4\.relaxed|bl? fmaf)")
"""Multiply-adds in assembly."""
SYSTEM = {"sched_yield", "SwitchToThread", "syscall", "memset", "memcpy", "_GLOBAL_OFFSET_TABLE_", "_fltused"}
"""What object files may need of the system; and names that begin with two underscores, which are the compiler's."""


def known(target: Target) -> None:
    """Skip a test if this LLVM makes no code for a target."""
    llvm.initialize_all_targets()
    try:
        llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        pytest.skip(f"llvmlite {llvm.llvm_version_info} has no {target.triple}: {error}")


def units_of(code: Generated, target: Target) -> Sequence[kernels.Unit]:
    """The units of generated code."""
    arity = {source.name: source.arity for source in code.functions}
    wanted = [(made.text, made.name, {callee: arity[callee] for callee in made.calls}) for made in code.functions]
    return list(kernels.units(wanted, target).values())


def source_of(target: Target) -> Generated:
    """The generated code of an LSTM, forward, for a target."""
    units = 12
    x = sj.tensor((None, None, 5), dtype="float32", name="x")
    w, r = sj.tensor((5, 4 * units), dtype="float32"), sj.tensor((units, 4 * units), dtype="float32")
    program = schedule([x, w, r], rewrite([lstm_outputs(x, w, r)]).outputs, target)
    return generate(program, "lstm")


@functools.cache
def objects(name: str) -> dict[str, tuple[kernels.Unit, bytes]]:
    """The units of the LSTM, and the object file of each."""
    target, code = TARGETS[name], source_of(TARGETS[name])
    return {unit.name: (unit, compiler.to_object([unit], target)) for unit in units_of(code, target)}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", TARGETS)
def test_an_lstm_becomes_object_files(name: str) -> None:
    """Each is of the target's format and machine, names its kernel, and needs only kernels and the system."""
    known(TARGETS[name])
    magic, _, machine = FORMATS[name].partition(b" ")
    found = objects(name)
    exported = {unit.symbol for unit, _ in found.values()}
    assert "lstm" in str(exported) and len(found) > 2
    for unit, code in found.values():
        assert code.startswith(magic)
        assert not machine or code[18:20] == machine
        needed = {symbol for symbol in undefined(code) if not symbol.startswith("__")}
        assert unit.symbol.encode() in code and unit.symbol not in needed
        callees = {symbol for symbol, _ in unit.externals.values()}
        assert callees <= needed <= callees | SYSTEM
        assert needed & {"sched_yield", "SwitchToThread"} <= {TARGETS[name].gives_way}
        assert "syscall" not in needed or name.startswith("linux-")
    assert any(unit.externals for unit, _ in found.values())


@pytest.mark.parametrize("name", TARGETS)
def test_vectors_are_as_wide_as_the_target_has_them(name: str) -> None:
    lanes = LANES.get(name, 1 if name == "riscv64" else 4)
    assert TARGETS[name].lanes(4) == lanes
    text = "".join(source.text for source in source_of(TARGETS[name]).functions)
    assert f"load_f32x{lanes}" in text
    assert not any(f"load_f32x{2 * lanes * k}" in text for k in (1, 2, 4))


def test_instructions_are_those_of_the_target() -> None:
    """Fused multiply-adds, AVX-512 and the pause of a waiting thread are there where the target has them."""
    source = "from scanjit.simd import barrier, exp, fma, load_f32x4, store\n\n\ndef some(p, line):\n"
    source += "    barrier(p, 0, 2, line)\n    x = load_f32x4(p)\n    store(p, exp(fma(x, x, x)))\n"
    for name, target in TARGETS.items():
        (unit,) = kernels.units([(source, "some", {})], target).values()
        module = compiler.translate(unit, target, loaded=False).module
        assert ("llvm.fma.v4f32" in module) == target.has_fma == (name not in ("linux-sse2", "webassembly", "cortex-m"))
        assert ("avx512.mask.scalef" in module) == (name == "linux-avx512")
        assert ("sse2.pause" in module) == target.is_x86
        found = {word for word in ("sched_yield", "SwitchToThread", "syscall") if word in module}
        assert found == ({"syscall"} if name.startswith("linux-") else {target.gives_way} - {None})


@pytest.mark.parametrize("name", TARGETS)
def test_multiply_adds_are_those_that_were_chosen(name: str) -> None:
    """LLVM makes none of other products and sums, so the difference of equal products is zero on each target."""
    known(TARGETS[name])
    x, y = sj.tensor(99, "float32"), sj.tensor(99, "float32")
    for made, fused in ((x * y + y, TARGETS[name].has_fma), (x * y - y * x, False)):
        code = generate(schedule([x, y], rewrite([made]).outputs, TARGETS[name]), "sums")
        text = "".join(compiler.to_assembly(unit, TARGETS[name]) for unit in units_of(code, TARGETS[name]))
        assert bool(FUSED.search(text)) == fused


def test_one_process_makes_code_for_several_targets() -> None:
    """Kernels of one name do not meet: they are other files in the cache, and other symbols."""
    source = "from scanjit.simd import load_f32x4, store\n\n\ndef copied(p, q):\n    store(q, load_f32x4(p))\n"
    units = [kernels.units([(source, "copied", {})], target)["copied"] for target in TARGETS.values()]
    assert len({unit.symbol for unit in units}) == len({unit.stem for unit in units}) == len(TARGETS)


def test_a_target_that_llvm_does_not_know() -> None:
    target = target_for("abacus-unknown-none")
    (unit,) = kernels.units([("def nothing(p): pass", "nothing", {})], target).values()
    with pytest.raises(ArgumentError, match=r"makes no code for this target\n.*abacus"):
        compiler.to_object([unit], target)


@pytest.mark.parametrize("features", ["avx2", "+avx2,fma", "+avx2, +fma", "+"])
def test_features_have_signs(features: str) -> None:
    """LLVM would end the process."""
    with pytest.raises(ArgumentError, match=r"begin with a sign[\s\S]*separate them by commas"):
        target_for("x86_64-linux-gnu", features=features)


@pytest.mark.parametrize("unknown", [{"features": "+avx2,-no_such"}, {"name": "no_such"}])
def test_names_that_llvm_does_not_know(unknown: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    target = target_for("x86_64-linux-gnu", **unknown)
    (unit,) = kernels.units([("def nothing(p): pass", "nothing", {})], target).values()
    with pytest.raises(ArgumentError, match=r"does not know this target\n.*no_such' is not a recognized [fp]\w+ for"):
        compiler.to_object([unit], target)
    assert not capfd.readouterr().err


def test_instructions_come_with_those_that_they_build_on() -> None:
    """LLVM lists all of a processor; a user may name the newest alone."""
    some = target_for("x86_64-linux-gnu", features="+avx2,+fma")
    assert some.has("avx", "avx2", "fma") and some.has_masks and not some.has_avx512 and not some.has("avx512f")
    wide = target_for("x86_64-linux-gnu", features="+avx512vl,+avx512dq,+avx512bw")
    assert wide.has_avx512 and wide.has_fma and wide.vector_bytes == 64
    assert not target_for("x86_64-linux-gnu", features="+sse4.2,-avx2").has("avx")
    without = target_for("x86_64-linux-gnu", features="+avx2,+avx512f,-fma")
    assert [without.has(feature) for feature in ("avx512f", "fma", "avx2", "avx")] == [False, False, True, True]
    assert not target_for("x86_64-linux-gnu", features="+avx512vl,-avx").has("avx512f")


def test_kernels_of_another_machine_are_not_loaded() -> None:
    with (
        host.using(target_for("wasm32-unknown-unknown")),
        pytest.raises(ArgumentError, match=r"cannot run.*\n.*wasm32"),
    ):
        kernels.kernel("def nowhere(p): pass", "nowhere")


def test_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    monkeypatch.setenv("SCANJIT_VECTOR_BYTES", "16")
    assert host.target().vector_bytes == 16
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert (host.target().name, host.target().features) == ("generic", "")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+fma,-avx2")
    assert host.target().has("fma") and not host.target().has("avx2")
    monkeypatch.delenv("SCANJIT_VECTOR_BYTES")
    with host.using(TARGETS["webassembly"]) as given:
        assert host.target() is given
