"""Study: ask for the next decision, deploy it, report what happened. For months, with nothing lost."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from performative.errors import AlreadyTold, HeldBack, SameProposalWarning, StudyError
from performative.study import signing
from performative.study.copies import copy
from performative.study.deployments import Deployment, Replay, Told
from performative.study.encoding import encoded
from performative.study.events import Canceled, Event, InForce, Limits, Noted, Observed, Signed
from performative.study.labels import UNNAMED, Labels
from performative.study.locking import one_at_a_time
from performative.study.log import Log
from performative.study.people import person, words
from performative.study.samples import Samples, read, really_deployed
from performative.study.session import Session, ending, withdrawn
from performative.study.store import Store
from performative.validation import MOST_SEED, whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from performative.methods.protocol import Method
    from performative.reasons import Explanation
    from performative.study.amending import Amendment, Given
    from performative.study.limits import Given as Bounds
    from performative.study.preview import Preview
    from performative.study.spec import Described
    from performative.study.status import Progress, Status
    from performative.study.worker import Worker
    from performative.wording import Outcome

T = TypeVar("T")


class Study:
    """A method at work in the world, kept in a file.

    `ask` returns the decisions to deploy, the same ones until you report or cancel them; `tell` reports what was observed. Both
    return once the event is on disk. Any number of processes may read at any time, and one at a time may write; each sees at its
    next call what the others did. Opening verifies every record of the log; `verify` computes everything again and compares it
    bit for bit.

    Randomness is that of realization 0 of `simulate` with the same seed: given the samples that a simulation drew, a
    study makes the same decisions, up to rounding.

    >>> import tempfile, jax.numpy as jnp, numpy as np, performative as pf
    >>> problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Box([0.0], [4.0]))
    >>> method = pf.repeated_gradient(problem, step=0.25)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pf.Study.create(f"{folder}/studies.db", "demo", method) as study:
    ...         deployment = study.ask()
    ...         told = study.tell(deployment, np.ones((1, 1, 1)))
    ...     with pf.Study.open(f"{folder}/studies.db", "demo", method) as study:  # later, anywhere
    ...         print(deployment.decisions, told.decision, study.ask().decisions, study.verify())
    [[0.]] [0.5] [[0.5]] Replay(events=4, told=1, unreplayed=0, because=())
    """

    def __init__(self, log: Log, name: str, worker: Worker | None = None, allow_code: bool = False) -> None:
        """Use `create` or `open`."""
        self.name, self._allow_code = name, allow_code
        self._lock = threading.RLock()
        self._session = Session(log, worker, lambda log: _described(log, name, allow_code))
        self._progress: tuple[InForce, Progress] | None = None
        self._shown: tuple[int, Status] | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        name: str,
        method: Method,
        *,
        seed: int = 0,
        spec: str | None = None,
        folder: str | None = None,
        approval: bool = False,
        labels: Labels | None = None,
    ) -> Study:
        """Create a study `name` in the file at `path`, which is created if it does not exist.

        `spec` is the text that describes the method, if there is one, and `folder` is where the files that it names are; both
        are kept with the study (see `study.spec`). With `approval`, `ask` returns proposals: see `approve`. `labels` name the
        numbers of a decision and of a sample, so that tables given to `tell` are matched by name.
        """
        from performative.study.creation import first_event
        from performative.study.worker import Worker

        _check_name(name)
        if "/" in name or name.endswith(".db"):
            raise ValueError(
                f"`name` must be a plain name, but got {name!r}; the order is Study.create(path, name, method)"
            )
        seed = whole("seed", seed, 0, MOST_SEED)
        created, state = first_event(method, seed, spec, folder, approval, UNNAMED if labels is None else labels)
        log = Log(Store.create(path, name, encoded(created), state))
        return cls(log, name, Worker(log, method))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        name: str,
        method: Method | None = None,
        *,
        readonly: bool = False,
        allow_code: bool = False,
    ) -> Study:
        """Open the study `name` in the file at `path` where it stopped. Every record is verified, and nothing is written.

        A study that was created from a description needs no `method`; it is made when it is first needed. If the description
        names functions of yours, that imports their modules, which `allow_code` must allow: the file may be somebody else's.
        Raises `OtherMethod` if the problem, the method or what its functions return differs from what is stored.
        """
        _check_name(name)
        store = Store.open(path, name, readonly)
        try:
            log = Log(store)
            return cls(log, name, None if method is None else _given(log, name, method), allow_code)
        except BaseException:
            store.close()
            raise

    @classmethod
    def from_spec(cls, path: str | os.PathLike[str], spec: str | os.PathLike[str]) -> Study:
        """Create a study in the file at `path`, as the TOML file `spec` describes it; see `performative.study.spec`."""
        from performative.study.spec import read

        return cls.of_described(path, read(spec))

    @classmethod
    def of_described(cls, path: str | os.PathLike[str], described: Described) -> Study:
        """Create a study in the file at `path`, as a description has it that was read before."""
        return cls.create(
            path,
            described.name,
            described.method,
            seed=described.seed,
            spec=described.text,
            folder=described.folder,
            approval=described.approval,
            labels=described.labels,
        )

    @one_at_a_time
    def close(self) -> None:
        """Close the file; the study can be opened again."""
        self._session.log.store.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @one_at_a_time
    def method(self) -> Method:
        """The method that decides."""
        return self._session.worker.method

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        return self._session.log.created.seed

    @property
    def spec(self) -> str | None:
        """The TOML text that describes the method, if the study was created from one, or amended to one."""
        return self._session.log.current.spec

    @property
    @one_at_a_time
    def labels(self) -> Labels:
        """The names of the numbers of a decision and of a sample, with those that a first table gave, and their units."""
        return self._session.log.current.labels.told(self._session.position.columns)

    @property
    @one_at_a_time
    def told(self) -> int:
        """How many deployments were reported, those that were retracted left out."""
        return self._session.position.so_far.told

    @property
    @one_at_a_time
    def outcome(self) -> Outcome:
        """What a loss is shown as: its name, unit and sign."""
        position = self._session.position
        rows = position.planned.samples
        if position.so_far.told:  # the last report may have more rows than are wanted
            told = (event for event in self._session.log.backward() if isinstance(event, Observed))
            rows = max(rows, *(event.samples.shape[1] for event in itertools.islice(told, 1)), 1)
        return self.labels.outcome(rows)

    @property
    def constraint_names(self) -> list[str]:
        """The names of the problem's constraints."""
        return self._session.log.constraint_names

    @staticmethod
    def names(path: str | os.PathLike[str]) -> list[str]:
        """The studies in a file."""
        return Store.names(path)

    @property
    @one_at_a_time
    def count(self) -> int:
        """How many events the log has; the last one is number count − 1."""
        self._session.refresh()
        return self._session.log.count

    @property
    @one_at_a_time
    def state(self) -> Any:
        """The method's state after everything reported so far; it has `round`, `decision` and `multipliers`."""
        self._session.refresh()
        return self._session.worker.plain_state()

    @property
    @one_at_a_time
    def pending(self) -> Deployment | None:
        """The deployment that waits for its samples, if there is one."""
        self._session.refresh()
        return self._session.position.pending

    @one_at_a_time
    def ask(self) -> Deployment:
        """The decisions to deploy now; repeated calls return the same ones until you report or cancel them.

        After a `cancel` the random numbers are new; a method that draws none, like `safe_apda`, asks for the same again. In a
        study with `approval`, a deployment that is not `approved` is a proposal, which waits for `approve` or `decline`.
        """
        session = self._session
        while True:
            if session.position.pending is not None or not session.is_current():
                session.refresh()  # another process may have told it
            deployment = session.position.pending or session.ask()
            if deployment is not None:
                return deployment

    @one_at_a_time
    def tell(
        self,
        deployment: Deployment | int,
        samples: Any,
        deployed: ArrayLike | None = None,
        *,
        in_order: bool = False,
        confirm: bool = False,
    ) -> Told:
        """Report what was observed at the decisions of `deployment` (or its id): (b, n, k), or a data frame (n, k) for each.

        Frames are matched by the names of their columns. If the study knows none yet, `in_order=True` says that the columns are
        in the order of a sample, and their names are kept. Samples that cannot be right after the earlier ones are held back
        (`HeldBack`) unless you `confirm` them.

        `deployed` says what was really deployed, (b, d) or (d,) for one decision, where it is not what was asked for: prices that
        were rounded for the shelf. The method learns from those. It happened, so decisions that violate a constraint are taken,
        too; the answer's `violated` says which, and so do `status` and the log.

        n may differ from the number that was wanted. Repeating the call changes nothing and returns the same; other samples for
        a deployment that was already reported are refused with `AlreadyTold`, unless that report was retracted.
        """
        session = self._session
        while True:
            if not session.is_open(deployment) or not session.is_current():
                session.refresh()
            target = session.deployment(deployment)
            _require_approved(target)
            given = self._read(target, samples, in_order)
            actual = None if deployed is None else really_deployed(deployed, target.decisions)
            before = None if session.is_open(target) else session.told_before(target, given.values, actual)
            if before is not None:
                return before
            doubts = session.doubts(target, given, actual)
            if doubts and not confirm:
                raise HeldBack(doubts)
            told = session.tell(target, given.values, given.columns, actual, doubts)
            if told is not None:
                return told

    @one_at_a_time
    def preview(
        self,
        deployment: Deployment | int,
        samples: Any,
        deployed: ArrayLike | None = None,
        *,
        in_order: bool = False,
    ) -> Preview:
        """What `tell` would take in: rows, the range and mean of every column beside those of the last report, and doubts."""
        from performative.study.preview import preview

        session = self._session
        session.refresh()
        target = session.deployment(deployment)
        _require_approved(target)
        given = self._read(target, samples, in_order)
        actual = None if deployed is None else really_deployed(deployed, target.decisions)
        is_new = session.is_open(target) or session.log.outcome(target.id, session.position.retracted) is None
        doubts = session.doubts(target, given, actual) if is_new else ()
        return preview(target.id, given, self.labels, session.memory.reports, doubts)

    def _read(self, deployment: Deployment, samples: Any, in_order: bool) -> Samples:
        """The samples given for a deployment."""
        count, dimension = deployment.decisions.shape
        known = self.labels.data
        return read(samples, count, None if known is None else list(known), dimension == 1, in_order)

    @one_at_a_time
    def approve(
        self, deployment: Deployment | int, decisions: ArrayLike | None = None, by: str | None = None
    ) -> Deployment:
        """Approve what was proposed, or other `decisions` in its place, (b, d) or (d,) for one: the deployment to carry out.

        Decisions outside Θ or with g > 0 are refused. The log keeps who approved it: `by`, or the system's user.
        """
        by, session = person(by), self._session
        while True:
            session.refresh()
            target = session.proposal(deployment)
            wanted = None
            if decisions is not None:
                asked = session.log.asked(target.id).decisions
                wanted = really_deployed(decisions, asked, "decisions")
            approved = session.approve(target, wanted, by)
            if approved is not None:
                return approved

    @one_at_a_time
    def decline(
        self,
        deployment: Deployment | int,
        reason: str,
        *,
        lower: Bounds | None = None,
        upper: Bounds | None = None,
        by: str | None = None,
    ) -> None:
        """Decline what was proposed; the next `ask` proposes anew, within the bounds that are given here and were before.

        `lower` and `upper` are {name or place: bound} for single numbers of a decision, or (d,); infinity lifts a bound. A
        proposal that would break them is moved to a feasible decision that meets them, which the method learns from like from
        any other. Bounds that leave no room within the constraints are refused. `SameProposalWarning` says that the next
        proposal will be the same, since the method draws nothing at random and nothing else was asked of it.
        """
        words("reason", reason, "why it is declined")
        by, session = person(by), self._session
        while True:
            session.refresh()
            target = session.proposal(deployment)
            again = session.decline(target, reason, lower, upper, by)
            if again is not None:
                break
        if again:
            warnings.warn(SameProposalWarning(target.id), stacklevel=3)

    @property
    @one_at_a_time
    def limits(self) -> Limits | None:
        """What people put on decisions when they declined proposals; None if nothing."""
        self._session.refresh()
        return self._session.position.limits

    @one_at_a_time
    def retract(self, deployment: Deployment | int, reason: str, by: str | None = None) -> None:
        """Take back what was reported for `deployment`: the study goes on as if it had only the other reports.

        All of them are told to the method again, from the beginning. A deployment that is open stays open, since it may be live:
        it can be told, and the next `ask` decides anew. The deployment that was taken back can be told again, with the right
        samples. The log keeps what was told, and who took it back: `by`, or the system's user.
        """
        words("reason", reason, "why the report is wrong")
        by, session = person(by), self._session
        while True:
            session.refresh()
            if session.retract(session.deployment(deployment), reason, by):
                return

    @one_at_a_time
    def amendment(
        self,
        other: str | os.PathLike[str] | Method,
        *,
        folder: str | os.PathLike[str] | None = None,
        approval: bool | None = None,
        rehearse: bool = False,
    ) -> Amendment:
        """What `amend` would change, and what would be asked for next; nothing is written.

        With `rehearse`, the next twenty deployments are played as well, in worlds like the last reports; see `rehearsal`.

        >>> import tempfile, performative as pf
        >>> from performative.losses import Revenue
        >>> def method(cost):
        ...     return pf.repeated_gradient(pf.Problem(Revenue([cost]), pf.Box([0.0], [5.0])), start=[2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with pf.Study.create(f"{folder}/studies.db", "prices", method(1.0)) as study:
        ...         print(study.amendment(method(1.5)))
        loss.cost: [1.0] -> [1.5]
        the loss returns other numbers
        next decision: [2] -> [2]
        """
        from performative.study.amending import change, rehearsed

        self._session.refresh()
        log, position = self._session.log, self._session.position
        new = change(log, position, self._other(other, folder, approval))
        return rehearsed(log, position, new) if rehearse else new.amendment

    @one_at_a_time
    def amend(
        self,
        other: str | os.PathLike[str] | Method,
        reason: str,
        by: str | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        approval: bool | None = None,
    ) -> None:
        """Go on with another method: other costs, constraints, bounds or options. All that was learned of the world is kept.

        `other` is a method, the text of a description or the path of one; `folder` is where the files that a text names are. Its
        decisions and data must have as many numbers as before. All reports that count are told to it, as they were really
        deployed, so it stands where a study of its own would after them. A deployment that is open stays open, and proposals
        that nobody answered are withdrawn. `amendment` shows beforehand what changes.
        """
        words("reason", reason, "why the method changes")
        by, session = person(by), self._session
        from performative.study.amending import change

        while True:
            session.refresh()
            new = change(session.log, session.position, self._other(other, folder, approval))
            if session.amend(new, reason, by):
                return

    def _other(
        self, other: str | os.PathLike[str] | Method, folder: str | os.PathLike[str] | None, approval: bool | None
    ) -> Given:
        from performative.study.amending import given
        from performative.study.spec import read_spec

        if isinstance(other, os.PathLike):
            other, folder = read_spec(other), Path(other).parent
        return given(self._session.log, self.name, other, folder, approval)

    @one_at_a_time
    def cancel(self, deployment: Deployment | int, reason: str) -> None:
        """Say that `deployment` could not be carried out: the next `ask` is another attempt at the same round."""
        words("reason", reason, "why it could not be carried out")
        session = self._session
        while True:
            session.refresh()
            target = session.deployment(deployment)
            if session.is_open(target) and not target.approved:
                raise StudyError(f"deployment {target.id} is a proposal, which nobody carries out yet; `decline` it")
            if not session.is_open(target):
                outcome = session.log.outcome(target.id, session.position.retracted)
                if isinstance(outcome, Canceled) and outcome.reason == reason:
                    return
                if outcome is None and not target.approved:
                    raise AlreadyTold(f"deployment {target.id} cannot be canceled, since {withdrawn(target)}")
                how = "reported" if outcome is None else ending(outcome)
                raise AlreadyTold(f"deployment {target.id} cannot be canceled, since it was already {how}")
            if session.append(Canceled(session.log.count, time.time(), target.id, reason)):
                session.catch_up()
                return

    @one_at_a_time
    def note(self, text: str) -> None:
        """Write a note into the log; it changes nothing else."""
        if not isinstance(text, str) or not text:
            raise ValueError(f"`text` must be a nonempty string, but got {text!r}")
        session = self._session
        while True:
            session.refresh()
            if session.append(Noted(session.log.count, time.time(), text)):
                session.position = session.position._replace(events=session.log.count)
                return

    @one_at_a_time
    def verify(self, *, key: bytes | None = None, against: str | None = None) -> Replay:
        """Replay everything from the seed and the samples, and compare each decision and state bit for bit.

        Before that the log must be signed with `key`, and hold all that it held when its digest was `against`, if they are given.
        """
        self._session.refresh()
        self._session.log.store.verify()
        if key is not None:
            self.signed(key)
        if against is not None:
            self.held(against)
        return self._session.worker.replay(self._allow_code)

    @property
    @one_at_a_time
    def digest(self) -> str:
        """The SHA-256 digest of the whole log, in hexadecimal digits: kept elsewhere, it shows later that nothing was changed."""
        self._session.refresh()
        return self._session.log.store.digest.hex()

    @one_at_a_time
    def held(self, digest: str) -> int:
        """The last event there was when the log had this digest; `StudyDamaged` if it never had."""
        try:
            sought = bytes.fromhex(digest)
        except (ValueError, TypeError):
            sought = b""
        if len(sought) != 32:
            raise ValueError(f"a digest must be 64 hexadecimal digits, but got {digest!r}")
        self._session.refresh()
        self._session.log.store.verify()
        return self._session.log.store.held(sought)

    @one_at_a_time
    def sign(self, key: bytes) -> None:
        """Sign all events so far with a secret `key` of at least 32 bytes; the signature is an event, and stays valid."""
        signing.require_key(key)
        session = self._session
        while True:
            session.refresh()
            code = signing.signature(key, session.log.store.digest)
            if session.append(Signed(session.log.count, time.time(), signing.key_name(key), code)):
                session.position = session.position._replace(events=session.log.count)
                return

    @one_at_a_time
    def signed(self, key: bytes) -> int:
        """The last event that is signed with `key`, as all before it are; an error if none is, or if one was forged."""
        signing.require_key(key)
        self._session.refresh()
        self._session.log.store.verify()
        return signing.last_signed(self._session.log.store, key)

    def copy(self, path: str | os.PathLike[str]) -> None:
        """Copy the file as it is at this moment, with all studies in it, to a new one at `path`, and verify the copy."""
        copy(self._session.log.store.path, path)

    def events(self) -> Iterator[Event]:
        """The events so far, of the classes that `performative.study` lends; the first one is `Created`."""
        with self._lock:
            self._session.refresh()
            events = itertools.islice(self._session.log.events(), self._session.log.count)
        yield from self._one_by_one(events)

    @one_at_a_time
    def status(self) -> Status:
        """Where the study stands, in numbers and in words; see `performative.study.status`."""
        from performative.study.status import Progress

        state, log = self.state, self._session.log
        if self._shown is not None and self._shown[0] == log.count:
            return self._shown[1]
        position = self._session.position
        if (
            self._progress is None or self._progress[0] != position.in_force
        ):  # what it has read may have been taken back
            self._progress = (
                position.in_force,
                Progress(self.name, self.method, log),
            )
        try:
            reported = functools.partial(log.reported, without=position.retracted)
            self._shown = (
                log.count,
                self._progress[1].status(state, position.pending, reported, self.labels, self.outcome, self._why()),
            )
            return self._shown[1]
        except BaseException:  # what was read in part is read again
            self._progress = None
            raise

    @one_at_a_time
    def why(self) -> Explanation | None:
        """Why the next decisions are what they are, in words and numbers; None if the method cannot say."""
        self._session.refresh()
        return self._why()

    def _why(self) -> Explanation | None:
        from performative.study.because import explanation

        session = self._session
        return explanation(session.position.planned.reasons, session.log.constraint_names, self.labels, self.outcome)

    @one_at_a_time
    def history(self) -> xr.Dataset:
        """Every deployment that was reported, as a dataset over `deployment`."""
        from performative.study.history import Reported

        self._session.refresh()
        log = self._session.log
        reported = Reported(log.dimension, log.all_names(), log.names_at, log.method_at, log.loss_since)
        for one in self._session.reported():
            reported.add(one)
        return reported.dataset(self.name, self.seed, self.labels, self.outcome)

    def records(self) -> Iterator[dict[str, Any]]:
        """The same as a row for each decision that was deployed."""
        from performative.study.history import records

        with self._lock:
            self._session.refresh()
            log = self._session.log
            reported = self._session.reported(before=log.count)
        return records(self._one_by_one(reported), log.all_names(), log.names_at, self.labels)

    def _one_by_one(self, items: Iterator[T]) -> Iterator[T]:
        """The items, each read while no other thread works, so that nobody waits for a reader of the whole log."""
        while True:
            with self._lock:
                item = next(items, None)
            if item is None:
                return
            yield item

    def plot(self) -> Figure:
        """What was deployed, what it brought, the gain so far, the room left in constraints, and how the data react.

        What is believed, such as how the data react, is left out where the method is not at hand: see `open`.
        """
        from performative.plotting.study import figure

        with self._lock:
            past = self.history()
            return figure(self.status().beside(past) if self._is_at_hand() else past)

    def _is_at_hand(self) -> bool:
        """Whether the method was given, or is described without code that may not be run."""
        from performative.study.building import functions_named

        spec = self.spec
        return self._session.has_worker or (spec is not None and (self._allow_code or not functions_named(spec)))

    @one_at_a_time
    def deployment(self, deployment: Deployment | int) -> Deployment:
        """A deployment of this study by its id, open or not."""
        return self._session.deployment(deployment)


def _require_approved(deployment: Deployment) -> None:
    if not deployment.approved:
        raise StudyError(
            f"deployment {deployment.id} must be approved before it is reported, but is a proposal; `approve` or `decline` it"
        )


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"`name` must be a nonempty string, but got {name!r}")


def _given(log: Log, name: str, method: Method) -> Worker:
    """The worker of a study with a method that must be like the stored one."""
    from performative.study.creation import require_same
    from performative.study.worker import Worker

    require_same(name, log, method)
    return Worker(log, method)


def _described(log: Log, name: str, allow_code: bool) -> Worker:
    """The worker of a study with the method that its description stands for."""
    from performative.study.creation import described
    from performative.study.worker import Worker

    return Worker(log, described(log, name, allow_code))
