"""What every test shares: settings that make runs repeatable, and a limit on the memory that compiled programs take."""

import gc
import os

import jax
import psutil
import pytest
from hypothesis import settings

from performative.numerics import programs
from performative.numerics.memory import give_back

MEMORY = {"limit": 1.5e9}
"""Bytes beyond which a test process lets go of its compiled programs; the cache on disk brings back those it needs again."""

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "default")
# Shortening tracebacks takes most of the time of a test that provokes many errors.
jax.config.update("jax_traceback_filtering", "off")


@pytest.fixture(autouse=True)
def limited_memory():
    """Let go of compiled programs when they take too much memory, but not after every test where that does not help."""
    yield
    process = psutil.Process()
    if process.memory_info().rss > MEMORY["limit"]:
        programs.let_go()
        gc.collect()
        give_back()
        MEMORY["limit"] = max(MEMORY["limit"], process.memory_info().rss + 0.3e9)
