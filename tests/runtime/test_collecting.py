"""While something is compiled, Python looks for cycles less often; afterwards as before."""

import gc

import pytest

import scanjit as sj
from scanjit.runtime import collecting, program


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


@pytest.fixture
def meanwhile(monkeypatch):
    """The thresholds while functions are compiled."""
    found = []
    real = program.Staged._compiled
    monkeypatch.setattr(program.Staged, "_compiled", lambda self: found.append(gc.get_threshold()) or real(self))
    return found


def compile_something():
    x = sj.vector("x")
    return sj.function([x], x + 1, mode="emulate")


def test_the_setting_holds_while_something_is_compiled(usual, meanwhile):
    compile_something()
    assert meanwhile == [(collecting.SELDOM, *usual[1:])]
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [(0, 10, 10), (10**6, 5, 5)])
def test_who_looks_less_often_is_left_alone(own, meanwhile):
    gc.set_threshold(*own)
    compile_something()
    assert [each[0] for each in meanwhile] == [own[0]]
    assert gc.get_threshold()[0] == own[0]


def test_an_error_restores_it_and_so_does_the_first_of_two_that_overlap(usual):
    with pytest.raises(KeyError), collecting.collected_seldom():
        raise KeyError
    assert gc.get_threshold() == usual
    one, other = collecting.collected_seldom(), collecting.collected_seldom()
    with one:
        other.__enter__()
    assert gc.get_threshold() == usual
    other.__exit__(None, None, None)
    assert gc.get_threshold() == usual


def test_what_a_user_sets_meanwhile_stays(usual):
    with collecting.collected_seldom():
        gc.set_threshold(1234)
    assert gc.get_threshold()[0] == 1234
