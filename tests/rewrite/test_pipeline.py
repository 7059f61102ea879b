"""The whole pipeline on recurrences as users write them: the exact form of what comes out, and equal values.

`shape` of a scan: carries, sequences, constants, ys.
"""

from __future__ import annotations

from typing import Any

import pytest

from scanjit import types
from scanjit.autodiff import grad
from scanjit.ir import BOUND, PART, Node, constant, walk
from scanjit.loops import scan, until
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.scan import SCAN
from scanjit.ops.shape import CONCATENATE, SLICE, flip, window
from scanjit.ops.stretch import SUM, broadcast_to, full
from scanjit.rewrite import Note, pipeline, run
from scanjit.rewrite.end import without_end
from tests.rewrite.support import B, T, body, checked, count, cut, fn, mm, scans, shape, symbol, total, view

I, H = 2, 4


def sigmoid(x: Node) -> Node:
    return fn("sigmoid", x)


def tanh(x: Node) -> Node:
    return fn("tanh", x)


def parameters(gates: int, columns: int = H) -> dict[str, Node]:
    return {
        "x": symbol("x", "T", "B", I),
        "h": symbol("h", "B", columns),
        "W": symbol("W", I, gates * H),
        "R": symbol("R", columns, gates * H),
        "b": symbol("b", gates * H),
    }


def trained(ys: Node, wrt: dict[str, Node]) -> list[Node]:
    """A cost over all outputs, and its gradients."""
    cost = total(ys * ys)
    return [cost, *grad(cost, list(wrt.values()))]


def elementwise(scan_: Node) -> int:
    """How many transcendental functions a step computes."""
    found = body(scan_)
    return sum(found[name] for name in ("sigmoid", "tanh", "exp", "log", "sqrt", "div"))


# ---- LSTM ------------------------------------------------------------------------------------------------------------


