"""Folder of dated backups: the name of the next one, and the old ones that go.

Only folders with such a name and a backup.json in them are ever removed.
"""

import re
import shutil
import time
from pathlib import Path

CONTENTS = "backup.json"
"""File with a backup's own list of contents; it is written last."""
_NAME = re.compile(r"grus-\d{8}T\d{6}Z", re.ASCII)


def name_of(now: float) -> str:
    """Name of a backup made now; names sort by time."""
    return time.strftime("grus-%Y%m%dT%H%M%SZ", time.gmtime(now))


def backups_in(folder: Path) -> list[Path]:
    """The backups of a series, oldest first."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink())
    return sorted(path for path in found if (path / CONTENTS).is_file())


def remove_old(folder: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` backups; the removed ones."""
    old = backups_in(folder)[: -max(keep, 1)]
    for path in old:
        shutil.rmtree(path)
    return old
