"""Study: ask for the next decision, deploy it, report what happened. For months, with nothing lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from performative.errors import AlreadyTold, HeldBack
from performative.study.deployments import Deployment, Told
from performative.study.events import Canceled, Event, Noted, encoded
from performative.study.labels import UNNAMED, Labels
from performative.study.locking import one_at_a_time
from performative.study.log import Log
from performative.study.replay import Replay
from performative.study.samples import Samples, read
from performative.study.session import Session
from performative.study.store import Store
from performative.validation import MOST_SEED, whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from performative.methods.protocol import Method
    from performative.reasons import Explanation
    from performative.study.preview import Preview
    from performative.study.status import Progress, Status
    from performative.study.worker import Worker


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
    [[0.]] [0.5] [[0.5]] Replay(events=4, told=1)
    """

    def __init__(self, log: Log, name: str, worker: Worker | None = None) -> None:
        """Use `create` or `open`."""
        self.name = name
        self._lock = threading.RLock()
        self._session = Session(log, worker, lambda log: _described(log, name))
        self._progress: Progress | None = None
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
        labels: Labels | None = None,
    ) -> Study:
        """Create a study `name` in the file at `path`, which is created if it does not exist.

        `spec` is the text that describes the method, if there is one, and `folder` is where the files that it names are; both
        are kept with the study (see `study.spec`). `labels` name the numbers of a decision and of a sample, so that tables
        given to `tell` are matched by name.
        """
        from performative.study.creation import first_event
        from performative.study.worker import Worker

        _check_name(name)
        if "/" in name or name.endswith(".db"):
            raise ValueError(
                f"`name` must be a plain name, but got {name!r}; the order is Study.create(path, name, method)"
            )
        seed = whole("seed", seed, 0, MOST_SEED)
        created, state = first_event(method, seed, spec, folder, UNNAMED if labels is None else labels)
        log = Log(Store.create(path, name, encoded(created), state))
        return cls(log, name, Worker(log, method))

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], name: str, method: Method | None = None, *, readonly: bool = False
    ) -> Study:
        """Open the study `name` in the file at `path` where it stopped. Every record is verified, and nothing is written.

        A study that was created from a description needs no `method`; it is made when it is first needed.
        Raises `OtherMethod` if the problem, the method or what its functions return differs from what is stored.
        """
        _check_name(name)
        store = Store.open(path, name, readonly)
        try:
            log = Log(store)
            return cls(log, name, None if method is None else _given(log, name, method))
        except BaseException:
            store.close()
            raise

    @classmethod
    def from_spec(cls, path: str | os.PathLike[str], spec: str | os.PathLike[str]) -> Study:
        """Create a study in the file at `path`, as the TOML file `spec` describes it; see `performative.study.spec`."""
        from performative.study.spec import describe, read_spec

        text = read_spec(spec)
        described = describe(text, Path(spec).parent)
        return cls.create(
            path,
            described.name,
            described.method,
            seed=described.seed,
            spec=text,
            folder=described.folder,
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
        """The TOML text that describes the method, if the study was created from one."""
        return self._session.log.created.spec

    @property
    @one_at_a_time
    def labels(self) -> Labels:
        """The names of the numbers of a decision and of a sample, with those that a first table gave, and their units."""
        given, told = self._session.log.created.labels, self._session.position.columns
        return given if given.data is not None or told is None else given._replace(data=tuple(told))

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

        After a `cancel` the random numbers are new; a method that draws none, like `safe_apda`, asks for the same again.
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
        self, deployment: Deployment | int, samples: Any, *, in_order: bool = False, confirm: bool = False
    ) -> Told:
        """Report what was observed at the decisions of `deployment` (or its id): (b, n, k), or a data frame (n, k) for each.

        Frames are matched by the names of their columns. If the study knows none yet, `in_order=True` says that the columns are
        in the order of a sample, and their names are kept. n may differ from the number that was wanted. Repeating the call
        changes nothing and returns the same; other samples for a deployment that was already reported are refused with
        `AlreadyTold`. Samples that cannot be right after the earlier ones are held back (`HeldBack`) unless you `confirm` them.
        """
        session = self._session
        while True:
            if not session.is_open(deployment) or not session.is_current():
                session.refresh()
            target = session.deployment(deployment)
            given = self._read(target, samples, in_order)
            if not session.is_open(target):
                return session.told_before(target, given.values)
            doubts = session.doubts(target, given)
            if doubts and not confirm:
                raise HeldBack(doubts)
            told = session.tell(target, given.values, given.columns, doubts)
            if told is not None:
                return told

    @one_at_a_time
    def preview(self, deployment: Deployment | int, samples: Any, *, in_order: bool = False) -> Preview:
        """What `tell` would take in: rows, the range and mean of every column beside those of the last report, and doubts."""
        from performative.study.preview import preview

        session = self._session
        session.refresh()
        target = session.deployment(deployment)
        given = self._read(target, samples, in_order)
        doubts = session.doubts(target, given) if session.is_open(target) else ()
        return preview(target.id, given, self.labels, session.memory.reports, doubts)

    def _read(self, deployment: Deployment, samples: Any, in_order: bool) -> Samples:
        """The samples given for a deployment."""
        count, dimension = deployment.decisions.shape
        known = self.labels.data
        return read(samples, count, None if known is None else list(known), dimension == 1, in_order)

    @one_at_a_time
    def cancel(self, deployment: Deployment | int, reason: str) -> None:
        """Say that `deployment` could not be carried out: the next `ask` is another attempt at the same round."""
        if not isinstance(reason, str) or not reason:
            raise ValueError(f"`reason` must be a nonempty string that says why, but got {reason!r}")
        session = self._session
        while True:
            session.refresh()
            target = session.deployment(deployment)
            if not session.is_open(target):
                outcome = session.log.outcome(target.id)
                if isinstance(outcome, Canceled) and outcome.reason == reason:
                    return
                ending = f"canceled ({outcome.reason})" if isinstance(outcome, Canceled) else "reported"
                raise AlreadyTold(f"deployment {target.id} cannot be canceled, since it was already {ending}")
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
    def verify(self) -> Replay:
        """Replay everything from the seed and the samples, and compare each decision and state bit for bit."""
        self._session.refresh()
        self._session.log.store.verify()
        return self._session.worker.replay()

    def events(self) -> Iterator[Event]:
        """The events so far, of the classes that `performative.study` lends; the first one is `Created`."""
        with self._lock:
            self._session.refresh()
            count, events = self._session.log.count, self._session.log.events()
        for _ in range(count):
            with self._lock:  # one at a time, so that nobody waits for a reader of the whole log
                event = next(events)
            yield event

    @one_at_a_time
    def status(self) -> Status:
        """Where the study stands, in numbers and in words; see `performative.study.status`."""
        from performative.study.status import Progress

        state, log = self.state, self._session.log
        if self._shown is not None and self._shown[0] == log.count:
            return self._shown[1]
        if self._progress is None:
            self._progress = Progress(self.name, self.method, log.dimension, self.constraint_names)
        try:
            self._shown = (
                log.count,
                self._progress.status(state, self._session.position.pending, log.reported, self.labels),
            )
            return self._shown[1]
        except BaseException:  # what was read in part is read again
            self._progress = None
            raise

    @one_at_a_time
    def why(self) -> Explanation | None:
        """Why the next decisions are what they are, in words and numbers; None if the method cannot say."""
        from performative.reasons import explanation

        self._session.refresh()
        return explanation(self._session.position.planned.reasons, self._session.log.constraint_names)

    @one_at_a_time
    def history(self) -> xr.Dataset:
        """Every deployment that was reported, as a dataset over `deployment`."""
        from performative.study.history import Reported

        self._session.refresh()
        log = self._session.log
        reported = Reported(log.dimension, self.constraint_names)
        for one in log.reported():
            reported.add(one)
        return reported.dataset(self.name, self.seed, self.labels)

    def records(self) -> Iterator[dict[str, Any]]:
        """The same as a row for each decision that was deployed."""
        from performative.study.history import records, rounds

        return records(rounds(self.events()), self.constraint_names, self.labels)

    def plot(self) -> Figure:
        """Decisions, constraints, multipliers and losses over the deployments that were reported."""
        from performative.plotting.study import figure

        return figure(self.history())

    @one_at_a_time
    def deployment(self, deployment: Deployment | int) -> Deployment:
        """A deployment of this study by its id, open or not."""
        return self._session.deployment(deployment)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"`name` must be a nonempty string, but got {name!r}")


def _given(log: Log, name: str, method: Method) -> Worker:
    """The worker of a study with a method that must be like the stored one."""
    from performative.study.creation import require_same
    from performative.study.worker import Worker

    require_same(name, log, method)
    return Worker(log, method)


def _described(log: Log, name: str) -> Worker:
    """The worker of a study with the method that its description stands for."""
    from performative.study.creation import described
    from performative.study.worker import Worker

    return Worker(log, described(log, name))
