"""Live studies: ask, deploy, tell, kept in a file."""

from typing import TYPE_CHECKING, Any

from performative.errors import (
    AlreadyTold,
    HeldBack,
    NotReproduced,
    OtherMethod,
    StudyBusy,
    StudyDamaged,
    StudyError,
    StudyWarning,
)
from performative.study.deployments import Deployment, Replay, Told, Why
from performative.study.events import (
    Actual,
    Amended,
    Approved,
    Asked,
    Canceled,
    Created,
    Declined,
    Event,
    InForce,
    Limits,
    Noted,
    Observed,
    Planned,
    Retracted,
    Signed,
    SoFar,
)
from performative.study.labels import Labels
from performative.study.study import Study

if TYPE_CHECKING:
    from performative.study.amending import Amendment
    from performative.study.status import Status

__all__ = [
    "Actual",
    "AlreadyTold",
    "Amended",
    "Amendment",
    "Approved",
    "Asked",
    "Canceled",
    "Created",
    "Declined",
    "Deployment",
    "Event",
    "HeldBack",
    "InForce",
    "Labels",
    "Limits",
    "NotReproduced",
    "Noted",
    "Observed",
    "OtherMethod",
    "Planned",
    "Replay",
    "Retracted",
    "Signed",
    "SoFar",
    "Status",
    "Study",
    "StudyBusy",
    "StudyDamaged",
    "StudyError",
    "StudyWarning",
    "Told",
    "Why",
]


def __getattr__(name: str) -> Any:
    if name == "Status":  # which needs JAX; asking for a decision does not
        from performative.study.status import Status

        return Status
    if name == "Amendment":
        from performative.study.amending import Amendment

        return Amendment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
