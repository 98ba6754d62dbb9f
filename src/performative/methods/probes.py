"""What each arm deploys around θ: probes that are worth their price, a wide one where it is due, all within the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from performative.methods.pace import EVERY, Allowance, middle, wide
from performative.methods.planning import Model, Planner
from performative.methods.stakes import Limits, Stakes
from performative.numerics.randomness import standard_normal

if TYPE_CHECKING:
    from performative.methods.safe_primal_dual import SafePrimalDual, SafeState

STARTS = 4
"""How many random signs probes are sought from."""


class Around(NamedTuple):
    """What probes are planned around: θ and λ, which stay for the next `rounds`, and what is believed there.

    `limits` hold for all of these rounds together; θ itself may lose `bound` in each.
    """

    planner: Planner
    model: Model
    stakes: Stakes
    limits: Limits
    theta: Array
    multipliers: Array
    bound: Array
    rounds: Array


class Probing(NamedTuple):
    """Probes (b, d), for how many rounds, their price and worth, whether the budget holds them back, whether a wide one is due,
    and what all that were not due were charged: see `pace`.
    """

    decisions: Array
    repeats: Array
    price: Array
    worth: Array
    held: Array
    due: Array
    explored: Array


def probes_around(method: SafePrimalDual, state: SafeState, around: Around) -> Probing:
    """What each arm deploys in some of the next rounds, and θ in the others."""
    planner, model, stakes, limits, theta, lam, bound, rounds = around
    problem, belief = method.problem, stakes.fit.regression
    so_far = state.round.astype(jnp.float64)
    ahead = jnp.maximum(method.deployments / method.arms - so_far, 0.0)
    remembered = method.learner.remembered(so_far, method.samples)
    horizon = jnp.where(jnp.isfinite(ahead), ahead, jnp.maximum(remembered, 5.0))
    relative = state.prior.relative(belief, method.samples)
    key = jax.random.fold_in(belief.key, state.round)
    noise = standard_normal(key, method.arms * STARTS * problem.d).reshape(method.arms, STARTS, problem.d)
    probes, held = [], jnp.asarray(False)
    price, worth = jnp.zeros(()), jnp.zeros(())
    if method.arms > 1:
        probes.append(theta)
        model = model._replace(known=model.known.after((theta - belief.decision) / planner.widths))
    # A probe takes the place of θ, which is deployed in all other rounds.
    until, one = rounds, limits._replace(left=limits.left - (rounds - 1.0) * bound)

    def risk(x: Array) -> Array:
        return method.predicted_risk(belief, belief.effect, x)

    early, explored = so_far < EVERY, state.explored
    due = goes = jnp.asarray(False)
    for arm in range(len(probes), method.arms):
        model = lax.optimization_barrier(model)
        probe, most = planner.probe(problem, method.safety, model, theta, lam, horizon, so_far, relative, noise[arm])
        if arm == method.arms - 1:
            inside = middle(problem, method.safety, planner.widths)
            far = wide(problem, inside, planner.widths, belief.moments, method.samples, remembered, relative)
            over = stakes.curved(far.decision)(far.decision)
            due = far.due & ~early
            goes = due & (over.value + one.sure * over.largest <= one.left)
            probe, most = jnp.where(goes, far.decision, probe), jnp.where(goes, far.rounds, most)
            held = held | (due & ~goes)
        reach = one.reach(theta, probe, stakes.curved(probe))
        stopped = (reach.place > 0) & jnp.any(probe != theta)
        probe, more = reach.decision, reach.bound - bound
        allowance = Allowance.of(state.prior.bend + state.ledger.unit, remembered, explored)
        charge = allowance.charge(risk(probe) - risk(theta), (probe - theta) / planner.widths)
        free = early | goes | jnp.all(probe == theta)
        enough = jnp.where(free, jnp.inf, allowance.rounds(charge))
        probe, more = jnp.where(enough >= 1.0, probe, theta), jnp.where(enough >= 1.0, more, 0.0)
        gained, paid = planner.judged(model, theta, horizon, probe)
        model = model._replace(known=model.known.after((probe - belief.decision) / planner.widths))
        afforded = jnp.where(more > 0.0, (limits.left - until * bound) / jnp.where(more > 0.0, more, 1.0), jnp.inf)
        held = held | (goes & (afforded < jnp.minimum(most, rounds)))
        rounds = jnp.clip(jnp.floor(jnp.minimum(jnp.minimum(most, afforded), enough)), 1.0, rounds)
        explored = explored + jnp.where(free | (enough < 1.0), 0.0, charge * rounds)
        probes.append(probe)
        held, price, worth = held | stopped, price + paid, worth + gained
    repeats = jnp.where(jnp.isfinite(rounds), rounds, 1.0)
    return Probing(jnp.stack(probes), repeats, price, worth, held, due, explored)
