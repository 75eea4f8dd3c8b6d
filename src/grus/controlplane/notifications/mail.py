"""E-mail: one message over SMTP, with TLS unless the administrator says otherwise.

User strings become header values only through `EmailMessage`, on one line; they never become addresses.
"""

import logging
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from grus import __version__
from grus.api.wire_types.timestamps import rfc3339
from grus.controlplane.notifications.messages import TEST, Notification, one_line, summary
from grus.controlplane.notifications.sender import DeliveryFailed, Undeliverable

log = logging.getLogger(__name__)

TIMEOUT = 15.0
"""Seconds for each answer of the mail server."""
PERMANENT = 500
"""Reply codes of SMTP from here on say that the same message will be refused again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Address of a mail server and the sender's account there."""

    host: str
    port: int
    tls: str = "starttls"
    """`starttls`, `tls` from the first byte on, or `none`."""
    username: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""


class EmailSender:
    """See `Sender`. Messages go to `to`, and to the owner of the job if `owners` has an address for them."""

    channel = "email"

    def __init__(
        self, name: str, server: MailServer, to: tuple[str, ...], owners: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.target = f"{server.host}:{server.port}"
        self._server = server
        self._to = to
        self._owners = dict(owners or {})

    def send(self, message: Notification, now: float) -> None:
        to = self._recipients(message)
        if not to:
            return
        mail = compose(message, self._server.sender, to, now)
        try:
            with self._connected() as smtp:
                refused = smtp.send_message(mail, self._server.sender, to)
        except smtplib.SMTPRecipientsRefused as error:
            codes = {code for code, _ in error.recipients.values()}
            kind = Undeliverable if min(codes) >= PERMANENT else DeliveryFailed
            raise kind(f"all recipients were refused with {_listed(codes)}") from None
        except smtplib.SMTPDataError as error:
            kind = Undeliverable if error.smtp_code >= PERMANENT else DeliveryFailed
            raise kind(f"the message was refused with {error.smtp_code}") from None
        except smtplib.SMTPResponseException as error:
            # Without its text: a server may repeat what it was sent.
            raise DeliveryFailed(f"{type(error).__name__} {error.smtp_code}") from None
        except (smtplib.SMTPException, ssl.SSLError) as error:
            raise DeliveryFailed(type(error).__name__) from None
        except OSError as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error.strerror or 'no answer'}") from None
        if refused:
            codes = {code for code, _ in refused.values()}
            log.warning("%d recipients of %s were refused with %s", len(refused), message.id, _listed(codes))

    def close(self) -> None:
        """Nothing stays open between two messages."""

    def _recipients(self, message: Notification) -> tuple[str, ...]:
        owner = self._owners.get(message.user)
        everybody = (*self._to, *([owner] if owner else []))
        if message.event == TEST and not everybody:
            everybody = (self._server.sender,)
        return tuple(dict.fromkeys(everybody))

    def _connected(self) -> smtplib.SMTP:
        server = self._server
        if server.tls == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=TIMEOUT, context=ssl.create_default_context()
            )
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)
        try:
            if server.tls == "starttls":
                smtp.starttls(context=ssl.create_default_context())
            if server.username:
                smtp.login(server.username, server.password)
        except BaseException:
            smtp.close()
            raise
        return smtp


def compose(message: Notification, sender: str, to: tuple[str, ...], now: float) -> EmailMessage:
    """The mail about a message; a repeat has the same Message-ID."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Subject"] = summary(message)
    mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    mail["Message-ID"] = f"<grus-{message.id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Mailer"] = f"grus/{__version__}"
    mail.set_content("\n".join(_lines(message)) + "\n")
    return mail


def _lines(message: Notification) -> list[str]:
    lines = [message.text, ""]
    if message.job:
        facts = {
            "job": f"{one_line(message.name, 200)} ({message.job})",
            "user": one_line(message.user, 80),
            "queue": one_line(message.queue, 80),
            "attempt": str(message.attempt),
            "time": rfc3339(message.at),
        }
        lines += [f"{name}: {value}" for name, value in facts.items()]
        lines += ["", f"More: grus why {message.job}, grus logs {message.job}"]
    return lines


def _listed(codes: set[int]) -> str:
    return ", ".join(str(code) for code in sorted(codes))
