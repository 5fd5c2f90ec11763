"""Run the apps in examples/ with `flwr run` in simulation, and hold what they found against the pooled truth.

`make examples` runs it in .venv-examples. Results and plots go to build/examples. Names of apps may be given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from fheval.flower.environment import flower_environment, flower_program
from fheval.flower.processes import Child, free_port

ROOT = Path(__file__).resolve().parent.parent
APPS = ("criteo-dlrm", "celeba-cnn")
PARTIES = 4
START_SECONDS = 180.0
RUN_SECONDS = 900.0


class Simulation:
    """A SuperLink on loopback that simulates its SuperNodes, with a home of its own."""

    def __init__(self, home: Path) -> None:
        self._port = free_port()
        (home / "flwr").mkdir(parents=True, exist_ok=True)
        self._environment = {**flower_environment(home / "flwr"), "JAX_PLATFORMS": "cpu"}
        (home / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )
        command = [flower_program("flower-superlink"), "--simulation", "--insecure", "--host", "127.0.0.1"]
        ports = ["--port", str(self._port), "--disable-runtime-dependency-installation"]
        self._child = Child([*command, *ports], self._environment)

    def run(self, app: Path, settings: str) -> str:
        """Run an app to its end, and return what it printed."""
        resources = f"num-supernodes={PARTIES} client-resources-num-cpus=1 init-args-num-cpus=2"
        words = [
            "run",
            str(app),
            "here",
            "--format",
            "json",
            "--run-config",
            settings,
            "--federation-config",
            resources,
        ]
        deadline = time.monotonic() + START_SECONDS
        # SuperLink may not be up yet.
        while not (started := self._ask(words, START_SECONDS)).startswith("{") or not json.loads(started)["success"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"{app.name} did not start: {started}")
            time.sleep(1)
        return self._ask(["log", str(json.loads(started)["run-id"]), "here", "--stream"], RUN_SECONDS)

    def _ask(self, words: list[str], seconds: float) -> str:
        command = [flower_program("flwr"), *words]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        return done.stdout.strip() or done.stderr.strip()

    def stop(self) -> None:
        self._child.stop()


def judged(name: str, results: Path, printed: str) -> bool:
    """Show each round's private AUC beside the pooled one; whether the last is within its stated error."""
    try:
        found = json.loads((results / "auc.json").read_text())
    except FileNotFoundError:
        print(f"{name}: no results.\n{printed[-4000:]}")
        return False
    print(f"{name}: training round, private AUC and its interval, pooled AUC, difference, stated error")
    within = False
    for number, row in found.items():
        off = abs(row["value"] - row["pooled"])
        within = off <= row["error"]
        print(
            f"  {number}  {row['value']:.4f} ({row['low']:.4f} to {row['high']:.4f})  {row['pooled']:.4f}  "
            f"{off:.5f} {'≤' if within else '>'} {row['error']:.5f}"
        )
    print(f"  plot: {(results / 'auc.html').relative_to(ROOT)}", flush=True)
    return within


def main(names: list[str]) -> int:
    """Run these apps, or both."""
    build = ROOT / "build" / "examples"
    simulation = Simulation(build)
    try:
        good = []
        for name in names or APPS:
            results, start = build / name, time.monotonic()
            (results / "auc.json").unlink(missing_ok=True)
            printed = simulation.run(ROOT / "examples" / name, f"results={json.dumps(str(results))}")
            good.append(judged(name, results, printed))
            print(f"  {time.monotonic() - start:.0f} s", flush=True)
    finally:
        simulation.stop()
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
