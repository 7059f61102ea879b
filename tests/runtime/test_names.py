"""Any text is a name: of functions, symbols, sizes, shared variables and loops, wherever names end up."""

import importlib.util
import io
import pickle
import xml.dom.minidom

import numpy as np
import pytest

import scanjit as sj
from scanjit.show.identifiers import identifier, writable

TEXTS = [
    "x²", "³x_", "٣", "1x", "α", "é", "e\u0301", "ﬁ", "𝔵", "名前", "İ", "K", "a b", "a.b/c:0", "", " ", "_", "__", "-",
    "{x}", "{left}", "{left.__class__}", "{", "%s", "a'b", 'a"b', '"""', "\\", "\\N", "a\nimport os", "a\r", "#", "\0",
    "\x1b[0m", "\ud800", "x" * 300, "def", "None", "True", "__import__", "np", "table", "thread", "self", "inf", "nan",
    "main", "x); raise SystemExit(", "</text><script>", "../../up", "con", "\u202e",
]  # fmt: skip


def program(text):
    """A function whose parts all have one name, and its arguments."""
    n = (text, 3)
    x, w = sj.tensor(n, "float64", text), sj.shared(np.eye(3) * 0.5, text)
    h = sj.scan(lambda row, h: np.tanh(row + h @ w), sequences=x, outputs_info=sj.zeros(3), name=text)
    return sj.function([x], {text: h * 2, "last": x[4]}, updates={w: w * 0.5}, name=text, mode="emulate")


GIVEN = np.linspace(-1, 1, 15).reshape(5, 3)


def expected():
    h, rows = np.zeros(3), []
    for row in GIVEN:
        h = np.tanh(row + h @ (np.eye(3) * 0.5))
        rows.append(h * 2)
    return np.array(rows)


def values(found, text):
    np.testing.assert_allclose(found[text], expected(), rtol=1e-14)
    np.testing.assert_array_equal(found["last"], GIVEN[4])


@pytest.fixture(params=TEXTS, ids=lambda text: writable(text[:9]).encode("unicode_escape").decode())
def text(request):
    return request.param


@pytest.mark.quick(18)
def test_in_generated_code_pictures_files_and_packages(text, tmp_path):
    f = program(text)
    values(f(GIVEN), text)
    assert f.source.isascii() and f.explain() and repr(f)
    out = io.StringIO()
    sj.dprint(f, file=out)
    assert out.getvalue() and sj.pprint(f.graph.outputs[0])
    xml.dom.minidom.parseString(f.graph.outputs[0]._repr_svg_().encode())
    f.save(tmp_path / "f.sj")
    again = sj.load(tmp_path / "f.sj")
    assert (again.name, again.shared[0].name) == (text or "function", text)
    again.shared[0].set_value(np.eye(3) * 0.5)
    values(again(GIVEN), text)
    with pytest.raises(sj.OutOfBoundsError, match="5 entries are needed, there are 2"):
        again(GIVEN[:2])
    values(pickle.loads(pickle.dumps(program(text)))(GIVEN), text)
    sj.export_numpy(program(text), tmp_path, "package")
    spec = importlib.util.spec_from_file_location("package", tmp_path / "package" / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values(module.package(GIVEN), text)


@pytest.mark.quick(18)
def test_in_onnx_files(text):
    onnx = pytest.importorskip("onnx")
    x, w = sj.tensor((text, 3), "float32", text), sj.shared(np.eye(3, dtype="float32"), text)
    h = sj.scan(lambda row, h: h + row @ w, sequences=x, outputs_info=sj.zeros(3, "float32"), name=text)
    model = sj.onnx.export(([x], {text: h}), name=text)
    onnx.checker.check_model(model)
    f = sj.onnx.load(model.SerializeToString()).function(mode="emulate")
    np.testing.assert_allclose(f(np.ones((4, 3), "float32")), np.cumsum(np.ones((4, 3)), 0))


def test_compiled():
    """Kernels whose names differ in nothing that a symbol of object code can hold."""
    x = sj.vector("x")
    for k, text in enumerate(("α", "ﬁ", "x²", "\ud800")):
        h = sj.scan(lambda row, h, k=k: h * 0.5 + row + k, sequences=x, outputs_info=0.0, name=text)
        f = sj.function([x], h, name=text)
        np.testing.assert_allclose(f(np.zeros(3)), [k, k * 1.5, k * 1.75])


def test_in_an_exported_package_no_step_has_the_name_of_an_argument(tmp_path):
    x = sj.tensor(("T", 3), name="rnn_step")
    h = sj.scan(lambda row, h: h + row, sequences=x, outputs_info=sj.zeros(3), name="rnn")
    path = sj.export_numpy(sj.function([x], h, mode="reference"), tmp_path, "summed")
    found = {"__file__": str(path)}
    exec((path / "summed" / "__init__.py").read_text(), found)
    np.testing.assert_allclose(found["summed"](rnn_step=GIVEN), np.cumsum(GIVEN, 0))


@pytest.mark.parametrize("text, name", [("ﬁlter²", "_lter_"), ("α", "function"), ("for", "for_"), ("../x", "___x")])
def test_a_package_is_called_by_what_can_stand_in_a_name(tmp_path, text, name):
    x = sj.vector("x")
    sj.export_numpy(sj.function([x], 2 * x, name=text, mode="reference"), tmp_path)
    found = {"__file__": ""}
    exec((tmp_path / name / "__init__.py").read_text(), found)
    assert found[name]([1.0]).tolist() == [2.0] and found["__all__"] == [name]


def test_texts_of_bounds_take_names_as_they_are():
    x = sj.tensor(("{T}", 3), name="{x}")
    f = sj.function([x], [x[6], x[1:].reshape((-1,))], mode="reference")
    with pytest.raises(sj.OutOfBoundsError, match=r"axis 0 with size \{T\}: 7 entries are needed, there are 2"):
        f(np.zeros((2, 3)))


def test_identifiers_are_ascii_and_short():
    found = [identifier(text, "other") for text in TEXTS]
    assert all(name.isidentifier() and name.isascii() and len(name) <= 70 for name in found)
    assert [identifier(text, "o") for text in ("a", "_a", "class", "1", "²")] == ["a", "_a", "class_", "o_1", "o"]
