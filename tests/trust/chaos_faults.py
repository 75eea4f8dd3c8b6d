"""The faults of `faults.c`, as they are at a moment: written to the file that the library reads."""

import os
import struct
from pathlib import Path

from tests.trust import preloading

_FAULTS = struct.Struct("=qqq")


class Faults:
    """Of the disk below `folder` and of the clock, for all programs started with `env`."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._now = {"shift": 0, "full": 0, "slow": 0}
        file.write_bytes(_FAULTS.pack(0, 0, 0))
        self._file = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        self.env = {
            "LD_PRELOAD": str(preloading.library("faults")),
            "GRUS_TRUST_FOLDER": str(folder),
            "GRUS_TRUST_FAULTS": str(file),
        }

    def set(self, **changes: int) -> None:
        """`shift` in seconds, `full` 0 or 1, `slow` in milliseconds for each sync."""
        self._now.update(changes)
        os.pwrite(self._file, _FAULTS.pack(*self._now.values()), 0)

    @property
    def full(self) -> bool:
        return bool(self._now["full"])

    def clear(self) -> None:
        self.set(shift=0, full=0, slow=0)

    def close(self) -> None:
        os.close(self._file)
