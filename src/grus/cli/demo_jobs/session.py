"""A development session: holds its GPU, answers when asked, and ends when told to."""

import os
import signal
import sys
import threading


def main() -> int:
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    sys.stdout.write(f"session ready on {os.environ.get('CUDA_VISIBLE_DEVICES', 'no GPU')}\n")
    sys.stdout.flush()
    asked_to_end.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
