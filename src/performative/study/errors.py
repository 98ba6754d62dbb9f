"""What can go wrong with a study. Whatever it is, the file is as it was."""

from __future__ import annotations


class StudyError(Exception):
    """A study that cannot be read or written; the file is as it was."""


class StudyBusy(StudyError):
    """Another process is writing; the same call may succeed later."""


class StudyDamaged(StudyError):
    """The file is not what was written: truncated, or with bits changed."""


class OtherMethod(StudyError):
    """A study was opened with another problem or method than it was created with; `differences` are the lines."""

    def __init__(self, name: str, differences: list[str]) -> None:
        self.differences = differences
        listed = "\n".join(f"  {line}" for line in differences)
        super().__init__(
            f"study {name!r} must be opened with the problem and method it was created with, but differs:\n{listed}"
        )


class AlreadyTold(StudyError):
    """The deployment was told before with other samples, or was cancelled; nothing is changed."""


class NotReproduced(StudyError):
    """Replaying the log did not give what is stored."""
