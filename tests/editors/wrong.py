"""A script of a user with a mistake in each line that ends in a comment, and in no other."""

import numpy as np

import lasagne_like as ll
import scanjit as sj

x = sj.matrix("x")
w = sj.tensor((3, 3), "float32", nmae="w")  # a misspelt keyword
v = sj.vektor("v")  # no such function
x.summ()  # a misspelt method
x.sum(axes=0)  # a misspelt keyword of a method
x.sum(axis="rows")  # an axis is a number
x.shape()  # a property
x + "a"  # a text is no tensor
x["rows"]  # nor is it an index
sj.tanh("text")  # nor here
sj.tanh()  # a missing argument
sj.where(x > 0, x)  # a missing argument
x[0] = 1.0  # symbols do not change
float(x.sum())  # they have no value
sj.config.thread = 2  # a misspelt setting


def step(x_t: sj.Node, h: sj.Node) -> sj.Node:
    return sj.tanh(x_t + h)


def step_of_two(x_t: sj.Node, h: sj.Node) -> tuple[sj.Node, sj.Node]:
    return x_t, h


h = sj.scan(step, sequences=x, outputs_info=0.0, go_backward=True)  # a misspelt keyword
h = sj.scan(step, x, 0.0, n_steps="ten")  # a number
h = sj.scan(step, x, 0.0, checkpoint="some")  # "sqrt" or "all"
sj.scan(x, x, 0.0)  # a step is a function
sj.scan(step, x, 0.0).append(x)  # one output is no list
sj.scan(step_of_two, x, [None, 0.0]).sum()  # two outputs are a list
hs: sj.Node = sj.scan(step_of_two, x, [None, 0.0])  # two outputs are a list
sj.grad(x.sum(), x).append(x)  # one gradient
sj.grad(x.sum(), [x]).sum()  # a list of gradients
sj.grad(x.sum())  # by what?
sj.grad(x.sum(), x, disconnected="ignored")  # "ignore"
sj.jacobian(x[0], [x]).sum()  # a list of derivatives
sj.vjp(x, x, x).append(x)  # one derivative
sj.jvp([x, x], x, x).sum()  # a list of rates
sj.while_loop(lambda s: s < 9, lambda s: sj.exp(s), x).append(x)  # one tensor
sj.ifelse(x.sum() > 0, x, w).append(x)  # one tensor

f = sj.function([x], x.sum(), mode="numbas")  # no such mode
f = sj.function(x, x.sum())  # inputs are a list
f = sj.function([x], x.sum(), update=[])  # a misspelt keyword
sj.function([x], x.sum())(np.ones((2, 2))).dimshuffle(0)  # a call returns an array
sj.function([x], [x])(np.ones((2, 2))).sum()  # a list of arrays
sj.function([x], x).explane()  # a misspelt method
shared = sj.shared(1.0, nam="s")  # a misspelt keyword
sj.shared(1.0).get_vale()  # a misspelt method
sj.shared(1.0).set_value()  # a missing argument


@sj.jit
def normalized(a: sj.TensorLike, eps: float) -> sj.Node:
    return sj.as_tensor(a) + eps


normalized(np.ones(3))  # a missing argument
normalized(np.ones(3), epsilon=1e-3)  # a misspelt keyword
normalized(np.ones(3), "small")  # a number
normalized(np.ones(3), 1e-3).dimshuffle(0)  # a call returns an array
sj.value_and_grad(step, argnum=0)  # a misspelt keyword
value, slope, more = sj.value_and_grad(step)(x, x)  # two results
sj.random.Stream(sed=1)  # a misspelt keyword
sj.random.Stream(1).normal((2,), std=1.0)  # its name is `scale`

l_in = ll.layers.InputLayer((None, None, 4), names="in")  # a misspelt keyword
l_in = ll.layers.InputLayer((None, None, 4))
ll.layers.LSTMLayer(l_in, num_unit=8)  # a misspelt keyword
ll.layers.LSTMLayer(l_in, 8, only_return_last=True)  # its name is `only_return_final`
ll.layers.LSTMLayer(l_in, 8, grad_clipping="5")  # a number
ll.layers.LSTMLayer(l_in)  # a missing argument
ll.layers.GRULayer(l_in, "8")  # a number
ll.layers.DenseLayer(x, 8)  # a layer is fed by a layer
ll.layers.DenseLayer(l_in, 8, nonlinearty=None)  # a misspelt keyword
ll.layers.DenseLayer(l_in, 8, nonlinearity="tanh")  # a function
ll.layers.DropoutLayer(l_in, q=0.5)  # its name is `p`
ll.layers.RNNLayer(l_in, ll.cells.LSTM(4), return_states=True)  # a misspelt keyword
ll.cells.GRU(4, grad_clip=1.0)  # its name is `grad_clipping`
ll.layers.LSTMlayer(l_in, 8)  # no such layer
ll.init.GlorotUniform(gian=1.0)  # a misspelt keyword
ll.layers.get_output(x)  # no layer
ll.layers.get_output(l_in).append(x)  # one output
ll.layers.get_all_params(l_in, trainable="yes")  # a bool
ll.layers.get_all_params(l_in).get_value()  # a list
ll.updates.adam(x.sum(), [], learningrate=0.1)  # a misspelt keyword
ll.updates.adams(x.sum(), [])  # no such rule
ll.objectives.squared_error(x)  # a missing argument
