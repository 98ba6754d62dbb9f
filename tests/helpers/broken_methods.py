"""Small methods in plain Python: each breaks one rule that methods keep."""

import dataclasses
import random

import jax
import jax.numpy as jnp
import numpy as np
from plain_methods import Explorer, Place, Planner, Walker

from performative.numerics.pytrees import changed, pytree
from performative.numerics.randomness import standard_normal
from performative.numerics.tracers import is_traced


class OwesNothing(Walker):
    def tell(self, state, decisions, samples):
        return changed(super().tell(state, decisions, samples), multipliers=-jnp.ones(1))


class AsksForHalfASample(Walker):
    def wanted(self, state):
        return 0.5


class AsksForOneRow(Walker):
    def ask(self, state, key):
        return state.decision


@pytree()
class Bare:
    round: object
    decision: object


class HasNoMultipliers(Walker):
    def init(self, key):
        return Bare(jnp.ones((), int), jnp.zeros(2))


class HasTooManyMultipliers(Walker):
    def init(self, key):
        return changed(super().init(key), multipliers=jnp.zeros(2))


class Diverges(Walker):
    def tell(self, state, decisions, samples):
        return changed(super().tell(state, decisions, samples), decision=jnp.array([jnp.inf, jnp.inf]))


class StartsLate(Walker):
    def init(self, key):
        return changed(super().init(key), round=jnp.array(7))


class DrawsAndForgets(Walker):
    """Draws only when live: what draws inside a program is refused before it runs."""

    def ask(self, state, key):
        if not isinstance(state.decision, jax.core.Tracer):
            np.random.random()  # noqa: NPY002
        return super().ask(state, key)


class HasOneSeed(Walker):
    def ask(self, state, key):
        return super().ask(state, key)[:1] * 0.0 + state.decision + 0.1 * jax.random.normal(jax.random.key(0), (1, 2))


class PlansWhatItDoesNotDeploy(Planner):
    def ask(self, state, key):
        return super().ask(state, key) + 0.1 * jax.random.normal(key, (1, 2))


class StartsSomewhere(Walker):
    def init(self, key):
        return changed(super().init(key), decision=jnp.array([0.1, 0.1 + 1e-12 * random.random()]))


class Restless(Walker):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def calls_so_far(self):
        self.calls += 1
        return self.calls


class StartsAnew(Restless):
    def init(self, key):
        return changed(super().init(key), extra=jnp.array(self.calls_so_far()))


class AsksAnew(Restless):
    def ask(self, state, key):
        return super().ask(state, key) + self.calls_so_far()


class LearnsAnew(Restless):
    """Another answer at every call: a function neither of its keys nor of its state."""

    def tell(self, state, decisions, samples):
        after = super().tell(state, decisions, samples)
        return changed(after, decision=after.decision + 1e-13 * self.calls_so_far())


class DrawsOnceCompiled(Walker):
    def __init__(self):
        super().__init__()
        self.compiled = jax.jit(lambda theta: theta + 1e-12 * np.random.random())  # noqa: NPY002

    def tell(self, state, decisions, samples):
        after = super().tell(state, decisions, samples)
        return changed(after, decision=self.compiled(after.decision))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Slate:
    """A state that can be written to."""

    round: object
    decision: object
    multipliers: object
    visits: object


class CountsVisits(Walker):
    def init(self, key):
        return Slate(jnp.ones((), int), jnp.array([0.1, 0.1]), jnp.zeros(1), jnp.zeros(()))

    def ask(self, state, key):
        state.visits = state.visits + 1.0
        return super().ask(state, key)

    def tell(self, state, decisions, samples):
        after = super().tell(changed(Place(0, 0, 0), **self.numbers(state)), decisions, samples)
        return Slate(after.round, after.decision, after.multipliers, state.visits)

    def numbers(self, state):
        return {"round": state.round, "decision": state.decision, "multipliers": state.multipliers}


class CountsTellings(CountsVisits):
    def ask(self, state, key):
        return Walker.ask(self, state, key)

    def tell(self, state, decisions, samples):
        state.visits = state.visits + 1.0
        return super().tell(state, decisions, samples)


class CentersTheData(Walker):
    def tell(self, state, decisions, samples):
        samples -= 1.0
        return super().tell(state, decisions, samples + 1.0)


class DecidesDifferently(Explorer):
    def decide(self, state, normals):
        return (state.decision - 0.1 * normals)[None]


class StartsOutside(Walker):
    def init(self, key):
        return changed(super().init(key), decision=jnp.array([-0.1, -0.1]))


class ClaimsTooMuch(Walker):
    """Its deployments leave the set."""

    feasible = True

    def ask(self, state, key):
        return (state.decision - 1.0)[None]


class ClaimsTheCap(Explorer):
    """Its probes stay in the set, but break the constraint."""

    feasible = True

    def ask(self, state, key):
        return self.decide(state, standard_normal(key, 2))

    def decide(self, state, normals):
        return jnp.clip(state.decision + 0.3 * jnp.abs(normals), 0.0, 1.0)[None]


class KeepsALogWhenLive(Walker):
    def init(self, key):
        return changed(super().init(key), extra=jnp.zeros((0, 2)))

    def tell(self, state, decisions, samples):
        after = super().tell(state, decisions, samples)
        return after if is_traced(decisions) else changed(after, extra=jnp.concatenate([state.extra, samples[0]]))


class KeepsALog(KeepsALogWhenLive):
    def tell(self, state, decisions, samples):
        after = Walker.tell(self, state, decisions, samples)
        return changed(after, extra=jnp.concatenate([state.extra, samples[0]]))


class KeepsAList(Walker):
    def init(self, key):
        return changed(super().init(key), extra=())

    def tell(self, state, decisions, samples):
        return changed(super().tell(state, decisions, samples), extra=(*state.extra, samples[0, 0, 0]))


class WidensItsCount(Walker):
    """A whole number that becomes a fraction of the same size."""

    def init(self, key):
        return changed(super().init(key), extra=jnp.zeros((), np.int32))

    def tell(self, state, decisions, samples):
        after = super().tell(state, decisions, samples)
        return changed(after, extra=jnp.zeros((), np.int32 if state.round < 6 else np.float32))


class LooksAtItsNumbers(Walker):
    def tell(self, state, decisions, samples):
        after = super().tell(state, decisions, samples)
        return after if float(after.decision[0]) > 0.05 else changed(after, decision=state.decision)


def damped(theta):
    """A host function that is not told of realizations: its mean is over all of them."""
    return np.asarray(theta) * (1.0 - 0.1 * np.mean(theta))


class MixesRealizations(Explorer):
    def tell(self, state, decisions, samples):
        after = super().tell(state, decisions, samples)
        shape = jax.ShapeDtypeStruct((2,), np.float64)
        moved = jax.pure_callback(damped, shape, after.decision, vmap_method="expand_dims")
        return changed(after, decision=moved)
