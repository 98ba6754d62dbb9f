"""The quadratic model that steps and probes are planned in: what holds θ, and how stiff the loss is taken to be across it."""

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.losses import Revenue
from performative.methods.planning import STIFF, Model, held_by_set, holding, touching
from performative.numerics.precision import in_float64


def along(decisions, theta, slope, widths=(1.0, 1.0)):
    return np.asarray(held_by_set(decisions, *(jnp.asarray(part, jnp.float64) for part in (theta, slope, widths))))


@in_float64
def test_a_box_holds_the_coordinates_that_descend_out_of_it():
    box = pf.Box([0.0, 0.0], [1.0, 1.0])
    np.testing.assert_array_equal(along(box, [1.0, 0.5], [-2.0, -2.0]), np.diag([1.0, 0.0]))
    np.testing.assert_array_equal(along(box, [1.0, 0.0], [2.0, 2.0]), np.diag([0.0, 1.0]))
    np.testing.assert_array_equal(along(box, [1.0, 0.0], [0.0, 0.0]), np.zeros((2, 2)))
    cents = pf.Box([0.0, 0.0], [100.0, 1.0])
    np.testing.assert_array_equal(along(cents, [100.0, 0.5], [-2.0, -2.0], [100.0, 1.0]), np.diag([1.0, 0.0]))


@in_float64
def test_a_ball_holds_along_its_radius():
    theta = np.array([0.6, 0.8])
    np.testing.assert_allclose(along(pf.Ball(1.0), theta, -theta), np.outer(theta, theta), atol=1e-12)
    np.testing.assert_allclose(along(pf.Ball(1.0), theta, theta), np.zeros((2, 2)), atol=1e-12)


@in_float64
def test_a_normal_is_that_of_the_same_set_as_a_constraint():
    """In widths W a side with the normal a has the normal Wa, like the rows of a constraint."""
    widths, theta = np.array([10.0, 4.0]), np.array([6.0, 4.0])
    expected = widths / np.linalg.norm(widths)
    held = along(pf.sets.HalfSpace([1.0, 1.0], 10.0), theta, -widths, widths)
    np.testing.assert_allclose(held, np.outer(expected, expected), atol=1e-12)


@in_float64
def test_each_part_of_a_product_holds_on_its_own():
    both = pf.Product([pf.Box([0.0, 0.0], [1.0, 1.0]), pf.Ball(1.0)], sizes=[2, 2])
    held = along(both, [1.0, 1.0, 0.6, 0.8], [-1.0, -1.0, -0.6, -0.8], [1.0] * 4)
    radial = np.outer([0.6, 0.8], [0.6, 0.8])
    np.testing.assert_allclose(held, np.block([[np.eye(2), np.zeros((2, 2))], [np.zeros((2, 2)), radial]]), atol=1e-12)


@in_float64
def test_a_constraint_that_theta_does_not_touch_does_not_hold_it():
    """Its multiplier is that of another decision: the budget has put the start in its place."""
    values, rows, multipliers = (
        jnp.asarray(part) for part in ([-1.0, -1e-9, -1e-3], [[3.0, 4.0]] * 3, [1.0, 2.0, 0.0])
    )
    np.testing.assert_array_equal(touching(values, rows, multipliers), [0.0, 2.0, 0.0])


@in_float64
def test_constraints_without_a_multiplier_or_a_slope_hold_nothing():
    rows = jnp.asarray([[3.0, 4.0], [1.0, 1.0], [0.0, 0.0], [jnp.nan, 1.0]])
    normals = np.asarray(holding(rows, jnp.asarray([2.0, 0.0, 1.0, 1.0])))
    np.testing.assert_allclose(normals, [[0.6, 0.8], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])


@in_float64
def test_what_is_not_known_across_what_holds_theta_counts_for_little():
    """rrᵀ is the inverse of a Hessian with STIFF times its largest curvature more across the cap, if that holds θ."""
    problem = pf.Problem(
        Revenue(), pf.Box([0.5, 0.5], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], bound=2.0, name="cap")]
    )
    world = pf.LocationFamily(pf.Gaussian([4.0, 4.0], np.diag([0.1, 0.1])), effect=-np.eye(2))
    method = pf.safe_apda(problem, start=[1.0, 1.0], samples=10)
    state = method.init(jax.random.key(0))
    for t in range(4):
        decisions = method.ask(state, jax.random.key(t))
        state = method.tell(state, decisions, world.sample(jax.random.key(9 + t), decisions[0], 10)[None])
    prior, belief = state.prior, state.belief
    fit = method.learner.fit(belief, prior.variances(method.learner, belief), prior.bent(belief, 10), None)

    def model(multiplier):
        lam = jnp.asarray([multiplier])
        return Model.of(problem, method.prediction, fit, prior, jnp.asarray([1.0, 1.0]), lam, 10)

    free, held = model(0.0), model(1.0)
    across = np.array(prior.widths) / np.linalg.norm(prior.widths)
    before, after = (np.linalg.inv(np.asarray(each.root @ each.root.T)) for each in (free, held))
    np.testing.assert_allclose(after - before, STIFF * float(free.top) * np.outer(across, across), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(held.root @ held.unroot), np.eye(2), atol=1e-12)
    assert np.linalg.eigvalsh(before)[0] > 0.0
