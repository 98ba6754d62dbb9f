"""How a study begins, and how its method is made again: from its description, or given and compared with what is stored."""

from __future__ import annotations

import time
from pathlib import Path

import jax

from performative import __version__
from performative.errors import StudyError
from performative.methods.protocol import Method, require_method
from performative.numerics.precision import in_float64
from performative.numerics.programs import library, remembered
from performative.numerics.pytrees import as_node
from performative.study import identity
from performative.study.building import Kept, is_plain, rebuilt
from performative.study.calls import Calls
from performative.study.events import Created
from performative.study.labels import Labels
from performative.study.log import Log
from performative.study.states import packed_state
from performative.study.usable import require_numbers, require_usable


@in_float64
def first_event(
    method: Method, seed: int, spec: str | None, folder: str | None, labels: Labels
) -> tuple[Created, bytes]:
    """The event that a study of a method begins with, and the first state, as it is stored."""
    require_method("method", method)
    labels = labels.fitting(method.problem, getattr(method, "history", None))
    calls = Calls(as_node(method), seed)
    require_usable(method.problem)
    points = identity.new_points(method.problem)
    calls.rehearse([array.shape[1] for key, array in points.items() if key != "decisions"])
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
        identity=identity.identity(method, points),
        points=points,
        planned=planned,
        library=library(),
        folder=folder,
        labels=labels,
    )
    return created, packed_state(state)


@in_float64
def require_same(name: str, log: Log, method: Method) -> None:
    """Refuse a method other than the one that the study was created with."""
    require_method("method", method)
    identity.require_same(name, log.created, log.first_observed(), as_node(method))


@in_float64
def described(log: Log, name: str) -> Method:
    """The method that the stored description stands for, without solving again for what the study has kept of it.

    The same library makes the same of a description that names no files and no functions: then nothing is compared.
    """
    created = log.created
    if created.spec is None:
        raise StudyError(f"pass `method`: study {name!r} was not created from a description")
    if created.library == library() and is_plain(created.spec):
        return remembered("method", created.spec, lambda: _made(created))
    method = _made(created)
    require_same(name, log, method)
    return method


def _made(created: Created) -> Method:
    folder, dimension = Path(created.folder or "."), created.planned.decisions.shape[1]
    assert created.spec is not None
    kept = Kept(identity.stored_history(created.identity), identity.stored_anchor(created.identity))
    try:
        return rebuilt(created.spec, folder, dimension, kept)
    except ValueError:  # constraints that the anchor does not meet are not those of the study
        return rebuilt(created.spec, folder, dimension, kept._replace(anchor=None))
