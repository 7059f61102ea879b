"""`function`: what it accepts, what it returns, what it says when something is wrong, and that it keeps its promises
about shared state, threads and pickles."""

import pickle

import numpy as np
import pytest

import scanjit as sj
from tests.at_once import at_once
from tests.refusals import refused
from tests.scripts import python

HERE = __file__


@pytest.fixture(params=["reference", "numba", "emulate"])
def mode(request):
    return request.param


# ---- what comes back -------------------------------------------------------------------------------------------------


def test_outputs_come_back_in_their_structure(mode):
    x = sj.vector("x")
    given = np.array([1.0, 2.0])
    one = sj.function([x], 2 * x, mode=mode)(given)
    assert isinstance(one, np.ndarray) and one.tolist() == [2.0, 4.0]
    assert [r.tolist() for r in sj.function([x], [x + 1, x.sum()], mode=mode)(given)] == [[2.0, 3.0], 3.0]
    assert sj.function([x], (x.sum(),), mode=mode)(given) == (np.array(3.0),)
    nested = sj.function([x], {"a": x + 1, "rest": [x.sum(), (x * 2,)]}, mode=mode)(given)
    assert nested["a"].tolist() == [2.0, 3.0] and nested["rest"][1][0].tolist() == [2.0, 4.0]
    assert sj.function([x], None, mode=mode)(given) is None
    assert sj.function([x], [], mode=mode)(given) == []


def test_scalars_are_arrays_without_dimensions(mode):
    x = sj.scalar("x", dtype="float32")
    result = sj.function([x], x * 2.0, mode=mode)(1.5)
    assert type(result) is np.ndarray and result.shape == () and result.dtype == np.float32 and result == 3.0


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "uint8", "float32", "float64"])
def test_dtypes_are_exact(dtype, mode):
    x = sj.vector("x", dtype=dtype)
    result = sj.function([x], x[::-1], mode=mode)(np.array([0, 1], dtype))
    assert result.dtype == dtype and result.tolist() == [1, 0]


def test_constants_and_arrays_are_outputs_too(mode):
    f = sj.function([], [sj.constant(2.5), np.arange(3), 7], mode=mode)
    assert [r.tolist() for r in f()] == [2.5, [0, 1, 2], 7]


def test_results_are_arrays_of_their_own(mode):
    x = sj.vector("x")
    w = sj.shared([1.0, 2.0], "w")
    given = np.array([5.0, 6.0])
    f = sj.function([x], [x, x, w, x + w, x + w, x[:2]], updates={w: x + w}, mode=mode)
    results = f(given)
    arrays = [given, w.get_value(borrow=True), *results]
    for i, a in enumerate(arrays):
        for b in arrays[i + 1 :]:
            assert not np.may_share_memory(a, b)
    for result in results:
        assert result.flags.writeable
        result[:] = -1
    assert given.tolist() == [5.0, 6.0] and w.get_value().tolist() == [6.0, 8.0]


def test_assigning_an_argument_keeps_it_apart(mode):
    x, w = sj.vector("x"), sj.shared([1.0, 2.0], "w", shape=(None,))
    given = np.array([3.0, 4.0])
    sj.function([x], None, updates={w: x}, mode=mode)(given)
    given[:] = 0
    assert w.get_value().tolist() == [3.0, 4.0]


def test_unused_inputs_are_fine(mode):
    x, y = sj.scalar("x"), sj.matrix("y")
    assert sj.function([x, y], x + 1, mode=mode)(1, [[1.0]]) == 2


def test_new_sizes_run_the_same_function(mode):
    x = sj.matrix("x")
    f = sj.function([x], x.sum(0), mode=mode)
    for shape in ((2, 3), (5, 1), (0, 4), (3, 0)):
        given = np.random.default_rng(0).normal(size=shape)
        np.testing.assert_allclose(f(given), given.sum(0))


