"""`scanjit.symbol` declares for type checkers what `Node` gets from other layers."""

import inspect

from scanjit.ir import Node
from scanjit.symbol import Symbol
from scanjit.tensor import protocol
from tests import symbol_methods


def test_methods_are_declared_as_the_functions_that_they_are():
    written = "run `python -m tests.symbol_methods && ruff format scanjit/symbol.py`"
    assert symbol_methods.declared() == symbol_methods.declarations(), written


def test_every_operator_is_declared():
    source = inspect.getsource(Symbol)
    refused = {"__setitem__", "__contains__", "__getattr__", "__float__", "__int__", "__index__", "__complex__"}
    given = {name for name in {**vars(Node), **protocol.GIVEN} if name.startswith("__")}
    copies = {"__copy__", "__deepcopy__"}  # what every object has
    operators = {name for name in given - vars(object).keys() - refused - copies if callable(getattr(Node, name))}
    comparisons = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    assert not [name for name in sorted(operators | comparisons) if name not in source]
    assert not [name for name in sorted(refused) if name in source]
