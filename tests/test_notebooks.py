"""What notebooks show: text and HTML of functions, what they say of themselves, layers and histories."""

from __future__ import annotations

import copy
import html
import math
import pickle
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.training import Checkpoint, History
from scanjit.show import Document, Table

ROOT = Path(__file__).parent.parent
EVIL = "<script>alert('&')</script>"


def compiled() -> sj.CompiledFunction:
    x, w = sj.tensor(("T", 3), name=EVIL), sj.shared(np.ones((3, 3)), f"w{EVIL}")
    h = sj.scan(lambda row, h: sj.tanh(row + h @ w), x, np.zeros(3), name=EVIL)
    return sj.function([x], h.sum(axis=1), updates={w: w * 1.0}, name=f"f{EVIL}")


def network() -> lasagne.layers.Layer:
    left = lasagne.layers.InputLayer((None, 3), name=EVIL)
    right = lasagne.layers.DenseLayer(left, 3, name="right")
    return lasagne.layers.DenseLayer(lasagne.layers.ConcatLayer([left, right]), 2, name=f"out{EVIL}")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """One object of each kind that notebooks show."""
    f, jitted, history = compiled(), sj.jit(lambda x: x * 2, mode="reference"), History()
    sj.config.profile = True
    f(np.ones((5, 3)))
    sj.config.profile = False
    jitted(np.ones(3))
    history.add(**{EVIL: 0.5, "tested": 1.0})
    things = {"function": f, "explain": f.explain(), "profile": f.profile(), "memory": f.memory(T=300)}
    things |= {"jit": jitted, "layer": network(), "summary": lasagne.layers.summary(network()), "history": history}
    return things


KINDS = ("function", "explain", "profile", "memory", "jit", "layer", "summary", "history")


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_html_of_everything(shown: dict[str, Any], kind: str) -> None:
    forms = shown[kind]._repr_mimebundle_()
    assert list(forms) == ["text/plain", "text/html"] and forms["text/plain"]
    page = forms["text/html"]
    root = ElementTree.fromstring(page)  # it is well formed, and so every element that begins ends too
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= set("details summary code div pre table tr th td svg g rect text line".split())
    assert root.tag == "details" and root[0].tag == "summary"
    assert "<script" not in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    styles = " ".join(element.get("style") or "" for element in root.iter())
    assert "background:" not in styles.replace("background:none", "") and "#" not in styles, "the page has its colours"
    words = {word for text in root.itertext() for word in text.split()}
    assert {word.rstrip(":") for word in forms["text/plain"].split()} <= {word.rstrip(":") for word in words}
    assert shown[kind]._repr_mimebundle_(include={"text/html"}) == {"text/html": page}
    assert shown[kind]._repr_mimebundle_(exclude=["text/html"]) == {"text/plain": forms["text/plain"]}


def page_of(thing: Any) -> str:
    return html.unescape(thing._repr_mimebundle_()["text/html"])


def test_functions(shown: dict[str, Any]) -> None:
    f = shown["function"]
    assert f._repr_mimebundle_()["text/plain"].splitlines()[0] == repr(f) + ":"
    assert f"w{EVIL}" in page_of(f) and "<td" in page_of(f) and ">72<" in page_of(f), "the bytes of w"
    assert "<details><summary><code>graph</code></summary>" in page_of(f) and "<svg" in page_of(f)
    assert repr(shown["jit"]) in page_of(shown["jit"]) and "<svg" in page_of(shown["jit"])
    plain = sj.function([], sj.zeros(2), name="plain", mode="reference")
    assert plain._repr_mimebundle_()["text/plain"] == repr(plain), "the drawing has no text"
    assert "not_called" not in page_of(sj.jit(lambda: 1)) and "<details" not in page_of(sj.jit(lambda: 1))


def test_explain_is_a_text_that_folds(shown: dict[str, Any]) -> None:
    explained = shown["explain"]
    assert isinstance(explained, str) and repr(explained) == str(explained)
    assert explained.startswith(f"f{EVIL}:\n") and "\n  program:\n" in explained and "\n    memory: " in explained
    assert page_of(explained).count("<details") == 1 + explained.count("\n  program:") + explained.count("\n  graph:")
    reference = sj.function([], sj.zeros(2), mode="reference").explain()
    assert reference._repr_mimebundle_()["text/html"].startswith("<div>")


def test_profiles_and_memory(shown: dict[str, Any]) -> None:
    profile, memory = shown["profile"], shown["memory"]
    assert all(line.label in str(profile) and line.label in page_of(profile) for line in profile.lines)
    assert page_of(profile).count("<tr>") == len(profile.lines) + 2
    assert memory.results == 300 * 8 + 72 and f"{memory.peak:,}" in page_of(memory)
    assert max(t.offset + t.nbytes for t in memory.temporaries) <= memory.workspace
    used = [t for t in memory.temporaries if t.nbytes]
    for a in used:  # what is needed at one time lies in different places
        for b in used:
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert a is b or apart or a.last < b.first or b.last < a.first


