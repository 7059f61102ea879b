"""The engine: rules to a fixpoint, bodies too; the verifier."""

import operator
import pickle
from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np
import pytest

import scanjit as sj
from scanjit import errors, types
from scanjit.ir import OPS, Graph, Node, rebuild, remembered_walks, sizes_are_given, walk, walk_inside
from scanjit.loops import scan
from scanjit.ops.elementwise import ADD, NEG
from scanjit.ops.functions import EXP, TANH
from scanjit.ops.stretch import full
from scanjit.rewrite import RULES, Note, Rewriter, RuleTable, pipeline, run, systems
from scanjit.rewrite.verify import verify
from scanjit.types import Type
from scanjit.walks import bottom_up
from tests.rewrite.support import body, count, fn, scans, symbol


def test_rules_are_applied_until_none_does() -> None:
    x = symbol("x", 3)
    (out,) = Rewriter(RULES)([(((x + 0.0) * 1.0) - 0.0) / 1.0 + 0.0])
    assert out is x


def test_what_a_rule_returns_is_rewritten_too() -> None:
    table = RuleTable()

    @table.rule(NEG)
    def neg(node: Node) -> Node:
        return fn("abs", fn("tanh", node.operands[0]))

    @table.rule(TANH)
    def tanh(node: Node) -> Node:
        return fn("exp", node.operands[0])

    x = symbol("x", 3)
    rewriter = Rewriter(table)
    (out,) = rewriter([-x])
    assert out is fn("abs", fn("exp", x))
    assert rewriter.counts == {"neg": 1, "tanh": 1}


def test_a_node_that_a_table_does_not_change_is_asked_again_only_how_often_it_is_used() -> None:
    table, asked = RuleTable(), list[str]()
    table.rule(TANH)(lambda node: asked.append("tanh"))
    table.rule()(lambda node: asked.append("any"))
    table.counting(TANH)(lambda node, used: asked.append(f"{used(node.operands[0])} uses"))
    y = fn("tanh", x := symbol("x"))
    Rewriter(table)([y])
    assert sorted(asked) == ["1 uses", "any", "any", "tanh"]  # `x`, too
    asked.clear()
    Rewriter(table)([y, x])
    assert asked == ["2 uses"]
    Rewriter(table | RuleTable())([y])
    assert sorted(asked) == ["1 uses", "2 uses", "any", "any", "tanh"]


def test_a_rule_may_ask_for_an_op_among_the_operands() -> None:
    table, asked = RuleTable(), list[Node]()
    table.rule(among=[NEG])(asked.append)
    x, y = symbol("x"), symbol("y")
    nodes = [x + (-y), (-x) + y, x + y, fn("tanh", x), -x]
    Rewriter(table)(nodes)
    assert asked == nodes[:2]


def test_passes_with_rules_know_what_local_algebra_has_left() -> None:
    x, w = symbol("x", 7, 4), symbol("w", 4, 4)
    step = lambda x_t, h: (new := np.tanh(x_t + h @ w), np.exp(new))
    ys, zs = scan(step, sequences=x, outputs_info=[np.zeros(4), None])
    outputs = pipeline.simplify([(ys * zs).sum()], [])
    before = [(node, node.settled) for node in walk_inside(outputs)]
    assert pipeline.straight_lines(outputs, []) == outputs
    assert all(settled is not None and node.settled is settled for node, settled in before)


def test_a_rule_that_is_added_later_applies_to_nodes_that_were_left() -> None:
    table, y = RuleTable(), fn("tanh", symbol("x"))
    assert Rewriter(table)([y])[0] is y
    table.rule(TANH)(lambda node: fn("exp", node.operands[0]))
    assert Rewriter(table)([y])[0] is fn("exp", y.operands[0])


def test_rules_that_go_in_circles_are_found() -> None:
    table = RuleTable()
    table.rule(TANH)(lambda node: fn("exp", node.operands[0]))
    table.rule(EXP)(lambda node: fn("tanh", node.operands[0]))
    with pytest.raises(errors.InternalError, match="itself"):
        Rewriter(table)([fn("tanh", symbol("x"))])


def test_rules_that_never_end_are_found() -> None:
    table = RuleTable()
    table.rule(TANH)(lambda node: fn("tanh", fn("exp", node.operands[0])))
    with pytest.raises(errors.InternalError, match="end"):
        Rewriter(table, limit=50)([fn("tanh", symbol("x"))])


def test_each_rule_states_its_equation() -> None:
    assert len(RULES.rules) > 30
    for rule in RULES.rules:
        assert rule.function.__doc__, f"{rule.name} has no equation"


def test_bodies_are_rewritten_and_shared() -> None:
    x = symbol("x", "T", 3)
    outs = [scan(lambda r: fn("tanh", r * 1.0 + 0.0), [x]) for _ in range(2)]
    (a, b) = Rewriter(RULES)(outs)
    assert a is b
    assert body(a.args[0]) == {"bound": 1, "tanh": 1}


def test_deep_graphs_do_not_recurse() -> None:
    x = symbol("x")
    out = x
    for _ in range(3000):
        out = fn("tanh", out + 0.0)
    (new,) = Rewriter(RULES)([out])
    assert len(walk([new])) == 3001


def test_a_node_made_by_a_rule_belongs_to_the_line_of_the_node_before() -> None:
    x = symbol("x", 3)
    node = x - (-x)
    (new,) = Rewriter(RULES)([node])
    assert new.op is ADD and new.where == node.where


