"""A small problem with a constraint that binds, and a run of a method by hand."""

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.estimators.standard_errors import confidence
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key

EFFECT = np.array([[0.4, 0.1], [-0.2, 0.3]])


def small_loss(theta, z):
    return jnp.sum((theta - 1.0) ** 2) - jnp.sum(z * theta) + 0.1 * jnp.sum(z * z)


def small(loss=small_loss, decisions=None, constraints=None):
    limits = [pf.constraints.Linear([1.0, 1.0], 1.0, name="cap")] if constraints is None else constraints
    problem = pf.Problem(loss, decisions or pf.Box([-2.0, -2.0], [2.0, 2.0]), limits)
    return problem, pf.LocationFamily(pf.Gaussian(np.array([0.5, 0.2]), np.array([0.3, 0.2])), EFFECT)


def play(method, environment, rounds, seed=0):
    """States, deployed decisions and samples of a run by hand."""
    states, decisions, samples = [method.init(new_key(seed))], [], []
    answers = jax.jit(environment.sample, static_argnames="n")
    with precise():
        keys = [jax.random.split(jax.random.fold_in(new_key(seed), t + 1)) for t in range(rounds)]
    for asking, answering in keys:
        asked = method.ask(states[-1], asking)
        with precise():
            answer = answers(answering, asked[0], n=method.wanted(states[-1]))
        states.append(method.tell(states[-1], asked, answer[None]))
        decisions.append(np.asarray(asked[0]))
        samples.append(np.asarray(answer))
    return states, np.array(decisions), np.array(samples)


def standard_errors(method, state):
    """Estimates of a method's regression at θ_t with standard errors; the gain is over the start."""
    return confidence(method.learner, method.prediction, state.belief, state.decision, np.asarray(method.start))
