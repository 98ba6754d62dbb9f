"""Every exception and warning of the library.

Bad arguments raise Python's own `ValueError` and `TypeError`; the exceptions here are for what a caller may want to handle.
"""

from __future__ import annotations

from typing import Any

from performative.numerics.refusals import ChangedFunction as ChangedFunction
from performative.numerics.refusals import PerformativeError as PerformativeError


class InfeasibleProblem(PerformativeError, ValueError):
    """No decision in Θ meets all constraints; `violation` is the smallest max_i g_i, `conflicting` the constraints behind it.

    Where the constraints are not `proved` convex, none was found, and `violation` is the smallest max_i g_i that was found.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> at_least = pf.constraints.Linear([-1.0], -6.0, name="price of at least 6")
    >>> try:
    ...     method = pf.apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [at_least]))
    ... except pf.InfeasibleProblem as error:
    ...     print(round(error.violation, 6), list(error.conflicting))
    1.0 ['price of at least 6']
    """

    def __init__(self, violation: float, conflicting: dict[str, float], proved: bool = True) -> None:
        self.violation, self.conflicting, self.proved = violation, conflicting, proved
        names = ", ".join(conflicting)
        smallest = "the smallest max g(θ)" if proved else "none was found: the smallest max g(θ) of the search"
        remedy = "" if proved else "; if you know a decision that meets them, pass it as `start`"
        super().__init__(
            f"a decision in the set with g(θ) <= 0 must exist, but {smallest} is {violation:.6g}; in conflict "
            f"(with each other or with the decision set): {names}. Loosen their bounds or enlarge the set{remedy}"
        )


class NoStrictlyFeasibleDecision(PerformativeError, ValueError):
    """No decision meets all constraints with room to spare; `slack` is the largest, `blocking` the constraints that limit it.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> at_most = pf.constraints.Linear([1.0], 2.0, name="at most 2")
    >>> at_least = pf.constraints.Linear([-1.0], -2.0, name="at least 2")
    >>> try:
    ...     method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [at_most, at_least]))
    ... except pf.NoStrictlyFeasibleDecision as error:
    ...     print(abs(round(error.slack, 6)), list(error.blocking))
    0.0 ['at most 2', 'at least 2']
    """

    def __init__(self, slack: float, blocking: dict[str, float], proved: bool = True) -> None:
        self.slack, self.blocking, self.proved = slack, blocking, proved
        largest = "the largest slack" if proved else "none was found: the largest slack of the search"
        super().__init__(
            f"a decision in the set with g(θ) < 0 must exist for a method that explores safely, but {largest} is "
            f"{slack:.6g}; limited by: {', '.join(blocking)}. Loosen one of them, or use a method that does not explore safely, "
            "such as apda"
        )


class SolverFailed(PerformativeError, RuntimeError):
    """No decision was found that meets the KKT conditions, or the convex solver gave up on the way.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [[0.1]]), effect=[[0.0]])
    >>> try:
    ...     best = pf.performative_optimum(pf.Problem(Revenue(), pf.Reals(1)), market)
    ... except pf.SolverFailed:
    ...     print("no price is best: bound it")
    no price is best: bound it
    """


class NotPure(PerformativeError, ValueError):
    """A world or a method is not a function of its arguments alone, so that a compiled program would freeze what it does.

    >>> import numpy as np, performative as pf
    >>> class Shop:
    ...     def sample(self, key, theta, n):
    ...         return np.random.default_rng().normal(size=(n, 1))
    >>> problem = pf.Problem(lambda price, sold: -price[0] * sold[0], pf.Box([0.0], [9.0]))
    >>> try:
    ...     best = pf.performative_optimum(problem, Shop())
    ... except pf.NotPure as error:
    ...     print(error)
    the environment must give the same samples for the same key, but two calls differ: ...HostWorld(sample) ...
    """


class SimulatorFailed(PerformativeError, RuntimeError):
    """The simulator of a `HostWorld` raised an error, which is the cause of this one.

    >>> import performative as pf
    >>> class Closed:
    ...     def sample(self, rng, theta, n):
    ...         if theta[0] > 0.0:
    ...             raise RuntimeError("the shop is closed")
    ...         return [10.0] * n
    >>> problem = pf.Problem(lambda price, sold: -price[0] * sold[0], pf.Box([0.0], [9.0]))
    >>> method = pf.repeated_gradient(problem, step=0.1)
    >>> try:
    ...     runs = pf.simulate({"rgd": method}, pf.HostWorld(Closed), rounds=3, realizations=1)
    ... except pf.SimulatorFailed as error:
    ...     print(error)
    the simulator failed with RuntimeError: the shop is closed
    """


