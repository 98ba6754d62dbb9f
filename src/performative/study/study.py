"""Study: ask for the next decision, deploy it, tell what happened, for months, losing nothing."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from performative import __version__
from performative.errors import AlreadyTold, OtherMethod, StudyError
from performative.methods.protocol import Method, require_method
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import as_node
from performative.study import identity as identities
from performative.study import samples as told_samples
from performative.study.calls import Calls
from performative.study.deployments import Deployment, Told, asked_for, changes
from performative.study.records import leaf_names, not_finite, packed, packed_tree, unpacked, unpacked_tree, with_keys
from performative.study.replay import Replay, replay
from performative.study.store import Moved, Store
from performative.validation import MOST_SEED, shown, whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from performative.study.status import Status


Given = ParamSpec("Given")
Result = TypeVar("Result")
Event = tuple[int, dict[str, Any], dict[str, NDArray[Any]]]
"""An event's number, header and arrays."""
_PROBED = "probed: "


def _one_at_a_time(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """Threads that share a study wait for each other."""

    @functools.wraps(call)
    def locked(*given: Given.args, **named: Given.kwargs) -> Result:
        study: Any = given[0]
        with study._lock:
            return call(*given, **named)

    return locked


class Study:
    """A method under way in the world, kept in a file.

    `ask` gives the decisions to deploy, the same until they are told; `tell` says what was observed. Both return when the
    event is on the disk. Of several processes any may read at any time, and one at a time writes: what another one did is
    seen at the next call. Opening verifies every record of the log; `verify` computes everything again and compares to the bit.

    Randomness is that of realisation 0 of `simulate` with the same seed, so a study that is told what a simulation drew goes the
    same way, up to rounding.
    """

    def __init__(self, store: Store, name: str, method: Any) -> None:
        """Use `create` or `open`."""
        self.name = name
        self._lock = threading.RLock()
        self.method: Method = as_node(method)
        self._store = store
        self._origin, self._identity = unpacked(store.event(0).body)
        self._calls = Calls(method, self.seed)
        self._like: Any = None
        self._state: Any = None
        self._open: Deployment | None = None
        self._attempt = 0
        self._first_width: int | None = None
        self._columns: list[str] | None = None
        self._seen = 0  # the events that the state and the open deployment are of
        self._catch_up()

    @classmethod
    @in_float64
    def create(
        cls, path: str | os.PathLike[str], name: str, method: Any, *, seed: int = 0, spec: str | None = None
    ) -> Study:
        """A new study `name` in the file at `path`, which is made if it does not exist.

        `spec` is the text that describes the method, if there is one; it is kept with the study (see `study.spec`).
        """
        _check_name(name)
        seed = whole("seed", seed, 0, MOST_SEED)
        require_method("method", method)
        calls = Calls(as_node(method), seed)
        identities.require_usable(method.problem)
        points = identities.new_points(method.problem)
        calls.rehearse([array.shape[1] for key, array in points.items() if key != "decisions"])
        found = identities.identity(method, points)
        plain = {key: value for key, value in found.items() if not isinstance(value, np.ndarray)}
        arrays = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
        header = {
            "kind": "create", "at": time.time(), "seed": seed, "performative": __version__, "jax": jax.__version__,
            "spec": spec, "identity": plain,
        }  # fmt: skip
        body = packed(header, arrays | {_PROBED + key: value for key, value in points.items()})
        return cls(Store.create(path, name, body, packed_tree(calls.begin())), name, method)

    @classmethod
    @in_float64
    def open(cls, path: str | os.PathLike[str], name: str, method: Any = None, *, readonly: bool = False) -> Study:
        """The study `name` in the file at `path`, where it stopped. Every record is verified, and nothing is written.

        A study that was created from a description needs no `method`.
        `OtherMethod` if the stored numbers of the problem or the method, or what its functions return, are not those of `method`.
        """
        _check_name(name)
        store = Store.open(path, name, readonly)
        try:
            method = _described(store, name) if method is None else method
            require_method("method", method)
            _require_same(store, name, as_node(method))
            return cls(store, name, method)
        except BaseException:
            store.close()
            raise

    @classmethod
    def from_spec(cls, path: str | os.PathLike[str], spec: str | os.PathLike[str]) -> Study:
        """A new study in the file at `path`, as the TOML file `spec` describes it; see `performative.study.spec`."""
        from performative.study.spec import describe, read_spec

        text = read_spec(spec)
        found = describe(text)
        return cls.create(path, found.name, found.method, seed=found.seed, spec=text)

    @_one_at_a_time
    def close(self) -> None:
        """Let go of the file; the study can be opened again."""
        self._store.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def seed(self) -> int:
        """What all random numbers follow from."""
        return int(self._origin["seed"])

    @property
    def spec(self) -> str | None:
        """The TOML text that describes the method, if the study was made from one."""
        text: str | None = self._origin["spec"]
        return text

    @staticmethod
    def names(path: str | os.PathLike[str]) -> list[str]:
        """The studies in a file."""
        return Store.names(path)

    @property
    @_one_at_a_time
    def count(self) -> int:
        """How many events the log has; the last one is number count − 1."""
        self._refresh()
        return self._store.count

    @property
    @_one_at_a_time
    @in_float64
    def state(self) -> Any:
        """The method's state after all that was told; it has `round`, `decision` and `multipliers`."""
        self._refresh()
        return self._current()

    @property
    @_one_at_a_time
    def pending(self) -> Deployment | None:
        """The deployment that waits to be told, if there is one."""
        self._refresh()
        return self._open

    @_one_at_a_time
    @in_float64
    def ask(self) -> Deployment:
        """The decisions to deploy now: the same until they are told or cancelled.

        After a `cancel` the random numbers are new; a method without exploration asks for the same decisions again.
        """
        while True:
            if self._open is not None or self._seen != self._store.count:
                self._refresh()  # another process may have told it
            if self._open is not None:
                return self._open
            state = self._state
            decisions, values = self._calls.ask(state, self._attempt)
            arrays = {
                "decisions": decisions,
                "g": values,
                "decision": np.asarray(state.decision),
                "multipliers": np.asarray(state.multipliers),
            }
            if not np.all(np.isfinite(arrays["decisions"])):
                raise StudyError(f"decisions must be finite, but the method asks for {arrays['decisions'].tolist()}")
            header = {
                "kind": "ask", "at": time.time(), "round": int(state.round), "samples": int(self.method.wanted(state)),
                "attempt": self._attempt,
            }  # fmt: skip
            if self._append(packed(header, arrays)):
                self._open, self._seen = asked_for(self._store.count - 1, header, arrays), self._store.count
                return self._open

    @_one_at_a_time
    @in_float64
    def tell(self, deployment: Deployment | int, samples: Any) -> Told:
        """What was observed at the decisions of `deployment` (or its id): (b, n, k), or one data frame (n, k) for each.

        n need not be the number that was wanted. The same call again changes nothing and is answered alike; other samples for a
        deployment that was told are refused with `AlreadyTold`.
        """
        while True:
            known = self._open is not None and self._open.id == getattr(deployment, "id", deployment)
            if not known or self._seen != self._store.count:
                self._refresh()
            asked = self.deployment(deployment)
            data, columns = told_samples.read(samples, len(asked.decisions), self._columns)
            if self._open is None or self._open.id != asked.id:
                return self._again(asked, data)
            self._check(data)
            after, finite = self._calls.told(self._state, asked.decisions, data)
            stored = packed_tree(after)
            decision, multipliers = np.asarray(after.decision), np.asarray(after.multipliers)
            arrays = {"samples": data, "decision": decision, "multipliers": multipliers}
            if not finite and not not_finite(self._state):
                raise ValueError(f"`samples` must lead to a finite state, but these to {shown(not_finite(after))}")
            header = {
                "kind": "tell", "at": time.time(), "deployment": asked.id, "round": int(after.round), "columns": columns,
            }  # fmt: skip
            if self._first_width is None:
                points = self._identity[_PROBED + "decisions"]
                arrays["probed"], arrays["loss"] = identities.loss_at(
                    self.method.problem, points, data.reshape(-1, data.shape[2])
                )
            if self._append(packed(header, arrays), stored):
                self._first_width, self._columns = data.shape[2], columns
                self._state, self._open, self._attempt, self._seen = after, None, 0, self._store.count
                return changes(asked, header, arrays)

    @_one_at_a_time
    def cancel(self, deployment: Deployment | int, reason: str) -> None:
        """The decisions of `deployment` could not be deployed: the next `ask` is another try at the same round."""
        if not isinstance(reason, str) or not reason:
            raise ValueError(f"`reason` must say why, but got {reason!r}")
        while True:
            self._refresh()
            asked = self.deployment(deployment)
            if self._open is None or self._open.id != asked.id:
                kind, header, _ = self._outcome(asked.id)
                if kind == "cancel" and header["reason"] == reason:
                    return
                done = "told" if kind == "tell" else f"cancelled ({header['reason']})"
                raise AlreadyTold(f"deployment {asked.id} must be open to be cancelled, but was {done}")
            header = {"kind": "cancel", "at": time.time(), "deployment": asked.id, "reason": reason}
            if self._append(packed(header, {})):
                self._catch_up()
                return

    @_one_at_a_time
    def note(self, text: str) -> None:
        """Write something down in the log; it changes nothing else."""
        if not isinstance(text, str) or not text:
            raise ValueError(f"`text` must be a text, but got {text!r}")
        while True:
            self._refresh()
            if self._append(packed({"kind": "note", "at": time.time(), "text": text}, {})):
                self._seen = self._store.count
                return

    @_one_at_a_time
    @in_float64
    def verify(self) -> Replay:
        """Replay everything from the seed and the samples, and compare each decision and state to the bit."""
        self._refresh()
        self._store.verify()
        return replay(self._store, self._calls)

    def events(self) -> Iterator[Event]:
        """The log up to now: number, header and arrays of each event, the first of which created the study."""
        with self._lock:
            self._refresh()
            last, rows = self._store.count, self._recorded()
        for _ in range(last):
            with self._lock:  # a piece of the log at a time, so that nobody waits for the reader of all of it
                event = next(rows)
            yield event

    @_one_at_a_time
    def status(self) -> Status:
        """Where the study stands, in numbers and in words; see `performative.study.status`."""
        from performative.study.belief import Recent
        from performative.study.history import history, rounds
        from performative.study.status import status

        self._refresh()
        recent = Recent(getattr(self.method, "history", None))
        past = history(self.method.problem, recent.watching(rounds(self._recorded())), self.name, self.seed)
        return status(self.name, self.method, self._current(), self._open, past, recent)

    @_one_at_a_time
    def history(self) -> xr.Dataset:
        """Every deployment that was told, as a dataset over `deployment`."""
        from performative.study.history import history, rounds

        self._refresh()
        return history(self.method.problem, rounds(self._recorded()), self.name, self.seed)

    def plot(self) -> Figure:
        """Decisions, constraints, multipliers and losses over the deployments that were told."""
        from performative.plotting.study import figure

        return figure(self.history())

    @_one_at_a_time
    def deployment(self, deployment: Deployment | int) -> Deployment:
        """A deployment of this study by its id, whether it is open or not."""
        number = deployment.id if isinstance(deployment, Deployment) else deployment
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TypeError(f"`deployment` must be what `ask` returned or its id, but got {deployment!r}")
        if self._open is not None and self._open.id == number:
            found = self._open
        else:
            if not 0 < number < self._store.count:
                self._refresh()  # another process may have asked for it
            if not 0 < number < self._store.count:
                raise ValueError(f"`deployment` must be one that was asked for, but there is no number {number}")
            event = self._store.event(int(number))
            header, arrays = unpacked(event.body)
            if header["kind"] != "ask":
                raise ValueError(
                    f"`deployment` must be one that was asked for, but event {number} is a {header['kind']}"
                )
            found = asked_for(event.seq, header, arrays)
        if isinstance(deployment, Deployment) and not np.array_equal(deployment.decisions, found.decisions):
            raise ValueError(
                f"`deployment` must be of this study, but number {number} asked for {found.decisions.tolist()}, "
                f"not {np.asarray(deployment.decisions).tolist()}"
            )
        return found

    # How the study stands, read from the log.

    @in_float64
    def _current(self) -> Any:
        return with_keys(jax.tree.map(np.asarray, self._state))

    def _recorded(self) -> Iterator[Event]:
        """The events that were looked at."""
        return ((event.seq, *unpacked(event.body)) for event in self._store.events())

    def _refresh(self) -> None:
        if self._store.refresh() or self._seen != self._store.count:  # or was interrupted after it wrote
            self._catch_up()

    def _append(self, body: bytes, state: bytes | None = None) -> bool:
        """Whether the event was added; if not, another process was faster, and what it did is known now."""
        try:
            self._store.append(body, state)
        except Moved:
            self._refresh()
            return False
        return True

    @in_float64
    def _catch_up(self) -> None:
        """Take state, open deployment and attempt from the store."""
        if self._first_width is None:
            first = _first_tell(self._store)
            if first is not None:
                self._first_width = first[1]["samples"].shape[2]
        self._state = unpacked_tree(self._store.state, self._structure())
        self._open, self._attempt, self._seen = None, 0, self._store.count
        latest = None
        for event in self._store.backwards():
            header, arrays = unpacked(event.body)
            if latest is None and header["kind"] != "note":
                latest = header["kind"]
                if latest == "ask":
                    self._open = asked_for(event.seq, header, arrays)
                elif latest == "cancel":
                    self._attempt = 1 + int(unpacked(self._store.event(header["deployment"]).body)[0]["attempt"])
            if header["kind"] == "tell":
                self._columns = header["columns"]
            if header["kind"] == "tell" or (latest is not None and self._first_width is None):
                break

    def _structure(self) -> Any:
        """A state with the structure of the stored one: that of the first state in the log that has its leaves."""
        names = list(unpacked(self._store.state)[1])
        if self._like is not None and leaf_names(self._like) == names:
            return self._like
        like = self._calls.begin()
        if leaf_names(like) != names:
            asked = np.zeros((0, 0))
            for event in self._store.events():
                header, arrays = unpacked(event.body)
                if header["kind"] == "ask":
                    asked = arrays["decisions"]
                elif header["kind"] == "tell":
                    like = self._calls.shape_of_told(like, asked, arrays["samples"])
                    if leaf_names(like) == names:
                        break
            else:
                raise StudyError(f"the stored state has the leaves {names}, which the method's states never have")
        self._like = like
        return like

    def _outcome(self, number: int) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
        """How a deployment ended: its `tell` or `cancel`."""
        for event in self._store.events(number + 1):
            header, arrays = unpacked(event.body)
            if header.get("deployment") == number:
                return header["kind"], header, arrays
        raise AssertionError(number)

    def _again(self, asked: Deployment, data: Floats) -> Told:
        """The answer to a `tell` of a deployment that is not open."""
        kind, header, arrays = self._outcome(asked.id)
        if kind == "cancel":
            raise AlreadyTold(f"deployment {asked.id} must be open to be told, but was cancelled: {header['reason']}")
        if arrays["samples"].shape != data.shape or arrays["samples"].tobytes() != data.tobytes():
            raise AlreadyTold(f"deployment {asked.id} was told already, with other samples; nothing is changed")
        return changes(asked, header, arrays)

    def _check(self, data: Floats) -> None:
        if self._first_width is None:
            self.method.problem.check_samples(data.shape[2])
        elif self._first_width != data.shape[2]:
            raise ValueError(
                f"`samples` must hold {self._first_width} numbers each, as in earlier rounds, but got {data.shape[2]}"
            )


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"`name` must be a text, but got {name!r}")


