"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write aside and move: a reader sees the older file or all of this one, whatever happens in between."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            # mkstemp takes the file from everybody else; a result is as readable as any new file.
            os.fchmod(descriptor, 0o666 & ~_umask())
            file.write(text)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
