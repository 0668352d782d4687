"""A minute of Locust against a server of our own with the demo model; any error is exit status 1.

    python -m loadtest.smoke --seconds 60

Half of the time the users send their whole history again, half they leave it to the server; some branch, some leave in
the middle of an answer. Afterwards nothing may run any more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from loadtest.kept import say, until
from loadtest.server import Server, free_port, running
from loadtest.users.knobs import MODES

KNOBS = {
    "users": "4",
    "spawn-rate": "4",
    "turns": "3:1",
    "system": "60",
    "first": "60:20",
    "later": "20:10",
    "answer": "12:6",
    "think": "0.2:0.5",
    "branch-rate": "0.2",
    "cancel-rate": "0.1",
    "priorities": "0=3,5=1",
    "stop-timeout": "60",
    "slo": "ttft=2s,tpot=500ms",
}
SETTLE_SECONDS = 20.0


def went_well(server: Server, mode: str, seconds: int, folder: Path) -> bool:
    """Whether there were turns, and none of them failed. Locust's reports are in the folder."""
    figures = folder / f"smoke_{mode}.json"
    figures.unlink(missing_ok=True)
    command = [sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", "--host", server.url, "--headless"]
    command += ["--mode", mode, "--run-time", f"{seconds}s", "--figures", str(figures)]
    command += [f"--{knob}={value}" for knob, value in KNOBS.items()]
    command += ["--seed", str(MODES.index(mode)), "--only-summary"]  # other words, so that neither finds the other's
    status = subprocess.run([*command, "--html", str(folder / f"smoke_{mode}.html")], check=False).returncode
    return status == 0 and json.loads(figures.read_text())["summaries"][0]["turns"] > 0


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="of load, both modes together")
    parser.add_argument("--out", type=Path, default=Path("build/smoke"), help="a folder for the reports")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with running(free_port()) as server:
        failed = [mode for mode in MODES if not went_well(server, mode, options.seconds // len(MODES), options.out)]
        idle = until(lambda: server.stats()["running"] == 0, SETTLE_SECONDS)
    say(f"failed, or said nothing: {', '.join(failed)}" if failed else "no turn failed")
    if not idle:
        say(f"something still runs {SETTLE_SECONDS:g} s after everybody has left")
    return 1 if failed or not idle else 0


if __name__ == "__main__":
    sys.exit(main())
