"""Functions in pools: they pickle wherever they were made, and workers do not take each other's cores."""

import pickle
import sys
import textwrap

import numpy as np
import pytest

import scanjit as sj
from scanjit.loops.wrappers import _found
from tests.scripts import script


def loss(a, xs):
    h = sj.scan(lambda x, h: np.tanh(x + a * h), sequences=xs, outputs_info=0.0)
    return (h**2).mean()


slope = sj.value_and_grad(loss, mode="reference")
by_second = sj.value_and_grad(loss, (1, 0), mode="reference")
again = sj.jit(loss, mode="reference")


@sj.jit(mode="reference", static_argnums=1)
def scaled(x, by):
    return x * by


@sj.custom_vjp
def kept(x):
    return x + 1


@kept.defvjp
def kept_backward(cotangent, output, x):
    return cotangent * 10


class Model:
    @sj.jit(mode="reference")
    def double(self, x):
        return 2 * x


XS = np.linspace(-1, 1, 7)


def test_by_name_what_is_found_by_it():
    for each in (scaled, kept, Model.double):
        assert pickle.loads(pickle.dumps(each)) is each


def test_by_its_parts_what_has_the_name_of_something_else():
    for f, args in ((slope, (0.5, XS)), (by_second, (0.5, XS)), (again, (0.5, XS))):
        g = pickle.loads(pickle.dumps(f))
        assert g is not f and g.mode == "reference" and g.__qualname__ == "loss"
        np.testing.assert_equal(g(*args), f(*args))


def test_made_inside_functions():
    cloudpickle = pytest.importorskip("cloudpickle")
    factor = sj.shared(3.0, "factor")

    @sj.jit(mode="reference", static_argnums=(1,))
    def local(x, power):
        return factor * x**power

    made = [local, sj.value_and_grad(lambda x: (factor * x**2).sum(), mode="reference"), sj.custom_vjp(lambda x: x * x)]
    made[2].defvjp(lambda cotangent, output, x: cotangent * 100)
    with pytest.raises((pickle.PicklingError, AttributeError), match="<locals>"):
        pickle.dumps(local)
    power, squares, own = cloudpickle.loads(cloudpickle.dumps(made))
    assert power(XS, 3).tolist() == local(XS, 3).tolist() and power.static_argnums == (1,)
    np.testing.assert_equal(squares(XS), made[1](XS))
    x = sj.vector("x")
    f = sj.function([x], sj.grad(own(x).sum(), x), mode="reference")
    g = cloudpickle.loads(cloudpickle.dumps(f))
    assert f(XS).tolist() == g(XS).tolist() == [100.0] * 7


def test_of_a_script(monkeypatch):
    """pickle finds what a script defines by its name; cloudpickle sends all of it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    main = sys.modules["__main__"]
    module = {"__name__": "__main__", "sj": sj}
    source = """
    @sj.jit(mode="reference")
    def of_script(x, *, add=2.0):
        return x + add + helper(x)

    def helper(x):
        return x * 0

    @sj.value_and_grad
    def script_slope(x):
        return (of_script(x) * helper(x + 1)).sum()
    """
    exec(textwrap.dedent(source), module)
    for name in ("of_script", "script_slope"):
        f = module[name]
        monkeypatch.setattr(main, name, f, raising=False)
        assert pickle.loads(pickle.dumps(f)) is f
        sent = cloudpickle.dumps(f)
        assert cloudpickle.loads(sent) is not f and cloudpickle.loads(sent).__qualname__ == name
    assert cloudpickle.loads(cloudpickle.dumps(module["of_script"]))(XS).tolist() == (XS + 2).tolist()
    assert _found("__main__", "no.such") is None


PROGRAM = """
import os
import numpy as np
import scanjit as sj
from scanjit.runtime import processors

XS = np.linspace(-1, 1, 20)


@sj.jit
def smooth(a, xs):
    return sj.scan(lambda x, h: a * h + x, sequences=xs, outputs_info=0.0)


@sj.value_and_grad
def fit(a, xs):
    return (smooth(a, xs) ** 2).mean()


def inside(b):
    return sj.value_and_grad(lambda a, xs: (smooth(a * b, xs) ** 2).mean())


def work(a, f):
    value, slope = f(a, XS)
    return os.getpid(), float(value), float(slope), processors.count(), float(smooth(a, XS)[-1])


def check(results, f, share=None):
    for a, (pid, value, slope, threads, last) in zip((0.1, 0.2, 0.3, 0.4), results, strict=True):
        expected = work(a, f)
        assert pid != expected[0] and (value, slope, last) == (expected[1], expected[2], expected[4])
        assert share is None or threads == share, (threads, share)
    print("fine")
