"""Every exception and warning of the library.

Bad arguments raise Python's own `ValueError` and `TypeError`; the exceptions here are for what a caller may want to handle.
"""

from __future__ import annotations

from typing import Any


class PerformativeError(Exception):
    """The base class of every exception here."""


class InfeasibleProblem(PerformativeError, ValueError):
    """No decision in Θ meets all constraints; `violation` is the smallest max_i g_i, `conflicting` the constraints behind it."""

    def __init__(self, violation: float, conflicting: dict[str, float]) -> None:
        self.violation = violation
        self.conflicting = conflicting
        names = ", ".join(conflicting)
        super().__init__(
            f"a decision in the set with g(θ) <= 0 must exist, but the smallest max g(θ) is {violation:.6g}; in conflict "
            f"(with each other or with the decision set): {names}. Loosen their bounds or enlarge the set"
        )


class NoStrictlyFeasibleDecision(PerformativeError, ValueError):
    """No decision meets all constraints with room to spare; `slack` is the largest, `blocking` the constraints that limit it."""

    def __init__(self, slack: float, blocking: dict[str, float]) -> None:
        self.slack, self.blocking = slack, blocking
        super().__init__(
            "a decision in the set with g(θ) < 0 must exist for a method that explores safely, but the largest slack is "
            f"{slack:.6g}; limited by: {', '.join(blocking)}"
        )


class SolverFailed(PerformativeError, RuntimeError):
    """No decision was found that meets the KKT conditions, or the convex solver gave up on the way."""


class QuadratureWarning(UserWarning):
    """A loss is averaged over a Gaussian base less accurately than the rule promises."""


class NonFiniteWarning(RuntimeWarning):
    """A method's iterates became infinite or not a number."""


class NotConforming(PerformativeError, AssertionError):
    """A method breaks a rule; `failed` holds the checks that say which."""

    def __init__(self, method: Any, failed: list[Any], count: int) -> None:
        self.failed = failed
        lines = [f"- {check.name}: {check.evidence}" for check in failed]
        rule = f"a method must pass all {count} checks of performative.checks"
        super().__init__("\n".join([f"{rule}, but {type(method).__name__} failed {len(failed)}:", *lines]))


class StudyError(PerformativeError):
    """A study cannot be read or written; its file is unchanged."""


class StudyBusy(StudyError):
    """Another process is writing; the same call may succeed later."""


class StudyDamaged(StudyError):
    """The file is not what was written: it is truncated, or bits have changed."""


class OtherMethod(StudyError):
    """A study was opened with another problem or method than it was created with; `differences` lists where they differ."""

    def __init__(self, name: str, differences: list[str]) -> None:
        self.differences = differences
        listed = "\n".join(f"  {line}" for line in differences)
        super().__init__(
            f"study {name!r} must be opened with the problem and method it was created with, but differs:\n{listed}"
        )


class AlreadyTold(StudyError):
    """The deployment was told before with other samples, or was canceled; nothing is changed."""


class NotReproduced(StudyError):
    """Replaying the log did not reproduce what is stored."""


class SpecError(PerformativeError, ValueError):
    """A description of a study has errors: `lines` has one line for each, with its key and value."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        super().__init__("\n".join(lines))
