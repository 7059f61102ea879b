"""An exception that a signal handler raises is passed on as itself, whatever was going on."""

import functools
import io
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.importers import as_array
from lasagne_like.importers.files import read_npz
from scanjit.ir import OPS
from scanjit.onnx.importing.graph import Reader
from scanjit.onnx.importing.model import Model
from scanjit.runtime import container, processors
from scanjit.runtime.cache import Cache, CacheEntry
from scanjit.runtime.caches import cache_sizes


class Alarm(ValueError, OSError):
    """An error that files raise, too, as `TimeoutError` is."""


def raising(number, frame):
    raise Alarm("time is up")


class Caller:
    def __call__(self, number, frame):
        raising(number, frame)

    def method(self, number, frame):
        raising(number, frame)


HANDLERS = {
    "function": raising,
    "object": Caller(),
    "method": Caller().method,
    "partial": functools.partial(lambda text, number, frame: raising(number, frame), "text"),
}


@pytest.fixture(params=HANDLERS)
def interrupted(request):
    """A function that is interrupted whenever it is called."""
    before = signal.signal(signal.SIGTERM, HANDLERS[request.param])
    yield lambda *args, **options: signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


class Interrupted:
    """An array that is interrupted when it is asked for its values."""

    def __array__(self, *args, **options):
        signal.raise_signal(signal.SIGTERM)
        return np.ones(3)


def test_while_a_saved_function_is_read(interrupted, monkeypatch, tmp_path):
    x = sj.vector("x")
    sj.function([x], 2 * x, mode="reference").save(tmp_path / "f")
    monkeypatch.setattr(container, "read", interrupted)
    with pytest.raises(Alarm):
        sj.load(tmp_path / "f")


@pytest.mark.parametrize("step", ["open", "utime", "listdir", "replace", "unlink"])
def test_while_the_cache_is_used(interrupted, monkeypatch, tmp_path, step):
    """A cache that cannot be read or written is no error; a handler's exception is."""
    cache = Cache(tmp_path)
    cache.store("a_" + "0" * 20, CacheEntry({}, b"code"))
    monkeypatch.setattr(os if step != "unlink" else Path, step, interrupted)
    with pytest.raises(Alarm):
        if step in ("open", "utime"):
            cache.load("a_" + "0" * 20)
        elif step == "replace":
            cache.store("b_" + "0" * 20, CacheEntry({}, b"code"))
        else:
            cache.clear()


def test_while_the_machine_is_asked_what_it_is(interrupted, monkeypatch, tmp_path):
    (tmp_path / "sys/devices/system/cpu/cpu0/cache/index0").mkdir(parents=True)
    monkeypatch.setattr(Path, "read_text", interrupted)
    for ask in (cache_sizes, processors.quota):
        with pytest.raises(Alarm):
            ask(tmp_path)


def test_while_constants_are_folded(interrupted, monkeypatch):
    x = sj.as_tensor(np.ones(3))
    monkeypatch.setattr(OPS["sin"], "reference", interrupted)
    with pytest.raises(Alarm):
        sj.function([], sj.sin(x), mode="emulate")


def test_while_a_layer_is_shown(interrupted, monkeypatch):
    layer = lasagne.layers.InputLayer((None, 3))
    monkeypatch.setattr(type(layer), "get_params", interrupted)
    with pytest.raises(Alarm):
        repr(layer)


def test_while_arrays_are_read(interrupted, monkeypatch, tmp_path):
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    monkeypatch.setattr(np, "load", interrupted)
    with pytest.raises(Alarm):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(Alarm):
        as_array(Interrupted(), "w")
    with pytest.raises(Alarm):
        lasagne.utils.as_expression(Interrupted())


def test_while_a_model_is_read(interrupted, monkeypatch):
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Tanh", ["x"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])],
    )
    data = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()
    assert len(sj.onnx.load(data).outputs) == 1
    for owner, name in ((Model, "__init__"), (Reader, "_computed")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted)
            with pytest.raises(Alarm):
                sj.onnx.load(data)


def test_an_error_of_a_file_is_still_one_while_a_handler_is_set(interrupted):
    pytest.importorskip("onnx")
    with pytest.raises(sj.FormatError):
        sj.onnx.load(io.BytesIO(b"no model").getvalue())
