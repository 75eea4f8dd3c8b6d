"""Worker side of the SDK in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path


def test_sigterm_asks_instead_of_killing_once_the_script_listens(tmp_path: Path) -> None:
    script = (
        "import sys, grus\n"
        "assert not grus.should_pause()\n"
        "print('listening', flush=True)\n"
        "while not grus.should_pause(): pass\n"
        "print('saved', flush=True)\n"
    )
    env = {**os.environ, "GRUS_CONTROL": str(tmp_path / "none")}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "saved\n"
        assert process.wait(300) == 0


def test_importing_grus_and_its_worker_side_loads_nothing_heavy() -> None:
    script = (
        "import sys, grus\n"
        "grus.report(step=1); grus.should_pause(); grus.params(); grus.checkpoint_path()\n"
        "heavy = {'pydantic', 'httpx2', 'fastapi', 'msgspec', 'yaml', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
