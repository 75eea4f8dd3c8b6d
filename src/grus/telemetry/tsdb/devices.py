"""Devices that a recorder's file has series of, read without opening the recorder."""

import sqlite3
from contextlib import closing
from pathlib import Path

from grus.model.identifiers import DeviceId


def recorded_devices(file: Path) -> frozenset[DeviceId]:
    """The devices that were measured; none without a file, or if it is damaged."""
    if not file.is_file():
        return frozenset()
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            found = opened.execute("SELECT DISTINCT device FROM subjects WHERE device != ''").fetchall()
    except sqlite3.Error:
        return frozenset()
    return frozenset(DeviceId(device) for (device,) in found)
