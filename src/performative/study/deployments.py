"""What `ask`, `tell` and `verify` return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from performative.numerics.arrays import Floats
from performative.study.events import Actual, Approved, Asked, Observed, Planned


class Why(NamedTuple):
    """Why these decisions: θ_t, how far each lies from it (b, d), its slack −g in every constraint (b, m), and λ_t (m,).

    >>> import numpy as np
    >>> why = Why(np.array([1.0]), np.array([[0.5]]), np.array([[2.0]]), np.array([0.0]))
    >>> why.decision + why.exploration  # what is deployed
    array([[1.5]])
    """

    decision: Floats
    exploration: Floats
    safety: Floats
    multipliers: Floats


class Deployment(NamedTuple):
    """Decisions (b, d) to deploy, and how many samples are wanted of each; a proposal until it is `approved`, if it must be.

    >>> import numpy as np
    >>> theta, decisions = np.array([1.0]), np.array([[1.0], [1.5]])
    >>> event = Asked(1, 0.0, 3, 20, 0, decisions, decisions - 4.0, theta, np.zeros(1))
    >>> deployment = Deployment.of(event)
    >>> deployment.id, deployment.round, deployment.samples, deployment.why.safety.tolist()
    (1, 3, 20, [[3.0], [2.5]])
    """

    id: int
    round: int
    decisions: Floats
    samples: int
    why: Why
    approved: bool = True

    @staticmethod
    def of(event: Asked, approved: Approved | None = None) -> Deployment:
        """The deployment that an event asked for, as it was approved; its id is the event's number."""
        final: Asked | Actual = event if approved is None or approved.edited is None else approved.edited
        why = Why(event.decision, final.decisions - event.decision, -final.constraint_values, event.multipliers)
        is_approved = approved is not None or not event.proposal
        return Deployment(event.number, event.round, final.decisions, event.samples, why, is_approved)

    def under(self, planned: Planned, measured: Actual) -> Deployment:
        """The same, open under another method: explained by what that method plans, and with the slack of its constraints."""
        why = Why(planned.decision, self.decisions - planned.decision, -measured.constraint_values, planned.multipliers)
        return self._replace(why=why)


class Told(NamedTuple):
    """What a `tell` changed: θ and λ before and after. `round` is the next one.

    `violated` says which constraints the decisions violate that were really deployed, and by how much, if they were not those
    asked for.

    >>> import numpy as np
    >>> told = Told(4, np.array([1.0]), np.array([1.25]), np.zeros(1), np.zeros(1), {})
    >>> told.decision - told.decision_before
    array([0.25])
    """

    round: int
    decision_before: Floats
    decision: Floats
    multipliers_before: Floats
    multipliers: Floats
    violated: dict[str, float]

    @staticmethod
    def of(deployment: Deployment, event: Observed, constraint_names: Sequence[str]) -> Told:
        """What an event changed, whose samples were observed at `deployment`."""
        before, after = deployment.why, event.planned
        violated = {} if event.actual is None else event.actual.violations(constraint_names)
        return Told(after.round, before.decision, after.decision, before.multipliers, after.multipliers, violated)


class Replay(NamedTuple):
    """What `verify` replayed: how many events, and how many reports among them count.

    `unreplayed` events are verified by the chain of digests alone, since they are of a time when the method was another one,
    which cannot be made again: `because` says which they are, and why not.

    >>> print(Replay(events=4, told=1))
    Replay(events=4, told=1, unreplayed=0, because=())
    """

    events: int
    told: int
    unreplayed: int = 0
    because: tuple[str, ...] = ()
