"""The lock on the state folder, taken by two processes."""

import subprocess
import sys
from pathlib import Path

from grus.server.runtime.lock import StateLock


def test_the_lock_goes_with_the_process_however_it_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from grus.server.runtime.lock import StateLock\n"
        "StateLock(pathlib.Path(sys.argv[1])).take()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "lock")], check=False, timeout=300)
    lock = StateLock(tmp_path / "lock")
    lock.take()
    lock.release()
