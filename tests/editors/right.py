"""A script of a user: every line of it is right. It also runs."""

from collections import OrderedDict
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import lasagne_like as ll
import scanjit as sj

Array = NDArray[Any]

# ---- tensors ---------------------------------------------------------------------------------------------------------
x, w, n = sj.matrix("x"), sj.tensor((3, 3), "float32", name="w"), sj.iscalar("n")
assert_type(x @ w, sj.Node)
assert_type(0.5 * x + x / 2 - x**2 // 3 % 5, sj.Node)
assert_type((x > 0) & ~(x <= w), sj.Node)
assert_type((x == 0).sum() + (x != w).sum(), sj.Node)
names = {x: "x", w: "w"}
sj.config.progress = True
assert_type(-abs(x) + np.float32(2.0), sj.Node)
assert_type(x.T, sj.Node)
assert_type(x[0, 1:, None], sj.Node)
assert_type(x[x.argmax(axis=0)].sum(axis=(0, 1), keepdims=True), sj.Node)
assert_type(x.reshape(-1, 3).astype("float64").mean(0).max(), sj.Node)
assert_type(x[0].inc(1.0), sj.Node)
assert_type(sj.tanh(x) + sj.where(x > 0, x, [1.0, 2.0, 3.0]), sj.Node)
assert_type(sj.concatenate([x, x], axis=1), sj.Node)
assert_type(sj.zeros((x.shape[0], n), dtype=x.dtype).ndim, int)
rows = [row * 2 for row in w]
assert_type(rows, list[sj.Node])
h0: sj.Node = sj.zeros(3)
typed_tanh = sj.as_tensor(np.tanh(x))
assert_type(typed_tanh, sj.Node)
by_numpy = np.where(x > 0, np.exp(x), np.sum(x, axis=0)).sum()


# ---- loops -----------------------------------------------------------------------------------------------------------
def step(x_t: sj.Node, h: sj.Node) -> sj.Node:
    return sj.tanh(x_t + h @ w)


def step_of_two(x_t: sj.Node, h: sj.Node, c: sj.Node) -> tuple[sj.Node, sj.Node]:
    return h + x_t, c * 2


def step_of_dict(x_t: sj.Node, s: dict[str, sj.Node]) -> dict[str, sj.Node]:
    return {"h": s["h"] + x_t}


def step_of_dict_alone(s: dict[str, sj.Node]) -> dict[str, sj.Node]:
    return {"h": s["h"] + 1}


def ending(h: sj.Node) -> tuple[sj.Node, Any]:
    return h * 2, sj.until(h > 100)


assert_type(sj.scan(step, sequences=x, outputs_info=np.zeros(3)), sj.Node)
assert_type(sj.scan(fn=step, sequences=[dict(input=x, taps=[-1])], outputs_info=h0, checkpoint="sqrt"), sj.Node)
assert_type(sj.scan(step_of_two, x, [h0, 0.0 * h0], n_steps=n), list[sj.Node])
hs, cs = sj.scan(step_of_two, x, [h0, 0.0 * h0], unroll=2, name="two")
assert_type(hs, sj.Node)
assert_type(sj.scan(step_of_dict, x, [{"h": h0}]), dict[str, sj.Node])
ended = sj.scan(ending, outputs_info=1.0, n_steps=10)
by_lambda = sj.scan(lambda x_t, h: np.tanh(x_t + 0.5 * h), sequences=x[0], outputs_info=0.0)
cost = ((by_lambda - 1.0) ** 2).mean()
assert_type(sj.map(lambda row: sj.exp(row), x).shape[0], Any)
total = sj.reduce(step, x, h0)
assert_type(sj.while_loop(lambda s: s < 100.0, lambda s: sj.exp(s), 1.0, max_steps=10), sj.Node)
assert_type(sj.while_loop(lambda s: s["h"].sum() < 9, step_of_dict_alone, {"h": h0}), dict[str, sj.Node])
assert_type(sj.ifelse(n > 0, x, -x), sj.Node)
assert_type(sj.ifelse(n > 0, lambda: x + 1, 0.0), sj.Node)
assert_type(sj.ifelse(n > 0, (x, h0), lambda: (-x, h0)), tuple[sj.Node, sj.Node])

# ---- derivatives -----------------------------------------------------------------------------------------------------
params = [sj.shared(np.zeros((3, 3)), "a"), sj.shared(0.5, "b")]
assert_type(params, list[sj.SharedVariable])
loss = (x @ params[0] + params[1]).sum()
assert_type(sj.grad(loss, x), sj.Node)
assert_type(sj.grad(loss, params[0], disconnected="zero"), sj.Node)
assert_type(sj.grad(loss, params), list[sj.Node])
assert_type(sj.grad(cost=loss, wrt={"x": x}), dict[str, sj.Node])
assert_type(sj.grad(loss, (x, params[0])), tuple[sj.Node, ...])
assert_type(sj.hessian(loss, x), sj.Node)
assert_type(sj.jacobian(x @ w, x, mode="reverse"), sj.Node)
assert_type(sj.jacobian(x[0], wrt=[x]), list[sj.Node])
assert_type(sj.vjp(outputs=x, wrt=x, cotangents=x), sj.Node)
assert_type(sj.vjp(x @ params[0], {"a": params[0]}, x), dict[str, sj.Node])
assert_type(sj.jvp(x * 2, x, x), sj.Node)
assert_type(sj.jvp([x * 2, x.sum()], x, x), list[sj.Node])


# ---- functions -------------------------------------------------------------------------------------------------------
f = sj.function([x], loss, updates={params[1]: params[1] * 0.9}, name="f", mode="reference")
assert_type(f(np.ones((2, 3))), Array)
assert_type(sj.function([x], [loss, x], mode="reference"), sj.CompiledFunction[list[Array]])
assert_type(sj.function([x], {"loss": loss}, mode="reference")(x=np.ones((2, 3))), dict[str, Array])
first, second = sj.function([x, w], (x, w), mode="reference")(np.ones((2, 3)), np.ones((3, 3), "float32"))
assert_type(sj.function([], updates=[(params[1], params[1] + 1)], mode="reference")(), None)
f.save("f.sj")
loaded = sj.load("f.sj")
print(loaded([[1.0, 2.0, 3.0]]), f(np.ones((2, 3))).item())
texts: list[str] = [f.explain(), f.name, f.mode]
assert_type(params[0].get_value(), Array)
params[0].set_value(np.ones((3, 3)))
params[0].set_value([[1.0] * 3] * 3, borrow=True)
weights = np.ones(3) @ params[0].get_value() + params[0].T[0].sum()


@sj.jit(mode="reference")
def normalized(a: sj.TensorLike, eps: float = 1e-6) -> sj.Node:
    a = sj.as_tensor(a)
    return a / (a.sum() + eps)


assert_type(normalized(np.ones(3), eps=0.1), Array)
assert_type(normalized([1.0, 2.0]), Array)


@sj.jit(mode="reference", static_argnums=1)
def both(a: sj.TensorLike, k: int) -> tuple[sj.Node, sj.Node]:
    return sj.as_tensor(a) * k, sj.exp(a)


left, right = both(np.ones(3), 2)
assert_type(left, Array)


def squares(p: dict[str, sj.TensorLike], xs: sj.TensorLike) -> sj.Node:
    return ((sj.as_tensor(xs) * p["a"]) ** 2).sum()


value, slopes = sj.value_and_grad(squares, mode="reference")({"a": 2.0}, xs=np.ones(3))
assert_type(value, Array)
assert_type(sj.vmap(step, in_axes=(0, None))(x, h0), sj.Node)
stream = sj.random.Stream(seed=3)
assert_type(stream.normal((2, 3), scale=0.1), sj.Node)

# ---- layers ----------------------------------------------------------------------------------------------------------
l_in = ll.layers.InputLayer((None, None, 4), input_var=sj.tensor3("in"), name="in")
l_mask = ll.layers.InputLayer((None, None), sj.matrix("mask"))
l_rnn = ll.layers.LSTMLayer(
    l_in, num_units=8, mask_input=l_mask, grad_clipping=5.0, only_return_final=True, backwards=True, name="rnn"
)
l_gru = ll.layers.GRULayer(l_in, 8, hid_init=ll.init.Constant(0.0), learn_init=True, unroll_scan=False)
l_cells = ll.layers.RNNLayer(l_in, [ll.cells.LSTM(4), ll.cells.GRU(5)], checkpoint="sqrt", name="cells")
l_drop = ll.layers.DropoutLayer(l_rnn, p=0.2)
l_out = ll.layers.DenseLayer(
    l_drop, num_units=2, W=ll.init.GlorotUniform(), b=None, nonlinearity=ll.nonlinearities.softmax, name="out"
)
output = ll.layers.get_output(l_out, deterministic=True)
assert_type(output, sj.Node)
assert_type(ll.layers.get_output([l_rnn, l_out]), list[sj.Node])
all_params = ll.layers.get_all_params(l_out, trainable=True)
assert_type(all_params, list[sj.SharedVariable])
target = sj.ivector("target")
error = ll.objectives.categorical_crossentropy(output, target).mean()
updates = ll.updates.adam(error, all_params, learning_rate=0.01)
assert_type(updates, OrderedDict[sj.SharedVariable, sj.Node])
assert_type(l_out.output_shape, tuple[int | None, ...])
train = sj.function([l_in.input_var, l_mask.input_var, target], error, updates=updates, mode="reference")
values = ll.layers.get_all_param_values(l_out)
ll.layers.set_all_param_values(l_out, values)


def of_other_libraries() -> None:  # which need not be there: this is not called
    assert_type(sj.from_numba(step, result="float64"), sj.CustomVjp)
    assert_type(sj.jax.as_function(step), sj.jax.JaxFunction)
    assert_type(sj.pytensor.as_op(step), sj.pytensor.PytensorFunction)
