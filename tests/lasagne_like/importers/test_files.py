"""Files of arrays: what was written comes back; what was cut, changed or made up is an error, and runs nothing."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like.importers import as_array, read_npz, read_safetensors, write_npz, write_safetensors

ARRAYS = {
    "rnn/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bias": np.array([0.1, np.nan, -np.inf]),
    "half": np.array([1.5], np.float16),
    "empty": np.zeros((0, 4), np.int64),
    "scalar": np.array(7, np.uint8),
    "flags": np.array([True, False]),
}
NUMBERS = {name: value for name, value in ARRAYS.items() if name != "flags"}


def same(found: dict[str, np.ndarray], given: dict[str, np.ndarray]) -> None:
    assert list(found) == list(given)
    for name, value in given.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape
        assert found[name].tobytes() == value.tobytes()


def test_npz(tmp_path: Path) -> None:
    write_npz(tmp_path / "a", NUMBERS)
    same(read_npz(tmp_path / "a"), NUMBERS)


@pytest.mark.parametrize("write", [write_npz, write_safetensors])
def test_writing_is_all_or_nothing(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights"
    write(path, NUMBERS)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write(path, {"other": np.ones(3)})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_npz_with_any_names(tmp_path: Path) -> None:
    named = {"file": np.zeros(1), "allow_pickle": np.ones(1), "../up": np.ones(2), "ünï": np.ones(1)}
    write_npz(tmp_path / "a", named)
    same(read_npz(tmp_path / "a"), named)


def test_npz_changed_at_random(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_npz(path, NUMBERS)
    data, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(data)
        for at in rng.integers(len(data), size=3):
            changed[at] = rng.integers(256)
        path.write_bytes(bytes(changed))
        with contextlib.suppress(sj.FormatError):
            read_npz(path)


def test_names_that_npz_files_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match=r"has a zero byte, which names in .npz files cannot have"):
        write_npz(tmp_path / "a", {"a\0b": np.ones(2)})


def test_npz_that_would_be_unpickled(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    np.savez(tmp_path / "a.npz", x=np.array([Evil()], object))
    with pytest.raises(sj.FormatError, match=r"'x' cannot be read as an array of an \.npz file"):
        read_npz(tmp_path / "a.npz")
    assert not (tmp_path / "ran").exists()


def test_arrays_that_cannot_be_written(tmp_path: Path) -> None:
    for write in (write_npz, write_safetensors):
        with pytest.raises(TypeError, match="arrays must be a mapping from names to arrays, got a list"):
            write(tmp_path / "a", [np.ones(2)])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="names of arrays must be strings, got 1"):
            write(tmp_path / "a", {1: np.ones(2)})  # type: ignore[dict-item]
        with pytest.raises(sj.ArgumentError, match="w has masked entries"):
            write(tmp_path / "a", {"w": np.ma.array([1.0, 2.0], mask=[0, 1])})
    assert not (tmp_path / "a").exists()


def test_a_text_is_no_npz_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello, this is a text")
    with pytest.raises(sj.FormatError, match=r"it is not an \.npz file"):
        read_npz(tmp_path / "a")


def test_npz_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_npz(path, NUMBERS)
    data = path.read_bytes()
    for other in (data[: len(data) // 2], b"", b"hello", data.replace(b"\x93NUMPY", b"\x93NUMPX")):
        path.write_bytes(other)
        with pytest.raises(sj.FormatError, match=r"a\.npz cannot be read"):
            read_npz(path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(sj.FormatError, match="one array"):
        read_npz(tmp_path / "one.npy")


def test_safetensors(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a", ARRAYS, {"format": "np"})
    same(read_safetensors(tmp_path / "a"), ARRAYS)
    with pytest.raises(ValueError, match="'c', which has complex128"):
        write_safetensors(tmp_path / "b", {"c": np.zeros(1, complex)})
    assert not (tmp_path / "b").exists()


def test_the_safetensors_package_agrees(tmp_path: Path) -> None:
    theirs = pytest.importorskip("safetensors.numpy")
    write_safetensors(tmp_path / "a", ARRAYS, {"format": "np"})
    found = theirs.load_file(tmp_path / "a")
    same({name: found[name] for name in ARRAYS}, ARRAYS)
    theirs.save_file(ARRAYS, tmp_path / "b")
    found = read_safetensors(tmp_path / "b")
    same({name: found[name] for name in ARRAYS}, ARRAYS)


def made(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def test_bfloat16(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5], np.float32)
    data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    path = made(tmp_path / "a", {"x": entry("BF16", offsets=(0, 4))}, data)
    same(read_safetensors(path), {"x": values})


def test_bfloat16_of_other_libraries(tmp_path: Path) -> None:
    """`as_array` gives float32, and a file keeps the 16 bits."""
    ml_dtypes, values = pytest.importorskip("ml_dtypes"), np.array([[1.0, -2.5]], np.float32)
    given = {"numpy": values.astype(ml_dtypes.bfloat16)}
    with contextlib.suppress(ImportError):
        import torch

        given["torch"] = torch.tensor(values, dtype=torch.bfloat16, requires_grad=True)
    for name, value in given.items():
        np.testing.assert_array_equal(as_array(value, name), values, strict=True)
    write_safetensors(tmp_path / "a", given)
    same(read_safetensors(tmp_path / "a"), dict.fromkeys(given, values))
    assert (tmp_path / "a").read_bytes().count(b"BF16") == len(given)


EIGHT = bytes(8)


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"{", EIGHT, "header cannot be read"),
        (b"\xff\xfe", EIGHT, "header cannot be read"),
        (b"[" * 100_000, EIGHT, "header cannot be read"),
        ([1, 2], EIGHT, "not a JSON object"),
        (b'{"x": 1, "x": 2}', EIGHT, "occurs twice"),
        ({"x": 3}, EIGHT, "'x' has the offsets None"),
        ({"x": entry(offsets=(0, 9))}, EIGHT, r"has the offsets \[0, 9\], but there are 8 bytes"),
        ({"x": entry(offsets=(-8, 0))}, EIGHT, "has the offsets"),
        ({"x": entry(offsets=(8, 0))}, EIGHT, "has the offsets"),
        ({"x": entry(offsets=(0, 8, 8))}, EIGHT, "has the offsets"),
        ({"x": entry(offsets=(0.0, 8.0))}, EIGHT, "has the offsets"),
        ({"x": entry(offsets=(0, 2**70))}, EIGHT, "has the offsets"),
        ({"x": entry(offsets=(0, 8)), "y": entry(offsets=(0, 8))}, EIGHT, "'y' begins at byte 0"),
        ({"x": entry(shape=(1,), offsets=(4, 8))}, EIGHT, "begins at byte 4"),
        ({"x": entry(shape=(1,), offsets=(0, 4))}, EIGHT, "4 bytes behind the last"),
        ({"x": entry("F31")}, EIGHT, "unknown dtype 'F31'"),
        ({"x": entry(["F32"])}, EIGHT, "unknown dtype"),
        ({"x": entry(shape=(3,))}, EIGHT, r"has 8 bytes, which do not fit its dtype F32 and shape \(3,\)"),
        ({"x": entry(shape=(-1, -2))}, EIGHT, "has the shape"),
        ({"x": entry(shape=(2**40, 2**40))}, EIGHT, "has 8 bytes"),
        ({"x": entry(shape=[1] * 33)}, EIGHT, "has the shape"),
        ({"x": entry(shape="2")}, EIGHT, "has the shape"),
        ({"x": entry(shape=(True, 2))}, EIGHT, "has the shape"),
    ],
)
def test_safetensors_made_up(tmp_path: Path, header: Any, data: bytes, message: str) -> None:
    with pytest.raises(sj.FormatError, match=message):
        read_safetensors(made(tmp_path / "a", header, data))


@pytest.mark.parametrize("length", [2**64 - 1, 2**62, 200, 100_000_001])
def test_a_header_that_is_too_long(tmp_path: Path, length: int) -> None:
    with pytest.raises(sj.FormatError, match=f"its header should have {length} bytes"):
        read_safetensors(made(tmp_path / "a", {}, EIGHT, length))


def test_files_cut_anywhere_and_changed_at_random(tmp_path: Path, rng: np.random.Generator) -> None:
    """No other error than the one for bad files, whatever byte is missing or different."""
    path = tmp_path / "a"
    write_safetensors(path, ARRAYS)
    data = path.read_bytes()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(sj.FormatError):
            read_safetensors(path)
    for _ in range(100):
        changed = bytearray(data)
        changed[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(bytes(changed))
        with contextlib.suppress(sj.FormatError):
            read_safetensors(path)
