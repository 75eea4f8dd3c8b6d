"""Audit records of changes to users, tokens, queues, nodes and other people's jobs. Pure; without secrets."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

from grus.model.audit import SHOWN_DIGEST, AuditRecord
from grus.model.identifiers import JobId, NodeId, QueueName, UserName
from grus.model.interfaces import Token, User
from grus.model.jobs import Job
from grus.model.nodes import Cordon
from grus.model.queues import Queue, Quota, gpus
from grus.model.texts.formatting import span

LONGEST_TEXT = 1000
"""Characters of a record's sentence; a list of ten thousand members is cut."""
IN_GPUS = frozenset({"reserved", "limit", "max_gpus"})
"""Fields that are counted in micro-GPUs."""


def user_set(
    actor: User, now: float, before: User | None, after: User, accepted: bool = False
) -> AuditRecord:
    """Record of an added or changed user; `accepted`: the actor accepts that users share one Unix account."""
    text = _differences(before, after, {"role": "", "unix_user": "", "max_gpus": None})
    shared = "; accepted that jobs of all users share one account" if accepted else ""
    return _record(actor, now, "user.set", after.name, f"{_added(before)}{text}{shared}")


def user_deleted(actor: User, now: float, name: UserName) -> AuditRecord:
    return _record(actor, now, "user.delete", name, "user and all its tokens removed")


def token_created(actor: User, now: float, token: Token) -> AuditRecord:
    label = f", label {token.label!r}" if token.label else ""
    lasts = "never expires" if token.expires_at is None else f"expires after {_lifetime(token)}"
    return _record(actor, now, "token.create", _short(token), f"for {token.user}{label}, {lasts}")


def token_deleted(actor: User, now: float, token: Token) -> AuditRecord:
    label = f", label {token.label!r}" if token.label else ""
    return _record(actor, now, "token.delete", _short(token), f"of {token.user}{label}")


def queue_set(actor: User, now: float, before: Queue | None, after: Queue) -> AuditRecord:
    defaults = {field.name: field.default for field in fields(Queue) if field.name != "name"}
    text = _differences(before, after, defaults)
    return _record(actor, now, "queue.set", after.name, _added(before) + text)


def queue_deleted(actor: User, now: float, name: QueueName) -> AuditRecord:
    return _record(actor, now, "queue.delete", name, "queue removed")


def node_set(actor: User, now: float, node: NodeId, cordon: Cordon | None) -> AuditRecord:
    if cordon is None:
        return _record(actor, now, "node.uncordon", node, "takes work again")
    if cordon.drain is None:
        return _record(actor, now, "node.cordon", node, "takes no new work")
    return _record(actor, now, "node.drain", node, cordon.drain.message or "drained without a message")


def job_changed(actor: User, now: float, verb: str, job: Job) -> AuditRecord | None:
    """Record of a change to another user's job; None for one's own job, whose events already show it."""
    if job.user == actor.name:
        return None
    return _record(actor, now, f"job.{verb}", JobId(job.id), f"job {job.spec.name} of {job.user}")


def _record(actor: User, now: float, action: str, target: str, text: str) -> AuditRecord:
    return AuditRecord(at=now, actor=actor.name, action=action, target=target, text=text[:LONGEST_TEXT])


def _added(before: object | None) -> str:
    return "added: " if before is None else ""


def _differences(before: object | None, after: object, defaults: Mapping[str, object]) -> str:
    """Fields that differ (from their defaults, for something new), each with both values."""
    found = []
    for name, default in defaults.items():
        old = default if before is None else getattr(before, name)
        new = getattr(after, name)
        if old != new:
            found.append(_difference(name, old, new))
    return "; ".join(found) or "nothing changed"


def _difference(name: str, old: object, new: object) -> str:
    if name == "members" and isinstance(old, tuple) and isinstance(new, tuple):
        return f"members {_membership(old, new)}"
    return f"{name} {_value(name, old)} -> {_value(name, new)}"


def _membership(old: Iterable[str], new: Iterable[str]) -> str:
    """`+ada -bob`, and the effect of a list that becomes empty."""
    signs = [f"+{one}" for one in new if one not in set(old)] + [
        f"-{one}" for one in old if one not in set(new)
    ]
    return " ".join(signs) + ("" if new else " (open to all)")


def _value(name: str, value: object) -> str:
    if value in (None, ""):
        return "none"
    if isinstance(value, Quota):
        return gpus(value.total) if not value.typed else ",".join(f"{k}={gpus(n)}" for k, n in value.by_type)
    if name in IN_GPUS and isinstance(value, int):
        return gpus(value)
    return str(value)


def _short(token: Token) -> str:
    return token.digest[:SHOWN_DIGEST]


def _lifetime(token: Token) -> str:
    """Render the time that the token is valid in its two largest units: 90d, 1m 30s."""
    assert token.expires_at is not None
    return span(token.expires_at - token.created_at)
