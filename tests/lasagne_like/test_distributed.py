"""Training in shards: here, and on the workers of Dask."""

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.distributed import DataParallel
from lasagne_like.training import Checkpoint, minibatches
from tests.scripts import ROOT, script

RANDOM = np.random.default_rng(0)
SEQUENCES = [RANDOM.normal(size=(length, 2)) for length in RANDOM.integers(1, 9, 22)]
SUMS = np.array([[sequence.sum()] for sequence in SEQUENCES])


class Problem:
    """A small network for sequences of different lengths, the same one each time."""

    def __init__(self, noise=False):
        lasagne.random.set_rng(np.random.default_rng(1))
        x, mask = lasagne.layers.InputLayer((None, None, 2)), lasagne.layers.InputLayer((None, None))
        layer = lasagne.layers.GRULayer(x, 3, mask_input=mask, only_return_final=True)
        if noise:
            layer = lasagne.layers.DropoutLayer(lasagne.layers.batch_norm(layer), 0.3)
        self.network = lasagne.layers.DenseLayer(layer, 1, nonlinearity=None)
        lasagne.random.set_rng(np.random)
        target = sj.matrix("target")
        self.loss = lasagne.objectives.squared_error(lasagne.layers.get_output(self.network), target).mean()
        self.params = lasagne.layers.get_all_params(self.network, trainable=True)
        self.inputs, self.mask = [x.input_var, mask.input_var, target], mask.input_var

    def rule(self, gradients):
        return lasagne.updates.adam(gradients, self.params, 0.02)

    def alone(self):
        return sj.function(self.inputs, self.loss, updates=self.rule(sj.grad(self.loss, self.params)), mode="reference")

    def sharded(self, shards, **options):
        options.setdefault("mode", "reference")
        return DataParallel(self.inputs, self.loss, self.params, self.rule, shards=shards, **options)

    def values(self):
        return [param.get_value() for param in lasagne.layers.get_all_params(self.network)]


def trained(train, epochs=2, seed=2):
    rng = np.random.default_rng(seed)
    return [float(train(*batch)) for _ in range(epochs) for batch in minibatches(SEQUENCES, SUMS, 8, rng=rng)]


@pytest.mark.parametrize("shards", [1, 3, 20])
def test_the_mean_over_shards_is_the_mean_over_the_batch(shards):
    one, several = Problem(), Problem()
    np.testing.assert_allclose(trained(several.sharded(shards)), trained(one.alone()), rtol=1e-9)
    for a, b in zip(several.values(), one.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-12)


def test_shards_may_have_weights():
    """The mean over all steps that the mask leaves is no mean of rows."""
    x, mask, w = sj.matrix("x"), sj.matrix("mask"), sj.shared(0.5, "w")
    loss = ((x - w) ** 2 * mask).sum() / mask.sum()
    given = RANDOM.normal(size=(7, 5)), (np.arange(5) < RANDOM.integers(1, 6, 7)[:, None]).astype(float)
    plain = sj.function([x, mask], [loss, sj.grad(loss, w)], mode="reference")(*given)
    rule = lambda grads: lasagne.updates.sgd(grads, [w], 0.1)
    train = DataParallel([x, mask], loss, [w], rule, shards=3, weight=mask.sum(), mode="reference")
    np.testing.assert_allclose(train(*given), plain[0])
    np.testing.assert_allclose(w.get_value(), 0.5 - 0.1 * plain[1])


def test_numbers_are_for_all_shards():
    x, power, w = sj.vector("x"), sj.scalar("power"), sj.shared(2.0, "w")
    rule = lambda grads: lasagne.updates.sgd(grads, [w], 0.1)
    train = DataParallel([power, x], (w**power * x).mean(), [w], rule, shards=2, mode="reference")
    assert train(3.0, [1.0, 2.0, 3.0]) == 16.0
    np.testing.assert_allclose(w.get_value(), 2 - 0.1 * 3 * 4 * 2)


