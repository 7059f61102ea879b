"""The ops of ONNX that can be read, each with the function that builds it.

A function gets a `Call` and returns a node, or a list with a node for each output. The key of an op of another domain
than ONNX's is `domain.op`. An op that is not here can be read if ONNX defines it as a function of other ops.
"""

from collections.abc import Callable, Sequence

from scanjit.ir import Node, dim_node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing import (
    branches,
    convolutions,
    elementwise as e,
    loops,
    normalizations,
    products,
    quantized,
    recurrent,
    reductions,
    resize,
    shapes,
)
from scanjit.onnx.importing.call import Call
from scanjit.ops import extremes as r
from scanjit.ops.prod import PROD
from scanjit.ops.promotion import truth
from scanjit.ops.stretch import SUM
from scanjit.types import product

_UNARY = (
    "Abs Ceil Cos Cosh Det Erf Exp Floor IsNaN Log Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
).split()
_BINARY = "Add Equal Greater Less".split()
"""Functions of one and of two tensors that have NumPy's names, but for capital letters."""

TABLE: dict[str, Callable[[Call], Node | Sequence[Node]]] = {
    **{name: e.of(getattr(tensor, name.lower())) for name in _UNARY},
    **{name: e.binary(getattr(tensor, name.lower())) for name in _BINARY},
    # arithmetic
    "BitShift": e.shift,
    "Cast": e.convert,
    "CastLike": e.convert_like,
    "Clip": e.clip,
    "Div": e.divide,
    "Identity": lambda call: call.input(0),
    "Max": e.joined(tensor.maximum),
    "Mean": e.mean,
    "Min": e.joined(tensor.minimum),
    "Mod": e.modulo,
    "Mul": e.binary(tensor.multiply),
    "Neg": e.of(tensor.negative),
    "Pow": e.power,
    "Reciprocal": e.of(lambda x: 1.0 / x),
    "Sub": e.binary(tensor.subtract),
    "Sum": e.joined(tensor.add),
    # functions
    "Acos": e.of(tensor.arccos),
    "Acosh": e.of(tensor.arccosh),
    "Asin": e.of(tensor.arcsin),
    "Asinh": e.of(tensor.arcsinh),
    "Atan": e.of(tensor.arctan),
    "Atanh": e.of(tensor.arctanh),
    # activations
    "Celu": e.with_numbers(e.celu, alpha=1.0),
    "Elu": e.with_numbers(tensor.elu, alpha=1.0),
    "Gelu": e.gelu,
    "HardSigmoid": e.with_numbers(e.hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": e.of(lambda x: x * e.hard_sigmoid(x, 1 / 6, 0.5)),
    "Hardmax": reductions.hardmax,
    "LeakyRelu": e.with_numbers(e.leaky_relu, alpha=0.01),
    "LogSoftmax": reductions.softmax(tensor.log_softmax),
    "Mish": e.of(lambda x: x * tensor.tanh(tensor.softplus(x))),
    "PRelu": e.prelu,
    "Selu": e.with_numbers(e.selu, alpha=e.SELU_ALPHA, gamma=e.SELU_GAMMA),
    "Shrink": e.with_numbers(e.shrink, bias=0.0, lambd=0.5),
    "Softmax": reductions.softmax(tensor.softmax),
    "Swish": e.with_numbers(lambda x, alpha: x * tensor.sigmoid(x * alpha), alpha=1.0),
    "ThresholdedRelu": e.with_numbers(e.thresholded_relu, alpha=1.0),
    # comparisons and logic
    "And": e.binary(tensor.bitwise_and),
    "BitwiseAnd": e.binary(tensor.bitwise_and),
    "BitwiseNot": e.of(tensor.invert),
    "BitwiseOr": e.binary(tensor.bitwise_or),
    "BitwiseXor": e.binary(tensor.bitwise_xor),
    "GreaterOrEqual": e.binary(tensor.greater_equal),
    "IsInf": e.infinite,
    "LessOrEqual": e.binary(tensor.less_equal),
    "Not": e.of(lambda x: tensor.invert(truth(x))),
    "Or": e.binary(tensor.bitwise_or),
    "Where": e.choose,
    "Xor": e.binary(tensor.bitwise_xor),
    # products, reductions, normalizations, convolutions
    "ArgMax": reductions.position(r.ARGMAX),
    "ArgMin": reductions.position(r.ARGMIN),
    "AveragePool": convolutions.pool(largest=False),
    "BatchNormalization": normalizations.batch_norm,
    "Conv": convolutions.conv,
    "ConvTranspose": convolutions.conv_transpose,
    "CumProd": reductions.cumulative(tensor.cumprod, 1),
    "CumSum": reductions.cumulative(tensor.cumsum, 0),
    "DFT": reductions.dft,
    "Dropout": normalizations.dropout,
    "MatMul": lambda call: tensor.matmul(*call.pair()),
    "Einsum": lambda call: tensor.einsum(call.text("equation").replace(" ", ""), *call.all()),
    "Gemm": products.gemm,
    "GlobalAveragePool": convolutions.global_pool("mean"),
    "GlobalMaxPool": convolutions.global_pool("max"),
    "InstanceNormalization": normalizations.instance_norm,
    "LayerNormalization": normalizations.layer_norm,
    "MaxPool": convolutions.pool(largest=True),
    "RMSNormalization": normalizations.rms_norm,
    "ReduceL1": reductions.reduction(SUM, before=tensor.abs),
    "ReduceL2": reductions.reduction(SUM, before=tensor.square, after=tensor.sqrt),
    "ReduceLogSum": reductions.reduction(SUM, after=tensor.log),
    "ReduceLogSumExp": reductions.over_axes(tensor.logsumexp),
    "ReduceMax": reductions.reduction(r.MAX),
    "ReduceMean": reductions.over_axes(reductions.mean_of),
    "ReduceMin": reductions.reduction(r.MIN),
    "ReduceProd": reductions.reduction(PROD),
    "ReduceSum": reductions.reduction(SUM),
    "ReduceSumSquare": reductions.reduction(SUM, before=tensor.square),
    # quantized tensors
    "ConvInteger": quantized.conv_integer,
    "DequantizeLinear": quantized.dequantize,
    "DynamicQuantizeLinear": quantized.dynamic_quantize,
    "MatMulInteger": quantized.matmul_integer,
    "QLinearConv": quantized.qlinear_conv,
    "QLinearMatMul": quantized.qlinear_matmul,
    "QuantizeLinear": quantized.quantize,
    "com.microsoft.DequantizeLinear": quantized.dequantize,
    "com.microsoft.DynamicQuantizeLSTM": recurrent.recurrent(
        4, 2, ("Sigmoid", "Tanh", "Tanh"), recurrent.lstm, quantized.weights
    ),
    "com.microsoft.QuantizeLinear": quantized.quantize,
    # shapes, indices, sizes
    "Concat": lambda call: tensor.concatenate(call.all(), call.integer("axis")),
    "Constant": shapes.constant,
    "ConstantOfShape": shapes.constant_of_shape,
    "DepthToSpace": shapes.depth_to_space,
    "Expand": shapes.expand,
    "EyeLike": shapes.eye_like,
    "Flatten": shapes.flatten,
    "Gather": shapes.gather,
    "GatherElements": shapes.gather_elements,
    "GatherND": shapes.gather_nd,
    "OneHot": shapes.one_hot,
    "Pad": shapes.pad,
    "Range": shapes.range_,
    "Reshape": shapes.reshape,
    "Resize": resize.resize,
    "ReverseSequence": shapes.reverse_sequence,
    "ScatterElements": shapes.scatter_elements,
    "ScatterND": shapes.scatter_nd,
    "Shape": shapes.shape,
    "Size": e.of(lambda x: dim_node(product(x.type.shape))),
    "Slice": shapes.slice_,
    "SpaceToDepth": shapes.space_to_depth,
    "Split": shapes.split,
    "TopK": reductions.top_k,
    "Squeeze": shapes.squeeze,
    "Tile": shapes.tile,
    "Transpose": shapes.transpose,
    "Trilu": shapes.triangle,
    "Unsqueeze": lambda call: tensor.expand_dims(call.input(0), call.ints("axes", 1)),
    "Upsample": resize.resize,
    # loops and branches
    "GRU": recurrent.recurrent(3, 1, ("Sigmoid", "Tanh"), recurrent.gru),
    "If": branches.if_,
    "LSTM": recurrent.recurrent(4, 2, ("Sigmoid", "Tanh", "Tanh"), recurrent.lstm),
    "Loop": loops.loop,
    "RNN": recurrent.recurrent(1, 1, ("Tanh",), recurrent.rnn),
    "Scan": loops.scan,
}
