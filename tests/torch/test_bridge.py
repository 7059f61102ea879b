"""Compiled functions as functions of PyTorch's tensors: values, memory, derivatives of two orders, errors."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from tests.at_once import at_once
from tests.optional import optional

torch, needs_torch = optional("torch")

MODE = "reference"  # what is compiled is tested elsewhere; here, once


def made(f: Any, mode: str = MODE) -> Any:
    return sj.torch.as_function(f, mode)


def some(*shape: int, dtype: str = "float64", grad: bool = True) -> Any:
    values = np.random.default_rng(len(shape)).normal(0, 0.7, shape).astype(dtype)
    return torch.from_numpy(values).requires_grad_(grad)


def rnn(x: Any, w: Any, h: Any) -> Any:
    """A small network: its states, and the last of them."""
    rows = sj.scan(lambda row, state, w: sj.tanh(row + state @ w), x, h, w)
    return rows, {"last": rows[-1], "energy": (rows * rows).sum()}


def theirs(x: Any, w: Any, h: Any) -> Any:
    rows = []
    for row in x:
        h = torch.tanh(row + h @ w)
        rows.append(h)
    return torch.stack(rows), {"last": rows[-1], "energy": (torch.stack(rows) ** 2).sum()}


@needs_torch
@pytest.mark.parametrize(("mode", "dtype"), [("reference", "float64"), ("emulate", "float32"), ("numba", "float32")])
def test_values_and_gradients_are_pytorchs(mode: str, dtype: str) -> None:
    f = made(rnn, mode)
    tolerance = {"rtol": 1e-10, "atol": 1e-11} if dtype == "float64" else {"rtol": 1e-4, "atol": 1e-5}
    given = [some(4, 2, 3, dtype=dtype), some(3, 3, dtype=dtype), some(2, 3, dtype=dtype)]
    found, expected = f(*given), theirs(*given)
    torch.testing.assert_close(found, expected, **tolerance)
    for part in (lambda out: out[0].sum() + out[1]["energy"] * 2, lambda out: (out[1]["last"] ** 3).sum()):
        gradients = [torch.autograd.grad(part(out), given, retain_graph=True) for out in (found, expected)]
        torch.testing.assert_close(*gradients, **tolerance)


@needs_torch
def test_gradcheck_of_two_orders() -> None:
    f = made(rnn)
    given = some(3, 2, 2), some(2, 2), some(2, 2)
    assert torch.autograd.gradcheck(lambda *args: f(*args)[0], given)
    assert torch.autograd.gradgradcheck(lambda *args: (f(*args)[0], f(*args)[1]["energy"]), given)


@needs_torch
def test_only_the_gradients_that_are_needed() -> None:
    f = made(rnn)
    x, w, h = some(3, 2, 2, grad=False), some(2, 2), some(2, 2, grad=False)
    rows, rest = f(x, w, h)
    rest["last"].sum().backward()
    assert w.grad is not None and x.grad is None and h.grad is None
    (made_once,) = f._programs.made()
    assert list(made_once.program._derived) == [("keeping", (1,))]
    (((kind, needed, given), gradient),) = made_once.program.keeping((1,))._derived.items()
    assert (kind, needed, given) == ("pullback", (1,), (1,)) and len(gradient.program.outputs) == 1
    with torch.no_grad():
        assert not f(x, w, h)[0].requires_grad
    assert not f(x, w.detach(), h)[0].requires_grad
    torch.testing.assert_close(w.grad, torch.autograd.grad(theirs(x, w, h)[0][-1].sum(), w)[0])
    assert rows.requires_grad


def loops(nodes: Any) -> int:
    return sum(node.op.name == "scan" for node in ir.walk(nodes))


@needs_torch
@pytest.mark.parametrize(("checkpoint", "kept"), [(None, True), ("sqrt", False)])
def test_the_forward_loop_is_not_run_again(checkpoint: Any, kept: bool) -> None:
    """What it gave is kept, unless it asks for less memory."""
    f = made(lambda x, w: sj.scan(lambda row, h: sj.tanh(row + h @ w), x, sj.zeros_like(x[0]), checkpoint=checkpoint))
    given = some(4, 2, 2), some(2, 2)
    f(*given).sum().backward()
    program = f._programs.made()[0].program.keeping((0, 1))
    gradient = program.pullback((0, 1), (0,))
    assert bool(program.kept) == kept and loops(gradient.program.outputs) == (1 if kept else 2)
    expected = torch.autograd.grad(theirs(*given, torch.zeros(2, 2).double())[0].sum(), given)
    torch.testing.assert_close(tuple(x.grad for x in given), expected)


@needs_torch
def test_one_output_twice() -> None:
    f = made(lambda x, w: [x @ w] * 2 + [w])
    x, w = some(2, 2), some(2, 2)
    first, second, third = f(x, w)
    (first.sum() + 2 * second.sum() + third.sum()).backward()
    torch.testing.assert_close(x.grad, 3 * w.detach().sum(1).expand(2, 2))


@needs_torch
def test_integers_have_no_gradient() -> None:
    x, i = sj.matrix("x"), sj.lvector("i")
    f = made(sj.function([x, i], [x[i] ** 2, i * 2, (x[i] > 0)], mode=MODE))
    given = some(4, 2)
    index = torch.tensor([2, 0, 2])
    rows, doubled, positive = f(given, index)
    assert not doubled.requires_grad and doubled.dtype == torch.int64 and positive.dtype == torch.bool
    rows.sum().backward()
    expected = torch.zeros(4, 2, dtype=torch.float64).index_add_(0, index, 2 * given.detach()[index])
    torch.testing.assert_close(given.grad, expected)


@needs_torch
def test_what_does_not_depend_on_an_input() -> None:
    f = made(lambda x, y: (x * 2, sj.floor(y), sj.stop_gradient(x)))
    x, y = some(3), some(3)
    a, b, c = f(x, y)
    assert torch.autograd.grad(a.sum(), [x, y], allow_unused=True, retain_graph=True)[1] is None
    for out in (b, c):
        for g in torch.autograd.grad(out.sum(), [x, y], allow_unused=True, retain_graph=True):
            assert g is None or not g.any()


@needs_torch
def test_nothing_is_copied() -> None:
    seen: list[Any] = []
    x = sj.matrix("x")
    compiled = sj.function([x], x + 1, mode=MODE)
    f = made(compiled)
    program = f._programs.made()[0].program
    program._compiled = lambda *arrays: seen.extend(arrays) or np.zeros(3)
    program._compiled.graph = compiled.graph
    given = some(2, 3)
    result = f(given)
    assert seen[0].__array_interface__["data"][0] == given.data_ptr()
    result.detach().numpy()[:] = 7
    assert (result == 7).all()


@needs_torch
@pytest.mark.parametrize("strange", ["transposed", "stepped", "expanded", "empty", "scalar"])
def test_tensors_of_any_layout(strange: str) -> None:
    base = some(4, 6)
    x = {
        "transposed": lambda: base.T,
        "stepped": lambda: base[::2, 1:5:3],
        "expanded": lambda: base[:1].expand(3, 6),
        "empty": lambda: base[:0],
        "scalar": lambda: base[0, 0],
    }[strange]()
    f = made(lambda x: (x * x).sum() + x)
    torch.testing.assert_close(f(x), (x * x).sum() + x)
    found, expected = (torch.autograd.grad(g(x).sum(), base)[0] for g in (f, lambda x: (x * x).sum() + x))
    torch.testing.assert_close(found, expected)


@needs_torch
def test_in_a_module_that_is_trained() -> None:
    """The step between layers of PyTorch's."""
    torch.manual_seed(0)
    f = made(lambda x, a: sj.scan(lambda row, h, a: sj.sigmoid(a) * h + row, x, sj.zeros_like(x[0]), a))
    before, decay, after = torch.nn.Linear(2, 3), torch.nn.Parameter(torch.zeros(3)), torch.nn.Linear(3, 1)
    parameters = [*before.parameters(), decay, *after.parameters()]
    optimizer = torch.optim.Adam(parameters, 0.05)
    x = torch.randn(5, 4, 2)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = ((after(f(before(x), decay)) - x.sum(-1, keepdim=True).cumsum(0)) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0] and decay.grad.abs().min() > 0


