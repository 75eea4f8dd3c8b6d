"""Init container of a worker: `python -m grus.kubernetes.prepare`.

It makes the files through which worker and node agent communicate, unpacks the code bundle if there is one,
and waits until the agent listens to the bell. Light: every worker's start waits for it.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from grus.kubernetes.names import (
    ATTACHED_FILE,
    BELL_FILE,
    BUNDLE_FOLDER,
    BUNDLE_VARIABLE,
    CODE_FOLDER,
    FOLDER,
    REPORT_FILE,
)

PATIENCE = 10.0
"""Seconds that a node without an agent delays its workers: they run all the same, and the agent may come."""
LOOK = 0.01


def make_files(folder: Path) -> None:
    """Report and bell; for whichever user the worker runs as, which need not be this one. Repeatable."""
    report, bell = folder / REPORT_FILE, folder / BELL_FILE
    report.touch()
    report.chmod(0o666)
    if not bell.exists():
        os.mkfifo(bell)
    bell.chmod(0o666)


def wait_for_agent(folder: Path, patience: float = PATIENCE) -> bool:
    """Wait for the agent; return whether it came."""
    end = time.monotonic() + patience
    while not (folder / ATTACHED_FILE).exists():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK)
    return True


def main(
    environment: Mapping[str, str] = os.environ,
    *,
    folder: Path = Path(FOLDER),
    code: Path = Path(CODE_FOLDER),
    pieces: Path = Path(BUNDLE_FOLDER),
    patience: float = PATIENCE,
) -> int:
    make_files(folder)
    bundle = environment.get(BUNDLE_VARIABLE)
    if bundle:
        from grus.kubernetes.bundle.unpacking import InvalidArchive, unpack

        try:
            unpack(bundle, pieces, code)
        except InvalidArchive as error:
            sys.stderr.write(f"the code bundle {bundle} cannot be used: {error}\n")
            return 1
    if not wait_for_agent(folder, patience):
        sys.stderr.write(f"no node agent came within {patience:g} s; the worker starts without it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
