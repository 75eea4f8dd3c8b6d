"""A worker that speaks the protocol of teams and computes nothing. Standard library only; run as a script.

The folder in SPEAKER holds files by which a test says what happens: `done` ends everybody with 0, `stuck`
makes everybody complain that they wait (since the time in it), `boot` lets those of later generations get
ready, `fail` ends those at once that have not joined, with the code in it.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["SPEAKER"])
PACE = 0.01
HANG_AFTER = 1.0


def orders() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(Path(os.environ["GRUS_CONTROL"]).read_bytes())
    except FileNotFoundError:
        return {}
    return found


def stuck() -> float | None:
    """Since when this worker waits, if that is too long."""
    try:
        since = float((FOLDER / "stuck").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return since if time.time() > since + HANG_AFTER else None


def say(ring: bool, **word: object) -> None:
    with open(os.environ["GRUS_REPORT"], "ab", buffering=0) as report:
        report.write(json.dumps({"at": time.time(), "elastic": word}).encode() + b"\n")
    if ring:
        bell = os.open(os.environ["GRUS_BELL"], os.O_WRONLY | os.O_NONBLOCK)
        os.write(bell, b"!")
        os.close(bell)


def main() -> None:
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    address = f"{os.environ['GRUS_HOST']}:{os.getpid()}"
    late = os.environ["GRUS_GENERATION"] != "1"
    said, complained = False, 0.0
    while True:
        team = orders().get("team") or {}
        if asked or (FOLDER / "done").exists():
            return
        if team.get("me") is None and late and (FOLDER / "fail").exists():
            sys.exit(int((FOLDER / "fail").read_text()))
        if not said and (not late or (FOLDER / "boot").exists()):
            said = True
            say(True, address=address)
        if said:
            waits = stuck()
            rings = waits is not None and complained != waits
            say(rings, address=address, team=team.get("number"), waits=waits, hang_after=HANG_AFTER)
            complained = waits or 0.0
        time.sleep(PACE)


if __name__ == "__main__":
    main()