@needs_torch
def test_traced_once_for_all_sizes() -> None:
    calls = []
    f = made(lambda x: calls.append(x) or x.sum(axis=0))
    for shape in ((3, 2), (5, 1), (0, 4)):
        f(some(*shape))
    f(some(3, 2, dtype="float32"))
    f(some(3))
    assert len(calls) == 3


@needs_torch
def test_shared_variables_are_constants() -> None:
    w, x = sj.shared(2.0, "w"), sj.vector("x")
    f = made(sj.function([x], w * x * x, mode=MODE))
    given = some(3)
    result = f(given)
    w.set_value(3.0)
    result.sum().backward()
    torch.testing.assert_close(result, 2 * given**2)
    torch.testing.assert_close(given.grad, 6 * given.detach())  # the value at the time of the call


@needs_torch
def test_sizes_that_are_values() -> None:
    f = made(lambda x: x[: (x > 0).sum()] * x[-1])
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    f(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([3.0, 3.0, -1.0], dtype=torch.float64))


@needs_torch
def test_arguments_by_name_numbers_and_arrays() -> None:
    x, y = sj.vector("x"), sj.scalar("y")
    f = made(sj.function([x, y], x * y, mode=MODE))
    array = some(3).detach().numpy()
    swapped = array.astype(array.dtype.newbyteorder())
    two = torch.tensor(2.0).double()
    for found in (f(some(3), y=2), f(y=2.0, x=some(3)), f(array, two), f(swapped, two)):
        torch.testing.assert_close(found, 2 * some(3), check_stride=False)
    torch.testing.assert_close(made(lambda x: 2 * x)(swapped), 2 * some(3).detach())
    with pytest.raises(sj.ArgumentError, match="takes 2 arguments"):
        f(some(3))


