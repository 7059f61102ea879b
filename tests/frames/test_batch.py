"""Long frames of pandas and polars become padded arrays, and results become frames again."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

import scanjit as sj

pytest.importorskip("narwhals")
KINDS = ["pandas", "polars"]

ROWS = {
    "unique_id": ["b", "a", "b", "c", "b", "a"],
    "ds": [3, 2, 1, 7, 2, 1],
    "y": [3.0, 20.0, 1.0, 7.0, float("nan"), 10.0],
    "n": [3, 2, 1, 7, 2, 1],
}
Y = np.array([[1.0, np.nan, 3.0], [10.0, 20.0, np.nan], [7.0, np.nan, np.nan]])


def made(kind, columns=ROWS, **changed):
    return pytest.importorskip(kind).DataFrame(columns | changed)


def lists(frame):
    """A frame's columns as lists, with None for NaN."""
    found = frame.to_dict("list") if hasattr(frame, "iloc") else frame.to_dict(as_series=False)
    return {name: [None if value != value else value for value in column] for name, column in found.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_times_in_any_order(kind):
    """Series are in the order in which their ids appear, steps in that of time."""
    series = sj.frames.batch(made(kind))
    np.testing.assert_array_equal(series["y"], Y)
    assert series.ids == ["b", "a", "c"] and len(series) == 3
    assert series.lengths.tolist() == [3, 2, 1]
    np.testing.assert_array_equal(series.mask, [[1, 1, 1], [1, 1, 0], [1, 0, 0]])
    assert repr(series) == "Batch of 3 series of up to 3 steps: y"


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_series_and_of_steps(kind):
    frame = made(kind)
    series = sj.frames.batch(frame)
    one_each = series.frame({"last": np.array([3.0, 20.0, 7.0]), ("p", "q"): np.arange(6).reshape(3, 2)})
    assert type(one_each) is type(frame)
    assert lists(one_each) == {"unique_id": ["b", "a", "c"], "last": [3, 20, 7], "p": [0, 2, 4], "q": [1, 3, 5]}
    steps = series.frame({"same": series["y"], ("two", "three"): series["y"][:, :, None] * np.array([2, 3])})
    assert type(steps) is type(frame)
    assert lists(steps) == lists(made(kind, {name: ROWS[name] for name in ("unique_id", "ds")}, same=ROWS["y"])) | {
        "two": [6, 40, 2, 14, None, 20],
        "three": [9, 60, 3, 21, None, 30],
    }


def test_an_index_of_pandas_is_kept():
    pd = pytest.importorskip("pandas")
    frame = made("pandas").set_index(pd.Index([7, 7, "x", 3, 1, 0], name="label"))
    series = sj.frames.batch(frame)
    steps = series.frame({"same": series["y"]})
    pd.testing.assert_index_equal(steps.index, frame.index)
    np.testing.assert_array_equal(steps["same"], frame["y"])
    pd.testing.assert_index_equal(series.frame({"n": series.lengths}).index, pd.RangeIndex(3))
    with pytest.raises(sj.ArgumentError, match=r"no column 'unique_id'(.|\n)*reset_index"):
        sj.frames.batch(frame.set_index("unique_id"))
    several = frame.set_index(["unique_id", "ds"])
    with pytest.raises(sj.ArgumentError, match=r"no column 'ds'(.|\n)*reset_index"):
        sj.frames.batch(several.reset_index("unique_id"))
    np.testing.assert_array_equal(sj.frames.batch(several.reset_index())["y"], Y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "of_number",
    [
        lambda n: datetime(2024, 1, n),
        lambda n: datetime(2024, 10, 26, 23, tzinfo=UTC) + timedelta(hours=n),
        lambda n: date(2024, 1, n),
        lambda n: timedelta(days=n),
        lambda n: n / 2,
    ],
)
def test_kinds_of_times(kind, of_number):
    """They come back as they were, with their zone."""
    times = [of_number(n) for n in ROWS["ds"]]
    if kind == "pandas" and isinstance(times[0], date) and not isinstance(times[0], datetime):
        pytest.skip("pandas has no dates without times")
    frame = made(kind, ds=times)
    if kind == "pandas" and getattr(times[0], "tzinfo", None):
        frame["ds"] = frame["ds"].dt.tz_convert("Europe/Berlin")  # 2 and 3 o'clock have one name
    series = sj.frames.batch(frame)
    np.testing.assert_array_equal(series["y"], Y)
    steps = series.frame({"same": series["y"]})
    assert lists(steps)["ds"] == lists(frame)["ds"]
    assert steps["ds"].dtype == frame["ds"].dtype


def test_categories_of_pandas():
    """Categories that no row has are no series; the order of categories is the order of times."""
    pd = pytest.importorskip("pandas")
    frame = made("pandas")
    frame["unique_id"] = pd.Categorical(frame["unique_id"], ["never", "a", "b", "c"])
    names = ["low", "middle", "high", "late"]
    frame["ds"] = pd.Categorical([names[min(n - 1, 3)] for n in ROWS["ds"]], names, ordered=True)
    series = sj.frames.batch(frame)
    np.testing.assert_array_equal(series["y"], Y)
    found = series.frame({"n": series.lengths})
    assert found["unique_id"].dtype == frame["unique_id"].dtype and found["unique_id"].tolist() == ["b", "a", "c"]
    frame["ds"] = frame["ds"].cat.as_unordered()
    with pytest.raises(sj.ArgumentError, match="have no order"):
        sj.frames.batch(frame)


def test_categories_of_polars():
    pl = pytest.importorskip("polars")
    frame = made("polars").with_columns(pl.col("unique_id").cast(pl.Categorical))
    series = sj.frames.batch(frame)
    np.testing.assert_array_equal(series["y"], Y)
    assert series.frame({"n": series.lengths})["unique_id"].dtype == pl.Categorical


@pytest.mark.parametrize("kind", KINDS)
def test_several_columns_of_ids_and_values(kind):
    """Integers become floats where NaN stands after the end, and stay integers beside another number."""
    frame = made(kind, item=[1, 1, 1, 1, 2, 2])
    series = sj.frames.batch(frame, ["unique_id", "item"], "ds", ["y", "n"])
    assert series.ids == [("b", 1), ("a", 1), ("c", 1), ("b", 2), ("a", 2)]
    np.testing.assert_array_equal(series["n"], [[1, 3], [2, np.nan], [7, np.nan], [2, np.nan], [1, np.nan]])
    assert series["n"].dtype == "float64"
    whole = sj.frames.batch(frame, ["unique_id", "item"], "ds", "n", pad=-1)["n"]
    np.testing.assert_array_equal(whole, [[1, 3], [2, -1], [7, -1], [2, -1], [1, -1]])
    assert whole.dtype.kind == "i"
    found = series.frame({"n": series.lengths})
    assert lists(found) == {"unique_id": list("bacba"), "item": [1, 1, 1, 2, 2], "n": [2, 1, 1, 1, 1]}


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_of_all_kinds(kind):
    library = pytest.importorskip(kind)
    if kind == "polars":
        frame = made(kind, y=[3.0, 20.0, 1.0, 7.0, None, 10.0], n=[3, 2, 1, 7, None, 1])
        frame = frame.with_columns(flag=frame["y"] > 5, price=library.Series([Decimal("0.5")] * 5 + [None]))
    else:
        frame = made(kind, n=library.array([3, 2, 1, 7, None, 1], "Int64"))
        frame["flag"] = library.array([False, True, False, True, None, True], "boolean")
        frame["price"] = library.array([0.5] * 5 + [None], "Float64")
    series = sj.frames.batch(frame, values=["y", "n", "flag", "price"])
    np.testing.assert_array_equal(series["y"], Y)
    np.testing.assert_array_equal(series["n"], [[1, np.nan, 3], [1, 2, np.nan], [7, np.nan, np.nan]])
    np.testing.assert_array_equal(series["flag"], [[0, np.nan, 0], [1, 1, np.nan], [1, np.nan, np.nan]])
    np.testing.assert_array_equal(series["price"], [[0.5, 0.5, 0.5], [np.nan, 0.5, np.nan], [0.5, np.nan, np.nan]])
    assert sj.frames.batch(frame, values="n", pad=0)["n"].dtype == "float64"  # one is missing


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind):
    frame = made(kind, y=np.array(ROWS["y"], "float32"))
    assert sj.frames.batch(frame)["y"].dtype == "float32"


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_frame(kind):
    frame = made(kind)[:0]
    series = sj.frames.batch(frame, values=["y", "n"])
    assert series["y"].shape == (0, 0) and len(series) == 0 and series.ids == []
    for results in ({"mean": np.zeros(0)}, {"same": series["y"]}):
        found = series.frame(results)
        assert type(found) is type(frame) and len(found) == 0 and next(iter(results)) in found.columns
    with pytest.raises(sj.ArgumentError, match="the batch has no problems"):
        sj.optimize.minimize(lambda x, y: x.sum(), np.zeros((0, 1)), [series["y"]], batched=True)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_time(kind):
    """They are in order as they stand, and may be equal."""
    series = sj.frames.batch(made(kind), time=None)
    np.testing.assert_array_equal(series["y"], [[3, 1, np.nan], [20, 10, np.nan], [7, np.nan, np.nan]])
    assert list(series.frame({"same": series["y"]}).columns) == ["unique_id", "same"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_from_a_frame_to_a_frame(kind):
    """A series of one number, and one of NaN, say what became of them; the others are as without them."""

    def loss(x, y, kept):
        level, decay = x
        fitted = level * decay ** sj.arange(y.shape[0])
        return sj.where(kept, (fitted - y) ** 2, 0).sum()

    random = np.random.default_rng(0)
    lengths = [9, 5, 1, 12, 7]
    ids = np.repeat(["e", "d", "one", "b", "nan"], lengths)
    days = np.concatenate([np.arange(n) for n in lengths])
    y = 2 * np.repeat([0.9, 0.5, 0.3, 0.8, 0.7], lengths) ** days
    y[ids == "nan"] = np.nan
    order = random.permutation(len(y))
    frame = made(kind, {"unique_id": ids[order], "ds": days[order], "y": y[order]})
    series = sj.frames.batch(frame, pad=0)  # times 0 in the gradient, NaN would stay

    def fitted(rows):
        arrays = [series["y"][rows], series.mask[rows]]
        return sj.optimize.minimize(loss, np.full((len(rows), 2), 0.7), arrays, batched=True)

    found = fitted(np.arange(5))
    table = lists(series.frame(found, names=["level", "decay"]))
    status = dict(zip(table["unique_id"], table["status"], strict=True))
    assert {name: status[name] for name in "ebd"} == {"e": 0, "b": 0, "d": 0}
    assert status["one"] == 5  # its decay is nothing that one number tells
    assert status["nan"] == 3 and "not finite" in table["message"][table["unique_id"].index("nan")]
    decays = dict(zip(table["unique_id"], table["decay"], strict=True))
    np.testing.assert_allclose([decays[name] for name in "ebd"], [0.9, 0.8, 0.5], rtol=1e-5)
    good = np.array([series.ids.index(name) for name in "ebd"])
    np.testing.assert_array_equal(fitted(good).x, found.x[good])
    assert list(series.frame(found).columns)[:3] == ["unique_id", "x[0]", "x[1]"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changed", "arguments", "message"),
    [
        ({}, {"id": "shop"}, r"no column 'shop'(.|\n)*unique_id, ds, y, n"),
        ({}, {"values": ["y", "z"]}, "no column 'z'"),
        ({"ds": [3, 2, 1, 7, 3, 1]}, {}, r"two rows for one time, of which row 4(.|\n)*unique_id: b, ds: 3"),
        ({"ds": ["3", "2", "1", "7", "2", "1"]}, {}, r"have no order(.|\n)*to_datetime"),
        ({"unique_id": ["b", "a", None, "c", "b", "a"]}, {}, r"an id is missing(.|\n)*1 of 6 rows, row 2 the first"),
        ({"unique_id": [1.0, 2.0, 3.0, 1.0, 2.0, float("nan")]}, {}, r"an id is missing(.|\n)*row 5 the first"),
        ({"ds": [3.0, 2.0, 1.0, float("nan"), None, 1.0]}, {}, r"a time is missing(.|\n)*2 of 6 rows, row 3"),
        ({"y": list("abcdef")}, {}, "the column 'y' has no numbers"),
        ({}, {"id": []}, "id must be the name of a column"),
        ({}, {"id": ["unique_id", "unique_id"]}, "name a column twice"),
        ({}, {"id": "ds"}, "name a column twice"),
        ({}, {"values": []}, "values must be the name of a column"),
        ({}, {"pad": None}, "pad must be a number"),
        ({}, {"pad": "0"}, "pad must be a number"),
        ({}, {"values": "n", "pad": 0.5}, "pad does not fit the column 'n'"),
        ({"n": np.arange(6, dtype="int8")}, {"values": "n", "pad": 300}, "pad does not fit the column 'n'"),
    ],
)
def test_frames_that_are_wrong(kind, changed, arguments, message):
    with pytest.raises(sj.ArgumentError, match=message):
        sj.frames.batch(made(kind, **changed), **arguments)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"x": np.zeros((3, 2))}, r"another shape(.|\n)*a tuple of names"),
        ({"x": np.zeros(4)}, r"another shape(.|\n)*\(3,\): one number a series"),
        ({("x", "z"): np.zeros((3, 3))}, "2 names share an array"),
        ({"x": np.zeros(3), "z": np.zeros((3, 3))}, "some results are of series, others of steps"),
        ({"ds": np.zeros(3)}, "name of a column"),
        (np.zeros(3), "results have names"),
        ({("x", "x"): np.zeros((3, 2))}, "two results have the same name"),
    ],
)
def test_results_that_are_wrong(results, message):
    pytest.importorskip("polars")
    with pytest.raises(sj.ArgumentError, match=message):
        sj.frames.batch(made("polars")).frame(results)


def test_what_is_no_frame():
    pl = pytest.importorskip("polars")
    with pytest.raises(sj.ArgumentError, match=r"frame\.collect"):
        sj.frames.batch(pl.LazyFrame(ROWS))
    with pytest.raises(sj.ArgumentError, match=r"numpy\.ndarray(.|\n)*DataFrame of pandas or polars"):
        sj.frames.batch(np.zeros((3, 3)))
    with pytest.raises(sj.ArgumentError, match=r"no column of this name(.|\n)*expected: y"):
        sj.frames.batch(pl.DataFrame(ROWS))["z"]


def test_names_of_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS)
    series = sj.frames.batch(frame)
    assert series.frame({7: np.zeros(3)})[7].tolist() == [0.0] * 3
    with pytest.raises(sj.ArgumentError, match="names are those of a Result"):
        series.frame({"x": np.zeros(3)}, names=["level"])
    with pytest.raises(sj.ArgumentError, match="two columns of the frame"):
        sj.frames.batch(pd.concat([frame, frame[["y"]]], axis=1))


def test_without_narwhals(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "narwhals.stable.v2", None)
    with pytest.raises(ImportError, match=r"pip install 'scanjit\[frames\]'"):
        sj.frames.batch(object())