def test_many_shapes_are_not_all_remembered():
    x = sj.vector("x")
    f = sj.function([x], x.sum(), mode="reference")
    for n in range(600):
        assert f(np.ones(n)) == n
    assert len(f._bindings._known) <= 64


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_arguments_by_position_and_by_name(mode):
    a, b = sj.scalar("a"), sj.scalar("b")
    f = sj.function([a, b], a - b, mode=mode)
    assert f(3, 1) == f(3, b=1) == f(b=1, a=3) == f(a=3, b=1) == 2


def test_wrong_arguments_are_named():
    a, b = sj.scalar("a"), sj.scalar("b")
    f = sj.function([a, b], a - b, name="minus", mode="reference")
    with refused(
        sj.ArgumentError, "minus takes 2 arguments", "without argument 1 ('b') of minus", "(a: float64(), b: float64())"
    ):
        f(1)
    with refused(sj.ArgumentError, "minus takes 2 arguments", "got:      3 arguments"):
        f(1, 2, 3)
    with refused(sj.ArgumentError, "an argument 'c'"):
        f(1, c=3)
    with refused(TypeError, "'a' by position and by name"):
        f(1, a=3)
    f = sj.function([a, sj.vector()], a, name="without_names", mode="reference")
    with refused(
        sj.ArgumentError,
        "got:      1 argument, without argument 1 of",
        "(a: float64(), argument 1: float64(",
        'sj.vector("x")',
    ):
        f(1)


def test_safe_conversions_of_arguments(mode):
    x = sj.vector("x")
    f = sj.function([x], x * 2, mode=mode)
    for given in (
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], "int8"),
        np.array([1, 2]),
        np.array([1, 2], "float32"),
        np.array([1.0, 2.0], ">f8"),
        np.array([1.0, 2.0], np.float16),
        [np.float64(1), 2],
    ):
        result = f(given)
        assert result.dtype == np.float64 and result.tolist() == [2.0, 4.0]
    assert f([True, False]).tolist() == [2.0, 0.0]
    assert f([]).tolist() == []


def test_values_of_the_other_byte_order(mode):
    """Files of other machines hold them."""
    x = np.array([1.0, 2.0]).astype(np.dtype("float64").newbyteorder())
    i = np.array([1, 0]).astype(np.dtype("int64").newbyteorder())
    y = sj.vector("y", dtype=x.dtype)
    f = sj.function([y], [sj.constant(x), sj.shared(x), y[i], sj.scan(lambda x, h: x + h, x, 0.0)], mode=mode)
    expected = [[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1.0, 3.0]]
    assert [z.tolist() for z in f(x)] == expected and all(z.dtype == np.float64 for z in f(x))
    doubled = sj.jit(lambda x, a: x * a, mode=mode)
    assert doubled(x, 2.0).tolist() == [2.0, 4.0]
    assert doubled(x, x.astype("float32")).tolist() == [1.0, 4.0]
    value, slope = sj.value_and_grad(lambda x: (x * x).sum(), mode=mode)(x.astype(x.dtype.str.replace("8", "4")))
    assert (value, slope.tolist(), slope.dtype) == (5.0, [2.0, 4.0], np.float32)


def test_python_numbers_and_lists_are_weak(mode):
    x = sj.vector("x", dtype="float32")
    assert sj.function([x], x, mode=mode)([0.1, 0.2]).dtype == np.float32
    s = sj.scalar("s", dtype="float32")
    assert sj.function([s], s, mode=mode)(0.1) == np.float32(0.1)
    i = sj.ivector("i")
    assert sj.function([i], i, mode=mode)([1, 2]).dtype == np.int32