@needs_torch
def test_numbers_take_the_dtype_of_the_floats() -> None:
    f = made(lambda x, a: sj.scan(lambda x, h: h + a * (x - h), x, x[0]))
    for dtype in (torch.float16, torch.float32, torch.float64):
        assert f(torch.ones(3, dtype=dtype), 0.5).dtype == dtype
    product = made(lambda x, a: x * a)
    assert product(torch.ones(3), [0.1, 0.2, 0.3]).dtype == torch.float32
    assert product(torch.ones(3), 2j).dtype == torch.complex64
    assert product(torch.arange(3), 0.5).dtype == torch.float64
    assert product(torch.ones(3), np.array(0.5)).dtype == torch.float64  # an array has a dtype of its own


@needs_torch
@pytest.mark.filterwarnings("ignore")  # of PyTorch's, about its own code
def test_in_what_pytorch_compiles() -> None:
    """`torch.compile` calls our functions as they are: it cannot translate them."""
    x, w, h = some(4, 2, 3), some(3, 3), some(2, 3)

    def loss(f: Any) -> Any:
        return (f(2 * x, w, h)[0] ** 2).sum() * 3

    f = made(rnn)
    found = torch.compile(loss, backend="eager")(f)
    torch.testing.assert_close(found, loss(theirs))
    gradients = [torch.autograd.grad(value, [x, w, h]) for value in (found, loss(theirs))]
    torch.testing.assert_close(*gradients)
    v = sj.vector("v")
    sums = sj.function([v], sj.cumsum(v), mode=MODE)
    ones = torch.ones(3, dtype=torch.float64)
    found = torch.compile(lambda v: torch.from_numpy(sums(v.numpy())) + v, backend="eager")(ones)
    torch.testing.assert_close(found, torch.arange(2.0, 5.0, dtype=torch.float64))