def lstm(p: dict[str, Node]) -> Any:
    def step(x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        z = mm(x, p["W"]) + mm(h, p["R"]) + p["b"]
        i, f, g, o = (cut(z, k * H, (k + 1) * H) for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c

    return scan(step, [p["x"]], [p["h"], p["c"]])


def with_cell(p: dict[str, Node]) -> dict[str, Node]:
    return {**p, "c": symbol("c", "B", H)}


def test_lstm_forward() -> None:
    """x @ W is one product outside; the core has one product a gate, with slices of R; nothing is stored but h."""
    h, _ = lstm(with_cell(parameters(4)))
    outputs, _ = checked([h])
    (loop,) = scans(outputs)
    assert count(outputs)["contract"] == 1
    assert shape(loop) == (2, 1, 2, 1)
    assert body(loop)["contract"] == 4 and elementwise(loop) == 5
    assert body(loop)["slice"] == 12  # of R, of x @ W and of b
    for node in walk(loop.params["body"].outputs):
        if node.op is SLICE:
            assert node.operands[0].op is BOUND


def test_lstm_gradient() -> None:
    p = with_cell(parameters(4))
    outputs, notes = checked(trained(lstm(p)[0], p))
    forward, backward = scans(outputs)
    # stored: h; for the gradient h and c before the step, and the four gates, of which tanh(c) is made again
    assert shape(forward) == (2, 1, 2, 7) and body(forward)["contract"] == 4
    # reads: c before the step, h for its cotangent 2 * h, the four gates; and R. Stores dz
    assert shape(backward) == (2, 6, 1, 1)
    inside = body(backward)
    assert inside["contract"] == inside["concatenate"] == 1
    assert inside["tanh"] == elementwise(backward) == 1 and inside["slice"] == inside["set_slice"] == 0
    # x @ W; dz @ W^T; x^T dz; h^T dz
    assert count(outputs)["contract"] == 4 and count(outputs)["sum"] == 2
    text = [f"{note.pass_name}: {note.text}" for note in notes]
    assert "save: the forward loop stores 4 values for the gradient: sigmoid, tanh" in text
    assert "hoist_post: 3 sums over the steps leave the loop" in text


def test_lstm_of_a_symbolic_size() -> None:
    n = types.size("H")
    x, h, c = symbol("x", "T", "B", I), symbol("h", "B", "H"), symbol("c", "B", "H")
    gates = [(symbol(f"W{k}", I, "H"), symbol(f"R{k}", "H", "H"), symbol(f"b{k}", "H")) for k in range(4)]
    W, R, b = (CONCATENATE(*(g[i] for g in gates), axis=axis) for i, axis in ((0, 1), (1, 1), (2, 0)))

    def step(x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        z = mm(x, W) + mm(h, R) + b
        i, f, g, o = (cut(z, k * n, (k + 1) * n) for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c

    ys, _ = scan(step, [x], [h, c])
    outputs, _ = checked(trained(ys, {"x": x, "R": gates[0][1]}))
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 4 and body(backward)["contract"] == 1


def test_lstm_with_peepholes_and_projection() -> None:
    p = parameters(4, 3)
    p |= {"c": symbol("c", "B", H), "P": symbol("P", H, 3), "v": symbol("v", 3, H)}

    def step(x: Node, h: Node, c: Node) -> tuple[Node, Node]:
        z = mm(x, p["W"]) + mm(h, p["R"]) + p["b"]
        i, f, g, o = (cut(z, k * H, (k + 1) * H) for k in range(4))
        row = [view(cut(p["v"], k, k + 1, 0), 1) for k in range(3)]
        c2 = sigmoid(f + row[0] * c) * c + sigmoid(i + row[1] * c) * tanh(g)
        return mm(sigmoid(o + row[2] * c2) * tanh(c2), p["P"]), c2

    h, _ = scan(step, [p["x"]], [p["h"], p["c"]])
    outputs, _ = checked(trained(h, p))
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 5
    # the gradient of the projection's operand, and of the carry
    assert body(backward)["contract"] == 2 and elementwise(backward) == 1  # tanh(c), which is made again
    # sums for the peepholes take what is stored only in part, and stay; those of products leave
    assert count(outputs)["contract"] == 5


def test_lstm_gradient_of_reversed_states() -> None:
    """As in the second direction of a layer: all products and sums are the same, of rows in the other order."""
    p = with_cell(parameters(4))
    rows = lstm(p | {"x": flip(p["x"], 0)})[0]
    outputs, _ = checked(trained(flip(rows, 0), p))
    _, backward = scans(outputs)
    rows_of_gradient = [node for node in walk(outputs) if node.op is PART and node.operands[0] is backward]
    reading = [
        node for node in walk(outputs) if node.op in (CONTRACT, SUM) and set(node.operands) & {*rows_of_gradient}
    ]
    assert count(outputs)["set_slice"] == 0 and len(reading) == 3  # x^T dz; h^T dz; the sum of dz


def test_a_sequence_that_is_only_summed_up_by_its_last_state() -> None:
    p = with_cell(parameters(4))
    h, _ = lstm(p)
    last = view(window(h, 0, T - 1, 1), 1, 2)
    outputs, _ = checked(trained(last, p))
    _, backward = scans(outputs)
    assert shape(backward)[1] == 5  # no sequence of cotangents
    assert count(outputs)["set_slice"] == 0


# ---- others ----------------------------------------------------------------------------------------------------------


def test_gru_gradient() -> None:
    """Reset after the product, as cuDNN's: only a third of h @ R is stored."""
    p = parameters(3)

    def step(x: Node, h: Node) -> Node:
        a, z = mm(x, p["W"]) + p["b"], mm(h, p["R"])
        r, u = (sigmoid(cut(a, k * H, (k + 1) * H) + cut(z, k * H, (k + 1) * H)) for k in (0, 1))
        n = tanh(cut(a, 2 * H, 3 * H) + r * cut(z, 2 * H, 3 * H))
        return (1.0 - u) * n + u * h

    outputs, _ = checked(trained(scan(step, [p["x"]], [p["h"]]), p))
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 3 and shape(forward) == (1, 1, 1, 6)
    assert [y.type.shape[-1] for y in forward.params["body"].outputs] == [H] * 7
    # two gradients of gates: that of x @ W, and that of h @ R, which is multiplied by the reset gate
    assert shape(backward) == (1, 6, 1, 2) and body(backward)["contract"] == 1
    assert count(outputs)["contract"] == 4 and elementwise(backward) == 0


def test_gru_with_reset_before_the_product() -> None:
    p = parameters(2) | {"U": symbol("U", I, H), "V": symbol("V", H, H)}

    def step(x: Node, h: Node) -> Node:
        z = mm(x, p["W"]) + mm(h, p["R"]) + p["b"]
        r, u = sigmoid(cut(z, 0, H)), sigmoid(cut(z, H, 2 * H))
        n = tanh(mm(x, p["U"]) + mm(r * h, p["V"]))
        return (1.0 - u) * n + u * h

    outputs, _ = checked(trained(scan(step, [p["x"]], [p["h"]]), p))
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 3 and body(backward)["contract"] == 2
    assert shape(forward)[3] == 5 and elementwise(backward) == 0


def test_ugrnn_gradient() -> None:
    p = parameters(2)

    def step(x: Node, h: Node) -> Node:
        z = mm(x, p["W"]) + mm(h, p["R"]) + p["b"]
        g = sigmoid(cut(z, 0, H) + 1.0)
        return g * h + (1.0 - g) * tanh(cut(z, H, 2 * H))

    outputs, _ = checked(trained(scan(step, [p["x"]], [p["h"]]), p))
    forward, backward = scans(outputs)
    assert shape(forward) == (1, 1, 2, 4) and body(forward)["contract"] == 2
    assert shape(backward) == (1, 4, 1, 1) and body(backward)["contract"] == 1
    assert count(outputs)["contract"] == 4


def test_elementwise_recurrences_keep_no_product_in_the_loop() -> None:
    """SRU: all products leave; the core is elementwise."""
    x, c = symbol("x", "T", "B", H), symbol("c", "B", H)
    W, b = symbol("W", H, 3 * H), symbol("b", 2 * H)

    def step(x: Node, c: Node) -> tuple[Node, Node]:
        z = mm(x, W)
        f = sigmoid(cut(z, H, 2 * H) + cut(b, 0, H))
        r = sigmoid(cut(z, 2 * H, 3 * H) + cut(b, H, 2 * H))
        c = f * c + (1.0 - f) * cut(z, 0, H)
        return c, r * tanh(c) + (1.0 - r) * x

    _, h = scan(step, [x], [c, None])
    outputs, _ = checked(trained(h, {"x": x, "c": c, "W": W, "b": b}))
    for loop in scans(outputs):
        assert body(loop)["contract"] == 0
    assert count(outputs)["contract"] == 3


def garch(gradient: bool) -> list[Node]:
    p, r = symbol("p", 3), symbol("r", "T")
    omega, alpha, beta = (view(cut(p, k, k + 1)) for k in range(3))

    def step(r: Node, h: Node, likelihood: Node) -> tuple[Node, Node]:
        h = omega + alpha * r * r + beta * h
        return h, likelihood + fn("log", h) + r * r / h

    _, sums = scan(step, [r], [constant(1.0), constant(0.0)])
    cost = view(cut(sums, T - 1, T))
    return [cost, *(grad(cost, [p]) if gradient else [])]


def test_a_step_of_garch_is_five_light_ops() -> None:
    outputs, _ = checked(garch(False))
    (loop,) = scans(outputs)
    assert shape(loop)[0] == 1 and shape(loop)[1] == 1 and shape(loop)[3] == 1
    found = body(loop)
    assert (found["add"], found["mul"]) == (2, 3) and elementwise(loop) == 0
    assert count(outputs)["log"] == count(outputs)["div"] == 1


def test_garch_gradient() -> None:
    """The cores of both loops are a sum and a product; what does not wait for a carry is summed outside."""
    outputs, _ = checked(garch(True))
    forward, backward = scans(outputs)
    assert (body(forward)["add"], body(forward)["mul"]) == (1, 1)
    found = body(backward)
    assert (found["add"], found["sub"], found["mul"], found["div"]) == (1, 0, 1, 0)
    assert count(outputs)["log"] == 1 and count(outputs)["div"] == 3


def selective(gradient: bool) -> list[Node]:
    D, N = 5, 3
    x, d = symbol("x", "T", "B", D), symbol("d", "T", "B", D)
    b, c, a = symbol("b", "T", "B", N), symbol("c", "T", "B", N), symbol("a", D, N)

    def step(x: Node, b: Node, c: Node, d: Node, h: Node) -> tuple[Node, Node]:
        wide = view(d, 0, 1, None)
        h = fn("exp", wide * a) * h + view(d * x, 0, 1, None) * view(b, 0, None, 1)
        return h, contract(h, c, (0, 1, 2), (0, 2), (0, 1))

    _, ys = scan(step, [x, b, c, d], [full(0.0, (B, D, N)), None])
    cost = total(ys * ys)
    return [cost, *(grad(cost, [x, b, c, d, a]) if gradient else [])]


def test_a_selective_scan_keeps_its_states_in_the_loop() -> None:
    outputs, _ = checked(selective(False))
    (loop,) = scans(outputs)
    assert shape(loop)[3] == 1 and body(loop)["contract"] == 1 and body(loop)["exp"] == 1


def test_the_gradient_of_a_selective_scan_stores_the_state_and_nothing_else_of_its_size() -> None:
    outputs, _ = checked(selective(True))
    forward, backward = scans(outputs)
    layout_ys = forward.types[1:]
    assert sum(kind.ndim == 4 for kind in layout_ys) == 1
    assert all(kind.ndim < 4 for kind in backward.types)
    assert not any(node.ndim == 4 for node in walk(outputs) if node.op not in (SCAN, PART))


def test_layer_norm_lstm_stores_statistics() -> None:
    p = parameters(1)
    gain = symbol("gain", H)

    def norm(z: Node) -> Node:
        d = z - view(total(z, 1) * 0.25, 0, None)
        return d / fn("sqrt", view(total(d * d, 1) * 0.25, 0, None) + 1e-5) * gain

    h = scan(lambda x, h: tanh(norm(mm(x, p["W"])) + norm(mm(h, p["R"])) + p["b"]), [p["x"]], [p["h"]])
    outputs, _ = checked(trained(h, {**p, "gain": gain}))
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 1  # the norm of x @ W is made over all of time
    assert body(backward)["contract"] == 1 and body(backward)["sqrt"] == body(backward)["tanh"] == 0


def test_attention_inside_a_step() -> None:
    x, h, keys, R = symbol("x", "T", "B", H), symbol("h", "B", H), symbol("k", "B", "S", H), symbol("R", H, H)

    def step(x: Node, h: Node) -> Node:
        e = fn("exp", contract(h, keys, (0, 1), (0, 2, 1), (0, 2)))
        context = contract(e / view(total(e, 1), 0, None), keys, (0, 2), (0, 2, 1), (0, 1))
        return tanh(mm(h, R) + context + x)

    outputs, _ = checked(trained(scan(step, [x], [h]), {"x": x, "keys": keys, "R": R}), {"S": 3})
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 3
    assert body(backward)["exp"] == body(backward)["tanh"] == 0
    assert shape(backward)[0] == 1  # the gradients of R and of the keys are products over time


def test_two_layers_in_one_step() -> None:
    p, q = parameters(1), {"V": symbol("V", H, H), "S": symbol("S", H, H), "g": symbol("g", "B", H)}

    def step(x: Node, h: Node, g: Node) -> tuple[Node, Node]:
        h = tanh(mm(x, p["W"]) + mm(h, p["R"]))
        return h, tanh(mm(h, q["V"]) + mm(g, q["S"]))

    _, g = scan(step, [p["x"]], [p["h"], q["g"]])
    wrt = {key: p[key] for key in ("x", "W", "R", "h")} | q
    outputs, _ = checked(trained(g, wrt))
    forward, backward = scans(outputs)
    assert body(forward)["contract"] == 3 and body(backward)["contract"] == 3
    assert shape(backward)[0] == 2


def test_both_directions() -> None:
    p, q = parameters(1), {"V": symbol("V", I, H), "S": symbol("S", H, H), "g": symbol("g", "B", H)}
    a = scan(lambda x, h: tanh(mm(x, p["W"]) + mm(h, p["R"])), [p["x"]], [p["h"]])
    b = scan(lambda x, h: tanh(mm(x, q["V"]) + mm(h, q["S"])), [p["x"]], [q["g"]], go_backwards=True)
    ys = CONCATENATE(a, window(b, 0, T - 1, T, -1), axis=2)
    outputs, _ = checked(trained(ys, {"x": p["x"], "W": p["W"], "S": q["S"]}))
    assert len(scans(outputs)) == 4


# ---- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_graph_without_loops(dtype: str) -> None:
    x = symbol("x", "n", dtype=dtype)
    result = run([x * 1.0 + 0.0])
    assert result.outputs[0] is x and result.notes == []


def test_no_outputs() -> None:
    assert run([]).outputs == []


def test_the_same_output_twice() -> None:
    x = symbol("x", "n")
    a, b = run([x * 1.0, x]).outputs
    assert a is b is x


# ---- the end of a graph ----------------------------------------------------------------------------------------------


def test_passes_over_loops_do_not_see_the_elementwise_ops_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    p = parameters(1)
    wrt = {key: p[key] for key in ("W", "R", "b")}
    _, *gradients = trained(scan(lambda x, h: tanh(mm(x, p["W"]) + mm(h, p["R"]) + p["b"]), [p["x"]], [p["h"]]), wrt)
    seen: list[Node] = []

    def spy(outputs: list[Node], notes: list[Note]) -> list[Node]:
        seen.extend(outputs)
        return outputs

    monkeypatch.setattr(pipeline, "LOOPS", (("spy", spy),))
    run([w - 0.5 * g / fn("sqrt", total(g * g)) for w, g in zip(wrt.values(), gradients, strict=True)])
    assert all(n.op in (PART, SUM) for n in seen) and len(seen) == 2 * len(wrt)
    assert sum(node.op.name == "mul" for node in walk(seen)) == len(wrt)  # what sums read is not at the end


def test_the_end_of_a_graph_has_the_sizes_of_the_loops_before_it() -> None:
    x, h = symbol("x", "T"), symbol("h")
    rows, _ = scan(lambda r, s, u: ([s + r, u * r], until(s > 0.5)), [x], [h, h])  # `prune` drops the second output
    outputs, _ = checked([fn("exp", rows) * 2.0 + 1.0])
    atom = types.as_atom(outputs[0].type.shape[0])
    assert atom is not None and atom.node in set(walk(outputs)) and outputs[0].type.shape != rows.type.shape


def test_what_only_sizes_are_read_of_is_not_at_the_end() -> None:
    n, x = symbol("n", dtype="int64"), symbol("x")
    size = types.value_dim(fn("add", n, 1), "m")
    wide = broadcast_to(x, (size,))
    assert without_end([wide * 2.0]) == [wide]
