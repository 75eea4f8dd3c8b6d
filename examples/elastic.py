"""Workers that share sixty units of work: each may join or be asked to leave, and no unit is done twice.

A unit is taken by making its file, which only one can, and given back when its worker is asked to leave.
"""

import os
import signal
from pathlib import Path

UNITS = 60
FOLDER = Path(os.environ.get("GRUS_CHECKPOINT", "out/elastic")) / os.environ.get("GRUS_JOB", "by-hand")
ME = f"worker {os.environ.get('RANK', '0')}"


def take(unit: int) -> bool:
    try:
        (FOLDER / f"{unit}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it is heard where it is waited for
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"{ME}: here, one of {os.environ.get('WORLD_SIZE', '1')}", flush=True)
    done = 0
    for unit in range(UNITS):
        if not take(unit):
            continue
        if signal.sigtimedwait({signal.SIGTERM}, 0.2):  # where a real one computes
            (FOLDER / f"{unit}").unlink()
            print(f"{ME}: asked to leave, unit {unit} given back after {done} done", flush=True)
            return
        done += 1
    print(f"{ME}: nothing left to do, {done} units were mine", flush=True)


if __name__ == "__main__":
    main()
