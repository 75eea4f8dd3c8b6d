"""Audit log: the table of audit records, appended inside the transaction of the change, read newest first."""

import sqlite3
from collections.abc import Sequence

from grus.model.audit import MOST_AUDIT_RECORDS, AuditRecord
from grus.store import codec

AuditRow = tuple[str, str, str]
"""Actor, target and the record as text."""
INSERT = "INSERT INTO audit (actor, target, body) VALUES (?, ?, ?)"


def audit_row(record: AuditRecord) -> AuditRow:
    """Return the row of a record. Raises BadInput if it could not be read back."""
    return record.actor, record.target, codec.AUDIT.encode(record)


def insert_audit(connection: sqlite3.Connection, rows: Sequence[AuditRow]) -> None:
    """Append records; each gets the next number."""
    if rows:
        connection.executemany(INSERT, rows)


def page_query(actor: str | None, target: str, before: int | None, limit: int) -> tuple[str, list[object]]:
    """Return the query for one page of rows, newest first, each a JSON text with its number, and the values
    to bind.
    """
    where, values = ["1"], list[object]()
    for condition, value in (("actor = ?", actor), ("target = ?", target or None), ("seq < ?", before)):
        if value is not None:
            where.append(condition)
            values.append(value)
    # The number is the row's: a record is encoded before it has one.
    rows = f"""SELECT json_set(body, '$.seq', seq) AS body FROM audit WHERE {" AND ".join(where)}
        ORDER BY seq DESC LIMIT ?"""  # noqa: S608 - only fixed text and placeholders
    return rows, [*values, max(0, min(limit, MOST_AUDIT_RECORDS))]
