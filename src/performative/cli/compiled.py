"""Compiled programs are kept on disk: a command compiles only what no command compiled before.

JAX does the work, and locks the directory while it reads or writes; this says where, how much, and how to turn it off.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

SWITCH = "PERFORMATIVE_CACHE"
"""The environment variable that says where programs are kept, or `off`."""
MOST = 2**29
"""How many bytes are kept; the programs that were not used for longest go first."""


def keep_compiled() -> None:
    """Have JAX, which must not have been imported yet, keep what it compiles; processes that this one starts do so, too.

    A directory that is already set for JAX stays, and one that cannot be made is done without.
    """
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() == "off" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    import platformdirs

    root = Path(wanted) if wanted else platformdirs.user_cache_path("performative") / "compiled"
    directory = root / _machine()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(directory)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _machine() -> str:
    """A name for processors that run the same programs: a directory may be shared by machines of several kinds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"