@pytest.mark.parametrize(
    "dtype, given, words",
    [
        ("float32", np.array([0.1]), ["an array of float64", "x.astype('float32')", "float32("]),
        ("int64", np.array([0.5]), ["an array of float64", "x.astype('int64')"]),
        ("int64", [0.5], ["a list of float64", "np.array(x, 'int64')"]),
        ("int8", [1000], ["does not hold all of these numbers", "int8"]),
        ("int32", np.array([1, 2**40]), ["does not hold all of these numbers", "int32"]),
        ("float64", np.array([1j]), ["complex128"]),
        ("bool", np.array([1]), ["an array of int64"]),
        ("float64", ["a"], ["no array of numbers", "['a'] (list)"]),
        ("float64", [[1.0], [2.0, 3.0]], ["no array of numbers"]),
        ("float64", None, ["no array of numbers", "None"]),
        ("float64", {"a": 1}, ["no array of numbers", "dict"]),
        ("float64", np.array(["a"]), ["<U1"]),
        ("float64", np.ma.array([1.0, 9.0], mask=[0, 1]), ["has masked entries", "1 of 2", "x.filled(np.nan)"]),
        ("float64", [np.ma.array([1.0, 9.0], mask=[0, 1])], ["has masked entries"]),
    ],
)
def test_lossy_arguments_are_refused(dtype, given, words):
    f = sj.function([sj.vector("x", dtype=dtype)], None, name="f", mode="reference")
    with refused(TypeError, "argument 0 ('x') of f", *words):
        f(given)


@pytest.mark.parametrize("take", [sj.constant, sj.shared, lambda m: sj.vector() + m, sj.jit(lambda x: x)])
def test_masked_entries_have_no_value(take):
    masked = np.ma.array([1.0, 9.0], mask=[False, True])
    take(np.ma.array([1.0, 9.0]))
    for given in (masked, [[2.0, 3.0], masked], ([masked],)):
        with refused(sj.ArgumentError, "masked entries", "1 of 2 entries are masked"):
            take(given)


@pytest.mark.parametrize("take", [sj.shared, lambda m: sj.vector() + m, sj.function([sj.vector()], None)])
def test_a_list_that_holds_itself(take):
    given = []
    given.append(given)
    with pytest.raises((sj.ArgumentError, sj.DtypeError)):
        take(given)


def test_lossy_scalars_are_refused():
    f = sj.function([sj.scalar("n", dtype="int64"), sj.scalar("b", dtype="bool")], None, name="f", mode="reference")
    with refused(sj.DtypeError, "argument 0 ('n') of f", "the float 1.5", "int(x)"):
        f(1.5, True)
    with refused(sj.DtypeError, "argument 1 ('b') of f", "the int 1", "bool(x)"):
        f(1, 1)
    with refused(sj.DtypeError, "does not hold this number"):
        f(2**70, True)


def test_symbols_are_no_arguments():
    x = sj.vector("x")
    f = sj.function([x], x, mode="reference")
    with refused(sj.ArgumentError, "was given a symbol, not a value", "givens"):
        f(x)
    with refused(sj.ArgumentError, "get_value()"):
        f(sj.shared([1.0]))


def test_layouts_of_arguments(mode):
    x = sj.matrix("x")
    f = sj.function([x], x * 1.0, mode=mode)
    base = np.arange(24.0).reshape(4, 6)
    frozen = base.copy()
    frozen.setflags(write=False)
    unaligned = np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 6)
    assert not unaligned.flags.aligned
    for given in (base[::2, 1::2], np.asfortranarray(base), base.T, base[::-1], frozen, unaligned, base[:, :0]):
        assert np.array_equal(f(given), given)

    class Tagged(np.ndarray):
        pass

    result = f(base.view(Tagged))
    assert type(result) is np.ndarray and np.array_equal(result, base)


