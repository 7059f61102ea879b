"""Libraries for the web: WebAssembly modules, called from Node by the JavaScript beside them."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.library.web import expression
from tests.library.support import interface

linked = pytest.mark.skipif(
    find_spec("ziglang") is None or shutil.which("node") is None, reason="needs the package ziglang, and Node"
)


def told(folder: Path, script: str, *arrays: np.ndarray) -> Any:
    """What a script in a folder tells, as JSON. It finds the arrays in `given`, as lists."""
    given = json.dumps([array.ravel().tolist() for array in arrays])
    (folder / "script.mjs").write_text(
        f"const given = {given};\nconst tell = (x) => console.log(JSON.stringify(x));\n{script}"
    )
    done = subprocess.run(["node", "script.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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
    for text, part in zip(
        found["errors"], ("elements, expected 24", "missing: flag", "size B", "a state of", ""), strict=True
    ):
        assert part in text and text != "none"


@linked
def test_a_step_keeps_its_state_in_the_module(tmp_path: Path) -> None:
    x, h = recurrence()
    step = sj.step_function(([x], h))
    sj.export_library(step, tmp_path, "rnn", kind="wasm", sizes={"B": 2})
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


def test_sizes_are_written_as_javascript_has_them() -> None:
    x = sj.tensor(("T", "B"), name="x")
    face = interface("model", sj.function([x], x, mode="reference").graph, {})
    n, b = x.type.shape
    shape = sj.tensor((3,)).type.shape
    assert expression(shape[0], face) == "3"
    pairs = [(n * 2 + 1, "1 + 2 * s.T"), (n * b - 4, "-4 + s.T * s.B"), (n // 2, "Math.floor((s.T) / (2))")]
    for dim, text in pairs:
        assert expression(dim, face) == text


def test_wrong_arguments(tmp_path: Path) -> None:
    x = sj.vector("x")
    f = sj.function([x], x, mode="reference")
    with pytest.raises(sj.ArgumentError, match="one target"):
        sj.export_library(f, tmp_path, kind="wasm", target="x86-64-v3")
    rows = sj.tensor(("T", "B"), name="rows")
    step = sj.step_function(([rows], sj.cumsum(rows, axis=0)), mode="reference")
    with pytest.raises(sj.ArgumentError, match="sizes that are not known"):
        sj.export_library(step, tmp_path, kind="object")


@linked
@pytest.mark.slow
def test_the_example_page_in_a_browser(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium")
    x, h = recurrence()
    sj.export_library(sj.function([x], {"h": h, "n": x.sum()}), tmp_path, "model", kind="wasm")
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{server.server_port}/index.html"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
        done = subprocess.run([browser, *flags, page], capture_output=True, text=True, check=False, timeout=120)
        server.shutdown()
    assert f"h [4,4,8]: {','.join(['0'] * 128)}" in done.stdout and "n []: 0" in done.stdout, done.stdout + done.stderr


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that tells nothing of each request."""

    def log_message(self, *told: object) -> None:
        pass
