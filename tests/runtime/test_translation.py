"""The part of Python that kernels are written in means in compiled code what it means in Python."""

import ast
import ctypes
import hashlib
import random
import re
from collections.abc import Sequence

import numpy as np
import pytest

from scanjit.runtime import compiler, host
from scanjit.runtime.kernels import kernel
from scanjit.runtime.structures import STRUCTURES
from scanjit.runtime.translation import functions, translate
from scanjit.runtime.translation.variables import in_memory
from scanjit.runtime.unit import Unit

ARGUMENTS = ((7, -3, 0), (-7, 2, 5), (0, 1, 1), (12, -12, 64), (-1, 63, 3), (100, 7, -2))


def compiled(body: str, arguments: Sequence[Sequence[int]], places: int) -> list[list[int]]:
    """What `store(i, value)` leaves at each place, for each list of arguments a, b, c."""
    name = f"kernel_{hashlib.sha256(body.encode()).hexdigest()[:12]}"
    lines = body.replace("store(", "store_i64(memory + 8*").splitlines()
    source = f"from scanjit.simd import store_i64\n\n\ndef {name}(memory, a, b, c):\n" + "\n".join(
        f"    {line}" for line in lines
    )
    made, memory = kernel(source + "\n", name), (ctypes.c_int64 * places)()
    results = []
    for given in arguments:
        ctypes.memset(memory, 0, 8 * places)
        made(ctypes.addressof(memory), *given)
        results.append(list(memory))
    return results


def interpreted(body: str, arguments: Sequence[Sequence[int]], places: int) -> list[list[int]]:
    """The same by Python itself."""
    results = []
    for given in arguments:
        memory = [0] * places

        def store(place: int, value: int, memory: list[int] = memory) -> None:
            memory[place] = ctypes.c_int64(value).value

        names: dict[str, object] = {"store": store}
        exec("def run(a, b, c):\n" + "\n".join(f"    {line}" for line in body.splitlines()), names)
        names["run"](*given)  # type: ignore[operator]
        results.append(memory)
    return results


def expression(source: random.Random, depth: int) -> str:
    """A random integer expression of a, b and c without divisors of zero, and without large shifts."""
    if depth == 0:
        return source.choice(["a", "b", "c", str(source.randint(-9, 9)), str(2 ** source.randint(0, 5))])
    x, y = (expression(source, depth - 1) for _ in range(2))
    form = source.choice(
        [
            "({x} + {y})",
            "({x} - {y})",
            "({x}*{n})",
            "({x}//({y}*{y} + {n}))",
            "({x} % ({y}*{y} + {n}))",
            "({x}//-{n})",
            "({x} % -{n})",
            "({x}//{power})",
            "({x} % {power})",
            "({x} & {y})",
            "({x} | {y})",
            "({x} ^ {y})",
            "({x} >> ({y} & 7))",
            "(({x} & 255) << ({y} & 7))",
            "min({x}, {y})",
            "max({x}, {y})",
            "(-{x})",
            "(~{x})",
            "(({x} < {y}) + 0)",
            "(({x} <= {y} < {n}) + 0)",
            "((not {x} == {y}) + ({x} != {n}))",
            "(({x} > {y} and {x} >= {n} or {y} == {n}) + 0)",
        ]
    )
    return form.format(x=x, y=y, n=source.randint(1, 9), power=2 ** source.randint(0, 6))


@pytest.mark.parametrize("seed", range(8))
def test_integers_are_those_of_python(seed: int) -> None:
    source = random.Random(seed)
    body = "\n".join(f"store({i}, {expression(source, 3)})" for i in range(40))
    assert compiled(body, ARGUMENTS, 40) == interpreted(body, ARGUMENTS, 40)


LOWEST, HIGHEST = -(2**63), 2**63 - 1


