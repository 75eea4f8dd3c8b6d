"""Find what a whole run of the tests left in the machine's folder for temporary files.

Tests have folders of their own, but a program that a job starts without TMPDIR uses the machine's. Only names
that programs of the tests use are looked at: on a machine in use others come and go.
"""

import re
import shutil
import tempfile
from pathlib import Path

OURS = re.compile(r"grus(?!-tests-|-kubernetes-)|pytest|ray|dask|torch|org\.chromium|playwright")
"""Not folders of runs and of their clusters: each run looks for its own (`leftovers`)."""
CACHES = re.compile(r"torchinductor_")
"""Folders that torch makes for its cache when it is imported."""


def entries(folder: Path | None = None) -> set[Path]:
    """Return what is in the folder (the machine's by default) under names that programs of the tests use."""
    return {path for path in (folder or Path(tempfile.gettempdir())).iterdir() if OURS.match(path.name)}


def left(before: set[Path], folder: Path | None = None) -> list[Path]:
    """Return what came since and is still there; new caches are removed instead."""
    new = sorted(entries(folder) - before)
    for cache in new:
        if CACHES.match(cache.name):
            shutil.rmtree(cache, ignore_errors=True)
    return [path for path in new if path.exists()]