def test_the_verifier_names_the_pass_that_changes_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    x = symbol("x", 3)
    monkeypatch.setattr(pipeline, "PIPELINE", (("wrong", lambda outputs, notes: [outputs[0] + symbol("y", 2, 3)]),))
    with pytest.raises(errors.InternalError, match="wrong changed the type"):
        run([x])


def test_the_verifier_infers_every_node_again() -> None:
    x = symbol("x", 3)
    broken = Node.__new__(Node)
    for name in Node.__slots__:
        if name != "__weakref__":
            setattr(broken, name, getattr(fn("tanh", x), name))
    broken.types = (Type(np.dtype("float32"), x.type.shape),)
    with pytest.raises(errors.InternalError):
        verify([broken], [broken], "a pass")


def test_the_verifier_enters_bodies() -> None:
    x = symbol("x", "T", 3)
    out, other = scan(lambda r: fn("tanh", r), [x]), scan(lambda r: fn("exp", r), [x])
    verify([out], [out], "a pass")
    inner = symbol("r", 3)
    graph = Graph.of([inner], [fn("exp", inner)])
    graph.outputs[0].types = (Type(np.dtype("float32"), graph.outputs[0].type.shape),)
    try:
        with pytest.raises(errors.InternalError):
            verify([other], [other], "a pass")
    finally:
        graph.outputs[0].types = (graph.outputs[0].type,)


def test_notes_say_what_and_where() -> None:
    x, h = symbol("x", "T", 3), symbol("h", 3)
    out = scan(lambda r, h: fn("tanh", r * 0.5 + h), [x], [h])
    notes = run([out]).notes
    assert all(
        isinstance(note, Note) and note.text and note.pass_name in dict(pipeline.PIPELINE + pipeline.LOOPS)
        for note in notes
    )
    assert str(Note("prune", "model.py:3", "a result was dropped")) == "prune: a result was dropped (model.py:3)"


def test_running_twice_changes_nothing() -> None:
    x, h, w = symbol("x", "T", "B", 4), symbol("h", "B", 4), symbol("w", 4, 4)
    from tests.rewrite.support import mm

    out = scan(lambda r, h: fn("tanh", mm(r, w) + mm(h, w)), [x], [h])
    once = run([out]).outputs
    again = run(once)
    assert again.outputs[0] is once[0]
    assert count(once)["contract"] == 1 and len(scans(once)) == 1


def test_the_reductions_are_known() -> None:
    assert np.all([name in OPS for name in ("sum", "max", "contract", "gather", "concatenate")])


# ---- nodes made again ------------------------------------------------------------------------------------------------


def test_a_node_on_arguments_of_the_same_types_is_not_inferred_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = symbol("x", "T", 3), symbol("y", "T", 3), symbol("z", 3)
    node = x * z
    monkeypatch.setattr(node.op, "infer", None)
    new = rebuild(node, (y, z))
    assert new.operands == (y, z) and new.types is node.types and new.where == node.where
    with pytest.raises(TypeError):
        rebuild(node, (symbol("other", "S", 3), z))


def test_a_node_over_a_size_that_changes_is_inferred_again() -> None:
    n, m = symbol("n", dtype="int64"), symbol("m", dtype="int64")
    node = full(0, (types.value_dim(n, "n"),), "float64")
    new = rebuild(node, tuple(m if arg is n else arg for arg in node.args))
    assert new.type.shape == (types.value_dim(m, "m"),) and not sizes_are_given([new])
    assert sizes_are_given([symbol("x", "T") * 2.0])


def test_equal_types_are_one_object() -> None:
    a, b = (Type(np.dtype("float64"), (types.size("T"), 257)) for _ in range(2))
    assert a is b and a is pickle.loads(pickle.dumps(a))
    assert a is not Type(np.dtype("float32"), a.shape)


def test_rules_that_concern_no_op_leave_a_graph_alone() -> None:
    outputs = [scan(lambda r: fn("tanh", r * 1.0 + 0.0), [symbol("x", "T", 3)])]
    rewriter = Rewriter(systems.large)
    assert rewriter(outputs) == outputs and not rewriter.counts


def test_a_graph_that_no_pass_changes_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sj.tensor((3,), "float64", "x")
    y = x * 2 + 1
    made: list[list[Node]] = []

    def counted(
        roots: Iterable[Node], below: Callable[[Node], Sequence[Node]], stop: Container[Node] = ()
    ) -> list[Node]:
        made.append(bottom_up(roots, below, stop))
        return made[-1]

    monkeypatch.setattr("scanjit.ir.graph.bottom_up", counted)
    with remembered_walks():
        order = walk([y])
        walk([y]).clear()  # the list belongs to the caller
        assert all(map(operator.is_, walk([y]), order))
        assert all(map(operator.is_, walk([y, x]), order))
        assert len(walk([y], stop=[y])) == 1
    assert len(made) == 3
    walk([y])
    assert len(made) == 4, "nodes do not live longer than a compilation"


def test_passes_remember_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = []

    def looking(outputs: list[Node], notes: list[Note]) -> list[Node]:
        monkeypatch.setattr("scanjit.ir.graph.bottom_up", lambda *given: walks.append(given) or bottom_up(*given))
        walk(outputs)
        walks.clear()
        walk(outputs)
        assert not walks
        return outputs

    monkeypatch.setattr(pipeline, "PIPELINE", (("looking", looking),))
    x = sj.tensor((3,), "float64", "x")
    assert sj.function([x], x + 41, mode="emulate")(np.ones(3)).tolist() == [42.0] * 3
