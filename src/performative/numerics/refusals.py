"""The base class of the library's exceptions, and the one that a function raises when what it reads has changed."""

from __future__ import annotations


class PerformativeError(Exception):
    """The base class of every exception of the library.

    >>> import performative as pf
    >>> from performative.losses import Revenue
    >>> at_least = pf.constraints.Linear([-1.0], -6.0, name="price of at least 6")
    >>> try:
    ...     method = pf.apda(pf.Problem(Revenue(), pf.Box([0.0], [5.0]), [at_least]))
    ... except pf.PerformativeError as error:
    ...     print(type(error).__name__)
    InfeasibleProblem
    """


class ChangedFunction(PerformativeError, RuntimeError):
    """A function, or an object of yours, would read other values now than when it was given.

    >>> import performative as pf
    >>> market = pf.LocationFamily(pf.Gaussian([4.0], [0.25]), effect=[[-1.0]])
    >>> costs = {"bread": 1.0}
    >>> def loss_with(costs):
    ...     return lambda price, demand: (costs["bread"] - price[0]) * demand[0]
    >>> problem = pf.Problem(loss_with(costs), pf.Box([0.0], [5.0]))
    >>> costs["bread"] = 2.0
    >>> try:
    ...     risk = pf.performative_risk(problem, market, [3.0])
    ... except pf.ChangedFunction as error:
    ...     print(error)
    `costs[...]`, which `...` reads, must stay as it was when the function was given, but it was 1.0 and is 2.0 now; ...
    """
