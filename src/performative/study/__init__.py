"""Live studies: ask, deploy, tell, kept in a file."""

from performative.errors import AlreadyTold, NotReproduced, OtherMethod, StudyBusy, StudyDamaged, StudyError
from performative.study.deployments import Deployment, Told, Why
from performative.study.replay import Replay
from performative.study.study import Study

__all__ = [
    "AlreadyTold",
    "Deployment",
    "NotReproduced",
    "OtherMethod",
    "Replay",
    "Study",
    "StudyBusy",
    "StudyDamaged",
    "StudyError",
    "Told",
    "Why",
]
