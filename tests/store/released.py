"""Files as earlier releases have left them: `schemas/version_N.sql`, written by the code of that time.

Each holds the same: two people, a token, a queue, a cordon, an epoch, and five jobs, one of each fate; what
came with later versions is in the later ones only. Versions 4 and 6 were never released alone.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from grus.model.identifiers import JobId
from grus.model.jobs import Phase

SCHEMAS = Path(__file__).parent / "schemas"
VERSIONS = tuple(sorted(int(path.stem.removeprefix("version_")) for path in SCHEMAS.glob("version_*.sql")))
FATES = {
    JobId("j0000000001"): Phase.PENDING,
    JobId("j0000000002"): Phase.RUNNING,
    JobId("j0000000003"): Phase.SUCCEEDED,
    JobId("j0000000004"): Phase.PAUSED,
    JobId("j0000000005"): Phase.FAILED,
}
EVENTS = 13
EPOCH = 2
SECRET = "grus_" + "a" * 43
"""Whose digest the token has; its user is an administrator."""


def make(version: int, path: Path) -> None:
    """The file of that version."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / f"version_{version}.sql").read_text())


def make_newer(path: Path, version: int) -> None:
    """A file of a Grus that is yet to come."""
    make(VERSIONS[-1], path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
