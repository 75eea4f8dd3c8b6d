"""An elastic run: any number of workers share one list of units, and each may join or leave at any time.

A worker claims a unit by creating a file that did not exist before, and releases it when it is asked to
leave. More workers do more units a second; no unit is done twice and none is lost.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import signal
import sys

ENOUGH = "enough"
"""File in the checkpoint folder that ends the run when it appears."""


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--unit-seconds", type=float, default=0.4)
    chosen = options.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # received by sigtimedwait only
    folder = pathlib.Path(os.environ.get("GRUS_CHECKPOINT", "."))
    folder.mkdir(parents=True, exist_ok=True)
    me = f"worker {os.environ.get('RANK', '?')}"

    say(f"{me}: here, one of {os.environ.get('WORLD_SIZE', '?')}")
    while not (folder / ENOUGH).exists():
        unit = claim_next(folder)
        if signal.sigtimedwait({signal.SIGTERM}, chosen.unit_seconds):  # a real job computes here
            (folder / f"{unit}.claimed").unlink()
            say(f"{me}: asked to leave, unit {unit} given back")
            return 0
        (folder / f"{unit}.done").touch()
        say(f"{me}: unit {unit} done")
    return 0


def claim_next(folder: pathlib.Path) -> int:
    """Claim the first unclaimed unit and return it."""
    forget_the_dead(folder)
    return next(unit for unit in itertools.count() if take(folder / f"{unit}.claimed"))


def forget_the_dead(folder: pathlib.Path) -> None:
    """Drop claims without a result whose worker is gone (killed before it could give the unit back)."""
    for claim in folder.glob("*.claimed"):
        with contextlib.suppress(OSError, ValueError):
            if not claim.with_suffix(".done").exists() and not alive(int(claim.read_text())):
                claim.unlink()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def take(claim: pathlib.Path) -> bool:
    """Claim the unit; return False if it was already claimed."""
    try:
        with claim.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
