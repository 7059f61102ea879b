"""What people write who come from other libraries: the error says what to write here."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj

X, S, N, M = sj.vector("x"), sj.scalar("s"), sj.iscalar("n"), sj.matrix("m")


def assigned(x: Any) -> None:
    x[0] = 1.0


def added(x: Any) -> None:
    x[0] += 1.0


def unpacked(x: Any) -> None:
    _a, _b = x


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "h[0] = v": (lambda: assigned(X), sj.ArgumentError, r"x = x\[i\].set\(value\)"),
    "h[0] += v": (lambda: added(X), sj.ArgumentError, r"x\[i\].inc\(value\)"),
    "x.at": (lambda: X.at[0].set(1.0), AttributeError, r"x\[i\].set\(value\)"),
    "x.eval": (lambda: X.eval({X: 1}), AttributeError, r"sj.function\(\[inputs\], x\)\(values\)"),
    "x.backward": (lambda: X.backward(), AttributeError, r"sj.grad\(cost, wrt\)"),
    "x.summ": (lambda: X.summ(), AttributeError, r"perhaps x.sum"),
    "x.quantum": (lambda: X.quantum(), AttributeError, r"such as sj.sum\(x\)"),
    "outputs, updates": (
        lambda: unpacked(sj.scan(lambda a, h: a + h, X, 0.0)),
        sj.ArgumentError,
        r"with return_updates=True, it returns \(outputs, updates\)",
    ),
    "lax.scan of a scalar": (
        lambda: sj.scan(lambda c, a: (c + a, c), S, X),
        sj.ScanError,
        r"scan\(fn, sequences, outputs_info\), not lax.scan's",
    ),
    "lax.scan of a vector": (lambda: sj.scan(lambda c, a: (c + a, c), X, M), sj.ScanError, "lax.scan"),
    "np.arange": (lambda: np.arange(X.shape[0]), sj.ArgumentError, r"sj.arange"),
    "np.arange of a scalar": (lambda: np.arange(N), sj.ArgumentError, r"sj.arange"),
    "range": (lambda: range(X.shape[0]), sj.ArgumentError, r"sj.scan\(..., n_steps=n\)"),
    "np.eye": (lambda: np.eye(X.shape[0]), sj.ArgumentError, r"sj.eye"),
    "np.array": (lambda: np.array([S, S]), sj.ArgumentError, r"sj.stack\(\[a, b\]\)"),
    "math.exp": (lambda: math.exp(S), sj.ArgumentError, "functions of scanjit or NumPy"),
    "np.trim_zeros": (lambda: np.trim_zeros(X), sj.NotSupportedError, "compute it with NumPy before"),
    "np.subtract.reduce": (lambda: np.subtract.reduce(X), sj.NotSupportedError, "sj.scan"),
    "+= of an array": (lambda: np.ones(3).__iadd__(X), sj.NotSupportedError, r"a = a \+ x for a \+= x"),
    "[i] = of an array": (
        lambda: np.ones((2, 3)).__setitem__(0, X),
        sj.ArgumentError,
        r"\[i\]\.set\(x\) for a\[i\] = x",
    ),
    "np.add.at": (lambda: np.add.at(X, 0, 1.0), sj.NotSupportedError, r"x\[i\].inc\(value\)"),
    "np.apply_along_axis": (lambda: np.apply_along_axis(np.sum, 0, X), sj.NotSupportedError, r"sj\.vmap"),
    "unpacking": (lambda: unpacked(X), sj.ArgumentError, r"x\[0\], x\[1\], \.\.\."),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_says_what_to_write(name: str) -> None:
    call, kind, words = CASES[name]
    with pytest.raises(kind, match=words) as caught:
        call()
    assert __file__ in str(caught.value), "the line is the user's, not NumPy's"


def test_a_number_put_into_an_array() -> None:
    with pytest.raises(ValueError, match="sequence") as caught:  # of NumPy, which tells the cause
        np.ones(3)[1] = S
    assert "a = sj.as_tensor(a)[i].set(x) for a[i] = x" in str(caught.value.__cause__)


def test_a_symbol_has_only_the_attributes_that_it_has() -> None:
    assert not hasattr(X, "at") and not hasattr(X, "__nothing__") and hasattr(X, "sum")


def test_functions_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([-1.0, 0.5])
    for function in (special.expit, special.gammaln, special.erf, special.psi, special.log_expit, special.exp2):
        np.testing.assert_allclose(sj.function([X], function(X), mode="reference")(x), function(x), rtol=1e-9)
    for call, words in (
        (lambda: special.logsumexp(X), r"sj.logsumexp\(...\)"),
        (lambda: special.softmax(X), r"sj.softmax\(...\)"),
        (lambda: special.ndtri(X), r"scipy.special.ndtri is not defined[\s\S]*sj.erfinv"),
        (lambda: special.jv(1, X), r"scipy.special.jv[\s\S]*write it with functions of scanjit"),
    ):
        with pytest.raises(sj.ScanjitError, match=words) as caught:
            call()
        assert __file__ in str(caught.value)
