"""Where compiled programs are kept on this machine."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from pathlib import Path

SWITCH = "PERFORMATIVE_CACHE"
"""The environment variable that says where programs are kept, or `off`."""
MOST = 2**28
"""How many bytes are kept of programs of one kind; those that were not used for longest go first."""


def directory() -> Path | None:
    """The directory for machines like this one, which is made if need be; None if it is off, or cannot be made."""
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() == "off":
        return None
    if wanted:
        root = Path(wanted)
    else:
        import platformdirs

        root = platformdirs.user_cache_path("performative") / "compiled"
    found = root / _machine()
    try:
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return found


@functools.cache
def _machine() -> str:
    """A name for processors that run the same programs: a directory may be shared by machines of several kinds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"
