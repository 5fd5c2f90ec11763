"""A small disk of a host's own, made in a file: it can be full, or fail and become read-only as Linux does it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hosts.site import Host

_MEGABYTES = 96


def why_no_disks(folder: Path) -> str | None:
    """Why disks cannot be made here; None where they can."""
    for program in ("mkfs.ext4", "e2fsck", "losetup"):
        if shutil.which(program) is None:
            return f"there is no program {program}"
    image, place = folder / "trial.img", folder / "trial"
    place.mkdir()
    made = f"truncate -s 8M {image} && mkfs.ext4 -q {image} && mount -o loop {image} {place}"
    tried = subprocess.run(["unshare", "--mount", "sh", "-c", made], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"a disk cannot be mounted ({tried.stderr.strip()})"


@dataclass(frozen=True)
class Disk:
    """The disk under a folder of a host; it is mounted where the host's programs run, and nowhere else."""

    host: Host
    folder: str

    def _run(self, command: str) -> None:
        self.host.run(command.format(image="disk.img", folder=self.folder))

    def move_in(self) -> None:
        """Make the disk, and put on it what is in the folder."""
        self._run(f"truncate -s {_MEGABYTES}M {{image}} && mkfs.ext4 -q -m 0 {{image}} && mkdir disk")
        self._run("mount -o loop {image} disk && cp -a {folder}/. disk/ && umount disk")
        self.mount()

    def move_out(self) -> None:
        """Put what is on the disk where it was before."""
        self._run("cp -a {folder} aside && umount {folder} && cp -a aside/. {folder}/ && rm -r aside disk {image}")

    def mount(self) -> None:
        self._run("mount -o loop {image} {folder}")

    def fill(self) -> None:
        """Leave no room."""
        self._run("for size in 64k 512; do dd if=/dev/zero of={folder}/filler-$size bs=$size || true; done")

    def make_room(self) -> None:
        self._run("rm -f {folder}/filler-*")

    def fail(self) -> None:
        """Do what the kernel does when a disk fails: nothing is written any more, nor what was not on disk yet."""
        self._run("mount -o remount,abort {folder}")

    def repair(self) -> None:
        """What an operator does, with the program stopped. A status of 1 says that something was put right."""
        self._run("umount {folder} && {{ e2fsck -p {image} || [ $? = 1 ]; }}")
        self.mount()


@contextmanager
def on_a_disk(host: Host, folder: str) -> Iterator[Disk]:
    """The folder of a program that does not run, on a disk of its own."""
    disk = Disk(host, folder)
    disk.move_in()
    try:
        yield disk
    finally:
        disk.move_out()
