"""Messages about jobs, made from an event and its job, and the choice of who gets them. Pure."""

import json
import unicodedata
from dataclasses import dataclass

from grus.api.wire_types.timestamps import rfc3339
from grus.model.interfaces import Event
from grus.model.jobs import Job

EVENTS = {
    "end": frozenset({"succeeded", "stopped"}),
    "failure": frozenset({"failed"}),
    "pause": frozenset({"paused"}),
    "idle": frozenset({"idle"}),
    "hang": frozenset({"hung"}),
}
"""Names that an administrator subscribes to, each with its kinds in the event log."""
NAMES = {kind: name for name, kinds in EVENTS.items() for kind in kinds}
TEST = "test"
"""Event name of a test message; receivers cannot subscribe to it."""
LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message. A repeat has the same id."""

    id: str
    """The number of the event, and its time in milliseconds: a restored log may use a number again."""
    event: str
    """A name of `EVENTS`, or `TEST`."""
    kind: str
    """The kind of the event in the log."""
    at: float
    text: str
    job: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""
    type: str = ""
    attempt: int = 0
    sweep: str = ""
    """The sweep that the job is a trial of; empty for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The messages that one receiver gets; empty `queues` and `users` mean all of them."""

    events: frozenset[str] = frozenset(EVENTS)
    queues: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    trials: bool = False
    """Also about single trials of a sweep."""

    def wants(self, message: Notification) -> bool:
        return (
            message.event in self.events
            and (not self.queues or message.queue in self.queues)
            and (not self.users or message.user in self.users)
            and (self.trials or not message.sweep)
        )


def notification_of(event: Event, job: Job) -> Notification | None:
    """Return the message about an event; None for kinds without a subscription name."""
    name = NAMES.get(event.kind)
    if name is None:
        return None
    return Notification(
        id=f"{event.seq}-{round(event.at * 1000)}",
        event=name,
        kind=event.kind,
        at=event.at,
        text=one_line(event.text, LONGEST_TEXT),
        job=job.id,
        name=job.spec.name,
        user=job.user,
        queue=job.spec.queue,
        type=job.spec.type.value,
        attempt=event.attempt,
        sweep=job.spec.trial.sweep if job.spec.trial is not None else "",
    )


def probe_message(now: float, sequence: str) -> Notification:
    """A message that an administrator sends to see whether it arrives."""
    text = "a test of notifications, sent by an administrator; no job has changed"
    return Notification(id=f"{TEST}-{sequence}", event=TEST, kind=TEST, at=now, text=text)


def summary(message: Notification) -> str:
    """One line for people, such as `grus: job resnet failed`."""
    if message.event == TEST:
        return "grus: test message"
    verbs = {"idle": "is idle", "hung": "hangs", "paused": "is paused", "stopped": "was stopped"}
    verb = verbs.get(message.kind, message.kind)
    return f"grus: job {one_line(message.name or message.job, 80)} {verb}"


def body_of(message: Notification) -> bytes:
    """The JSON that a webhook receives; the same bytes for each repeat."""
    sent = {
        "id": message.id,
        "event": message.event,
        "kind": message.kind,
        "at": rfc3339(message.at),
        "text": f"{summary(message)}: {message.text}",
        "reason": message.text,
    }
    if message.job:
        sent["job"] = {  # type: ignore[assignment]  # a mapping among texts
            "id": message.job,
            "name": message.name,
            "user": message.user,
            "queue": message.queue,
            "type": message.type,
            "attempt": message.attempt,
            "sweep": message.sweep or None,
        }
    return json.dumps(sent, separators=(",", ":")).encode()


def one_line(text: str, most: int) -> str:
    """Text of others on one line, without control and direction characters, at most `most` characters."""
    spaced = (" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in text)
    words = " ".join("".join(spaced).split())
    return words if len(words) <= most else words[: most - 1] + "…"
