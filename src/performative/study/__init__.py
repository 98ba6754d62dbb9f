"""Live studies: ask, deploy, tell, kept in a file."""

from performative.errors import AlreadyTold, NotReproduced, OtherMethod, StudyBusy, StudyDamaged, StudyError
from performative.study.deployments import Deployment, Told, Why
from performative.study.events import Asked, Canceled, Created, Event, Noted, Observed
from performative.study.replay import Replay
from performative.study.status import Status
from performative.study.study import Study

__all__ = [
    "AlreadyTold",
    "Asked",
    "Canceled",
    "Created",
    "Deployment",
    "Event",
    "NotReproduced",
    "Noted",
    "Observed",
    "OtherMethod",
    "Replay",
    "Status",
    "Study",
    "StudyBusy",
    "StudyDamaged",
    "StudyError",
    "Told",
    "Why",
]
