"""Audit log: the table of audit records, appended inside the transaction of the change."""

import sqlite3
from collections.abc import Sequence

from grus.model.audit import AuditRecord
from grus.model.interfaces import AUDIT
from grus.store import codec

AuditRow = tuple[str, str, str]
"""Actor, target and the record as text."""
INSERT = "INSERT INTO audit (actor, target, body) VALUES (?, ?, ?)"


def audit_row(record: AuditRecord) -> AuditRow:
    """Return the row of a record. Raises BadInput if it could not be read back."""
    return record.actor, record.target, codec.of(AUDIT).encode(record)


def insert_audit(connection: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    """Append records; each gets the next number."""
    if rows:
        connection.executemany(INSERT, rows)