def _described(store: Store, name: str) -> Any:
    """The method that the stored description stands for."""
    from performative.study.spec import describe

    text = unpacked(store.event(0).body)[0]["spec"]
    if text is None:
        raise StudyError(f"`method` must be given, since study {name!r} was not created from a description")
    return describe(text).method


def _require_same(store: Store, name: str, method: Any) -> None:
    header, arrays = unpacked(store.event(0).body)
    points = {key.removeprefix(_PROBED): array for key, array in arrays.items() if key.startswith(_PROBED)}
    stored = header["identity"] | {key: array for key, array in arrays.items() if not key.startswith(_PROBED)}
    if method.problem.dimension != points["decisions"].shape[1]:
        line = f"dimension: stored {points['decisions'].shape[1]} given {method.problem.dimension}"
        raise OtherMethod(name, [line])
    given = identities.identity(method, points)
    first = _first_tell(store)
    if first is not None:
        called = "loss(probes like the data)"
        stored[called] = first[1]["loss"]
        given[called] = identities.losses(method.problem, points["decisions"], first[1]["probed"])
    lines = identities.differences(stored, given)
    if lines:
        raise OtherMethod(name, lines)


def _first_tell(store: Store) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    for event in store.events(1):
        header, arrays = unpacked(event.body)
        if header["kind"] == "tell":
            return header, arrays
    return None
