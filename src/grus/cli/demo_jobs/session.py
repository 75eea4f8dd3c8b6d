"""A development session: holds its GPU, answers when asked, and ends when told to."""

import os
import signal
import sys


def main() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it is heard where it is waited for
    sys.stdout.write(f"session ready on {os.environ.get('CUDA_VISIBLE_DEVICES', 'no GPU')}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM})
    return 0


if __name__ == "__main__":
    sys.exit(main())
