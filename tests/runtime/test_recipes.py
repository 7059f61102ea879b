"""Recipes in the cache: a process that builds a function again does not rewrite or schedule it, and computes the same
bits; whatever does not fit leads to the front end."""

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.runtime import cache, host, kernels, recipes
from scanjit.runtime.cache import CacheEntry
from scanjit.runtime.function import CompiledFunction
from scanjit.schedule.nests import verify as verifier
from tests.scripts import python

PROGRAMS = """if True:
    import hashlib, json, sys
    import numpy as np
    import scanjit as sj
    from scanjit.ir import walk_inside
    from scanjit.ops.guest import GUEST
    from scanjit.runtime import front, kernels
    from tests.fuzz.check import outcome_of
    from tests.fuzz.programs import program as random_program

    fronts, make = [], front.front
    front.front = lambda *arguments: fronts.append(1) or make(*arguments)
    found = {}
    for seed in json.loads(sys.argv[1]):
        fronts.clear()
        p = random_program(seed, most=12)
        if any(node.op is GUEST for node in walk_inside(p.outputs)):
            continue  # functions of a user are not in the cache
        f = sj.function(p.inputs, p.outputs, name=f"seed {seed}")
        began, rng, digest = len(fronts), np.random.default_rng(seed), hashlib.sha256()
        for sizes in p.bindings(rng, 2 if p.sizes else 1):
            got = outcome_of(f, p.draw(rng, sizes))
            for array in [] if isinstance(got, Exception) else got:
                digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
            if isinstance(got, Exception):
                digest.update(str(got).encode())
        found[seed] = [began, digest.hexdigest(), hashlib.sha256(f.source.encode()).hexdigest()]
    print(json.dumps([found, kernels.compile_count()]))
"""


def run(folder: Path, seeds: list[int], **environment: str) -> tuple[dict[str, list[Any]], int]:
    """What these programs compute in a process of their own; and how many kernels it compiled."""
    settings = {"SCANJIT_CACHE_DIR": str(folder), "SCANJIT_VERIFY": "0"} | environment
    found, count = json.loads(python(PROGRAMS, json.dumps(seeds), **settings).splitlines()[-1])
    return found, count


@pytest.mark.slow
def test_random_programs_in_two_processes(tmp_path: Path) -> None:
    seeds = list(range(40, 55))
    before, compiled = run(tmp_path, seeds)
    assert compiled and all(fronts == 1 for fronts, _, _ in before.values())
    after, compiled = run(tmp_path, seeds)
    assert compiled == 0 and all(fronts == 0 for fronts, _, _ in after.values())
    assert [rest for _, *rest in after.values()] == [rest for _, *rest in before.values()]


@pytest.mark.slow
def test_vectors_of_another_width_are_another_program(tmp_path: Path) -> None:
    run(tmp_path, [3], SCANJIT_VECTOR_BYTES="8")
    other, _ = run(tmp_path, [3], SCANJIT_VECTOR_BYTES="16")
    assert other["3"][0] == 1


# ---- in this process -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, from which recipes are read (while the verifier is on, none is)."""
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(verifier, "VERIFY", False)
    monkeypatch.setattr(kernels, "_kernels", {})  # those that other tests made are not written again
    monkeypatch.setattr(kernels, "_engine", functools.cache(kernels._engine.__wrapped__))
    return tmp_path


def network(length: str = "T", name: str = "net", last: bool = False) -> CompiledFunction:
    x, w = sj.tensor((length, "B", 4), name="x"), sj.tensor((4, 4), name="w")
    bias = sj.constant(np.linspace(0, 1, 4))
    h = sj.scan(lambda row, s: sj.tanh(row + s @ w + bias), x, sj.zeros((x.shape[1], 4)))
    return sj.function([x, w], h[-1] if last else [h, sj.grad((h**2).sum(), w)], name=name)


def fronts(f: CompiledFunction) -> int:
    """Whether the front end made a function, rather than the cache."""
    return int("front" in vars(f.executable))


def recipe_in(folder: Path) -> Path:
    (found,) = folder.glob("*.recipe")
    return found


ARGUMENTS = (np.linspace(-1, 1, 3 * 2 * 4).reshape(3, 2, 4), np.eye(4) / 3)


