"""The ONNX project's own cases for recurrent ops, loops and branches, and for a part of the ops around them."""

import importlib

import numpy as np
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from scanjit.onnx import tensors

MODULES = (
    "rnn lstm gru scan loop if_ layernormalization gemm matmul softmax slice pad concat split gather onehot where conv "
    "clip expand reshape transpose cumsum rangeop squeeze unsqueeze reducesum reducemean argmax linear_attention "
    "resize upsample convtranspose quantizelinear dequantizelinear dynamicquantizelinear matmulinteger convinteger "
    "qlinearconv qlinearmatmul dft"
)
REFUSED = {
    "test_scan_sum": "of version 8",
    "test_loop13_seq": "is no tensor",
    "test_loop16_seq_none": "is no tensor",
    "test_if_seq": "SequenceConstruct",
    "test_if_opt": "of a kind that is not supported",
}
"""Cases that cannot be read, with what the error says: sequences of tensors, and Scan before it was as it is now."""
OTHERWISE = {
    "test_resize_downsample_scales_linear_align_corners": "ONNX Runtime takes the whole number of places",
    "test_resize_downsample_scales_cubic_align_corners": "ONNX Runtime takes the whole number of places",
    "test_dft_inverse": "its zeros are 2e-7, from rounding",
    "test_dft_inverse_opset19": "its zeros are 2e-7, from rounding",
    "test_quantizelinear_blocked_symmetric": "its data are of another dtype than it says",
}
"""Cases of which ONNX Runtime, which is followed here, makes something else, or nothing."""
SHAPES = {"shape", "new_shape", "delta", "scales", "sizes", "roi"}
"""Inputs that are given when a model is loaded: 0 and -1 in a shape mean something else, which must be known."""
DATA = {"indices", "sequence_lens", "x", "y", "w", "A", "B", "a", "b", "X"}
"""Inputs that are not, though they are integers."""


def cases():
    """The cases that importing a module makes."""
    node = importlib.import_module("onnx.backend.test.case.node")
    with np.errstate(all="ignore"):
        for name in MODULES.split():
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
    found = {}
    for case in node._NodeTestCases:
        ops = {n.op_type for n in case.model.graph.node}
        wanted = "Scan" in ops if case.name.startswith("test_linear") else not case.name.endswith("_expanded")
        if wanted and not uses_half(case.model):
            found[case.name] = case
    return list(found.values())


def uses_half(model):
    """Whether an input or an output has a dtype that there is not here."""
    kinds = {value.type.tensor_type.elem_type for value in [*model.graph.input, *model.graph.output]}
    return not kinds <= {0, *tensors.DTYPES}


def fixed(model, arrays):
    """The inputs that say shapes, axes and bounds; and the arrays for the inputs that are left."""
    given, kept = {}, []
    for value, array in zip(model.graph.input, arrays, strict=True):
        known = np.asarray(array).dtype.kind in "iu" and value.name not in DATA
        if known or value.name in SHAPES:
            given[value.name] = array
        else:
            kept.append(array)
    return given, kept


def loaded(case):
    """The model as it is, or if it asks for something that must be known, with that known."""
    inputs, outputs = case.data_sets[0]
    given, kept = fixed(case.model, inputs)
    if SHAPES & {value.name for value in case.model.graph.input}:
        return sjo.load(case.model, inputs=given), kept, outputs
    try:
        return sjo.load(case.model), inputs, outputs
    except sj.NotSupportedError as error:
        if "must be known" not in str(error):
            raise
        return sjo.load(case.model, inputs=given), kept, outputs


ALL = cases()


@pytest.mark.quick(86)
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_case_of_the_onnx_project(case):
    if case.name in REFUSED:
        with pytest.raises(sj.NotSupportedError, match=REFUSED[case.name]):
            loaded(case)
        return
    if case.name in OTHERWISE:
        pytest.skip(OTHERWISE[case.name])
    model, inputs, outputs = loaded(case)
    got = model.function(mode="reference")(*inputs)
    got = got if isinstance(got, list) else [got]
    assert len(got) == len(outputs)
    for found, expected in zip(got, outputs, strict=True):
        assert found.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.atol, strict=True)


def test_that_all_recurrent_cases_are_there():
    counts = {op: 0 for op in ("RNN", "LSTM", "GRU", "Scan", "Loop", "If")}
    for case in ALL:
        for node in case.model.graph.node:
            if node.op_type in counts:
                counts[node.op_type] += 1
    assert all(count >= 3 for count in counts.values()), counts