class UnboundedProblem(SolverFailed, ValueError):
    """The risk decreases without bound along the ray from `start` in `direction`, so that nothing is best.

    The ray was followed for `length`.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [[0.1]]), effect=[[0.0]])
    >>> try:
    ...     best = pf.performative_optimum(pf.Problem(Revenue(), pf.Reals(1)), market)
    ... except pf.UnboundedProblem as error:
    ...     print(error.direction)
    [1.]
    """

    def __init__(self, name: str, direction: Any, start: Any, length: float) -> None:
        self.direction, self.start, self.length = direction, start, length
        super().__init__(
            f"{name} must be bounded below on the feasible decisions, but decreases without bound from {start} in the direction "
            f"{direction.round(6)}, as far as {length:g}; bound the decision there, by a decision set such as performative.Box "
            "or by a constraint"
        )


class QuadratureWarning(UserWarning):
    """A loss is averaged over a Gaussian base less accurately than the rule promises, or than a decision needs.

    >>> import warnings, jax.numpy as jnp, performative as pf
    >>> problem = pf.Problem(lambda theta, z: jnp.floor(5 * (z[0] - theta[0])), pf.Box([0.0], [1.0]))
    >>> environment = pf.LocationFamily(pf.Gaussian([0.0], [[1.0]]), effect=[[0.0]])
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     risk = pf.performative_risk(problem, environment, [0.4])
    >>> round(risk, 1), caught[0].category.__name__
    (-2.5, 'QuadratureWarning')
    """


class LocalOptimumWarning(UserWarning):
    """Regret is measured against a decision that is not proved to be the best.

    >>> import warnings, performative as pf
    >>> warnings.simplefilter("ignore", pf.LocalOptimumWarning)  # once you have looked at `runs.optimum`
    """


class InfeasibleStartWarning(UserWarning):
    """The start breaks a constraint: another decision is deployed first, and losses are compared with that.

    >>> import warnings, performative as pf
    >>> from performative.losses import Revenue
    >>> cap = pf.constraints.Linear([1.0], 3.0, name="cap")
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [cap]), start=[4.0])
    >>> caught[0].category.__name__, method.start.round(6).tolist()
    ('InfeasibleStartWarning', [3.0])
    """


class SameProposalWarning(UserWarning):
    """A proposal was declined, but the next one will be the same: the method draws nothing, and nothing else was asked of it.

    >>> import tempfile, warnings, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pf.Study.create(f"{folder}/studies.db", "prices", method, approval=True) as study:
    ...         with warnings.catch_warnings(record=True, action="always") as caught:
    ...             study.decline(study.ask(), "too cheap")
    ...         study.decline(study.ask(), "too cheap", lower=[1.0])
    ...         print(caught[0].category.__name__, study.ask().decisions.round(3).tolist())
    SameProposalWarning [[1.0]]
    """

    def __init__(self, deployment: int) -> None:
        super().__init__(
            f"the next proposal will be the same as {deployment}, since the method draws nothing at random: approve other "
            "decisions in its place, decline it with bounds, `lower` or `upper`, or amend the study"
        )


class DistantHistoryWarning(UserWarning):
    """All past decisions are farther from Θ than Θ is wide: they may be in other units, and say little of decisions in Θ.

    >>> import warnings, performative as pf
    >>> from performative.losses import Revenue
    >>> problem = pf.Problem(Revenue(), pf.Box([1.0], [5.0]))  # in euros; the past is in cents
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     method = pf.safe_apda(problem, start=[2.0], history=([[200.0], [250.0]], [[8.0], [7.0]]))
    >>> caught[0].category.__name__
    'DistantHistoryWarning'
    """


class NonFiniteWarning(RuntimeWarning):
    """A method's iterates became infinite or not a number.

    >>> import warnings, performative as pf
    >>> problem = pf.Problem(lambda theta, z: (theta[0] - z[0]) ** 2, pf.Reals(1))
    >>> method = pf.repeated_gradient(problem, step=1e30)
    >>> world = pf.LocationFamily(pf.Gaussian([1.0], [[0.1]]), effect=[[0.0]])
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     runs = pf.simulate({"descent": method}, world, rounds=20)
    >>> caught[0].category.__name__, bool(runs.failed[0, 0] > 0)
    ('NonFiniteWarning', True)
    """


class NotConforming(PerformativeError, AssertionError):
    """A method breaks a rule; `failed` holds the checks that say which.

    >>> import performative as pf
    >>> try:
    ...     pf.checks.require("not a method", pf.LocationFamily(pf.Gaussian([1.0], [0.1]), effect=[[0.5]]))
    ... except pf.NotConforming as error:
    ...     print(error.failed[0].name)
    protocol
    """

    def __init__(self, method: Any, failed: list[Any], count: int) -> None:
        self.failed = failed
        lines = [f"- {check.name}: {check.evidence}" for check in failed]
        rule = f"a method must pass all {count} checks of performative.checks"
        super().__init__("\n".join([f"{rule}, but {type(method).__name__} failed {len(failed)}:", *lines]))


