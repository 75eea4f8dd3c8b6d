"""Notifications: choice, order, repeats, cursors, signatures, and nothing that a job's name can inject."""

import base64
import email
import email.policy
import hashlib
import hmac
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from grus.controlplane.notifications import signing
from grus.controlplane.notifications.cursor import Cursor, Position
from grus.controlplane.notifications.delivery_channel import Receiver
from grus.controlplane.notifications.mail import EmailSender, MailServer, compose
from grus.controlplane.notifications.messages import (
    Notification,
    Subscription,
    body_of,
    notification_of,
    one_line,
)
from grus.controlplane.notifications.receivers import Notifier
from grus.controlplane.notifications.sender import DeliveryFailed, Undeliverable
from grus.controlplane.notifications.webhook import WebhookSender
from grus.model.errors import NotAllowed, NotFound, StoreFailed
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import AccessRole, Event, User
from grus.model.jobs import Job
from grus.model.sweep_search import Trial
from grus.store.memory import MemoryStore
from tests.controlplane.mail_server import a_mail_server
from tests.controlplane.webhook_server import a_webhook_server
from tests.store.builders import a_job

KEY = b"0123456789abcdef-7q-the-key"
ADMIN = User(name=UserName("root"), role=AccessRole.ADMIN)


@dataclass
class Recorder:
    """A sender that keeps what it is given, and fails when the test says so."""

    name: str = "ops"
    channel: str = "webhook"
    target: str = "example.org"
    sent: list[Notification] = field(default_factory=list)
    error: Exception | None = None

    def send(self, message: Notification, now: float) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(message)

    def close(self) -> None:
        """Nothing to close."""

    @property
    def kinds(self) -> list[str]:
        return [message.kind for message in self.sent]


