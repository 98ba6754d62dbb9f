"""How a study begins, and how its method is made again: from its description, or given and compared with what is stored."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import jax

from performative import __version__
from performative.errors import StudyError
from performative.methods.protocol import Method, require_method
from performative.numerics.arrays import Floats
from performative.numerics.precision import in_float64
from performative.numerics.programs import library, remembered
from performative.numerics.pytrees import as_node
from performative.study import identity
from performative.study.building import Kept, functions_named, is_plain, rebuilt
from performative.study.calls import Calls
from performative.study.events import Basis, Created, Identity
from performative.study.labels import Labels
from performative.study.log import Log
from performative.study.states import packed_state
from performative.study.usable import require_numbers, require_usable


@in_float64
def first_event(
    method: Method, seed: int, spec: str | None, folder: str | None, approval: bool, labels: Labels
) -> tuple[Created, bytes]:
    """The event that a study of a method begins with, and the first state, as it is stored."""
    require_method("method", method)
    calls, points, values, labels = prepared(method, seed, labels)
    state = calls.begin()
    planned = calls.ask(state, 0)
    width = None if labels.data is None else len(labels.data)
    require_numbers(method.problem, planned.decisions[0], width, slopes=False)
    created = Created(
        number=0,
        at=time.time(),
        seed=seed,
        performative=__version__,
        jax=jax.__version__,
        spec=spec,
        identity=values,
        points=points,
        planned=planned,
        library=library(),
        folder=folder,
        labels=labels,
        approval=approval,
    )
    return created, packed_state(state)


class Prepared(NamedTuple):
    """A method that a study can begin with: its calls, its identity with the points at which it was probed, and its names."""

    calls: Calls
    points: dict[str, Floats]
    identity: Identity
    labels: Labels


@in_float64
def prepared(method: Method, seed: int, labels: Labels) -> Prepared:
    """A method ready for its first `ask`, once it is checked as far as that can be done without data."""
    if method.problem.caused:
        raise ValueError(
            "a study must have constraints that are known beforehand, but "
            f"{list(method.problem.caused_names)} depend on what a decision causes; simulate such methods, or limit decisions "
            "themselves"
        )
    labels = labels.fitting(method.problem, getattr(method, "history", None))
    calls = Calls(as_node(method), seed)
    require_usable(method.problem)
    points = identity.new_points(method.problem)
    calls.require_first_tell([array.shape[1] for key, array in points.items() if key != "decisions"])
    return Prepared(calls, points, identity.identity(method, points), labels)


@in_float64
def require_same(name: str, log: Log, method: Method) -> None:
    """Refuse a method other than the one that the study was created with, or amended to."""
    require_method("method", method)
    identity.require_same(name, log.current, log.probed(), as_node(method))


@in_float64
def described(log: Log, name: str, allow_code: bool) -> Method:
    """The method that the stored description stands for, without solving again for what the study has kept of it.

    Whoever wrote the file chose the functions that it names, so they are imported only if the user allows it. The same library
    makes the same of a description that names no files and no functions: then nothing is compared.
    """
    basis = log.current
    if basis.spec is None:
        how = "created from" if isinstance(basis, Created) else "amended to"
        raise StudyError(f"pass `method`: study {name!r} was not {how} a description")
    if not allow_code and (named := functions_named(basis.spec)):
        raise StudyError(
            f"study {name!r} needs {', '.join(named)}, code that its file names and that is not run unless you say so: if you "
            "trust the file, pass `allow_code=True` (`--allow-code` on the command line), or pass the method itself"
        )
    if basis.library == library() and is_plain(basis.spec):
        return remembered("method", basis.spec, lambda: _made(basis))
    method = _made(basis)
    require_same(name, log, method)
    return method


@in_float64
def described_before(basis: Basis, allow_code: bool) -> Method | str:
    """The method of an earlier stretch of the log, or why its description may not or cannot be followed."""
    if basis.spec is None:
        return "the method was given as an object, which is not in the file"
    if not allow_code and (named := functions_named(basis.spec)):
        return f"the description names {', '.join(named)}, code that runs with `allow_code=True` (--allow-code)"
    try:
        method = _made(basis)
        identity.require_same("", basis, None, as_node(method))
    except (StudyError, ValueError, TypeError, ImportError, AttributeError, OSError) as error:
        said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
        return f"the description no longer stands for the same method ({type(error).__name__}): {said}"
    return method


def _made(basis: Basis) -> Method:
    folder, dimension = Path(basis.folder or "."), basis.planned.decisions.shape[1]
    assert basis.spec is not None
    kept = Kept(identity.stored_history(basis.identity), identity.stored_anchor(basis.identity))
    try:
        return rebuilt(basis.spec, folder, dimension, kept)
    except ValueError:  # constraints that the anchor does not meet are not those of the study
        return rebuilt(basis.spec, folder, dimension, kept._replace(anchor=None))