def test_arguments_unlike_those_of_the_last_call(mode):
    """Arguments like the last ones are not looked at one by one. Each of these differs from them in one thing."""

    class Own(np.ndarray):
        pass

    x, y = np.arange(12.0).reshape(3, 4), np.arange(3.0)
    unaligned = np.zeros(97, "uint8")[1:].view("float64")[:12].reshape(3, 4)
    unaligned[...] = x
    swapped, wide = x.astype(x.dtype.newbyteorder()), np.ones((3, 8))[:, ::2]
    others = [x.T[:3, :3], np.asfortranarray(x), wide, unaligned, swapped, x.astype("float32"), x.astype("int64")]
    others += [x.view(Own), x[:, :2], x[:0], x.tolist(), x.ravel()[:1][:, None]]
    a, b = sj.tensor(("n", "m"), "float64", "a"), sj.vector("b")
    f = sj.function([a, b], a * 2 + b[:, None], mode=mode)
    for other in others:
        np.testing.assert_array_equal(f(x, y), x * 2 + y[:, None])
        wanted = np.array(other, "float64")
        np.testing.assert_array_equal(f(other, y[: len(wanted)]), wanted * 2 + y[: len(wanted), None])
        np.testing.assert_array_equal(f(x, b=y), x * 2 + y[:, None])
        f(x, y)
        for wrong, words in (((x,), "takes 2 arguments"), ((x, y, y), "takes 2 arguments"), ((x, x), "1 dimension")):
            with pytest.raises(sj.errors.ScanjitError, match=words):
                f(*wrong)
        with pytest.raises(sj.errors.ShapeError):
            f(x, np.ones(2))


def test_sizes_of_shared_variables_are_asked_for_in_each_call(mode):
    """Arguments may be like those of the last call, and shared variables not."""
    v, x = sj.shared(np.ones(2), shape=(None,)), sj.vector("x")
    f = sj.function([x], x.sum() + sj.concatenate([v, v]), mode=mode)
    for n in (2, 2, 3):
        v.set_value(np.arange(float(n)))
        np.testing.assert_array_equal(f(np.ones(3)), 3 + np.tile(np.arange(float(n)), 2))


def test_wrong_ranks_and_sizes_are_named():
    x, y, z = sj.tensor(("T", 3), name="x"), sj.tensor(("T",), name="y"), sj.tensor((None,), name="z")
    f = sj.function([x, y, z], [x.sum(), y.sum(), z.sum()], name="f", mode="reference")
    f(np.zeros((2, 3)), np.zeros(2), np.zeros(7))
    with refused(sj.ShapeError, "argument 0 ('x') of f must have 2 dimensions, not 1", "shape (3,)", "float64(T, 3)"):
        f(np.zeros(3), np.zeros(2), [])
    with refused(sj.ShapeError, "dimension 1 of argument 0 ('x') of f has size 4 instead of 3", "shape=('T', None)"):
        f(np.zeros((2, 4)), np.zeros(2), [])
    with refused(sj.ShapeError, "x has 2", "y has 5", "'T'"):
        f(np.zeros((2, 3)), np.zeros(5), [])


def test_sizes_that_an_operation_needs_equal_are_checked(mode):
    x, y = sj.vector("x"), sj.vector("y")
    f = sj.function([x, y], x + y, mode=mode)
    assert f([1, 2], [3, 4]).tolist() == [4, 6]
    with refused(sj.ShapeError, "2", "1", "equal"):
        f([1, 2], [3])
    assert f([1], [3]).tolist() == [4]


# ---- building: inputs, outputs, givens -------------------------------------------------------------------------------


def test_wrong_inputs():
    x = sj.vector("x")
    with refused(sj.ArgumentError, "list of symbols", "[x]"):
        sj.function(x, x)
    with refused(sj.ArgumentError, "inputs 0 and 1 are the same symbol"):
        sj.function([x, x], x)
    with refused(sj.ArgumentError, "inputs 0 and 1 have the same name", "'x'"):
        sj.function([x, sj.vector("x")], x)
    with refused(sj.ArgumentError, "input 0 is not a symbol that a function can take", "givens"):
        sj.function([x + 1], x)
    with refused(sj.ArgumentError, "input 1", "shared variable is read by itself"):
        sj.function([x, sj.shared(1.0)], x)
    with refused(sj.ArgumentError, "input 1", "sj.tensor"):
        sj.function([x, 3], x)


