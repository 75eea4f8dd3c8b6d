"""A trial that notes every step that it does in a file that all trials share: `python sweep_program.py FILE`.

What ran, and how often, is then counted from that file and not from what Grus says.
"""

import json
import os
import sys
import time

import grus

STEPS = 9
PACE = float(os.environ.get("PACE", "0.1"))


def main(journal: str) -> None:
    saved = grus.checkpoint_path()
    done = json.loads(saved.read_text())["step"] if grus.resuming() and saved.exists() else 0
    chosen = grus.params()
    number, attempt = os.environ["GRUS_TRIAL"], os.environ["GRUS_ATTEMPT"]
    for step in range(done + 1, STEPS + 1):
        if grus.should_pause():
            saved.write_text(json.dumps({"step": step - 1}))
            return
        with open(journal, "ab", buffering=0) as file:
            file.write(f"{number} {step} {attempt}\n".encode())  # one write: lines never mix
        time.sleep(PACE)  # where a real one computes
        grus.report(step=step, loss=float(str(chosen["x"])) + 1.0 / step)


if __name__ == "__main__":
    main(sys.argv[1])
