"""What happens in a study: one class for each kind of event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from performative.numerics.arrays import Floats
from performative.study.labels import UNNAMED, Labels
from performative.study.records import Arrays

Identity = dict[str, bool | int | float | str | list[str] | NDArray[np.generic] | None]
"""What is known about a method before any data: plain values and arrays, by path."""
VIOLATED = 1e-9
"""By how much a constraint must be violated to count."""
DECISION_SET = "the decision set"
"""What is said to be violated by a decision outside Θ."""


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """What the method asks for next, computed when it last learned something: what `ask` deploys.

    `decisions` (b, d) lie around θ_t = `decision`; `constraint_values` (b, m) are their g, `multipliers` is λ_t, and `samples` is
    how many are wanted of each. `draws` says whether another attempt asks for others. `reasons` are the numbers that say why, by
    name, if the method has any.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     created = next(study.events())
    >>> created.planned.round, created.planned.decisions.tolist(), created.planned.draws
    (1, [[0.0]], False)
    """

    round: int
    samples: int
    draws: bool
    decisions: Floats
    constraint_values: Floats
    decision: Floats
    multipliers: Floats
    reasons: dict[str, NDArray[np.generic]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SoFar:
    """What a report adds up: how many deployments were reported, and what they did to each constraint.

    `least` (m,) is the least slack −g of all their decisions, `violated` (m,) how many of them violated it, and `worst` (m,)
    the number of the one that did so most.

    >>> import numpy as np
    >>> far = SoFar.nothing(1).after(1, np.array([[-0.5]])).after(4, np.array([[0.25]]))
    >>> far.told, far.least.tolist(), far.violated.tolist(), far.worst.tolist()
    (2, [-0.25], [1], [4])
    """

    told: int
    least: Floats
    violated: NDArray[np.int64]
    worst: NDArray[np.int64]

    @staticmethod
    def nothing(constraints: int) -> SoFar:
        """Before the first report."""
        none = np.zeros(constraints, np.int64)
        return SoFar(0, np.full(constraints, np.inf), none, none)

    def after(self, deployment: int, constraint_values: Floats) -> SoFar:
        """With one more deployment, whose decisions have these g (b, m)."""
        slack = -np.max(constraint_values, axis=0, initial=-np.inf)
        worse = slack < self.least
        return SoFar(
            told=self.told + 1,
            least=np.where(worse, slack, self.least),
            violated=self.violated + (slack < -VIOLATED),
            worst=np.where(worse, deployment, self.worst),
        )


class Actual(NamedTuple):
    """What was deployed where it was not what was asked for: decisions (b, d), their g (b, m), and their distance from Θ (b,).

    >>> import numpy as np
    >>> actual = Actual(np.array([[3.5, 1.0]]), np.array([[0.5, -2.0]]), np.zeros(1))
    >>> actual.violations(["cap", "floor"])
    {'cap': 0.5}
    """

    decisions: Floats
    constraint_values: Floats
    outside: Floats

    def violations(self, names: Sequence[str]) -> dict[str, float]:
        """By how much the constraints of these names, and the decision set, are violated at worst, if they are."""
        worst = [*np.max(self.constraint_values, axis=0), np.max(self.outside)]
        return {
            name: float(value) for name, value in zip([*names, DECISION_SET], worst, strict=True) if value > VIOLATED
        }


class Limits(NamedTuple):
    """Bounds `lower` and `upper` (d,) that people put on decisions, infinite where there are none.

    The `anchor` (d,) meets them and all constraints with room to spare.

    >>> import numpy as np
    >>> limits = Limits(np.array([-np.inf, 0.0]), np.array([5.0, np.inf]), np.array([2.0, 2.0]))
    >>> limits.met_by(np.array([[4.0, 9.0]])), limits.met_by(np.array([[6.0, 9.0]]))
    (True, False)
    """

    lower: Floats
    upper: Floats
    anchor: Floats

    def met_by(self, decisions: Floats) -> bool:
        """Whether all decisions (b, d) meet them."""
        return bool(np.all((self.lower <= decisions) & (decisions <= self.upper)))


class InForce(NamedTuple):
    """Which events a study goes by, by their numbers: 0, the first event, until another one takes its place.

    `method` is the one that says what the method is, `retracted` the last retraction, which lists all reports that were taken
    back, and `limits` the last event that set some.

    >>> InForce(), InForce(retracted=7).plain()
    (InForce(method=0, retracted=0, limits=0), {'retracted': 7})
    """

    method: int = 0
    retracted: int = 0
    limits: int = 0

    def plain(self) -> dict[str, int]:
        """Those that are not the first event."""
        return {name: number for name, number in self._asdict().items() if number}


FROM_THE_START = InForce()
"""Nothing was corrected yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Created:
    """The study was created. `identity` is the method in values and arrays, by path; its functions were probed at `points`.

    `folder` is where the description `spec` was, if it names files, `library` the digest of this library's code, and `labels` are
    the names of the numbers of a decision and of a sample. With `approval`, what is asked for is a proposal, which somebody must
    approve.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     study.cancel(study.ask(), "the shop was closed")
    ...     study.note("a holiday")
    ...     events = list(study.events())
    >>> isinstance(events[0], pf.study.Created), float(events[0].identity["method.step"])
    (True, 0.005)
    >>> [event.kind for event in events]
    ['create', 'ask', 'cancel', 'note']
    """

    kind: ClassVar[str] = "create"
    number: int
    at: float
    seed: int
    performative: str
    jax: str
    spec: str | None
    identity: Identity
    points: Arrays
    planned: Planned
    library: str
    folder: str | None = None
    labels: Labels = UNNAMED
    approval: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Amended:
    """The study goes on with another method, to which all reports were told, from the beginning.

    `before` is the number of the event that says what the method was until then. What `Created` says of a method is said of the
    new one; `probes` and `probe_losses` are those of `Observed`, if there were data. `open` are the decisions of the deployment
    that was open, with their g under the new constraints, and `limits` are those that hold from now on, if there are any.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> def method(cost):
    ...     return pf.repeated_gradient(pf.Problem(Revenue([cost]), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method(1.0)) as study:
    ...     told = study.tell(study.ask(), [[[3.0]]])
    ...     study.amend(method(1.5), "the supplier asks for more", by="Ada")
    ...     amended = [event for event in study.events() if isinstance(event, pf.study.Amended)]
    >>> amended[0].reason, amended[0].by, amended[0].so_far.told
    ('the supplier asks for more', 'Ada', 1)
    """

    kind: ClassVar[str] = "amend"
    number: int
    at: float
    reason: str
    by: str
    before: int
    performative: str
    jax: str
    spec: str | None
    identity: Identity
    points: Arrays
    planned: Planned
    library: str
    so_far: SoFar
    columns: list[str] | None
    width: int | None
    in_force: InForce
    folder: str | None = None
    approval: bool = False
    probes: Floats | None = None
    probe_losses: Floats | None = None
    open: Actual | None = None
    limits: Limits | None = None
    labels: Labels = UNNAMED