def test_a_missing_input_is_named_with_its_place():
    x, y = sj.vector("x"), sj.vector("y")
    with refused(sj.ArgumentError, "f needs a value for 'y'", "inputs [x]", f"made at {HERE}"):
        sj.function([x], x + y, name="f")
    with refused(sj.ArgumentError, "an unnamed symbol"):
        sj.function([x], x + sj.vector())


def test_a_size_that_no_input_has():
    x, y = sj.tensor(("Unknown",), name="x"), sj.vector("y")
    with refused(sj.ArgumentError, "f needs the size Unknown"):
        sj.function([y], x.shape[0] + y.sum(), name="f", mode="reference")
    assert sj.function([x], x.shape[0], mode="reference")([1.0, 2.0]) == 2


def test_a_symbol_of_a_step_that_escaped():
    xs, kept = sj.vector("xs"), []
    sj.scan(lambda x: kept.append(x) or x, sequences=xs)
    with refused(sj.ArgumentError, "exists only inside that step"):
        sj.function([xs], kept[0])


def test_wrong_outputs_modes_and_pairs():
    x = sj.vector("x")
    with refused(sj.ArgumentError, "output[1] is not an expression"):
        sj.function([x], [x, object()])
    with refused(sj.ArgumentError, "the mode of a function is unknown", "'fast'", "'numba'"):
        sj.function([x], x, mode="fast")
    with refused(sj.ArgumentError, "updates are a dict or a list of pairs"):
        sj.function([x], x, updates=[sj.shared(0.0)])


def test_givens_replace_inputs_and_expressions(mode):
    x, y = sj.vector("x"), sj.vector("y")
    assert sj.function([y], x + 1, givens={x: 2 * y}, mode=mode)([1.0, 2.0]).tolist() == [3.0, 5.0]
    assert sj.function([], x + 1, givens={x: [1, 2]}, mode=mode)().tolist() == [2.0, 3.0]
    middle = x * 3
    assert sj.function([y], middle.sum(), givens=[(middle, y)], mode=mode)([1.0, 2.0]) == 3.0
    data = sj.shared(np.arange(6.0), "data")
    i = sj.scalar("i", dtype="int64")
    batch = sj.function([i], x.sum(), givens={x: data[2 * i : 2 * i + 2]}, mode=mode)
    assert [float(batch(k)) for k in range(3)] == [1.0, 5.0, 9.0]


def test_givens_reach_updates_scans_and_shared_variables(mode):
    x, y = sj.vector("x"), sj.vector("y")
    w = sj.shared(2.0, "w")
    total = sj.scan(lambda v, acc: acc + w * v, sequences=x, outputs_info=sj.constant(0.0))[-1]
    f = sj.function([y], total, updates={w: w + x.sum()}, givens={x: y + 1}, mode=mode)
    assert f([0.0, 1.0]) == 6.0 and w.get_value() == 5.0
    g = sj.function([x], total, givens={w: 10.0}, mode=mode)
    assert g([1.0, 1.0]) == 20.0


def test_givens_are_simultaneous():
    x, y = sj.vector("x"), sj.vector("y")
    f = sj.function([x, y], x - y, givens={x: y, y: x}, mode="reference")
    assert f([5.0], [3.0]) == [-2.0]


def test_givens_that_change_sizes_rename_other_inputs(mode):
    x, y = sj.tensor(("T",), name="x"), sj.tensor(("T",), name="y")
    z = sj.tensor(("U", 2), name="z")
    f = sj.function([z, y], x + y, givens={x: z.sum(1)}, mode=mode)
    assert f([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]).tolist() == [13.0, 27.0]


def test_wrong_givens():
    x, y = sj.vector("x"), sj.matrix("y")
    with refused(sj.ArgumentError, "another type", "<y: float64(", "<x: float64("):
        sj.function([y], x, givens={x: y})
    with refused(sj.ArgumentError, "givens replace symbols", "'x'"):
        sj.function([], x, givens={"x": 1.0})
    with refused(sj.ArgumentError, "replaced twice"):
        sj.function([], x, givens=[(x, [1.0]), (x, [2.0])])


