"""What each arm deploys around θ: probes that are worth their price, a wide one where it is due, all within the budget."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from performative.estimators.known import Numbers
from performative.methods.pace import EVERY, Allowance, middle, wide
from performative.methods.planning import Model, Planner
from performative.methods.prospects import Prospects
from performative.methods.stakes import Limits, Stakes
from performative.problem import Problem
from performative.safety import PreparedSafety

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


class SoFar(NamedTuple):
    """How many `rounds` are behind, and how many of them are `remembered`; for how many more a probe pays, the `horizon`.

    `explored` is what probes were charged, in `unit`s of loss (`pace.Allowance`), `relative` the noise of a deployment over the
    weakest effects that are expected, both squared, and `noise` (b, STARTS, d) random numbers for the signs of each arm's probe.
    """

    rounds: Array
    remembered: Array
    horizon: Array
    explored: Array
    unit: Array
    relative: Array
    noise: Array


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


def probes_around(problem: Problem, safety: PreparedSafety, around: Around, so_far: SoFar, samples: int) -> Probing:
    """What each arm deploys in some of the next rounds, with so many samples, and θ in the others."""
    planner, model, stakes, limits, theta, lam, bound, rounds = around
    horizon, remembered, relative, arms = so_far.horizon, so_far.remembered, so_far.relative, len(so_far.noise)
    belief = stakes.fit.regression
    probes, held = [], jnp.asarray(False)
    price, worth = jnp.zeros(()), jnp.zeros(())
    if arms > 1:
        probes.append(theta)
        model = model._replace(known=model.known.after((theta - belief.decision) / planner.widths))
    # A probe takes the place of θ, which is deployed in all other rounds.
    until, one = rounds, limits._replace(left=limits.left - (rounds - 1.0) * bound)

    def risk(x: Array) -> Array:
        return stakes.prediction.risk(belief, belief.effect, x)

    early, explored = so_far.rounds < EVERY, so_far.explored
    due = goes = jnp.asarray(False)
    for arm in range(len(probes), arms):
        if isinstance(
            model.known, Numbers
        ):  # what it inverts must not meet other calls of LAPACK: see `numerics.cholesky`
            model = lax.optimization_barrier(model)
        prospects = Prospects.of(problem, safety, planner, model, theta, lam, horizon)
        probe, most = prospects.best(so_far.rounds, relative, so_far.noise[arm])
        if arm == arms - 1:
            inside = middle(problem, safety, planner.widths)
            far = wide(problem, inside, planner.widths, belief.moments, samples, remembered, relative)
            over = stakes.curved(far.decision)(far.decision)
            due = far.due & ~early
            goes = due & (over.value + one.sure * over.largest <= one.left)
            probe, most = jnp.where(goes, far.decision, probe), jnp.where(goes, far.rounds, most)
            held = held | (due & ~goes)
        reach = one.reach(theta, probe, stakes.curved(probe))
        stopped = (reach.place > 0) & jnp.any(probe != theta)
        probe, more = reach.decision, reach.bound - bound
        allowance = Allowance.of(so_far.unit, remembered, explored)
        charge = allowance.charge(risk(probe) - risk(theta), (probe - theta) / planner.widths)
        free = early | goes | jnp.all(probe == theta)
        enough = jnp.where(free, jnp.inf, allowance.rounds(charge))
        probe, more = jnp.where(enough >= 1.0, probe, theta), jnp.where(enough >= 1.0, more, 0.0)
        stays = jnp.all(probe == theta)
        gained, paid = (jnp.where(stays, 0.0, part) for part in prospects.judged(probe))
        model = model._replace(known=model.known.after((probe - belief.decision) / planner.widths))
        afforded = jnp.where(more > 0.0, (limits.left - until * bound) / jnp.where(more > 0.0, more, 1.0), jnp.inf)
        held = held | (goes & (afforded < jnp.minimum(most, rounds)))
        rounds = jnp.clip(jnp.floor(jnp.minimum(jnp.minimum(most, afforded), enough)), 1.0, rounds)
        explored = explored + jnp.where(free | (enough < 1.0), 0.0, charge * rounds)
        probes.append(probe)
        held, price, worth = held | stopped, price + paid, worth + gained
    repeats = jnp.where(jnp.isfinite(rounds), rounds, 1.0)
    return Probing(jnp.stack(probes), repeats, price, worth, held, due, explored)
