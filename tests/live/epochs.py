"""A program with a rhythm, for real processes: it works for a while, rests, and writes down when it began."""

import sys
import time


def main(told_to: str, busy: float, rest: float) -> None:
    with open(told_to, "a", buffering=1) as told:
        while True:
            began = time.time()
            told.write(f"{began}\n")
            while time.time() - began < busy:
                pass
            time.sleep(rest)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