# ---- updates ---------------------------------------------------------------------------------------------------------


def test_updates_apply_together_after_all_reads(mode):
    a, b = sj.shared(1.0, "a"), sj.shared(10.0, "b")
    f = sj.function([], [a, b, a + b], updates=[(a, b), (b, a + b)], mode=mode)
    assert [float(r) for r in f()] == [1.0, 10.0, 11.0]
    assert (a.get_value(), b.get_value()) == (10.0, 11.0)


def test_updates_take_weak_values_and_safe_casts(mode):
    w = sj.shared(np.zeros(2, np.float32), "w")
    n = sj.shared(np.int32(5), "n")
    f = sj.function([], None, updates={w: [0.1, 0.2], n: 0}, mode=mode)
    f()
    assert w.get_value().dtype == np.float32 and n.get_value() == 0
    x = sj.shared(np.zeros(2), "x")
    sj.function([], None, updates={x: w}, mode=mode)()
    np.testing.assert_allclose(x.get_value(), [0.1, 0.2], rtol=1e-6)
    sj.function([], None, updates={w: w * 2.0 + 1}, mode=mode)()
    assert w.get_value().dtype == np.float32


def test_wrong_updates():
    w, x = sj.shared(np.zeros(2, np.float32), "w"), sj.vector("x")
    with refused(sj.DtypeError, "the update of the shared variable 'w'", "float64", "float32(2)", "astype('float32')"):
        sj.function([x], None, updates={w: w + x})
    with refused(sj.ShapeError, "the update of the shared variable 'w'", "float32()", "float32(2)"):
        sj.function([], None, updates={w: w.sum()})
    with refused(sj.ShapeError, "float32(3)"):
        sj.function([], None, updates={w: np.zeros(3, np.float32)})
    with refused(sj.DtypeError, "the shared variable 'w'", "an array of float64"):
        sj.function([], None, updates={w: np.zeros(2)})
    with refused(sj.ArgumentError, "the shared variable 'w' has two updates"):
        sj.function([], None, updates=[(w, w + 1), (w, w + 2)])
    with refused(sj.ArgumentError, "only shared variables have updates", "<x:"):
        sj.function([x], None, updates={x: x})


def test_an_update_of_another_size_leaves_all_as_it_was(mode):
    w, n, x = sj.shared([1.0, 2.0], "w"), sj.shared(0, "n"), sj.vector("x")
    f = sj.function([x], None, updates={n: n + 1, w: x}, mode=mode)
    with refused(sj.ShapeError, "the shared variable 'w'", "size 3 instead of 2", "shape=(None,)"):
        f([1.0, 2.0, 3.0])
    assert n.get_value() == 0 and w.get_value().tolist() == [1.0, 2.0]
    f([5.0, 6.0])
    assert n.get_value() == 1 and w.get_value().tolist() == [5.0, 6.0]


def test_a_growing_state(mode):
    seen = sj.shared(np.zeros(0), "seen", shape=(None,))
    x = sj.scalar("x")
    grow = sj.function([x], seen.sum(), updates={seen: sj.concatenate([seen, x.reshape(1)])}, mode=mode)
    assert [float(grow(k)) for k in (1, 2, 3)] == [0.0, 1.0, 3.0]
    assert seen.get_value().tolist() == [1.0, 2.0, 3.0]


