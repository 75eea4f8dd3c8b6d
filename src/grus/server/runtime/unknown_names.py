"""Names in config.toml that no user or queue has: members of queues, users and queues of receivers.

They stop no start: a user may have been deleted since. The server logs them, and `grus doctor` shows them.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from grus.model.queues import DEFAULT_QUEUE
from grus.server.config import ServerSettings
from grus.server.runtime.notification_config import SubscriptionIn


def unknown_names(
    settings: ServerSettings, users: Collection[str], queues: Collection[str]
) -> tuple[str, ...]:
    """Return a sentence for each unknown name. `queues` are those of the store; the file's own count too."""
    known = {DEFAULT_QUEUE, *queues, *(name for name, _ in settings.queues)}
    found: list[str] = []
    for name, queue in settings.queues:
        found += _unknown(f"[queues.{name}] members", "user", queue.members, users)
    for place, receiver in _receivers(settings):
        found += _unknown(f"{place} users", "user", receiver.users, users)
        found += _unknown(f"{place} queues", "queue", receiver.queues, known)
    if (mail := settings.notifications.email) is not None:
        found += _unknown("[notifications.email] owners", "user", mail.owners, users)
    return tuple(found)


def _receivers(settings: ServerSettings) -> Iterator[tuple[str, SubscriptionIn]]:
    for hook in settings.notifications.webhook:
        yield f"[[notifications.webhook]] {hook.name}:", hook
    if settings.notifications.email is not None:
        yield "[notifications.email]", settings.notifications.email


def _unknown(place: str, kind: str, names: Collection[str], known: Collection[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            advice = f'did you mean "{near[0]}"?' if near else f"`grus {kind} set {name}` adds one"
            yield f'{place}: there is no {kind} "{name}"; {advice}'