def test_noise_and_running_means():
    """Each shard draws its own numbers; the next step draws others; the same seed gives the same ones."""
    results = []
    for _ in range(2):
        problem = Problem(noise=True)
        train = problem.sharded(4, updates=lasagne.layers.get_updates(problem.network))
        before = problem.values()
        results.append([trained(train), *problem.values()])
        changed = [not np.array_equal(a, b) for a, b in zip(before, problem.values(), strict=True)]
        assert changed == [param.name != "hid_init" for param in lasagne.layers.get_all_params(problem.network)]
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)

    stream, x, w = sj.random.Stream(3), sj.vector("x"), sj.shared(0.0, "w")
    drawn = (x * stream.normal(x.shape)).mean() + w
    draw = DataParallel([x], drawn, [w], lambda grads: {}, shards=4, mode="reference")
    numbers = [float(draw(row)) for row in np.repeat(np.eye(4), 2, axis=0)]
    assert len(set(numbers)) == 8 and stream.get_state() == (3, 8)


def test_a_checkpoint_goes_on_where_it_was(tmp_path):
    problem = Problem(noise=True)
    updates = lasagne.layers.get_updates(problem.network)
    train = problem.sharded(3, updates=updates)
    whole = [trained(train, seed=seed) for seed in (4, 5)][1], problem.values()
    first, second = Problem(noise=True), Problem(noise=True)
    train = first.sharded(3, updates=lasagne.layers.get_updates(first.network))
    trained(train, seed=4)
    Checkpoint(tmp_path / "run.npz", train).save(epoch=2)
    train = second.sharded(3, updates=lasagne.layers.get_updates(second.network))
    assert Checkpoint(tmp_path / "run.npz", train).load() == {"epoch": 2}
    assert trained(train, seed=5) == whole[0]
    for a, b in zip(second.values(), whole[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_arguments():
    x, n, w, count = sj.vector("x"), sj.scalar("n"), sj.shared(2.0, "w"), sj.shared(0, "count")
    rule = lambda grads: lasagne.updates.sgd(grads, [w], 0.1)
    with pytest.raises(ValueError, match="shards must be at least 1, got 0"):
        DataParallel([x], (w * x).sum(), [w], rule, shards=0)
    with pytest.raises(ValueError, match="a batch needs an input with at least one axis"):
        DataParallel([n], w * n, [w], rule, shards=2)
    with pytest.raises(ValueError, match="a mean over shards needs floats, but updates has <shared count"):
        DataParallel([x], (w * x).sum(), [w], rule, shards=2, updates={count: count + 1})
    train = DataParallel([x, n], (w * x).sum() * n, [w], rule, shards=2, mode="reference")
    with pytest.raises(ValueError, match=r"a batch has 2 arrays of \[1, 0\] axes, got \[1\]"):
        train([1.0])
    with pytest.raises(ValueError, match=r"one number of rows, at least one, got \[0\]"):
        train([], 1.0)


@pytest.mark.slow
def test_on_workers_that_come_and_go(tmp_path):
    """Two workers, of which one is killed inside of a step and replaced, then one leaves: the same losses."""
    pytest.importorskip("distributed")
    code = f"""
    import os
    import signal
    import sys
    import threading

    import numpy as np

    import lasagne_like as lasagne
    import scanjit as sj
    from lasagne_like.distributed import DataParallel

    sys.path.insert(0, {str(ROOT / "examples")!r})
    import char_rnn

    TEXT = np.random.default_rng(0).integers(0, 12, 3000)

    def losses(client, disturb=lambda step: None):
        lasagne.random.set_rng(np.random.default_rng(1))
        characters, _, _, network = char_rnn.build(12, 8)
        inputs, loss = char_rnn.loss_per_character(characters, network)
        params = lasagne.layers.get_all_params(network, trainable=True)
        rule = lambda grads: lasagne.updates.adam(
            lasagne.updates.total_norm_constraint(grads, max_norm=5.0), params, learning_rate=0.01)
        train = DataParallel(inputs, loss, params, rule, shards=3, client=client)
        random, found = np.random.default_rng(2), []
        for step in range(10):
            disturb(step)
            found.append(float(train(*char_rnn.pieces(TEXT, random.integers(0, 2900, 7), 20))))
        return found, [param.get_value().tobytes() for param in params]

    if __name__ == "__main__":
        from distributed import Client, LocalCluster

        expected = losses(None)
        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            workers = list(client.run(os.getpid).values())

            def disturb(step):
                if step == 3:
                    os.kill(workers[0], signal.SIGKILL)
                if step == 5:
                    threading.Timer(0.02, os.kill, (workers[1], signal.SIGKILL)).start()
                if step == 8:
                    cluster.scale(1)

            print(losses(client, disturb) == expected)
        with LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            print(losses(client) == expected)
    """
    assert script(tmp_path, code) == ["True", "True"]
