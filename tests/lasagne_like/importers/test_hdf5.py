"""Files of weights of Keras: what Keras wrote, and what was made up."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like.importers import keras, read_keras_h5


def test_what_keras_wrote(tmp_path: Path) -> None:
    library = pytest.importorskip("keras")
    pytest.importorskip("h5py")
    layers = [library.layers.Bidirectional(library.layers.LSTM(4, return_sequences=True)), library.layers.GRU(5)]
    model = library.Sequential([library.layers.Input((None, 3)), *layers])
    model.save_weights(tmp_path / "m.weights.h5")
    found = read_keras_h5(tmp_path / "m.weights.h5")
    lists = [v for k, v in found.items() if "lstm" in k or "bidirectional" in k or "gru" in k]
    assert sorted(len(v) for v in lists) == [3, 3, 3]
    forward, backward = (
        next(value for name, value in found.items() if f"{way}_layer" in name) for way in ("forward", "backward")
    )
    for a, b in zip([*forward, *backward], layers[0].get_weights(), strict=True):
        assert (a == b).all()
    assert keras.from_weights([*forward, *backward], bidirectional=True).output_shape == (None, None, 8)


def test_files_that_keras_did_not_write(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    np.zeros(3).tofile(tmp_path / "secret")

    def made(fill: Any) -> Path:
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as file:
            fill(file.create_group("layers/lstm/cell/vars"))
        return path

    path = made(lambda group: group.create_dataset("0", data=np.ones(2)))
    assert list(read_keras_h5(path)) == ["layers/lstm/cell"]
    for fill, message in (
        (
            lambda group: group.__setitem__("0", h5py.ExternalLink("other.h5", "/x")),
            "is not an array that is stored in this file",
        ),
        (lambda group: group.__setitem__("0", h5py.SoftLink("/layers")), "is not an array that is stored in this file"),
        (lambda group: group.parent.__setitem__("x", h5py.ExternalLink("other.h5", "/x")), "is a link"),
        (lambda group: group.create_dataset("1", data=np.ones(2)), "vars/0 is not an array|HDF5"),
        (lambda group: group.create_dataset("0", data=["text"]), "dtype object|HDF5"),
        (
            lambda group: group.create_dataset("0", (3,), "f8", external=[(str(tmp_path / "secret"), 0, 24)]),
            "is not an array that is stored in this file",
        ),
        (lambda group: group.create_dataset("0", (2**40, 8), "f8"), "0 bytes in the file"),
        (lambda group: group.create_dataset("0", (2**24, 8), "f8", chunks=(1024, 8), compression=9), "0 bytes in the"),
        (lambda group: group.parent.__setitem__("again", group.parent), "more than 64 levels deep"),
    ):
        with pytest.raises(sj.FormatError, match=message):
            read_keras_h5(made(fill))
    data = path.read_bytes()
    for other in (b"", b"text", data[: len(data) // 2]):
        path.write_bytes(other)
        with pytest.raises(sj.FormatError):
            read_keras_h5(path)
    path.write_bytes(b"PK\3\4" + b"\0" * 100)
    with pytest.raises(sj.FormatError, match=r"a \.keras file is: take model\.weights\.h5 out"):
        read_keras_h5(path)
    with h5py.File(path, "w") as file:
        file["lstm/lstm/lstm_cell/kernel:0"] = np.ones((3, 16))  # as Keras 2 does
    with pytest.raises(sj.FormatError, match="no arrays where save_weights of Keras 3"):
        read_keras_h5(path)
    with pytest.raises(FileNotFoundError):
        read_keras_h5(tmp_path / "none.h5")


def test_without_h5py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name == "h5py":
            raise ImportError("no h5py")
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"scanjit\[keras\]"):
        read_keras_h5(tmp_path / "m.weights.h5")
