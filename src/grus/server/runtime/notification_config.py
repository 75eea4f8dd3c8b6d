"""`[notifications]` of config.toml: webhooks and e-mail, and the senders made from it.

    [[notifications.webhook]]                       [notifications.email]
    name = "ops"                                    host = "mail.example.org"
    url = "https://hooks.example.org/grus"          sender = "grus@example.org"
    secret_file = "hook.secret"                     to = ["gpu-team@example.org"]
    events = ["failure", "hang"]                    owners = {ada = "ada@example.org"}

Secrets are read once at start. No message repeats one.
"""

from collections.abc import Iterator
from email.errors import HeaderParseError
from email.headerregistry import Address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import Strict
from grus.controlplane.notifications import signing
from grus.controlplane.notifications.mail import EmailSender, MailServer
from grus.controlplane.notifications.messages import Subscription
from grus.controlplane.notifications.sender import Sender
from grus.controlplane.notifications.webhook import WebhookSender
from grus.model.errors import BadInput, Mistake
from grus.sdk.bounded_read import read_text
from grus.telemetry.exporter_scrape import LOOPBACK

EMAIL = "email"
"""Name of the receiver that `[notifications.email]` makes."""
LARGEST_SECRET = 65536
PORTS = {"starttls": 587, "tls": 465, "none": 25}


def _address(text: str) -> str:
    try:
        address = Address(addr_spec=text)
    except (HeaderParseError, ValueError, IndexError):
        address = Address()
    if not address.username or not address.domain or not text.isascii() or not text.isprintable():
        raise ValueError("must be an e-mail address, such as gpu-team@example.org")
    return text


EmailAddress = Annotated[str, AfterValidator(_address)]


def _unjudged(value: Any) -> Any:
    return value


Secret = Annotated[str, f.judged(_unjudged), Field(repr=False)]
"""Validated by `channels`, whose messages do not repeat it."""
Names = tuple[str, ...]
EventName = Literal["end", "failure", "pause", "idle", "hang"]
"""The keys of `EVENTS`."""


class SubscriptionIn(Strict):
    """Fields that both channels have."""

    events: tuple[EventName, ...] = get_args(EventName)
    queues: Names = ()
    users: Names = ()
    trials: bool = False


class WebhookIn(SubscriptionIn):
    """`[[notifications.webhook]]`"""

    name: f.Name
    url: Secret
    """Validated likewise: the path of an address may be all that protects it."""
    secret: Secret = ""
    secret_file: str = ""


class EmailIn(SubscriptionIn):
    """`[notifications.email]`"""

    host: str
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    tls: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: Secret = ""
    password_file: str = ""
    sender: EmailAddress
    to: tuple[EmailAddress, ...] = ()
    owners: dict[str, EmailAddress] = Field(default_factory=dict)


class NotificationsIn(Strict):
    """`[notifications]`"""

    webhook: tuple[WebhookIn, ...] = ()
    email: EmailIn | None = None


Channel = tuple[Sender, Subscription]


def channels(config: NotificationsIn, folder: Path) -> tuple[Channel, ...]:
    """Make the senders, each with its subscription. Raises BadInput with all errors.

    Paths are relative to `folder`.
    """
    mistakes: list[Mistake] = []
    made: list[Channel] = []
    for number, hook in enumerate(config.webhook):
        place = f"notifications.webhook[{number}]"
        found = [*_url_mistakes(hook, place), *_name_mistakes(config, number, place)]
        try:
            key = signing.key_of(_secret("secret", hook.secret, hook.secret_file, folder))
        except ValueError as error:
            found.append(Mistake(f"{place}.secret", str(error)))
        mistakes += found
        if not found:
            made.append((WebhookSender(hook.name, hook.url, key), _subscription(hook)))
    if config.email is not None:
        try:
            made.append((_email(config.email, folder), _subscription(config.email)))
        except BadInput as error:
            mistakes += error.mistakes
    if mistakes:
        raise BadInput(mistakes)
    return tuple(made)


def secret_files(config: NotificationsIn, folder: Path) -> Iterator[Path]:
    """Files that jobs must not read."""
    named = [hook.secret_file for hook in config.webhook]
    named += [config.email.password_file] if config.email is not None else []
    return (folder / Path(name).expanduser() for name in named if name)


def _subscription(given: SubscriptionIn) -> Subscription:
    return Subscription(
        events=frozenset(given.events),
        queues=frozenset(given.queues),
        users=frozenset(given.users),
        trials=given.trials,
    )


def _url_mistakes(hook: WebhookIn, place: str) -> Iterator[Mistake]:
    try:
        parts = urlsplit(hook.url) if isinstance(hook.url, str) else urlsplit("")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not hook.url.isascii() or not hook.url.isprintable() or " " in hook.url:
        yield Mistake(f"{place}.url", "must be an address, such as https://hooks.example.org/grus")


def _name_mistakes(config: NotificationsIn, number: int, place: str) -> Iterator[Mistake]:
    name = config.webhook[number].name
    if name == EMAIL or name in {hook.name for hook in config.webhook[:number]}:
        yield Mistake(f"{place}.name", "must differ from the other receivers' names", name)


def _secret(field: str, value: object, file: str, folder: Path) -> str:
    """The secret itself. Raises ValueError, whose text does not hold it."""
    if not isinstance(value, str):
        raise ValueError("must be text")
    if bool(value) == bool(file):
        raise ValueError(f"give either {field} or {field}_file")
    if value:
        return value
    path = folder / Path(file).expanduser()
    try:
        return read_text(path, LARGEST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"cannot be read from {path}: {why}") from None


def _email(given: EmailIn, folder: Path) -> EmailSender:
    place = "notifications.email"
    mistakes, password = [], ""
    if given.username:
        try:
            password = _secret("password", given.password, given.password_file, folder)
        except ValueError as error:
            mistakes.append(Mistake(f"{place}.password", str(error)))
        if given.tls == "none" and given.host not in LOOPBACK:
            rule = 'must not be "none" with a username: the password would travel in the clear'
            mistakes.append(Mistake(f"{place}.tls", rule))
    if not given.to and not given.owners:
        mistakes.append(Mistake(f"{place}.to", "must name an address, or `owners` must"))
    if mistakes:
        raise BadInput(mistakes)
    server = MailServer(
        host=given.host,
        port=given.port or PORTS[given.tls],
        tls=given.tls,
        username=given.username,
        password=password,
        sender=given.sender,
    )
    return EmailSender(EMAIL, server, given.to, given.owners)
