"""Notifications through the whole product: nothing is lost when server and receiver are killed."""

from pathlib import Path

from tests.cli.real import RealGrus
from tests.controlplane.mail_server import a_mail_server
from tests.controlplane.webhook_server import a_webhook_server
from tests.server.process import eventually
from tests.trust.notifications import SECRET, Plan, show


def test_every_event_arrives_in_order_and_signed_though_server_and_receiver_are_killed(
    tmp_path: Path,
) -> None:
    found = show(Plan(jobs=4, rounds=6, real=4, kills=1), tmp_path)
    assert found["events"] >= 30
    assert (found["arrived"], found["missing"], found["unexpected"]) == (found["events"], 0, 0)
    assert (found["out_of_order"], found["bad_signatures"]) == (0, 0)
    assert (found["server_kills"], found["receiver_kills"]) == (1, 2)
    assert found["repeats"] >= 1, "the receiver died between its record and its answer"


def test_the_commands_test_a_receiver_and_show_one_that_fails(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    with a_webhook_server() as hook, a_mail_server() as box:
        hook.status = 500
        grus.home.mkdir(exist_ok=True)
        (grus.home / "hook.secret").write_text(SECRET)
        (grus.home / "config.toml").write_text(
            f'[[notifications.webhook]]\nname = "ops"\nurl = "{hook.url}"\nsecret_file = "hook.secret"\n'
            f'[notifications.email]\nhost = "127.0.0.1"\nport = {box.port}\ntls = "none"\n'
            'sender = "grus@example.org"\nto = ["ops@example.org"]\nevents = ["failure"]\n'
        )
        grus.up("--virtual", "1x1x1GB", "--port", "0")
        try:
            assert "failed: HTTP 500" in grus("notifications", "test", code=1).stdout
            grus("run", "--gpu", "0", "--", "false", code=1)
            eventually(lambda: "warning: notifications to ops" in grus("status").stdout, "status warns")
            assert "HTTP 500" in grus("notifications").stdout
            assert "ops has failed" in grus("doctor", code=None).stdout.replace("\n", " ")
            hook.status = 204
            assert "delivered" in grus("notifications", "test", "ops").stdout
            eventually(lambda: "warning: notifications" not in grus("status").stdout, "it is accepted again")
            eventually(lambda: any(b"Subject: grus: job false failed" in mail for mail in box.mails), "mail")
            said = (grus.home / "state" / "server.log").read_text()
            assert "notifications to ops fail" in said
            for secret in (SECRET, "path-7q"):
                assert secret not in said + grus("notifications", "list", "-o", "json").stdout
        finally:
            grus.down()
