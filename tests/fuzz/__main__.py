"""Fuzzing for so many seconds: `make fuzz SECONDS=60`.

    python -m fuzz --seconds 60                     # all targets, one process each, seed from the clock
    python -m fuzz --target scores --seconds 5 --seed 7

A target that ends in a crash, hangs, raises anything but an error of ours or breaks a promise is a finding: its case is
written to a file, and becomes a test.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from hashlib import sha256
from pathlib import Path
from random import Random

from fheval.engines import available_engines

# Of the processor; of the clock so many more as others want the machine; and of the clock for what waits for ever.
HANG_SECONDS = float(os.environ.get("HANG_SECONDS", "10"))
STILL_SECONDS = 12 * HANG_SECONDS
MEMORY_LIMIT = 8 << 30
START_SECONDS = 300.0
# Memory settles while caches fill.
WARM_UP = 0.4
MOST_GROWTH = 96 << 20


def fuzz(name: str, seconds: float, seed: int) -> int:
    """Try cases of one target for so long; prints one line of JSON."""
    from fuzz.targets import TARGETS

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    cases, settled, longest, wall = 0, None, 0.0, 0.0
    memory = Path("/dev/shm")  # noqa: S108 (a random name is made in it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        tries = TARGETS[name](Path(made), Random(f"{name} {seed}"))
        case, attempt = next(tries)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            faulthandler.dump_traceback_later(STILL_SECONDS, exit=True)
            start, at = time.process_time(), time.monotonic()
            try:
                attempt()
            except BaseException:
                traceback.print_exc()
                kept = Path(tempfile.gettempdir()) / f"fuzz-{name}-{sha256(case).hexdigest()[:16]}"
                kept.write_bytes(case)
                print(f"{name}, seed {seed}, case {cases}: {kept}", file=sys.stderr)
                return 1
            finally:
                faulthandler.cancel_dump_traceback_later()
            longest, wall = max(longest, time.process_time() - start), max(wall, time.monotonic() - at)
            if longest > HANG_SECONDS or wall > HANG_SECONDS * (1 + os.getloadavg()[0]):
                took = f"{longest:.0f} s of the processor, {wall:.0f} s of the clock"
                print(f"{name}, seed {seed}, case {cases} took {took}", file=sys.stderr)
                return 1
            cases += 1
            if settled is None and elapsed > WARM_UP * seconds:
                settled = resident()
            case, attempt = next(tries)
        tries.close()  # type: ignore[attr-defined]
    grown = resident() - (settled or resident())
    print(
        json.dumps({"cases": cases, "longest": round(longest, 2), "wall": round(wall, 2), "grown": max(0, grown) >> 20})
    )
    return 1 if grown > MOST_GROWTH else 0


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description="Structure-aware fuzzing for so many seconds.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--target")
    parser.add_argument("--only", help="Targets whose names contain this.", default="")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    if options.target:
        return fuzz(options.target, options.seconds, seed)
    from fuzz.targets import TARGETS

    engines = available_engines()
    chosen = [
        name
        for name in TARGETS
        if options.only in name and (not name.startswith("ciphertexts-") or name.split("-")[1] in engines)
    ]
    found = 0
    print(f"seed {seed}")
    for name in chosen:
        share = options.seconds / len(chosen)
        command = [sys.executable, "-m", "fuzz", "--target", name, "--seconds", str(share), "--seed", str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=share + START_SECONDS, check=False)
        if done.returncode:
            found += 1
            print(f"{name}: FINDING, status {done.returncode}\n{done.stdout}{done.stderr[-4000:]}")
        else:
            told = json.loads(done.stdout)
            longest = f"longest {told['longest']} s of the processor, {told['wall']} s of the clock"
            print(f"{name}: {told['cases']:,} cases, {longest}, memory +{told['grown']} MB")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