"""


@pytest.mark.slow
def test_processes_of_joblib(tmp_path):
    pytest.importorskip("joblib")
    code = """
    from joblib import Parallel, cpu_count, delayed, parallel_config

    for f in (fit, inside(1.0)):
        check(Parallel(n_jobs=2)(delayed(work)(a, f) for a in (0.1, 0.2, 0.3, 0.4)), f, max(1, cpu_count() // 2))
    with parallel_config("loky", inner_max_num_threads=1):
        check(Parallel(n_jobs=2)(delayed(work)(a, fit) for a in (0.1, 0.2, 0.3, 0.4)), fit, 1)
    """
    assert script(tmp_path, PROGRAM, code) == ["fine"] * 3


def test_processes_that_are_spawned(tmp_path):
    code = """
    import multiprocessing

    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            check(pool.starmap(work, [(a, fit) for a in (0.1, 0.2, 0.3, 0.4)]), fit)
    """
    assert script(tmp_path, PROGRAM, code) == ["fine"]


@pytest.mark.slow
def test_a_grid_search_of_scikit_learn(tmp_path):
    pytest.importorskip("sklearn")
    code = """
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.model_selection import GridSearchCV

    class Smoother(RegressorMixin, BaseEstimator):
        def __init__(self, rate=0.1, slope=fit):
            self.rate, self.slope = rate, slope

        def fit(self, X, y):
            self.a_ = 0.5 - self.rate * float(self.slope(0.5, X[:, 0])[1])
            self.function_ = inside(self.a_)  # kept in the model
            return self

        def predict(self, X):
            return smooth(self.a_, X[:, 0])

    X = np.random.default_rng(0).normal(size=(40, 1))
    search = GridSearchCV(Smoother(), {"rate": [0.0, 0.01, 0.1]}, n_jobs=2, cv=2, error_score="raise")
    search.fit(X, smooth(0.4, X[:, 0]))
    alone = GridSearchCV(Smoother(), {"rate": [0.0, 0.01, 0.1]}, cv=2, error_score="raise").fit(X, smooth(0.4, X[:, 0]))
    assert search.best_params_ == alone.best_params_
    assert search.cv_results_["mean_test_score"].tolist() == alone.cv_results_["mean_test_score"].tolist()
    print("fine")
    """
    assert script(tmp_path, PROGRAM, code) == ["fine"]


def test_tokens_are_those_of_equal_functions(tmp_path):
    base = pytest.importorskip("dask.base")

    def made(factor=3.0, weight=2.0, name="f", **options):
        x, w = sj.vector("x"), sj.shared(np.full(3, weight), "w")
        h = sj.scan(lambda row, h: np.tanh(row * factor + h + w.sum()), sequences=x, outputs_info=0.0)
        return sj.function([x], {"h": h}, updates={w: w * 0.5}, name=name, mode="reference", **options)

    f = made()
    same = [f, made(), pickle.loads(pickle.dumps(f))]
    f.save(tmp_path / "f.sj")
    assert {base.tokenize(each) for each in [*same, sj.load(tmp_path / "f.sj")]} == {base.tokenize(f)}
    code = "import pickle, dask.base; print(dask.base.tokenize(pickle.load(open('f', 'rb'))))"
    (tmp_path / "f").write_bytes(pickle.dumps(f))
    assert script(tmp_path, PROGRAM, code) == [base.tokenize(f)]
    other = [made(factor=4.0), made(weight=1.0), made(name="g")]
    assert len({base.tokenize(each) for each in [f, *other]}) == 4
    f.shared[0].set_value(np.ones(3))
    assert base.tokenize(f) != base.tokenize(same[1])
    assert base.tokenize(scaled) == base.tokenize(pickle.loads(pickle.dumps(scaled)))
    assert base.tokenize(slope) != base.tokenize(by_second) == base.tokenize(pickle.loads(pickle.dumps(by_second)))


def test_tokens_do_not_depend_on_what_was_built_before():
    """Error messages name sizes that are values, by a number that counts all nodes."""
    base = pytest.importorskip("dask.base")

    def made(change):
        x, n = sj.vector(), sj.scalar(dtype="int64")
        y = sj.scan(lambda h: h * 2, outputs_info={"initial": x, "taps": [-(n % 5) - 1]}, n_steps=4)
        return base.tokenize(sj.function([x, n], change(y), mode="reference"))

    assert made(abs) == made(abs)
    assert made(kept) == made(kept) != made(abs)  # with functions of the user's own


@pytest.mark.slow
def test_workers_of_dask(tmp_path):
    pytest.importorskip("distributed")
    code = """
    from distributed import Client, LocalCluster

    if __name__ == "__main__":
        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            for f in (fit, inside(1.0)):
                results = client.gather(client.map(work, [0.1, 0.2, 0.3, 0.4], f=f))
                check(results, f, 1)
            x = sj.vector("x")
            compiled = sj.function([x], (x * 3).sum())
            assert client.submit(compiled, XS + 1).result() == compiled(XS + 1)
        print("fine")
    """
    assert script(tmp_path, PROGRAM, code)[-3:] == ["fine"] * 3
