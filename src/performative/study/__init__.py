"""Live studies: ask, deploy, tell, kept in a file."""

from typing import TYPE_CHECKING, Any

from performative.errors import AlreadyTold, HeldBack, NotReproduced, OtherMethod, StudyBusy, StudyDamaged, StudyError
from performative.study.deployments import Deployment, Told, Why
from performative.study.events import Asked, Canceled, Created, Event, Noted, Observed, Planned, SoFar
from performative.study.labels import Labels
from performative.study.replay import Replay
from performative.study.study import Study

if TYPE_CHECKING:
    from performative.study.status import Status

__all__ = [
    "AlreadyTold",
    "Asked",
    "Canceled",
    "Created",
    "Deployment",
    "Event",
    "HeldBack",
    "Labels",
    "NotReproduced",
    "Noted",
    "Observed",
    "OtherMethod",
    "Planned",
    "Replay",
    "SoFar",
    "Status",
    "Study",
    "StudyBusy",
    "StudyDamaged",
    "StudyError",
    "Told",
    "Why",
]


def __getattr__(name: str) -> Any:
    if name == "Status":  # which needs JAX; asking for a decision does not
        from performative.study.status import Status

        return Status
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