@needs_torch
@pytest.mark.filterwarnings("ignore")  # of PyTorch's, about its own code
def test_what_is_traced_in_what_pytorch_compiles() -> None:
    """PyTorch translated our tracing too, and failed at the first array that cannot be written to."""
    sums = sj.jit(lambda v: sj.cumsum(v) + np.ones(3))
    slope = sj.value_and_grad(lambda v: (v**2).sum())

    def both(v: Any) -> Any:
        return torch.from_numpy(sums(v.numpy())) + torch.from_numpy(slope(v=v.numpy())[1])

    for _ in range(2):
        found = torch.compile(both, backend="eager")(torch.ones(3, dtype=torch.float64))
        torch.testing.assert_close(found, torch.arange(4.0, 7.0, dtype=torch.float64))


@needs_torch
def test_from_other_threads() -> None:
    """Autograd calls backward from threads of its own; two may compile at a time."""

    f = made(lambda x: (x**3).sum())

    def work(_: int) -> bool:
        x = some(4)
        f(x).backward()
        return torch.allclose(x.grad, 3 * x.detach() ** 2)

    assert all(at_once(4, work))


@needs_torch
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: f(torch.empty(3, device="meta")), sj.ArgumentError, r"on the CPU(.|\n)*meta(.|\n)*\.cpu\(\)"),
        (lambda f: f(torch.zeros(3).to_sparse()), sj.ArgumentError, "dense tensor"),
        (lambda f: f(torch.zeros(3, dtype=torch.float8_e5m2)), sj.DtypeError, "dtype that NumPy has not"),
        (lambda f: f(torch.zeros(3, dtype=torch.float64)), sj.DtypeError, "argument 0"),
        (lambda f: f(torch.zeros(3, 1)), sj.ShapeError, "1 dimension"),
        (lambda f: f("text"), sj.ArgumentError, "neither a tensor nor an array|no array"),
        (lambda f: f(), sj.ArgumentError, "takes 1 argument"),
    ],
)
def test_bad_arguments(call: Any, error: Any, message: str) -> None:
    x = sj.tensor((None,), "float32", "x")
    with pytest.raises(error, match=message):
        call(made(sj.function([x], x, mode=MODE)))


@needs_torch
@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_tensors_of_bfloat16(mode: str) -> None:
    """NumPy has no such dtype. The bridge takes and gives them, and so does all that takes arrays."""
    pytest.importorskip("ml_dtypes")
    values = torch.tensor([[1.0, -2.5], [0.5, 3.0]], dtype=torch.bfloat16)
    given = [values.clone().requires_grad_(), values.T.clone().requires_grad_()]
    found = made(lambda x, w: np.tanh(x) @ w, mode)(*given)
    expected = torch.tanh(given[0]) @ given[1]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)
    for part in zip(*(torch.autograd.grad(y.sum(), given) for y in (found, expected)), strict=True):
        torch.testing.assert_close(*part, rtol=0.02, atol=0.01)
    x, before = sj.tensor((None, None), "float32", "x"), sj.shared(values)
    exactly = values.float().numpy()
    np.testing.assert_array_equal(sj.function([x], x + values + before, mode=mode)(values.T), exactly * 2 + exactly.T)
    np.testing.assert_array_equal(sj.function([], sj.scan(lambda row: row, values), mode=mode)().astype("f4"), exactly)
    assert before.dtype == sj.as_tensor(values).dtype == "bfloat16"