@np.errstate(over="ignore")
def test_no_quotient_stops_the_program() -> None:
    """Results that have more than 64 bits wrap, as NumPy's do; a divisor of 0 gives 0."""
    numbers = np.array([LOWEST, LOWEST + 1, -7, -2, -1, 0, 1, 3, HIGHEST])
    a, b = (each.ravel() for each in np.meshgrid(numbers, numbers))
    forms = {"a//b": np.floor_divide(a, np.where(b, b, 1)) * (b != 0), "a % b": np.mod(a, np.where(b, b, 1)) * (b != 0)}
    for k in (-1, 0, 1, 3, LOWEST):
        forms |= {f"a//({k})": a // k if k else 0 * a, f"a % ({k})": a % k if k else 0 * a}
    forms["-a"] = -a
    body = "\n".join(f"store({i}, {form})" for i, form in enumerate(forms))
    found = compiled(body, [(int(x), int(y), 0) for x, y in zip(a, b, strict=True)], len(forms))
    np.testing.assert_array_equal(np.array(found).T, list(forms.values()))


def test_a_range_ends_if_its_step_turns_out_to_be_zero() -> None:
    first = "n = 0\nfor i in range(a, b, c):\n    n = n*3 + i\nstore(0, n)"
    body = first + "\nfor i in range(a, 0, c - c):\n    n = 7\nstore(1, n)"
    assert compiled(body, [(5, 0, 0), (0, 5, 0), (-5, 0, 0), (0, 0, 0)], 2) == [[0, 0]] * 4
    given = [(9, 2, -3), (2, 9, 3), (9, 2, 3)]
    wanted = interpreted(first, given, 1)
    assert [row[:1] for row in compiled(body, given, 2)] == wanted


def statements(source: random.Random, names: list[str], depth: int) -> list[str]:
    """Random statements that read these variables: loops, branches, assignments. Each expression is one of a few, so
    that many stand at several places: before, inside and behind loops and branches that may not be passed."""

    def some(depth: int = 1) -> str:
        found, chosen = expression(random.Random(source.randint(0, 9)), depth), {x: source.choice(names) for x in "abc"}
        return re.sub(r"\b[abc]\b", lambda name: chosen[name[0]], found)

    lines: list[str] = []
    for _ in range(3):
        new, form = f"x{source.getrandbits(60)}", source.randint(0, 6)
        if form < 2:
            lines.append(f"{new} = {some(2)} & 63")
            names = [*names, new]
        elif form < 4 or depth == 0:
            lines.append(f"n = (n*3 + ({some()}) + {source.choice(names)}) & 1023")
        elif form == 4:
            first, last, step = (some() for _ in range(3))
            step = source.choice(["1", "2", "-3", f"max({step}, 1)", f"(({step}) & 3) + 1", f"min({step}, -1)"])
            known = f"{source.randint(-3, 3)}, {source.randint(-3, 6)}, {source.choice([1, 2, -1])}"
            counters = source.choice([f"({first}) & 7, ({last}) & 15, {step}", known])
            lines.append(f"for {new} in range({counters}):")
            lines += [f"    {line}" for line in statements(source, [*names, new], depth - 1)]
            lines += [f"    if n % 5 == {source.randint(0, 4)}:", "        break"] * source.randint(0, 1)
        elif form == 5:
            lines += [f"{new} = 0", f"while {new} < ({some()}) & 7 and n != {source.randint(0, 9)}:", f"    {new} += 1"]
            lines += [f"    {line}" for line in statements(source, [*names, new], depth - 1)]
        else:
            lines.append(f"if {some()} < {some()} or ({some()}) % 3 == 1:")
            lines += [f"    {line}" for line in statements(source, names, depth - 1)]
            lines += ["    if n == 77:", "        return"] * source.randint(0, 1)
            lines.append("else:")
            lines += [f"    {line}" for line in statements(source, names, depth - 1)]
        lines.append(f"store({len(lines) % 16}, n + ({some()}))")
    return lines


@pytest.mark.quick(3)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_once_has_the_values_of_each_place(seed: int) -> None:
    source = random.Random(seed)
    body = "\n".join(
        ["n = 0", *(line for _ in range(5) for line in statements(source, ["a", "b", "c"], 4)), "store(16, n)"]
    )
    assert compiled(body, ARGUMENTS, 17) == interpreted(body, ARGUMENTS, 17)


def written(body: str) -> str:
    """The function of a kernel of `n` and `place` as text for LLVM."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    names = "fma, load_f32x4, report, splat_f32x4, store, store_i64"
    source = f"from scanjit.simd import {names}\n\n\ndef k(n, place):\n{lines}\n"
    return translate(Unit("k", source, "k.py", "k", {}, "k"), host.target(), "e", True)[0].partition("define void")[2]


def test_what_a_loop_does_not_change_stands_before_it() -> None:
    text = written("for i in range(n):\n    for j in range(n):\n        store_i64(place + n*3 + i*5, j*7)")
    before, outer, inner = re.split(r"\nfor\d+:\n", text)
    assert "mul nsw i64 %a0, 3" in before
    assert ", 5" in outer and ", 3" not in outer
    assert ", 7" in inner and ", 5" not in inner and ", 3" not in inner


def test_what_is_known_is_not_written_again() -> None:
    text = written("store_i64(place + n*8, n*8)\nif n*8 > 3:\n    store_i64(n*8, 1)\nstore_i64(place, n*9)")
    assert text.count(", 8") == 1
    text = written("if n > 3:\n    store_i64(n*8, 1)\nstore_i64(place, n*8)")
    assert text.count(", 8") == 2  # the first is not always passed


def test_reports_of_errors_lie_behind_all_else() -> None:
    body = "if n > 3:\n    {}\nstore_i64(place, n)"
    rare, usual, ends = (written(body.format(each)) for each in ("report(place, 1)", "store_i64(place, 1)", "return"))
    assert "label %then1, label %end3, !prof" in rare and "!prof" in ends and "!prof" not in usual


def test_innermost_loops_begin_at_the_beginning_of_a_line() -> None:
    last = "for k in range(n):\n    if k > 3:\n        store_i64(place, k)"
    for inner, found in ("for j in range(n):\n        store_i64(place, j)", 2), ("while n > 3:\n        n = n - 1", 1):
        assert written(f"for i in range(n):\n    {inner}\n{last}").count("!llvm.loop") == found
    names, body = "load_f32x4, store", "for i in range(n):\n        store(x + i*16, load_f32x4(x + i*16) * 3.0)"
    source = f"from scanjit.simd import {names}\n\n\ndef k(x, n):\n    {body}\n"
    assert re.search(r"\.p2align\s+6", compiler.to_assembly(Unit("k", source, "k.py", "k", {}, "k"), host.target()))


def test_what_is_computed_of_numbers_is_a_number() -> None:
    text = written("for i in range(3*4, max(700, 2), 1):\n    store(place, splat_f32x4(0.5))")
    assert "phi i64 [ 12," in text and "br i1 true" in text and "mul" not in text and "select" not in text
    assert "splat (float" in text or "<float" in text
    forms = ["15//2*2", "-7//2", "-7 % 3", "7 % (-3)", "5//0"]
    text = written("\n".join(f"store_i64(place + {form}, 1)" for form in forms))
    added = [int(number) for number in re.findall(r"add nsw i64 %a\d, (-?\d+)", text)]
    assert added == [14, -4, 2, -2, 0] and "div" not in text


def test_short_loops_of_known_counters_are_written_out() -> None:
    text = written("for i in range(3):\n    for j in range(2):\n        store_i64(place + i*2 + j, i)")
    assert "phi" not in text and text.count("call void") == 6
    text = written("for i in range(3):\n    for j in range(200):\n        store_i64(place, i)")
    assert text.count("phi") == 3


SUMS = """
from scanjit.simd import broadcast_f32x4, fma, load_f32x4, splat_f32x4, store


def {name}(x, weights, y, first, last):
    a = splat_f32x4(0.0)
    b = splat_f32x4(0.0)
    for k in range({range}):
        w = load_f32x4(weights + k*16)
        a = fma(broadcast_f32x4(x + k*4), w, a)
        b = fma(broadcast_f32x4(x + k*8), w, b)
    store(y, a)
    store(y + 16, b)
"""


@pytest.mark.parametrize("range_", ["first, last", "last", "first, 37", "40", "37", "1, 2", "5, 2", "first, last, 2"])
def test_turns_of_a_loop_over_sums_stand_together(range_: str) -> None:
    """With any number of them, also none or fewer than none, the sums have the bits of one turn after the other."""
    rng, name = np.random.default_rng(0), f"sums_{hashlib.sha256(range_.encode()).hexdigest()[:8]}"
    x, weights = rng.standard_normal(128).astype("f4"), rng.standard_normal((64, 4)).astype("f4")
    made, y = kernel(SUMS.format(name=name, range=range_).lstrip(), name), np.zeros((2, 4), "f4")
    for first, last in [(0, 0), (0, 1), (0, 2), (3, 8), (3, 9), (1, 40), (5, 2), (5, 4), (7, 0)]:
        made(x.ctypes.data, weights.ctypes.data, y.ctypes.data, first, last)
        wanted = np.zeros((2, 4), "f4")
        for k in eval(f"range({range_})", {"first": first, "last": last}):
            wanted = (x[[k, 2 * k]].astype("f8")[:, None] * weights[k] + wanted).astype("f4")
        assert y.tobytes() == wanted.tobytes(), (first, last)


def test_which_loops_have_several_turns_together() -> None:
    def together(body: str) -> int:
        loop = "for k in range(n):\n" + "\n".join(f"    {line}" for line in body.splitlines())
        return written(f"a = splat_f32x4(0.0)\nb = splat_f32x4(1.0)\n{loop}\nstore(place, a + b)").count("scanjit fma")

    loads = "x = load_f32x4(place + k*16)"
    sums = "a = fma(x, x, a)\nb = fma(x, a, b)"
    assert together(f"{loads}\n{sums}") == 6  # of two turns, and of the one that may be left
    assert together(f"{loads}\na = fma(x, x, a)") == 1
    assert together(f"{loads}\n{sums}\nstore(place, x)") == 2
    assert together(f"{loads}\nz = fma(x, x, x)\n{sums}") == 3


def test_llvm_does_not_see_how_loops_over_sums_and_those_around_them_count() -> None:
    sums = "x = load_f32x4(place + k*32)\na = fma(x, x, a)\nb = fma(x, a, b)"
    inner = "\n".join(f"        {line}" for line in sums.splitlines())
    around = "for i in range(n):\n    a = splat_f32x4(0.0)\n    b = splat_f32x4(0.0)\n    for k in range(n):\n"
    text = written(f"{around}{inner}\n    store(place, a + b)\nfor j in range(n):\n    store_i64(place + j*8, j)")
    hidden = set(re.findall(r"(%v\d+) = call i64 @llvm.expect", text))
    following = re.findall(r"phi i64 \[ .*, %\w+ \], \[ (%v\d+),", text)
    assert [each in hidden for each in following] == [True, True, True, False]  # one turn may be left
    assert text.count("mul nsw i64 %v") == 3  # two turns share one


def test_a_divisor_of_zero_gives_zero() -> None:
    assert compiled("store(0, a//b)\nstore(1, a % b)", [(7, 0, 0), (-7, 0, 0), (7, 2, 0)], 2) == [
        [0, 0],
        [0, 0],
        [3, 1],
    ]


FLOW = {
    "ranges": """
n = 0
for i in range(a):
    n += i
store(0, n)
for i in range(b, a):
    n = n*3 + i
store(1, n)
for i in range(a, b, -2):
    n = n*3 - i
store(2, n)
for i in range(b, a, max(c, 1)):
    n = n*5 + i
store(3, n)
for i in range(a, b, min(c, -1)):
    n = n*7 + i
store(4, n)""",
    "written out": """
n = 0
for i in range(3):
    if a > i:
        break
    n += b*7 + i
store(0, n + b*7)
for i in range(5, 0, -2):
    for j in range(2):
        n = n*3 + i*j
        if n > c:
            break
store(1, n)
for i in range(2):
    n += 1
    if a == 0:
        return
store(2, n)""",
    "breaks": """
n = 0
for i in range(10):
    for j in range(i, 10):
        n = n + 1
        if j*i > a*a:
            break
    if n > 30:
        break
store(0, n)
store(1, i)""",
    "while": """
n = a
while n < 50 and n != b:
    n = n + 3
    if n == 40:
        break
store(0, n)""",
    "returns": """
store(0, 1)
if a > b:
    store(1, 2)
    if c > 0:
        return
    store(2, 3)
else:
    store(3, 4)
    return
store(4, 5)""",
    "branches": """
if a > 0:
    x = a*2
    y = 1
elif b > 0:
    x = b*3
    y = 2
else:
    x = c
    y = 3
store(0, x)
store(1, y)
if not (a > 0 or b > 0):
    pass
else:
    x = -x
store(2, x)
if c:
    store(3, 9)""",
    "carried": """
first = 1
second = 1
for i in range(20):
    third = first + second
    first = second
    second = third
    last = i
store(0, third)
store(1, last)
for k in range(3):
    inner = k*2
    for m in range(inner):
        inner = inner + m
    store((2 + k), inner)""",
    "both end": """
for i in range(5):
    if i > b:
        break
    else:
        if i > c:
            return
        else:
            store(i, i + 1)
store(7, 7)""",
}


@pytest.mark.parametrize("name", FLOW)
def test_control_flow_is_that_of_python(name: str) -> None:
    assert compiled(FLOW[name].strip(), ARGUMENTS, 10) == interpreted(FLOW[name].strip(), ARGUMENTS, 10)


def test_what_does_not_decide_is_not_looked_at() -> None:
    """`load` reads outside of the memory if it is looked at."""
    source = (
        "from scanjit.simd import load_i64, store_i64\n\n\ndef guarded(memory, place):\n"
        "    if place != 0 and load_i64(place) == 5:\n        store_i64(memory, 1)\n"
        "    if place == 0 or load_i64(place) == 5:\n        store_i64(memory + 8, 1)\n"
    )
    made, memory = kernel(source, "guarded"), (ctypes.c_int64 * 3)(0, 0, 5)
    made(ctypes.addressof(memory), 0)
    assert list(memory) == [0, 1, 5]
    made(ctypes.addressof(memory), ctypes.addressof(memory) + 16)
    assert list(memory) == [1, 1, 5]


def test_expressions_of_many_terms() -> None:
    """They are nested as deep as they are long, deeper than Python calls functions."""
    body = f"store(0, {' + '.join(['a', 'b', 'c*2'] * 250)})\nstore(1, {' - '.join(['c', 'a'] * 300)})"
    assert compiled(body, ARGUMENTS, 2) == interpreted(body, ARGUMENTS, 2)
    assert in_memory(ast.parse("x = n\nx = 1\ny = " + " + ".join(["x"] * 700)).body, ["n"]) == {"x"}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x = n\ny = x", set()),
        ("x = n\nx = x + 1", {"x"}),
        ("for i in range(n):\n    x = i", set()),
        ("for i in range(n):\n    x = i\ny = x", {"x"}),
        ("for i in range(n):\n    y = x\n    x = i", {"x"}),
        ("if n:\n    x = 1\nelse:\n    x = 2\ny = x", {"x"}),
        ("if n:\n    x = 1\n    y = x", set()),
        ("n = n + 1", {"n"}),
        ("for i in range(n):\n    pass\ny = i", {"i"}),
        ("n += 1", {"n"}),
    ],
)
def test_which_variables_live_in_memory(body: str, found: set[str]) -> None:
    assert in_memory(ast.parse(body).body, ["n"]) == found


def test_a_function_of_vectors_stands_once_in_a_module() -> None:
    source = (
        "from scanjit.simd import load_f32x4, store, tanh\n\n\ndef k(x, y):\n"
        "    store(y, tanh(tanh(load_f32x4(x))) + tanh(load_f32x4(x + 16)))\n"
    )
    module, arity, has_vectors, _ = translate(Unit("k", source, "k.py", "k", {}, "k"), host.target(), "e", True)
    defined = [line for line in module.splitlines() if line.startswith("define ")]
    assert arity == 2 and has_vectors
    assert len(defined) == len(set(defined)) and sum("tanh" in line for line in defined) == 2  # itself, and a frame
    assert all("internal" in line for line in defined[:-1]) and 'void @"k"' in defined[-1]


def test_a_kernel_that_stores_a_constant_has_vectors() -> None:
    source = "from scanjit.simd import splat_f32x4, store\n\n\ndef k(x):\n    store(x, splat_f32x4(1.5))\n"
    assert translate(Unit("k", source, "k.py", "k", {}, "k"), host.target(), "e", True)[2]


CALLING = Unit(
    "k",
    "from scanjit.simd import barrier, first_piece, interrupted, load_i64, next_piece\n\n\n"
    "def k(table, sync, threads, line):\n"
    "    for i in range(load_i64(table)//threads):\n        inner(min(i, 8), i % 3)\n"
    "        piece = first_piece(sync, 0, threads, 0, 7, 1, 0, line)\n        piece = next_piece(line)\n"
    "        barrier(sync, 0, threads, line)\n        if interrupted(line):\n            return\n",
    "k.py",
    "k",
    {"inner": ("inner", 2)},
    "k",
)


def test_a_kernel_of_integers_and_calls_has_no_vectors() -> None:
    """Those are compiled in a tenth of the time."""
    module, _, has_vectors, _ = translate(CALLING, host.target(), "e", False)
    assert 'call void @"inner"' in module and not has_vectors


def test_code_that_is_loaded_calls_through_addresses() -> None:
    """LLVM takes three times as long for calls of functions that may be anywhere."""
    module, *_ = translate(CALLING, host.target(), "e", True)
    text = module[module.index('define void @"k"') :]
    called = re.findall(r"call \w+ (\S+?)\(", text)
    assert 'ptr @"inner"' in module and text.count("%f0 = load ptr") == 1
    assert sum(name.startswith("%f") for name in called) == 3  # inner, first_piece, next_piece
    assert not any("piece" in name for name in called)  # each without a function in between


def test_functions_have_their_own_names() -> None:
    source = "from scanjit.simd import exp as tanh\n\n\ndef k(x):\n    pass\n"
    with pytest.raises(TypeError, match="by their own names"):
        translate(Unit("k", source, "k.py", "k", {}, "k"), host.target(), "e", True)


def test_functions_that_call_kernels_name_what_is_no_place() -> None:
    with pytest.raises(TypeError, match="no place in memory: 3"):
        functions("def f(a):\n    return get(3)\n", STRUCTURES, (), host.target())