class StudyError(PerformativeError):
    """A study cannot be read or written; its file is unchanged.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         study = pf.Study.open(f"{folder}/studies.db", "prices", method)
    ...     except pf.StudyError:
    ...         print("create it first")
    create it first
    """


class StudyBusy(StudyError):
    """Another process is writing; the same call may succeed later.

    >>> import time, performative as pf
    >>> def patient(call, attempts=5):
    ...     for attempt in range(attempts):
    ...         try:
    ...             return call()
    ...         except pf.StudyBusy:
    ...             time.sleep(0.1 * 2**attempt)
    ...     raise pf.StudyBusy("still busy")
    >>> patient(lambda: "told")  # or study.tell(deployment, samples)
    'told'
    """


class StudyDamaged(StudyError):
    """The file is not what was written: it is truncated, or bits have changed.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pf.Study.create(f"{folder}/studies.db", "prices", method).close()
    ...     with open(f"{folder}/studies.db", "r+b") as file:
    ...         size = file.truncate(4096)
    ...     try:
    ...         study = pf.Study.open(f"{folder}/studies.db", "prices", method)
    ...     except pf.StudyDamaged:
    ...         print("restore the backup")
    restore the backup
    """


class StudyWarning(UserWarning):
    """The file of a study may not be all that was written: nothing proves that it is damaged.

    >>> import warnings, performative as pf
    >>> warnings.simplefilter("error", pf.StudyWarning)  # to be stopped by it
    >>> warnings.simplefilter("default", pf.StudyWarning)
    """


class OtherMethod(StudyError):
    """A study was opened with a problem or method other than its own; `differences` lists where they differ.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pf.Study.create(f"{folder}/studies.db", "prices", method).close()
    ...     try:
    ...         study = pf.Study.open(f"{folder}/studies.db", "prices", pf.repeated_gradient(method.problem, step=0.1))
    ...     except pf.OtherMethod as error:
    ...         print(error.differences)
    ['method.step: stored 0.005, but got 0.1']
    """

    def __init__(self, name: str, differences: list[str]) -> None:
        self.differences = differences
        listed = "\n".join(f"  {line}" for line in differences)
        super().__init__(
            f"study {name!r} must be opened with the problem and method it was created with, or amended to last, but these "
            f"differ:\n{listed}"
        )


class AlreadyTold(StudyError):
    """The deployment was already reported with other samples, or was canceled; nothing was changed.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     deployment = study.ask()
    ...     told = study.tell(deployment, [[[3.0]]])
    ...     try:
    ...         study.tell(deployment, [[[4.0]]])
    ...     except pf.AlreadyTold:
    ...         print(study.history().data.values)
    [[[3.]]]
    """


class HeldBack(StudyError):
    """Samples cannot be right, or so it seems; `reasons` say why. Nothing was told; `confirm=True` tells them all the same.

    >>> import tempfile, numpy as np, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> sold = np.array([[[3.0], [4.0], [2.0], [5.0]]])
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     told = study.tell(study.ask(), sold)
    ...     try:
    ...         told = study.tell(study.ask(), np.where(sold == 2.0, 2e9, sold))
    ...     except pf.HeldBack as error:
    ...         print(error.reasons[0])
    number 0: 2e+09 in sample 2 is unlike the others: about 4.5 was expected, and 98 % of earlier ones lay between 2.03 and 4.97
    """

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        listed = "\n".join(f"  {reason}" for reason in reasons)
        super().__init__(
            f"the samples seem to be wrong, and were not told:\n{listed}\n"
            "if they are right, tell them with confirm=True (--confirm)"
        )


class NotReproduced(StudyError):
    """Replaying the log did not reproduce what is stored.

    >>> import tempfile, performative as pf
    >>> from performative.losses import Revenue
    >>> method = pf.repeated_gradient(pf.Problem(Revenue(), pf.Box([0.0], [5.0])))
    >>> with tempfile.TemporaryDirectory() as folder, pf.Study.create(f"{folder}/studies.db", "prices", method) as study:
    ...     try:
    ...         print(study.verify())
    ...     except pf.NotReproduced:
    ...         print("ask whether another machine computed it")
    Replay(events=1, told=0, unreplayed=0, because=())
    """


class SpecError(PerformativeError, ValueError):
    """A description of a study has errors: `lines` has one line for each, with its key and value.

    >>> import performative as pf
    >>> from performative.study.spec import describe
    >>> try:
    ...     described = describe("name = 'prices'")
    ... except pf.SpecError as error:
    ...     print([line.split(":")[0] for line in error.lines])
    ['decisions', 'loss', 'method']
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        super().__init__("\n".join(lines))
