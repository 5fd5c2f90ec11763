"""Damage to bytes and to files, as disks, copies and editors do it."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

_BLOCKS = (1, 8, 64, 512, 4096)


def damaged(data: bytes, draw: Random) -> bytes:
    """The bytes with one thing wrong: a bit, a value, a block that is lost, doubled, exchanged or foreign, an end."""
    if not data:
        return draw.randbytes(draw.choice(_BLOCKS))
    size = min(draw.choice(_BLOCKS), len(data))
    # Blocks lie where disks have them, but for single bytes.
    count = max(1, len(data) // size)
    place, other = (size * draw.randrange(count) for _ in range(2))
    before, block, after = data[:place], data[place : place + size], data[place + size :]
    kind = draw.randrange(9)
    if kind == 0:
        at = draw.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return before + bytes(len(block)) + after
    if kind == 2:
        return before + draw.randbytes(len(block)) + after
    if kind == 3:
        return before + data[other : other + size] + after
    if kind == 4:
        return before + after
    if kind == 5:
        return before + block + block + after
    if kind == 6:
        return data[: draw.randrange(len(data))]
    if kind == 7:
        return data + draw.randbytes(size)
    return before + b"\xff" * len(block) + after


def damage_files(directory: Path, earlier: Path, draw: Random) -> str:
    """Damage one or two files of a directory, delete them, or put back what they were; says what was done.

    All but the head of the ledger: a directory that is set back together with it cannot be told from what it was.
    """
    done = []
    files = sorted(each for each in directory.iterdir() if each.is_file() and each.suffix != ".lock")
    for file in draw.sample(files, min(len(files), draw.choice((1, 1, 2)))):
        old = earlier / file.name
        if old.exists() and file.suffix != ".head" and draw.random() < 0.1:
            shutil.copy(old, file)
            done.append(f"{file.name} set back")
        elif draw.random() < 0.06:
            file.unlink()
            done.append(f"{file.name} deleted")
        else:
            file.write_bytes(damaged(file.read_bytes(), draw))
            done.append(f"{file.name} damaged")
    return ", ".join(done)
