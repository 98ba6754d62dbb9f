"""How a world is asked: it may take the round, and it may carry a state from one deployment to the next."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, TypeAlias

from jax import Array

from performative.validation import shown

WorldState: TypeAlias = object
"""The state of a world: any pytree; an empty tuple where there is none."""
ORDER = ("key", "theta", "n")
"""What `sample` of every world takes."""


class Signature(NamedTuple):
    """What `sample` takes besides the key, the decision and n."""

    takes_round: bool
    carries_state: bool


def signature_of(environment: Any) -> Signature:
    """Read off the names of the arguments of `sample`: `t` is the round, `state` the state; the latter needs `init(key)`.

    A world whose arguments do not say it has an attribute `signature`.
    """
    if isinstance(environment, type):
        made = f"{environment.__name__}({', '.join(_required(environment))})"
        raise TypeError(f"`environment` must be an object, but got the class {environment.__name__}; write {made}")
    if isinstance(getattr(environment, "signature", None), Signature):
        return environment.signature
    sample = getattr(environment, "sample", None)
    if not callable(sample):
        raise TypeError(
            f"`environment` must have sample(key, theta, n), but got {shown(environment)}; give a world such as "
            "LocationFamily(base, effect)"
        )
    names = _names(sample)
    _require_order(sample, names)
    carries_state = "state" in names
    if carries_state != callable(getattr(environment, "init", None)):
        raise TypeError(
            "a world with a state must have both init(key) and sample(key, theta, n, state), which returns the samples and "
            f"the next state, but {type(environment).__name__} has sample({', '.join(names)}) "
            f"and {'no' if carries_state else 'an'} init"
        )
    return Signature("t" in names, carries_state)


def require_still(environment: Any) -> None:
    """Refuse a world whose risk depends on the round or on a state."""
    signature = signature_of(environment)
    if signature.takes_round:
        raise TypeError(
            f"{type(environment).__name__} changes from round to round, so that there is a risk for each round; ask for that "
            "of one round: of a Drifting world, world.at(t)"
        )
    if signature.carries_state:
        raise TypeError(
            f"the risk of a decision must not depend on what was deployed before, but {type(environment).__name__} carries "
            "a state; simulate it instead"
        )


def initial_state(environment: Any, key: Array) -> WorldState:
    """The state that a world starts in; an empty tuple for a world without one."""
    return environment.init(key) if signature_of(environment).carries_state else ()


def answer(
    environment: Any, key: Array, theta: Array, n: int, t: Array | float, state: WorldState
) -> tuple[Array, WorldState]:
    """n samples (n, k) at θ in round t, and the next state."""
    signature = signature_of(environment)
    extra: dict[str, Any] = {"t": t} if signature.takes_round else {}
    if not signature.carries_state:
        return environment.sample(key, theta, n, **extra), state
    answered = environment.sample(key, theta, n, state=state, **extra)
    if not isinstance(answered, tuple) or len(answered) != 2:
        raise TypeError(
            "`sample` of a world with a state must return the samples and the next state, "
            f"but returned {type(answered).__name__}"
        )
    return answered


def respond(environment: Any, normals: Array, theta: Array, t: Array | float) -> Array:
    """The samples that a world makes from standard normal numbers in round t."""
    return environment.respond(normals, theta, **({"t": t} if "t" in _names(environment.respond) else {}))


def _require_order(sample: Any, names: list[str]) -> None:
    """Refuse a `sample` that cannot be called with (key, theta, n), or whose names say that it wants another order."""
    extra = {name: None for name in ("t", "state") if name in names}
    swapped = any(name in ORDER and name != place for name, place in zip(names, ORDER, strict=False))
    try:
        if names:
            inspect.signature(sample).bind(*ORDER, **extra)
    except TypeError:
        swapped = True
    if swapped:
        raise TypeError(
            f"`sample` must take ({', '.join(ORDER)}) in this order, and `t` or `state` after them if it needs them, but takes "
            f"({', '.join(names)})"
        )


def _names(function: Any) -> list[str]:
    return [parameter.name for parameter in _parameters(function)]


def _required(function: Any) -> list[str]:
    """The names of the arguments without a default."""
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in _parameters(function) if one.default is one.empty and one.kind not in free]


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature takes what every world takes
        return []
