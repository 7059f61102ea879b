"""Libraries for the web: WebAssembly modules, called from Node by the JavaScript beside them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.library.web import number, texts
from tests.library.pages import linked, seen, told
from tests.library.support import interface


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def recurrence() -> tuple[Any, Any]:
    x = sj.tensor(("T", "B", 3), "float32", "x")
    w, r = sj.shared(numbers(3, 8), "W"), sj.shared(0.3 * numbers(8, 8), "R")
    zero = sj.zeros((x.shape[1], 8), "float32")
    return x, sj.scan(lambda row, h: sj.tanh(row @ w + h @ r), x, zero, name="h")


@linked
def test_a_function_with_sizes_and_a_state(tmp_path: Path) -> None:
    x, h = recurrence()
    count = sj.shared(np.int32(5), "count")
    n, flag = sj.tensor(("T",), "int64", "n"), sj.scalar("flag", "bool")
    outputs = {"h": h, "sum": sj.where(flag, n.sum(), -n.sum()), "end": sj.exp(h[-1]).sum()}
    f = sj.function([x, n, flag], outputs, updates={count: count + 1})
    sj.export_library(f, tmp_path, "model", kind="wasm")
    xs, ns = numbers(300, 2, 3), np.arange(300)
    found = told(
        tmp_path,
        """
        import { load, ModelError } from "./model.js";
        const model = await load(), other = await load();
        const [x, n] = [given[0], BigInt64Array.from(given[1].map(BigInt))];
        const first = model.run({ x, n, flag: true }); // sizes: T from n, then B from x
        const before = model.save();
        model.run({ x: x.slice(0, 6), n: n.slice(0, 1), flag: false }, { B: 2 });
        const counts = [model.state.count[0], other.state.count[0]];
        model.restore(before);
        counts.push(model.state.count[0]);
        model.reset();
        counts.push(model.state.count[0]);
        const errors = [];
        for (const call of [
          () => model.run({ x, n, flag: true }, { T: 4, B: 2 }),
          () => model.run({ x, n }),
          () => model.prepare({ T: 3 }),
          () => model.restore(before.slice(1)),
          () => model.prepare({ T: 2 ** 40, B: 2 ** 20 }),
          () => model.run({ y: x, n, flag: true }),
          () => model.run({ x, n, flag: true }, { t: 3 }),
          () => model.run({ x: null, n, flag: true }),
          () => model.run({ x: x.slice(1), n, flag: true }),
          () => model.run({ x, n, flag: true }, { T: -1 }),
          () => model.run({ x, n, flag: true }, { T: 1.5, B: 1 }),
          () => other.call(),
        ]) {
          try { call(); errors.push("none"); } catch (error) {
            errors.push(error instanceof Error ? error.message : "?");
          }
        }
        const views = model.prepare({ T: 300, B: 2 });
        views.inputs.x.set(x); views.inputs.n.set(n); views.inputs.flag[0] = 1;
        model.call();
        const again = views.outputs.h.every((value, i) => value === first.h[i]);
        const kept = model.prepare({ T: 300, B: 2 }) === views;
        const [h, shape, sum, end] = [[...first.h], first.h.shape, String(first.sum[0]), first.end[0]];
        tell({ h, shape, sum, end, counts, errors, again, kept });
        """,
        xs,
        ns,
    )
    wanted = f(xs, ns, True)
    assert found["shape"] == [300, 2, 8]
    np.testing.assert_allclose(np.reshape(found["h"], (300, 2, 8)), wanted["h"], rtol=1e-4, atol=1e-5)
    assert int(found["sum"]) == wanted["sum"]
    np.testing.assert_allclose(found["end"], wanted["end"], rtol=1e-5)
    assert found["counts"] == [7, 5, 6, 5] and found["again"] and found["kept"]
    parts = (
        *("elements, expected 24", "missing: flag", "size B", "a state of", ""),
        *("there is no input y, but x, n, flag", "there is no size t, but T, B", "missing: x"),
        *("x has 1799 elements, expected a multiple of 900", "size T must be an integer from 0 on, not -1"),
        *("size T must be an integer from 0 on, not 1.5", "call prepare(sizes) first"),
    )
    for text, part in zip(found["errors"], parts, strict=True):
        assert part in text and text != "none"


@linked
def test_a_step_keeps_its_state_in_the_module(tmp_path: Path) -> None:
    x, h = recurrence()
    step = sj.step_function(([x], h))
    sj.export_library(step, tmp_path, "rnn", kind="wasm", sizes={"B": 2})
    assert "sizes: []" in (tmp_path / "rnn.js").read_text()  # B is the same in all calls, for the input too
    xs = numbers(20, 2, 3)
    found = told(
        tmp_path,
        """
        import { load } from "./rnn.js";
        const model = await load();
        const rows = [];
        for (let t = 0; t < 20; t++) rows.push(...Object.values(model.run({ x: given[0].slice(6 * t, 6 * t + 6) }))[0]);
        tell(rows);
        """,
        xs,
    )
    np.testing.assert_allclose(np.reshape(found, (20, 2, 8)), sj.function([x], h)(xs), rtol=1e-4, atol=1e-5)
    (wasm,) = tmp_path.glob("*.wasm")
    assert wasm.stat().st_size < 60_000


@linked
def test_a_size_that_is_an_argument_and_one_of_a_matrix(tmp_path: Path) -> None:
    a, steps = sj.tensor(("n", "n"), "float32", "a"), sj.scalar("steps", "int64")
    f = sj.function([a, steps], sj.scan(lambda h: a @ h, outputs_info=sj.ones(a.shape[0], "float32"), n_steps=steps))
    sj.export_library(f, tmp_path, "model", kind="wasm")
    found = told(
        tmp_path,
        """
        import { load } from "./model.js";
        const model = await load();
        const a = given[0], errors = [];
        const [y] = Object.values(model.run({ a }, { steps: 3 }));
        for (const call of [() => model.run({ a, steps: 3 }), () => model.run({ a: a.slice(1) }, { steps: 3 })]) {
          try { call(); errors.push("none"); } catch (error) { errors.push(error.message); }
        }
        tell({ y: [...y], shape: y.shape, errors });
        """,
        numbers(3, 3),
    )
    assert found["shape"] == [3, 3]
    np.testing.assert_allclose(np.reshape(found["y"], (3, 3)), f(numbers(3, 3), 3), rtol=1e-5)
    assert "steps is a size" in found["errors"][0] and "run(inputs, { steps: 4 })" in found["errors"][0]
    assert found["errors"][1] == "a has 8 elements, which no size n gives"


def test_sizes_are_written_as_javascript_has_them() -> None:
    """Names decide about the order: "late" is made last."""
    x = sj.tensor(("late", "T"), name="x")
    face = interface("model", sj.function([x], x, mode="reference").graph, {})
    late, n = x.type.shape
    shape = sj.tensor((3,)).type.shape
    assert number(shape[0], face) == "3"
    pairs = [(n * 2 + 1, "2*s.T + 1"), (late * n - 4, "s.T*s.late - 4"), (n // 2, "Math.floor((s.T) / (2))")]
    pairs += [(late + n + late // 2 * n, "s.T + s.T*Math.floor((s.late) / (2)) + s.late")]
    for dim, text in pairs:
        assert number(dim, face) == text


def test_wrong_arguments(tmp_path: Path) -> None:
    x = sj.vector("x")
    f = sj.function([x], x, mode="reference")
    with pytest.raises(sj.ArgumentError, match="is always wasm32"):
        sj.export_library(f, tmp_path, kind="wasm", target="x86-64-v3")
    rows = sj.tensor(("T", "B"), name="rows")
    step = sj.step_function(([rows], sj.cumsum(rows, axis=0)), mode="reference")
    with pytest.raises(sj.ArgumentError, match="sizes that are not known"):
        sj.export_library(step, tmp_path, kind="object")


def checked(folder: Path, script: str) -> list[str]:
    """The lines of a script of TypeScript in which its compiler finds an error."""
    (folder / "script.ts").write_text(script)
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom"]
    done = subprocess.run(["tsc", *flags, "script.ts"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "error TS" in done.stdout, done.stdout + done.stderr
    assert all(line.startswith("script.ts(") for line in done.stdout.splitlines() if "error TS" in line), done.stdout
    lines = script.splitlines()
    return [lines[int(each) - 1].strip() for each in dict.fromkeys(re.findall(r"script\.ts\((\d+),", done.stdout))]


@pytest.mark.skipif(shutil.which("tsc") is None, reason="needs TypeScript's compiler, tsc")
def test_types_are_what_users_of_typescript_expect(tmp_path: Path) -> None:
    x, n, flag = sj.tensor(("T", 3), "float32", "x"), sj.tensor(("T",), "int64", "n"), sj.scalar("flag", "bool")
    count = sj.shared(np.int32(5), "count")
    outputs = {"mean": x.mean(axis=0), "total": sj.where(flag, n.sum(), 0)}
    f = sj.function([x, n, flag], outputs, updates={count: count + 1}, mode="reference")
    for file, text in texts(interface("model", f.graph, {})).items():
        (tmp_path / file).write_text(text)
    begin = """\
        import { load, Model, ModelError, type Outputs } from "./model.js";
        const model: Model = await load(new URL("https://example.org/model.wasm"));
        const [x, n] = [new Float32Array(6), new BigInt64Array(2)];
    """
    right = """\
        const { mean, total }: Outputs = model.run({ x, n, flag: true }, { T: 2 });
        const [first, shape, whole]: [number, number[], bigint] = [mean[0]!, mean.shape, total[0]!];
        model.run({ x: [1, 2, 3], n: [1n], flag: new Uint8Array(1) });
        const views = model.prepare({ T: 2 });
        views.inputs.x.set(x);
        views.inputs.n[0] = 3n;
        model.call();
        const kept: Uint8Array = model.save();
        model.restore(kept);
        model.reset();
        const counted: number = model.state.count[0]!;
        try { model.call(); } catch (error) { if (error instanceof ModelError) console.log(error.status + 1); }
        console.log(first, shape, whole, counted, views.outputs.mean.shape);
    """
    assert checked(tmp_path, begin + right) == []
    wrong = [
        "model.run({ x, n });",
        "model.run({ x, y: x, n, flag: true });",
        "model.run({ x: 'text', n, flag: true });",
        "model.run({ x, n: [1, 2], flag: true });",
        "model.run({ x, n, flag: true }, { B: 2 });",
        "model.run({ x, n, flag: true }).sum;",
        "const text: string = model.run({ x, n, flag: true }).mean[0]!;",
        "model.prepare({ T: 2 }).inputs.z;",
        "model.prepare({ T: 2 }).inputs.x[0] = 1n;",
        "model.state.count = new Int32Array(1);",
        "model.state.other;",
        "model.restore([1, 2]);",
        "load(x, 3);",
    ]
    assert checked(tmp_path, begin + "\n".join(wrong)) == wrong


@linked
def test_mathematics_needs_no_other_library(tmp_path: Path) -> None:
    """Also that of numbers so large that the code has a branch for them."""
    functions, x = ("sin", "cos", "tan", "fmod", "erfc", "gammaln"), sj.tensor(("T",), name="x")
    made = {name: sj.fmod(x, 0.7) if name == "fmod" else getattr(sj, name)(x) for name in functions}
    f = sj.function([x], made)
    sj.export_library(f, tmp_path, "model", kind="wasm")
    assert "`memset`: none." in (tmp_path / "README.md").read_text()
    xs = np.array([0.3, 2.5, 1e9, 1e17, 3e200])
    script = """
        import { load } from "./model.js";
        const found = (await load()).run({ x: given[0] });
        tell(Object.fromEntries(Object.entries(found).map(([name, array]) => [name, Array.from(array)])));
    """
    found, wanted = told(tmp_path, script, xs), f(xs)
    for name in functions:
        np.testing.assert_allclose(np.array(found[name], float), wanted[name], rtol=1e-15, atol=0, err_msg=name)


@linked
@pytest.mark.slow
def test_the_example_page_in_a_browser(tmp_path: Path) -> None:
    x, h = recurrence()
    sj.export_library(sj.function([x], {"h": h, "n": x.sum()}), tmp_path, "model", kind="wasm")
    shown = seen(
        tmp_path, 'const shown = () => document.getElementById("result").textContent;', 'shown() !== "..."', "shown()"
    )
    assert shown == f"h [4,4,8]: {','.join(['0'] * 128)}\nn []: 0"