def test_what_a_process_built_before_is_no_part_of_the_key() -> None:
    """Error messages name sizes that are values, by a number that counts all nodes."""

    def stem() -> str:
        x, n = sj.vector(), sj.scalar(dtype="int64")
        y = sj.scan(lambda h: h * 2, outputs_info={"initial": x, "taps": [-(n % 5) - 1]}, n_steps=4)
        key = recipes.key_of([x, n], [y], "f")
        assert key is not None
        return key.stem

    assert stem() == stem()


def test_the_same_graph_is_found(folder: Path) -> None:
    """Also if another line builds it."""
    first = network()
    second = network()
    assert (fronts(first), fronts(second)) == (1, 0)
    np.testing.assert_equal(first(*ARGUMENTS), second(*ARGUMENTS))
    assert second.source == first.source and not fronts(second)
    assert second.explain() == first.explain() and fronts(second)  # who asks makes it again
    assert sj.dprint(second, stage="blocks", file=None) == sj.dprint(first, stage="blocks", file=None)


def test_another_name_graph_or_size_is_not_found(folder: Path) -> None:
    network()
    assert fronts(network(name="other")) and fronts(network(last=True)) and fronts(network(length="U"))
    x = sj.vector("x")
    for value in (1.0, 2.0):
        assert fronts(sj.function([x], x * sj.constant(np.full(3, value))))
    a, b = sj.shared(np.zeros(3)), sj.shared(np.zeros((), "float32"))
    assert fronts(sj.function([x], x + a)) and fronts(sj.function([x], x + b))
    a.set_value(np.ones(3))
    c = sj.shared(np.full(3, 5.0))
    f = sj.function([x], x + c)
    assert not fronts(f) and f(np.zeros(3)).tolist() == [5.0] * 3  # values of shared variables are no part of it


def test_every_fact_of_the_key_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = sj.vector("x")
    make = lambda: sj.function([x], x * 3)
    assert (fronts(make()), fronts(make())) == (1, 0)
    facts = [
        (cache, "version", lambda target: "another"),
        (cache, "source_digest", lambda: "another"),
        (np, "__version__", "0.0"),
        (recipes.platform, "python_version", lambda: "0.0"),
    ]
    for place, name, other in facts:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, other)
            assert fronts(make()), name
    with host.using(host.target()):
        assert not fronts(make())


def test_ops_of_the_users_own_have_no_key(folder: Path) -> None:
    x = sj.vector("x")
    name = "doubled_by_a_test"
    op = ir.Op(name, infer=lambda t: t, reference=lambda a: 2 * a)
    try:
        assert recipes.key_of([x], [op(x)], "f") is None
        assert recipes.key_of([x], [2 * x], "f") is not None
    finally:
        del ir.OPS[name]


def test_every_op_of_our_own_has_a_key() -> None:
    """The table of ops in a process that has imported all of scanjit."""
    text = "import scanjit, lasagne_like; from scanjit.ops import BUILT_IN, OPS; print(sorted({*OPS} - BUILT_IN))"
    assert python(text).strip() == "[]"


