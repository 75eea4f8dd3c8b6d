"""A signal at the end of a process."""

import subprocess
import sys


def test_a_signal_that_comes_at_the_very_end_of_the_process_hurts_nobody() -> None:
    program = (
        "import atexit, signal\n"
        "from grus.sdk.sigterm import SignalFlag\n"
        "atexit.register(lambda: print('the end'))\n"
        "atexit.register(lambda: signal.raise_signal(signal.SIGTERM))\n"
        "asked = SignalFlag()\n"
        "signal.signal(signal.SIGTERM, lambda *_: asked.set())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
