"""A command compiles only what no command compiled before: JAX's own cache is on, beside that of `numerics.programs`."""

from __future__ import annotations

import os

from performative.numerics.kept import MOST, directory


def keep_compiled() -> None:
    """Have JAX, which must not have been imported yet, keep the small programs, too, and processes that this one starts.

    A directory that is already set for JAX stays, and one that cannot be made is done without.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    home = directory()
    if home is None:
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(home)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