Basis = Created | Amended
"""An event that says what the method is."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """`decisions` (b, d) were asked for around θ_t = `decision`; `constraint_values` (b, m) are their g, `multipliers` is λ_t.

    `attempt` counts the canceled or declined deployments of the same round. A `proposal` must be approved before it is deployed.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     deployment = study.ask()
    ...     asked = [event for event in study.events() if isinstance(event, pf.study.Asked)]
    >>> asked[0].number == deployment.id, asked[0].round, asked[0].decisions.tolist()
    (True, 1, [[0.0]])
    """

    kind: ClassVar[str] = "ask"
    number: int
    at: float
    round: int
    samples: int
    attempt: int
    decisions: Floats
    constraint_values: Floats
    decision: Floats
    multipliers: Floats
    proposal: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Approved:
    """A proposal was approved; `edited` are the decisions to deploy in its place, if there are any.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pf.Study.create(f"{folder}/studies.db", "prices", method, approval=True) as study:
    ...         deployment = study.approve(study.ask(), [0.5], by="Ada")
    ...         approved = [event for event in study.events() if isinstance(event, pf.study.Approved)]
    >>> deployment.decisions.tolist(), approved[0].by, approved[0].edited.decisions.tolist()
    ([[0.5]], 'Ada', [[0.5]])
    """

    kind: ClassVar[str] = "approve"
    number: int
    at: float
    deployment: int
    by: str
    edited: Actual | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Declined:
    """A proposal was declined; `limits` are all that hold from now on, if this set some.

    >>> import numpy as np, performative as pf
    >>> limits = pf.study.Limits(np.array([-np.inf]), np.array([5.0]), np.array([2.5]))
    >>> pf.study.Declined(2, 0.0, deployment=1, reason="too dear", by="Ada", limits=limits).limits.upper.tolist()
    [5.0]
    """

    kind: ClassVar[str] = "decline"
    number: int
    at: float
    deployment: int
    reason: str
    by: str
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """`samples` (b, n, k) were reported for a deployment; `planned` is what the method asks for after that.

    `losses` (b,) are the mean losses of its decisions, with standard errors `loss_errors` (b,) if they have several; `columns`
    are the names of the k numbers, if known. The first such event also has the loss at `probes` like the data. `actual` is what
    was deployed, if not what was asked for, and `confirmed` are the reasons why the samples looked wrong, if somebody said that
    they are right all the same.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     told = study.tell(study.ask(), [[[3.0]]])
    ...     observed = [event for event in study.events() if isinstance(event, pf.study.Observed)]
    >>> observed[0].deployment, observed[0].samples.tolist(), observed[0].planned.decision.tolist(), observed[0].so_far.told
    (1, [[[3.0]]], [0.015], 1)
    """

    kind: ClassVar[str] = "tell"
    number: int
    at: float
    deployment: int
    columns: list[str] | None
    samples: Floats
    losses: Floats
    planned: Planned
    so_far: SoFar
    probes: Floats | None = None
    probe_losses: Floats | None = None
    loss_errors: Floats | None = None
    in_force: InForce = FROM_THE_START
    actual: Actual | None = None
    confirmed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Retracted:
    """The report of a deployment was taken back: `planned` follows from the others alone, told again from the beginning.

    `told` is the number of the event that reported it, and `reports` are the numbers of all such events that were taken back so
    far. `so_far`, `columns` and `width` (how many numbers a sample has, if that is known) are those of the reports that are left.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     told = study.tell(study.ask(), [[[3e9]]])
    ...     study.retract(1, "a typo", by="Ada")
    ...     retracted = [event for event in study.events() if isinstance(event, pf.study.Retracted)]
    >>> retracted[0].reason, retracted[0].by, retracted[0].reports.tolist(), retracted[0].planned.decision.tolist()
    ('a typo', 'Ada', [2], [0.0])
    """

    kind: ClassVar[str] = "retract"
    number: int
    at: float
    deployment: int
    told: int
    reason: str
    by: str
    reports: NDArray[np.int64]
    columns: list[str] | None
    width: int | None
    planned: Planned
    so_far: SoFar
    in_force: InForce


@dataclass(frozen=True, slots=True, eq=False)
class Canceled:
    """A deployment could not be carried out.

    >>> import performative as pf
    >>> pf.study.Canceled(number=2, at=0.0, deployment=1, reason="the shop was closed").reason
    'the shop was closed'
    """

    kind: ClassVar[str] = "cancel"
    number: int
    at: float
    deployment: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """A note was written into the log.

    >>> import performative as pf
    >>> pf.study.Noted(number=3, at=0.0, text="a holiday").text
    'a holiday'
    """

    kind: ClassVar[str] = "note"
    number: int
    at: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Signed:
    """All events before this one were signed with the key of the name `key`; `signature` is the HMAC of their digest.

    >>> import secrets, tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method, key = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0]))), secrets.token_bytes(32)
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     study.sign(key)
    ...     study.note("a holiday")
    ...     signed, up_to = [event for event in study.events() if isinstance(event, pf.study.Signed)], study.signed(key)
    >>> signed[0].number, up_to
    (1, 0)
    """

    kind: ClassVar[str] = "sign"
    number: int
    at: float
    key: str
    signature: str


Event = Created | Amended | Asked | Approved | Declined | Observed | Retracted | Canceled | Noted | Signed


class Report(NamedTuple):
    """What is reported in an `Observed` event, without what it led to."""

    number: int
    at: float
    deployment: int
    samples: NDArray[np.float64]
    losses: NDArray[np.float64]
    actual: Actual | None
    confirmed: tuple[str, ...] = ()
    loss_errors: NDArray[np.float64] | None = None