def test_errors_of_a_run_change_nothing(mode):
    w, i = sj.shared([1.0, 2.0, 3.0], "w"), sj.scalar("i", dtype="int64")
    f = sj.function([i], w[i], updates={w: w * 2}, mode=mode)
    with pytest.raises(sj.OutOfBoundsError):
        f(7)
    assert w.get_value().tolist() == [1.0, 2.0, 3.0]
    assert f(1) == 2.0 and w.get_value().tolist() == [2.0, 4.0, 6.0]


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_one_function_from_several_threads(mode):
    xs = sj.matrix("xs")
    f = sj.function([xs], sj.scan(lambda x, h: np.tanh(x + h), xs, sj.zeros(xs.shape[1])).sum(), mode=mode)
    inputs = [np.random.default_rng(k).normal(size=(5 + k, 3)) for k in range(6)]
    expected = [f(x) for x in inputs]

    def work(k):
        for _ in range(20):
            assert f(inputs[k]) == expected[k]

    at_once(6, work)


def test_updates_from_several_threads_lose_nothing(mode):
    count, double = sj.shared(0, "count"), sj.shared(0, "double")
    f = sj.function([], None, updates={count: count + 1, double: 2 * (count + 1)}, mode=mode)
    read = sj.function([], [count, double], mode=mode)

    def work(k):
        for _ in range(50):
            f()
            now, twice = read()
            assert twice == 2 * now

    at_once(4, work)
    assert count.get_value() == 200


# ---- looking inside, pickles -----------------------------------------------------------------------------------------


def test_looking_inside():
    x, w = sj.vector("x"), sj.shared(2.0, "w")
    f = sj.function([x], x * w, updates={w: w + 1}, name="scale", mode="reference")
    assert repr(f).startswith("<scale(x: float64(") and "updates w" in repr(f) and f.__name__ == "scale"
    assert f.mode == "reference" and f.graph.inputs[0] is x
    assert "reference" in f.source and "NumPy" in f.explain() and f.inspect_asm()


def test_generated_source_and_assembly():
    x = sj.vector("x")
    f = sj.function([x], np.tanh(x) * 2, name="twice")
    assert "def " in f.source and "twice" in f.explain() and "ret" in f.inspect_asm()


@pytest.mark.parametrize(
    "package, more", [("scanjit", {"zipfile", "json", "difflib", "sysconfig", "numpy.random"}), ("lasagne_like", set())]
)
def test_importing_a_package_does_not_import_what_only_some_programs_need(package, more):
    """Least of all a compiler."""
    unneeded = {f"scanjit.{layer}" for layer in ("rewrite", "schedule", "simd", "codegen", "onnx", "torch", "numba")}
    unneeded |= {"numba", "llvmlite", "sympy", "tqdm", *more}
    code = f"import numpy, sys; before = set(sys.modules); import {package}; print(*(set(sys.modules) - before))"
    imported = python(code).split()
    assert package in imported and not unneeded & set(imported)


def roundtrip(*values):
    return pickle.loads(pickle.dumps(values))


def test_a_pickled_function_computes_the_same(mode):
    x, n = sj.tensor(("T", None), name="x"), sj.scalar("n", dtype="int64")
    h = sj.scan(lambda row, h: np.tanh(row + h) * 0.5, x, sj.zeros(x.shape[1]))
    f = sj.function([x, n], {"h": h, "some": h[:n], "size": x.shape[0] * 2 + 1}, name="f", mode=mode)
    (g,) = roundtrip(f)
    given = np.random.default_rng(0).normal(size=(5, 3)), 2
    expected, got = f(*given), g(*given)
    assert got.keys() == expected.keys() and repr(f).replace("n", "") != ""
    for key in expected:
        np.testing.assert_array_equal(got[key], expected[key])
    assert g.graph.inputs[0].type.shape[0] == x.type.shape[0], "named sizes join those of their name"
    assert g.graph.inputs[0].type.shape[1] != x.type.shape[1]


def test_pickled_functions_keep_sharing_their_variables(mode):
    w, x = sj.shared([1.0, 2.0], "w", shape=(None,)), sj.scalar("x")
    add, read = sj.function([x], None, updates={w: w + x}, mode=mode), sj.function([], w * 1.0, mode=mode)
    add2, read2, w2 = roundtrip(add, read, w)
    add2(10.0)
    assert read2().tolist() == [11.0, 12.0] == w2.get_value().tolist()
    assert read().tolist() == [1.0, 2.0]
    w2.set_value([1.0, 2.0, 3.0])
    assert read2().tolist() == [1.0, 2.0, 3.0]


