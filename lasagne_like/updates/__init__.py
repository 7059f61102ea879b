"""Update rules: functions of a loss (or gradients) and parameters that return an ordered dict of new values.

    updates = lasagne.updates.adam(loss, params, learning_rate=1e-3)
    train = sj.function([x, y], loss, updates=updates)

Every number of a rule may be a float or a scalar expression, such as a shared variable that changes while a network
trains. Parameters keep their dtype, whatever the dtypes of these numbers.
"""

from lasagne_like.updates.adam import *  # noqa: F403
from lasagne_like.updates.adaptive import *  # noqa: F403
from lasagne_like.updates.constraints import *  # noqa: F403
from lasagne_like.updates.descent import *  # noqa: F403
from lasagne_like.updates.gradients import get_or_compute_grads as get_or_compute_grads
