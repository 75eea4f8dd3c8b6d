"""Workers that divide the work among as many as were started: resized by saving and starting again.

Nothing here knows of Grus but a few environment variables, so any language or framework can do the same.
SIGTERM means: save and exit with 0. The next start may have another WORLD_SIZE; what is saved does not
depend on it.
"""

import json
import os
import signal
from pathlib import Path

UNITS = int(os.environ.get("UNITS", "80"))
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
FOLDER = Path(os.environ.get("GRUS_CHECKPOINT", "out/restart")) / os.environ.get("GRUS_JOB", "by-hand")
MINE = FOLDER / f"attempt{os.environ.get('GRUS_ATTEMPT', '1')}-rank{RANK}.json"


def load() -> dict[int, int]:
    """Results of all units done so far, by whichever worker of whichever attempt."""
    done: dict[int, int] = {}
    for part in FOLDER.glob("*.json"):
        done |= {int(unit): result for unit, result in json.loads(part.read_text()).items()}
    return done


def save(results: dict[int, int]) -> None:
    """Whole or not at all: write beside it, then rename."""
    draft = MINE.with_suffix(".draft")
    draft.write_text(json.dumps(results))
    draft.replace(MINE)


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it is heard where it is waited for
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = load() if os.environ.get("GRUS_RESUME") == "1" else {}
    todo = [unit for unit in range(UNITS) if unit not in done][RANK::WORLD]
    print(f"worker {RANK} of {WORLD}: {len(done)} units are done, {len(todo)} are mine", flush=True)
    results: dict[int, int] = {}
    for unit in todo:
        if signal.sigtimedwait({signal.SIGTERM}, 0.2):  # where a real one computes
            save(results)
            print(f"worker {RANK}: {len(results)} results saved, leaving", flush=True)
            return
        results[unit] = unit * unit
    save(results)
    done = load()
    if len(done) == UNITS:
        print(f"all {UNITS} units are done, their sum is {sum(done.values())}", flush=True)


if __name__ == "__main__":
    main()
