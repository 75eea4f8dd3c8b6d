"""A development session: holds its GPU, answers requests, and ends when it is asked to."""

import os
import signal
import sys


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # received by sigtimedwait only
    sys.stdout.write(f"session ready on {os.environ.get('CUDA_VISIBLE_DEVICES', 'no GPU')}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main())
