"""A file that never touches a disk, for libraries that read and write only by path."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable


class MemoryFile:
    """An anonymous file in memory, addressed through /proc/self/fd; a 0600 temporary file where there is none."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("fheval", os.MFD_CLOEXEC)
            self.path = f"/proc/self/fd/{self._descriptor}"
        else:
            self._descriptor, self.path = tempfile.mkstemp(prefix="fheval-")
            weakref.finalize(self, os.unlink, self.path)
        weakref.finalize(self, os.close, self._descriptor)

    def written_by(self, save: Callable[[str], object]) -> bytes:
        """Let `save` write to the path, and take the bytes out again."""
        os.ftruncate(self._descriptor, 0)
        save(self.path)
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        os.ftruncate(self._descriptor, 0)
        return data

    def holding(self, data: bytes | bytearray | memoryview) -> str:
        """Fill the file with `data`, and return the path to load it from."""
        if os.fstat(self._descriptor).st_size != len(data):
            os.ftruncate(self._descriptor, len(data))
        written = 0
        while written < len(data):
            written += os.pwrite(self._descriptor, memoryview(data)[written:], written)
        return self.path

    def wipe(self) -> None:
        os.ftruncate(self._descriptor, 0)
