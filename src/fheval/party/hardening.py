"""What keeps a vault's memory to itself, as far as a process can see to that."""

from __future__ import annotations

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def keep_memory_private() -> None:
    """No core dumps; on Linux also no debugger and no look into memory for other processes of the same user."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
