"""Live studies: ask, deploy, tell, kept in a file."""

from performative.study.store import StudyBusy, StudyDamaged, StudyError
from performative.study.study import AlreadyTold, Deployment, NotReproduced, OtherMethod, Replay, Study, Told, Why

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