def test_every_damage_leads_to_the_front_end(folder: Path) -> None:
    expected = network()(*ARGUMENTS)
    path = recipe_in(folder)
    good = path.read_bytes()
    damages = [good[:length] for length in (0, 8, 40, 60, len(good) - 1)]
    damages += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(0, len(good), len(good) // 20)]
    for damage in damages:
        path.write_bytes(damage)
        f = network()
        assert fronts(f) and path.read_bytes() == good
    np.testing.assert_equal(f(*ARGUMENTS), expected)


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
def test_files_that_others_could_have_written_do_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network()
    recipe_in(folder).chmod(0o622)
    assert fronts(network()) and not fronts(network())
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert fronts(network())


def test_content_that_does_not_fit_counts_as_not_there(folder: Path) -> None:
    """Whole files that hold another recipe than this graph's: nobody writes such, and none is believed."""
    network()
    path = recipe_in(folder)
    store = cache.default()
    entry = store.load(path.stem, "recipe")
    assert entry is not None

    def changes(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
        """Every place in a JSON value, with something else for it."""
        if isinstance(value, list):
            inside = [found for i, item in enumerate(value) for found in changes(item, (*at, i))]
            return [(at, value[:-1]), *inside] if value else [(at, [0])]
        others = {bool: "x", int: 10**6, str: "nothing", type(None): [1]}
        return [(at, others[type(value)])]

    content = entry.metadata["content"]
    found = [(("recipe", *at), new) for at, new in changes(content["recipe"])][::7]
    found += [(("sizes", *at), new) for at, new in changes(content["sizes"])][::3]
    key = recipes.key_of(*_asked(), "net")
    assert key is not None and recipes.found(key) is not None
    believed = 0
    for at, new in found:
        other = json.loads(json.dumps(content))
        inner = other
        for step in at[:-1]:
            inner = inner[step]
        inner[at[-1]] = new
        store.store(path.stem, CacheEntry({**entry.metadata, "content": other}, entry.payload), "recipe")
        recipe = recipes.found(key)
        if recipe is not None:
            recipe.check(key.arguments)  # what is believed is at least whole
            believed += 1
    assert believed < len(found) // 2


def _asked() -> tuple[list[Any], list[Any]]:
    f = network()
    return [*f.graph.inputs], [*f.graph.roots]


def test_without_a_kernel_or_its_source(folder: Path) -> None:
    expected = network()(*ARGUMENTS)
    for path in sorted(folder.glob("*.py"))[:3]:
        text = path.read_text(encoding="utf-8")
        for damaged in ("", text + "# changed\n"):
            path.write_text(damaged, encoding="utf-8")
            f = network()
            assert fronts(f) and path.read_text(encoding="utf-8") in (text, damaged)
            np.testing.assert_equal(f(*ARGUMENTS), expected)
        path.write_text(text, encoding="utf-8")
    assert not fronts(network())


def test_computed_sizes_take_several_stages(folder: Path) -> None:
    def make() -> CompiledFunction:
        x, n = sj.vector("x"), sj.tensor((), "int64", name="n")
        count = (x > 0).sum() + n
        y = sj.scan(lambda h: h * 2 + 1, outputs_info=sj.constant(0.0), n_steps=count)
        return sj.function([x, n], [y, count, x], name="staged")

    first, second = make(), make()
    assert len(second.executable.stages) > 1 and (fronts(first), fronts(second)) == (1, 0)  # type: ignore[attr-defined]
    for values, more in (([1.0, -1.0, 2.0], 3), ([-1.0], 1)):
        np.testing.assert_equal(first(np.array(values), more), second(np.array(values), more))


def test_a_computed_size_that_counts_from_the_end(folder: Path) -> None:
    def made() -> CompiledFunction:
        x = sj.tensor(("T", 2), name="x")
        return sj.function([x], x[: sj.cast(x[:, 0].sum(), "int64")])

    rows = np.ones((7, 2))
    for _ in range(2):  # the second one reads what the first one left
        assert made()(rows).shape == (7, 2) and made()(-rows / 2).shape == (4, 2)


@pytest.mark.parametrize("rows", [12, None])
def test_loops_without_a_bound_in_other_loops(folder: Path, rows: int | None) -> None:
    """How often they run at most is no number of 64 bits."""

    def root(x: sj.Node, h: sj.Node) -> sj.Node:
        return sj.while_loop(lambda h: sj.abs(h * h - x) > 1e-6, lambda h: (h + x / h) / 2, h)

    def made() -> CompiledFunction:
        x = sj.vector("x") if rows is None else sj.tensor((rows,), name="x")
        inner = lambda h: sj.scan(root, x, h)[-1]
        return sj.function([x], sj.scan(inner, outputs_info=1.0, n_steps=5))

    first, second = made(), made()
    assert (fronts(first), fronts(second)) == (1, 0)
    for f in (first, second):
        np.testing.assert_allclose(f(np.linspace(1, 2, 12)), np.sqrt(2) * np.ones(5), rtol=1e-6)


def test_an_index_out_of_bounds_is_explained(folder: Path) -> None:
    x, i = sj.vector("x"), sj.tensor((None,), "int64", name="i")
    messages = []
    for _ in range(2):
        f = sj.function([x, i], x[i], name="take")
        assert fronts(f) == (not messages)
        with pytest.raises(sj.errors.OutOfBoundsError) as error:
            f(np.zeros(3), np.array([1, 7]))
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_what_is_profiled_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network()
    f = network()
    monkeypatch.setattr(sj.config, "profile", True)
    f(*ARGUMENTS)
    assert not fronts(f) and f.profile().calls == 1


def test_a_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCANJIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(verifier, "VERIFY", False)
    with pytest.warns(RuntimeWarning, match="memory only"):
        assert fronts(network(name="unwritten"))
    assert fronts(network(name="unwritten"))


def test_the_verifier_reads_back_what_would_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """So every test that compiles tries it."""
    read: list[Any] = []
    monkeypatch.setattr(recipes, "again", lambda key, recipe: read.append(recipe) or recipe)
    f = network(name="read_back")
    assert read and fronts(f)