def test_stages_have_memory_one_after_the_other() -> None:
    """Where a size is computed, what comes after it is a program of its own, with a workspace of its own."""
    x, w = sj.tensor(("N", 4), name="x"), sj.tensor((4, 4), name="w")
    count = (sj.tanh(x @ w) > 0).sum()
    h = sj.scan(lambda h: sj.tanh(h @ w), outputs_info=sj.zeros(4), n_steps=count)
    f = sj.function([x, w], sj.grad(h.sum(), w), mode="emulate")
    stages = f.executable.stages  # type: ignore[attr-defined]
    assert len(stages) > 1 and f.explain().count("\n  program:") == len(stages)
    memory = f.memory(**{atom.name: 7 for stage in stages for atom in stage.table.atoms})
    places = [len(stage.table.lives) for stage in stages]
    assert len(memory.temporaries) == sum(places) and min(places[:2]) > 0
    before, after = memory.temporaries[: places[0]], memory.temporaries[places[0] :]
    assert max(t.last for t in before) < min(t.first for t in after)
    assert max(t.offset + t.nbytes for t in before) <= min(t.offset for t in after)


def test_layers_and_networks() -> None:
    last = network()
    text = last._repr_mimebundle_()["text/plain"]
    assert text.splitlines()[0] == repr(last) + ":"
    summary = lasagne.layers.summary(last)
    assert summary.startswith("4 layers, 26 parameters:") and str(summary).splitlines()[2:4] == [
        line[2:] for line in text.splitlines()[3:5]
    ]
    merged = next(line for line in summary.splitlines() if "ConcatLayer" in line)
    assert merged.split() == ["3", "<ConcatLayer>", "1,", "2", "(None,", "6)", "0"]
    assert "right.W" in summary and "regularizable, trainable" in summary
    shared = lasagne.layers.DenseLayer(last.input_layer, 2, W=last.W, b=None)
    assert lasagne.layers.summary([last, shared]).startswith("5 layers, 26 parameters:")
    assert lasagne.layers.summary(lasagne.layers.InputLayer((2,))).startswith("1 layer, 0 parameters:")
    incomplete = lasagne.layers.Layer.__new__(lasagne.layers.Layer)
    assert incomplete._repr_mimebundle_()["text/plain"] == "<Layer>"
    with pytest.raises(TypeError, match="expected a layer"):
        lasagne.layers.summary("a")


def test_histories(tmp_path: Path) -> None:
    history = History()
    assert repr(history) == "history of 0 epochs" and not history and history.epochs == 0
    for epoch in range(1000):
        history.add(training=np.float32(1 / (epoch + 1)), **({"tested": 0.5} if epoch % 5 == 4 else {}))
    assert list(history) == ["training", "tested"] and history.epochs == 1000 == len(history["tested"])
    assert sum(map(math.isnan, history["tested"])) == 800 and type(history["training"][0]) is float
    assert len(repr(history).splitlines()) < 30 and repr(history).splitlines()[-1].split() == ["1000", "0.001", "0.5"]
    checkpoint = Checkpoint(tmp_path / "run.npz", sj.shared(1.0, "w"))
    checkpoint.save(history=history)
    again = History(checkpoint.load()["history"])
    np.testing.assert_array_equal(again["tested"], history["tested"])
    assert pickle.loads(pickle.dumps(again))["training"] == history["training"]
    with pytest.raises(ValueError, match=r"one length; got \{'a': 2, 'b': 1\}"):
        History({"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError):
        history.add(training="a lot")
    assert history.epochs == 1000 == len(history["tested"]), "what could not be added changed nothing"


def test_documents() -> None:
    inner = Document("inner", "a\nb", folded=True)
    document = Document("outer\nhead", Table(("number", "word"), [("1", "one"), ("", ""), ("-22.5", "two\0")]), inner)
    assert document.splitlines() == [
        "outer head:",
        "  number  word",
        "       1  one",
        "",
        "   -22.5  two\\x00",
        "  inner:",
        "    a",
        "    b",
    ]
    for same in (copy.deepcopy(document), pickle.loads(pickle.dumps(document))):
        assert same == document and same.html() == document.html() and same.parts[1].folded
    assert Document("empty", Table(("a", "b"), [])).splitlines() == ["empty:", "  a  b"]
    assert "text-align:right" in document.html() and "text-align:left" in document.html()
    ElementTree.fromstring(document.html())


NOTEBOOK = """
import numpy as np, scanjit as sj, lasagne_like as lasagne
sj.config.progress = False
from lasagne_like.training import History
x = sj.tensor(("T",), name="x<b>")
f = sj.function([x], sj.exp(x).sum(), name="f<b>")
f
---
f.explain()
---
sj.config.profile = True
f(np.zeros(3)); f.profile()
---
f.memory(T=3)
---
lasagne.layers.DenseLayer((None, 3), 2, name="<b>")
---
History({"<b>": [1.0, 0.5]})
"""


def test_in_jupyter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook is run by a kernel, as Jupyter and VS Code do. Both show the HTML of outputs."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [nbformat.v4.new_code_cell(cell) for cell in NOTEBOOK.strip().split("\n---\n")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=300).execute()
    nbformat.validate(notebook)
    for cell in cells:
        (output,) = cell.outputs
        assert {"text/plain", "text/html"} <= set(output["data"]), cell.source
        assert "&lt;b&gt;" in output["data"]["text/html"] and "<b>" not in output["data"]["text/html"]
        assert "<b>" in output["data"]["text/plain"]


@pytest.mark.parametrize("kind", KINDS)
def test_in_marimo(shown: dict[str, Any], kind: str) -> None:
    formatting = pytest.importorskip("marimo._output.formatting")
    formatted = formatting.try_format(shown[kind])
    assert formatted.exception is None and formatted.mimetype == "application/vnd.marimo+mimebundle"
    assert formatted.data["text/html"] == shown[kind]._repr_mimebundle_()["text/html"]