@needs_torch
def test_functions_that_cannot_be_bridged() -> None:
    w, x = sj.shared(1.0, "w"), sj.vector("x")
    with pytest.raises(sj.ArgumentError, match=r"updates shared variables(.|\n)*w"):
        made(sj.function([x], x, updates={w: w + 1}, mode=MODE))
    with pytest.raises(sj.ArgumentError, match="has no outputs"):
        made(sj.function([x], None, mode=MODE))
    with pytest.raises(sj.ArgumentError, match="only a function can become a function for"):
        made(3)
    with pytest.raises(sj.ArgumentError, match="by position"):
        made(lambda x: x)(x=some(3))


@needs_torch
@pytest.mark.filterwarnings("ignore:..*torch.jit")  # PyTorch warns of itself
def test_transforms_of_torch_func() -> None:
    """`grad`, `vmap` and the others, and what is made of several of them."""
    f = sj.torch.as_function(lambda x, a: sj.scan(lambda x, h: h + a * np.tanh(x - h), x, x[0]), mode=MODE)

    def by_torch(x: Any, a: Any) -> Any:
        h, states = x[0], []
        for value in x:
            h = h + a * torch.tanh(value - h)
            states.append(h)
        return torch.stack(states)

    func, x, a = torch.func, torch.linspace(0, 1, 4, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    rows, rates = torch.stack([x, x**2]), torch.stack([a, a / 2, a / 3])
    for transformed in (
        lambda f: func.grad(lambda a: f(x, a).sum())(a),
        lambda f: func.grad(func.grad(lambda a: f(x, a).sum()))(a),
        lambda f: torch.vmap(f, (1, None))(rows.T, a),
        lambda f: torch.vmap(torch.vmap(f, (None, 0)), (0, None))(rows, rates),
        lambda f: torch.vmap(func.grad(lambda x, a: f(x, a).sum()), (0, None))(rows, a),
        lambda f: func.grad(lambda a: torch.vmap(f, (0, None))(rows, a).sum())(a),
        lambda f: func.jacrev(lambda x: f(x, a))(x),
        lambda f: func.jacfwd(lambda x: f(x, a))(x),
        lambda f: func.hessian(lambda a: f(x, a).sum())(a),
        lambda f: func.jvp(lambda x: f(x, a), (x,), (torch.ones_like(x),))[1],
    ):
        np.testing.assert_allclose(transformed(f), transformed(by_torch), rtol=1e-12, atol=1e-15)
    found = torch.vmap(sj.torch.as_function(lambda x: {"place": x.argmax(), "sum": x.sum()}, mode=MODE))(rows)
    assert found["place"].tolist() == [3, 3] and found["sum"].shape == (2,)


@needs_torch
@pytest.mark.filterwarnings("ignore:..*torch.jit")  # PyTorch warns of itself
def test_transforms_of_what_does_not_depend_on_an_input() -> None:
    """Of several outputs, some do not depend on an input, nor on what a derivative is taken by again."""
    func, x = torch.func, torch.linspace(-1, 1, 3, dtype=torch.float64)
    f = sj.torch.as_function(lambda x, y: [(x * y**3).sum(), x * 2, (y > 0).sum()], mode=MODE)
    by_torch = lambda x, y: [(x * y**3).sum(), x * 2, (y > 0).sum()]
    for transformed in (
        lambda f: func.hessian(lambda y: f(x, y)[0])(x + 1),
        lambda f: func.jacfwd(func.jacfwd(lambda y: f(x, y)[0]))(x + 1),
        lambda f: torch.vmap(func.hessian(lambda y: f(x, y)[0]))(torch.stack([x, x + 1])),
        lambda f: torch.vmap(func.hessian(lambda x, y: f(x, y)[0]), (None, 0))(x, torch.stack([x, x + 1])),
        lambda f: func.jvp(lambda y: f(x, y)[1], (x,), (x,))[1],
    ):
        np.testing.assert_allclose(transformed(f), transformed(by_torch), rtol=1e-12)