def test_gradients_of_nested_scans_pickle():
    xs, w = sj.matrix("xs"), sj.shared(0.5, "w")

    def outer(row, h):
        inner = sj.scan(lambda v, a: a * w + np.tanh(v), row, h)
        return inner[-1]

    loss = sj.scan(outer, xs, sj.constant(0.0)).sum()
    f = sj.function([xs], [loss, sj.grad(loss, w)], mode="reference")
    (g,) = roundtrip(f)
    given = np.random.default_rng(1).normal(size=(3, 4))
    np.testing.assert_equal(f(given), g(given))


def test_a_function_unpickles_in_another_process(tmp_path):
    x = sj.tensor(("Rows", 2), name="x")
    f = sj.function([x], sj.scan(lambda row, h: h * 0.5 + row, x, sj.zeros(2))[-1], mode="reference")
    path = tmp_path / "f.pickle"
    path.write_bytes(pickle.dumps(f))
    code = f"import pickle; f = pickle.load(open({str(path)!r}, 'rb')); print(f([[1, 2], [3, 4]]).tolist())"
    assert python(code).strip() == "[3.5, 5.0]"


def test_a_long_chain_pickles():
    x = sj.scalar("x")
    y = x
    for k in range(3000):
        y = y * 0.5 + k
    f = sj.function([x], y, mode="reference")
    (g,) = roundtrip(f)
    assert g(1.0) == f(1.0)


def test_a_text_that_is_too_long_for_a_file_pickles(capsys, tmp_path):
    x, message = sj.scalar("x"), "long " * 1000
    f = sj.function([x], sj.print_(x, message), mode="reference")
    (g,) = roundtrip(f)
    assert g(1.5) == 1.5 and capsys.readouterr().out == f"{message}: 1.5\n"
    with pytest.raises(sj.NotSupportedError, match="so long"):
        f.save(tmp_path / "f")


@pytest.mark.parametrize("dtype", ["m8[s]", "M8[s]"])
@pytest.mark.parametrize("wanted", ["int64", "float64"])
def test_times_are_no_numbers(dtype, wanted):
    """NumPy counts spans of time among the integers."""
    f = sj.function([sj.tensor((None,), wanted)], [], mode="reference")
    with pytest.raises(sj.DtypeError, match="values could be lost"):
        f(np.zeros(2, dtype))
    with pytest.raises(sj.ArgumentError, match="no array of numbers"):
        f([np.zeros((), dtype)[()]])


def test_integers_of_another_width_are_taken_if_they_fit():
    n, small = sj.ivector("n"), sj.tensor((None,), "uint8", "small")
    f = sj.function([n, small], [n + 0, small + 0], mode="reference")
    labels, others = f(np.array([1, -2], "int64"), np.array([0, 255], "int64"))
    assert labels.dtype == np.int32 and labels.tolist() == [1, -2]
    assert others.dtype == np.uint8 and others.tolist() == [0, 255]
    for wrong in ([2**31, 0], [-(2**31) - 1, 0]):
        with pytest.raises(sj.DtypeError, match="does not hold all of these numbers"):
            f(np.array(wrong), np.zeros(1, "int64"))
    for wrong in ([-1], [256]):
        with pytest.raises(sj.DtypeError, match=r"\('small'\) of function does not hold all of these numbers"):
            f(np.zeros(1, "int64"), np.array(wrong))
    with pytest.raises(sj.DtypeError, match=r"int64, from -1 to 998"):
        f(np.zeros(1, "int64"), np.arange(-1, 999))
    with pytest.raises(sj.DtypeError, match="does not hold all"):
        sj.function([n], n, mode="reference")(np.array([2**63], "uint64"))


def test_the_settings_are_shown():
    assert repr(sj.config).startswith("Config(floatX='float64', threads=")
