"""A training run in small: counts steps, saves each one, and stops cleanly when asked to pause.

Standard library only and no word of Grus but its environment variables: any program can do this much.
"""

import argparse
import os
import pathlib
import signal
import sys
import time


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--step-seconds", type=float, default=0.25)
    chosen = options.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # received by sigtimedwait only
    asked_to_pause = False

    saved = pathlib.Path(os.environ.get("GRUS_CHECKPOINT", ".")) / "step"
    done = int(saved.read_text()) if saved.exists() else 0
    say(f"resuming after step {done}" if done else "starting at step 0")
    while done < chosen.steps:
        if asked_to_pause:
            say(f"asked to pause: step {done} is saved, leaving")
            return 0
        compute(chosen.step_seconds / 4)
        waiting = chosen.step_seconds * 3 / 4  # a real job waits for its data here
        asked_to_pause = signal.sigtimedwait({signal.SIGTERM}, waiting) is not None
        done += 1
        save(saved, done)
        say(f"step {done}/{chosen.steps}")
    say("finished")
    return 0


def save(path: pathlib.Path, step: int) -> None:
    """Write aside, then rename: a reader never sees half a checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".tmp")
    aside.write_text(str(step))
    aside.replace(path)


def compute(seconds: float) -> None:
    """Keep a core busy, so that the virtual GPU's utilization is above zero."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(number * number for number in range(500))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