class Log:
    """A store to which a test writes events of jobs."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.at = 1000.0

    def job(self, **given: str) -> Job:
        job = a_job(**given)  # type: ignore[arg-type]  # texts
        return self.store.create(job, self._event(job, "submitted", "")).result()

    def write(self, job: Job, *kinds: str, text: str = "because") -> None:
        for kind in kinds:
            job = self.store.replace(job, self._event(job, kind, text)).result()

    def _event(self, job: Job, kind: str, text: str) -> Event:
        self.at += 1
        return Event(at=self.at, kind=kind, text=text, job=job.id)


@pytest.fixture
def log() -> Log:
    return Log()


def receiver(log: Log, folder: Path, sender: Recorder, **wants: object) -> Receiver:
    made = Receiver(sender, Subscription(**wants), log.store, folder / "ops.json")  # type: ignore[arg-type]
    made.open()
    return made


def test_a_receiver_gets_what_it_subscribed_to_in_the_order_of_the_log(log: Log, tmp_path: Path) -> None:
    sender = Recorder()
    one = receiver(log, tmp_path, sender)
    first, second = log.job(name="a"), log.job(name="b")
    log.write(first, "starting", "running", "idle", "paused")
    log.write(second, "failed")
    assert one.deliver()
    assert sender.kinds == ["idle", "paused", "failed"]
    assert [message.event for message in sender.sent] == ["idle", "pause", "failure"]
    assert [message.name for message in sender.sent] == ["a", "a", "b"]
    assert one.deliver()
    assert len(sender.sent) == 3, "nothing twice"


def test_queues_users_and_events_choose_and_single_trials_are_left_out(log: Log, tmp_path: Path) -> None:
    sender = Recorder()
    wants = {"queues": frozenset({"vision"}), "users": frozenset({"ada"}), "events": frozenset({"end"})}
    one = receiver(log, tmp_path, sender, **wants)
    for queue, user in (("vision", "ada"), ("speech", "ada"), ("vision", "bob")):
        log.write(log.job(queue=queue, user=user), "failed", "succeeded")
    assert one.deliver()
    assert [(message.queue, message.user, message.kind) for message in sender.sent] == [
        ("vision", "ada", "succeeded")
    ]
    job = a_job()
    trial = replace(job, spec=replace(job.spec, trial=Trial(JobId("jsweep"), 1)))
    message = notification_of(Event(at=1.0, kind="failed", text="", job=job.id, seq=9), trial)
    assert message is not None
    assert (message.sweep, message.id) == ("jsweep", "9-1000")
    assert not Subscription().wants(message)
    assert Subscription(trials=True).wants(message)


def test_a_failure_stops_at_the_message_and_the_next_try_sends_it_first(log: Log, tmp_path: Path) -> None:
    sender = Recorder()
    one = receiver(log, tmp_path, sender)
    log.write(log.job(), "paused", "succeeded")
    sender.error = DeliveryFailed("HTTP 503")
    assert not one.deliver()
    assert not one.deliver()
    assert (one.state.failures, one.state.error, sender.sent) == (2, "HTTP 503", [])
    since = one.state.failing_since
    assert since is not None
    sender.error = None
    assert one.deliver()
    assert sender.kinds == ["paused", "succeeded"]
    assert (one.state.failures, one.state.failing_since, one.state.delivered) == (0, None, 2)


def test_a_message_that_is_refused_for_good_does_not_hold_up_the_others(log: Log, tmp_path: Path) -> None:
    sender = Recorder(error=Undeliverable("550"))
    one = receiver(log, tmp_path, sender)
    log.write(log.job(), "paused")
    assert one.deliver()
    sender.error = None
    log.write(log.job(), "failed")
    assert one.deliver()
    assert (sender.kinds, one.state.undeliverable) == (["failed"], 1)


def test_another_server_continues_after_the_last_accepted_message(log: Log, tmp_path: Path) -> None:
    before = Recorder()
    one = receiver(log, tmp_path, before)
    job = log.job()
    log.write(job, "paused")
    assert one.deliver()
    after = Recorder()
    log.write(log.store.job(job.id), "failed")
    assert receiver(log, tmp_path, after).deliver()
    assert (before.kinds, after.kinds) == (["paused"], ["failed"])


def test_a_server_that_dies_before_the_cursor_lasts_sends_the_message_again(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Recorder()
    one = receiver(log, tmp_path, sender)
    log.write(log.job(), "paused", "failed")

    def dies(self: Cursor, position: Position) -> None:
        raise OSError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(Cursor, "save", dies)
        with pytest.raises(OSError, match="killed here"):
            one.deliver()
    assert receiver(log, tmp_path, sender).deliver()
    assert sender.kinds == ["paused", "paused", "failed"]
    assert sender.sent[0].id == sender.sent[1].id, "a receiver can drop the repeat"


def test_a_new_receiver_begins_with_what_is_new(log: Log, tmp_path: Path) -> None:
    log.write(log.job(), "failed")
    sender = Recorder()
    one = receiver(log, tmp_path, sender)
    log.write(log.job(), "paused")
    assert one.deliver()
    assert sender.kinds == ["paused"]


@pytest.mark.parametrize("events", [0, 30])
def test_a_restored_log_is_recognized_and_what_follows_is_sent(events: int, tmp_path: Path) -> None:
    old = Log()
    one = receiver(old, tmp_path, Recorder())
    old.write(old.job(), *["paused"] * 10)
    assert one.deliver()
    restored = Log()
    restored.at = 5000.0
    restored.write(restored.job(), *["paused"] * events)
    sender = Recorder()
    two = receiver(restored, tmp_path, sender)
    restored.write(restored.job(), "failed")
    assert two.deliver()
    assert sender.kinds == ["failed"]


def test_a_damaged_cursor_is_named(log: Log, tmp_path: Path) -> None:
    (tmp_path / "ops.json").write_text("{")
    with pytest.raises(StoreFailed, match=r"ops\.json"):
        receiver(log, tmp_path, Recorder())


def test_only_administrators_list_and_test_and_failing_receivers_are_a_warning(
    log: Log, tmp_path: Path
) -> None:
    sender = Recorder()
    notifier = Notifier(log.store, [(sender, Subscription())], tmp_path)
    notifier.open()
    for role in (AccessRole.MEMBER, AccessRole.VIEWER):
        with pytest.raises(NotAllowed):
            notifier.listed(User(name=UserName("ada"), role=role))
        with pytest.raises(NotAllowed):
            notifier.test(User(name=UserName("ada"), role=role))
    assert [tested.error for tested in notifier.test(ADMIN)] == [""]
    assert sender.kinds == ["test"]
    with pytest.raises(NotFound, match="known: ops"):
        notifier.test(ADMIN, "opps")
    sender.error = DeliveryFailed("HTTP 500")
    assert [tested.error for tested in notifier.test(ADMIN, "ops")] == ["HTTP 500"]
    (one,) = notifier.listed(ADMIN)
    log.write(log.job(), "failed")
    assert notifier.warnings() == ()
    one.deliver()
    one.deliver()
    (warning,) = notifier.warnings()
    assert "ops" in warning
    assert "HTTP 500" in warning


def test_a_receiver_that_was_removed_and_comes_back_is_new(log: Log, tmp_path: Path) -> None:
    Notifier(log.store, [(Recorder(), Subscription())], tmp_path).open()
    log.write(log.job(), "failed")
    Notifier(log.store, [], tmp_path).open()
    sender = Recorder()
    notifier = Notifier(log.store, [(sender, Subscription())], tmp_path)
    notifier.open()
    assert notifier.listed(ADMIN)[0].deliver()
    assert sender.sent == []


# --------------------------------------------------------------------------------------------- webhooks


def a_message(**given: str) -> Notification:
    values = {"id": "7-1000", "event": "failure", "kind": "failed", "text": "exit code 1", **given}
    return Notification(at=1.0, job="j1", user="ada", queue="vision", **{"name": "resnet", **values})  # type: ignore[arg-type]


def test_a_webhook_is_signed_over_id_time_and_body() -> None:
    with a_webhook_server() as hook:
        sender = WebhookSender("ops", hook.url, KEY)
        sender.send(a_message(), 1234.9)
        sender.send(a_message(), 99999.0)
        sender.close()
    (_, headers, body), (_, later, same) = hook.requests
    assert json.loads(body)["job"]["name"] == "resnet"
    assert body == same, "a repeat has the same bytes"
    signed = f"7-1000.1234.{body.decode()}".encode()
    digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("7-1000", "1234")
    assert later["webhook-timestamp"] == "99999", "the time of this sending, so that old ones can be refused"
    assert later["webhook-signature"] != headers["webhook-signature"]


def test_the_published_example_of_standard_webhooks_has_our_signature() -> None:
    key = signing.key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    found = signing.signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["short", "whsec_????", "whsec_c2hvcnQ="])
def test_a_weak_or_malformed_secret_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(ValueError, match=r"must") as caught:
        signing.key_of(secret)
    assert secret.removeprefix("whsec_") not in str(caught.value)


def test_redirects_are_not_followed_and_other_answers_than_2xx_fail() -> None:
    with a_webhook_server() as hook, a_webhook_server() as other:
        sender = WebhookSender("ops", hook.url, KEY)
        hook.status, hook.headers = 302, {"location": other.url}
        with pytest.raises(DeliveryFailed, match="HTTP 302; redirects are not followed"):
            sender.send(a_message(), 1.0)
        hook.status = 500
        with pytest.raises(DeliveryFailed, match=r"HTTP 500$"):
            sender.send(a_message(), 1.0)
        sender.close()
    assert other.requests == []


def test_no_more_than_the_beginning_of_an_answer_is_read() -> None:
    with a_webhook_server() as hook:
        hook.status, hook.answer = 200, b"x" * 200_000
        hook.headers = {"content-length": str(1 << 40)}
        sender = WebhookSender("ops", hook.url, KEY)
        sender.send(a_message(), 1.0)
        sender.close()
    assert len(hook.requests) == 1


def test_an_error_names_neither_the_path_nor_the_key() -> None:
    with a_webhook_server() as hook:
        url = hook.url
    sender = WebhookSender("ops", url, KEY)
    with pytest.raises(DeliveryFailed) as caught:
        sender.send(a_message(), 1.0)
    sender.close()
    assert "refused" in str(caught.value).lower()
    assert "7q" not in f"{caught.value}{sender.target}"


# ----------------------------------------------------------------------------------------------- e-mail

NASTY = "resnet\r\nBcc: eve@example.org\r\n\r\nHello\u2028\x00\u202ename"


def a_mail_sender(port: int, *to: str, **owners: str) -> EmailSender:
    server = MailServer(host="127.0.0.1", port=port, tls="none", sender="grus@example.org")
    return EmailSender("email", server, to, owners)


def test_a_mail_reaches_the_list_and_the_owner_once() -> None:
    with a_mail_server() as box:
        sender = a_mail_sender(box.port, "ops@example.org", ada="ada@example.org", bob="b@example.org")
        sender.send(a_message(), 1.0)
        sender.send(a_message(id="8-1"), 1.0)
    assert box.recipients == [["ops@example.org", "ada@example.org"]] * 2
    mail = email.message_from_bytes(box.mails[0], policy=email.policy.default)
    assert mail["Subject"] == "grus: job resnet failed"
    assert mail["Message-ID"] == "<grus-7-1000@example.org>"
    assert "exit code 1" in mail.get_content()


def test_a_name_or_reason_of_a_job_adds_neither_headers_nor_lines_nor_recipients() -> None:
    with a_mail_server() as box:
        message = a_message(name=NASTY, text=one_line(f"{NASTY}\n.\nQUIT", 2000))
        a_mail_sender(box.port, "ops@example.org").send(message, 1.0)
    assert box.recipients == [["ops@example.org"]]
    mail = email.message_from_bytes(box.mails[0], policy=email.policy.default)
    assert mail["Bcc"] is None
    assert mail["Subject"] == "grus: job resnet Bcc: eve@example.org Hello name failed"
    assert sum("eve@example.org" in line for line in mail.get_content().splitlines()) == 2
    assert json.loads(body_of(message))["job"]["name"] == NASTY


def test_what_is_refused_for_good_is_undeliverable_and_the_rest_is_tried_again() -> None:
    with a_mail_server() as box:
        sender = a_mail_sender(box.port, "ops@example.org")
        for refusal, kind in (
            ({"RCPT": "550 no such user"}, Undeliverable),
            ({"RCPT": "450 later"}, DeliveryFailed),
            ({"DATA": "554 spam"}, Undeliverable),
            ({"MAIL": "530 7q sign in first"}, DeliveryFailed),
        ):
            box.refusals = dict(refusal)
            with pytest.raises(kind) as caught:
                sender.send(a_message(), 1.0)
            assert "7q" not in str(caught.value), "a server may repeat what it was sent"
    with pytest.raises(DeliveryFailed):
        sender.send(a_message(), 1.0)


def test_a_mail_server_without_tls_is_refused_where_tls_is_wanted() -> None:
    with a_mail_server() as box:
        server = MailServer(host="127.0.0.1", port=box.port, sender="grus@example.org")
        with pytest.raises(DeliveryFailed):
            EmailSender("email", server, ("ops@example.org",)).send(a_message(), 1.0)
    assert box.mails == []


def test_a_mail_is_written_in_ascii_headers_whatever_the_name() -> None:
    mail = compose(a_message(name="réseau 模型"), "grus@example.org", ("a@example.org",), 1.0)
    head = mail.as_bytes().partition(b"\r\n\r\n")[0]
    assert head.isascii()
