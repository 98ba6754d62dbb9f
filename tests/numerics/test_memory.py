"""Memory that was freed goes back to the system."""

import sys

import numpy as np
import psutil
import pytest

from performative.numerics.memory import give_back


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc gives memory back on request")
def test_freed_memory_goes_back():
    blocks = [np.ones(8_000) for _ in range(2_000)]  # 64 kB each, too small to be mapped one by one
    kept = [blocks[-1]]  # on top of the heap, so that nothing below it goes back by itself
    del blocks
    held = psutil.Process().memory_info().rss
    give_back()
    assert held - psutil.Process().memory_info().rss > 50e6
    assert kept[0].sum() == 8_000
