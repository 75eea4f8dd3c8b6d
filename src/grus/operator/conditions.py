"""Conditions of an object's status, as Kubernetes writes them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grus.api.wire_types.timestamps import rfc3339

LONGEST = 30_000
"""Characters of a message: an API server takes 32768."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition that is true or not, with a word for machines and sentences for people."""

    type: str
    true: bool
    reason: str
    message: str = ""


def with_conditions(
    known: Iterable[Mapping[str, Any]], changed: Iterable[Condition], now: float
) -> list[dict[str, Any]]:
    """The list with these in place of those of their types; one that stays as it was keeps its time."""
    found = {str(one.get("type")): dict(one) for one in known}
    for condition in changed:
        before = found.get(condition.type, {})
        status = "True" if condition.true else "False"
        same = before.get("status") == status and "lastTransitionTime" in before
        found[condition.type] = {
            "type": condition.type,
            "status": status,
            "reason": condition.reason,
            # Never empty: an API server of 1.20 drops an empty text in a patch, and then refuses the patch.
            "message": condition.message[:LONGEST] or condition.reason,
            "lastTransitionTime": before["lastTransitionTime"] if same else rfc3339(now),
        }
    return list(found.values())


def without(known: Iterable[Mapping[str, Any]], type_: str) -> list[dict[str, Any]]:
    return [dict(one) for one in known if one.get("type") != type_]


def message_of(known: Iterable[Mapping[str, Any]], type_: str) -> str:
    """Return the message of the condition of this type; "" if there is none."""
    return next((str(one.get("message", "")) for one in known if one.get("type") == type_), "")
