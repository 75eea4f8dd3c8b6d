"""A job that works in a rhythm: some of each period it computes, then it rests; it stops when told to.

    rhythm_program.py PERIOD [--steps] [--until FILE --then sleep|spin]

With `--steps` each period is reported. When FILE appears it hangs: asleep, or busy without a step.
"""

import argparse
import os
import time
from pathlib import Path

import grus

WORK = 0.4
"""Part of a period in which it computes."""


def busy(until: float) -> None:
    while time.monotonic() < until:
        sum(range(1000))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("period", type=float)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--until", type=Path)
    parser.add_argument("--then", choices=("sleep", "spin"), default="sleep")
    told = parser.parse_args()
    os.nice(5)
    begin, number = time.monotonic(), 0
    while told.until is None or not told.until.exists():
        busy(begin + (number + WORK) * told.period)
        if told.steps:
            grus.report(step=number + 1)
        number += 1
        time.sleep(max(0.0, begin + number * told.period - time.monotonic()))
    while told.then == "spin":
        busy(time.monotonic() + 0.01)
        time.sleep(0.02)
    while True:
        time.sleep(3600.0)


if __name__ == "__main__":
    main()
