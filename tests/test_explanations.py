"""What fails in a function of yours is told by its line, with what to write instead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf

BOX = pf.Box([0.0], [1.0])
WORLD = pf.LocationFamily(pf.Gaussian([0.5], [1.0]), [[0.3]])


def branching(theta, z):
    if theta[0] > 0.5:  # the line
        return theta[0]
    return z[0]


def in_numpy(theta, z):
    return np.exp(theta[0])  # the line


def converting(theta, z):
    return float(theta[0]) * z[0]  # the line


def item(theta, z):
    return theta[0].item() * z[0]  # the line


def larger(theta, z):
    return max(theta[0], z[0])  # the line


def inside_a_helper(theta, z):
    return branching(theta, z)


@pytest.mark.parametrize(
    ("loss", "remedy"),
    [
        (branching, r"`if theta\[0\] > 0.5:  # the line`: Python cannot branch .* write jnp.where\(condition, a, b\)"),
        (inside_a_helper, r"`if theta\[0\] > 0.5:  # the line`: Python cannot branch"),
        (in_numpy, r"`return np.exp\(theta\[0\]\)  # the line`: NumPy cannot compute .* write jnp.exp for np.exp"),
        (converting, r"`return float\(theta\[0\]\) .*`: Python cannot convert .* leave out float\(\)"),
        (item, r"`return theta\[0\].item\(\) .*`: Python cannot convert .* leave out .* \.item\(\)"),
        (larger, r"`return max\(theta\[0\], z\[0\]\)  # the line`: .* jnp.maximum for `max`"),
    ],
)
def test_a_loss_that_cannot_be_compiled_is_refused_by_its_line(loss, remedy):
    where = r"`loss` must take .* but failed at .*test_explanations\.py:\d+, "
    problem = pf.Problem(loss, BOX)
    for use in (
        lambda: pf.performative_risk(problem, WORLD, [0.1]),
        lambda: pf.simulate({"m": pf.apda(problem, warmup=2)}, WORLD, rounds=2, realizations=1),
    ):
        with pytest.raises(ValueError, match=where + remedy):
            use()


def test_constraints_reactions_parameters_and_steps_are_told_by_their_line():
    with pytest.raises(ValueError, match=r"`constraints` must take .* but failed at .*: `?.*jnp.where"):
        pf.Problem(lambda theta, z: jnp.sum(theta * z), BOX, lambda theta: theta[0] if theta[0] > 0 else 0.0)
    problem = pf.Problem(lambda theta, z: jnp.sum(theta * z), BOX)
    world = pf.Reaction(pf.Gaussian([0.5], [1.0]), lambda theta, z0: z0 * np.exp(theta))
    with pytest.raises(ValueError, match=r"`react` must take .* but failed at .*jnp.exp for np.exp"):
        pf.performative_risk(problem, world, [0.1])
    family = pf.ParametricFamily(pf.Normal(1.0), lambda theta: theta if theta[0] > 0 else -theta)
    with pytest.raises(ValueError, match=r"`parameter` must take .* but failed at .*jnp.where"):
        pf.performative_risk(problem, family, [0.1])
    with pytest.raises(TypeError, match=r"`step` must be a function of the round .* but failed at .*jnp.where"):
        pf.apda(problem, step=lambda t: 0.1 if t < 10 else 0.01)


def zero_one(theta, z):
    return jnp.where(theta[0] * z[0] > 0, 0.0, 1.0)


@pytest.mark.parametrize(
    "method",
    [
        pf.apda,
        pf.pd_ps,
        pf.safe_apda,
        pf.repeated_gradient,
        pf.repeated_minimization,
        lambda problem: pf.two_stage(problem, stage=2),
        lambda problem: pf.oracle(problem, effect=0.3),
    ],
)
def test_methods_that_need_a_gradient_refuse_a_loss_without_one(method):
    made = method(pf.Problem(zero_one, BOX))
    state = made.init(jax.random.key(0))
    wanted = made.wanted(state)
    with pytest.raises(
        ValueError, match=r"`loss` must have a gradient .* is zero wherever .* smooth surrogate .* two_point"
    ):
        made.tell(state, made.ask(state, jax.random.key(1)), np.ones((1, wanted, 1)))


def test_methods_without_derivatives_take_it_and_the_optimum_is_refused(recwarn):
    """On a Gaussian base the average of a jump is smooth; on samples it is as flat as the loss."""
    problem = pf.Problem(zero_one, BOX)
    samples = pf.LocationFamily(pf.Empirical([-0.5, 0.5, 1.0]), effect=[[0.1]])
    with pytest.raises(pf.SolverFailed, match=r"the loss must have a gradient, .* smooth surrogate .*ClosedForm"):
        pf.performative_optimum(problem, samples)
    runs = pf.simulate({"two-point": pf.two_point(problem)}, samples, rounds=2, realizations=1)
    assert np.all(np.isfinite(runs.decision))
    assert any("regret is not measured" in str(warning.message) for warning in recwarn)
