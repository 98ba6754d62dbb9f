"""Live studies: ask, deploy, tell, kept in a file."""

import importlib
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
    from performative.study.rehearsal import Rehearsal
    from performative.study.rehearsing import rehearse
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
    "Rehearsal",
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
    "rehearse",
]


_LATER = {"Amendment": "amending", "Rehearsal": "rehearsal", "Status": "status", "rehearse": "rehearsing"}
"""Names whose modules need JAX; asking for a decision does not."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"performative.study.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
