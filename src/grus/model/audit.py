"""Audit records: who changed users, tokens, queues, nodes, or another user's job.

A record is written with the change that it describes and never changes. It holds no secret: tokens appear by
the beginning of their digest, job files and secrets not at all.
"""

from dataclasses import dataclass

from grus.model.identifiers import UserName

SHOWN_DIGEST = 12
"""Characters of a token's digest that name it in a record, as in `grus token list`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One change made by one user."""

    at: float
    actor: UserName
    action: str
    """Kind and verb for programs: user.set, token.delete, queue.set, node.drain, job.stop, …"""
    target: str
    """Name of the user, queue or node, id of the job, or beginning of the token's digest."""
    text: str = ""
    """One sentence for people about the change."""
    seq: int = 0
    """Number in the log, given by the store: ascending, never given twice."""


MOST_AUDIT_RECORDS = 1000
"""Records that one listing returns at most."""
