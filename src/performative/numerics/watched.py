"""Functions together with what they read: a change of it is refused, and never goes unnoticed in a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import jax

from performative.numerics.reads import Reading, changes, reads
from performative.numerics.refusals import ChangedFunction


class Watched(jax.tree_util.Partial):
    """A `Partial` that knows the values its function read when it was given.

    They are part of its static data, so a function that reads other values is another program. When it is called or goes into a
    compiled program, they are compared with what the function would read now.
    """

    seen: Reading

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Callable[..., Any]:
        """A callable that is a pytree, watched if it reads anything besides its arguments."""
        found = reads(function)
        if not jax.tree_util.all_leaves([function]) and not isinstance(function, jax.tree_util.Partial):
            return cls._made(_called, (function,), {}, found) if found else function  # a pytree of the user's
        partial = function if isinstance(function, jax.tree_util.Partial) else jax.tree_util.Partial(function)
        return cls._made(partial.func, partial.args, partial.keywords, found) if found else partial

    @classmethod
    def _made(cls, func: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], seen: Reading) -> Self:
        made = super().__new__(cls, func, *args, **keywords)
        made.seen = seen
        return made

    @property
    def given(self) -> Callable[..., Any]:
        """The callable that is watched."""
        return self.args[0] if self.func is _called else jax.tree_util.Partial(self.func, *self.args, **self.keywords)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """What the function returns, unless it reads other values now."""
        self.require_unchanged()
        return super().__call__(*args, **keywords)

    def require_unchanged(self) -> None:
        """Refuse a function that would read other values than those it was given with."""
        now = reads(self.given)
        if now != self.seen:
            function = self.given.func if isinstance(self.given, jax.tree_util.Partial) else type(self.given)
            named = getattr(function, "__qualname__", None) or type(function).__name__
            name, before, after = next(changes(self.seen, now))
            raise ChangedFunction(
                f"`{name}`, which `{named}` reads, must stay as it was when the function was given, but it was {before} and "
                f"is {after} now; make the problem, world or method with it again, or pass what changes as an argument: "
                "jax.tree_util.Partial(function, numbers)"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Watched._made, (self.func, self.args, self.keywords, self.seen)


def _called(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    return function(*args, **keywords)


def _flattened(node: Watched) -> tuple[tuple[Any, ...], Any]:
    node.require_unchanged()
    return (node.args, node.keywords), (node.func, node.seen)


def _rebuilt(static: Any, children: Any) -> Watched:
    return Watched._made(static[0], children[0], children[1], static[1])


jax.tree_util.register_pytree_node(Watched, _flattened, _rebuilt)
