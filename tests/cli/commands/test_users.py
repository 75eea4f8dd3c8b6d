"""The verbs for users, tokens, members of queues and the audit log."""

import json

from grus.api.wire_types.pool import DrainOut, QueueOut
from grus.api.wire_types.users import AuditOut, TokenOut, UserOut
from tests.cli.conftest import Grus
from tests.cli.fake import SUBMITTED, FakeClient


def test_user_set_changes_only_the_given_settings(grus: Grus, client: FakeClient) -> None:
    client.user_list = [UserOut(name="ada", role="admin", unix_user="ada", max_gpus=4)]
    made = json.loads(grus("user", "set", "ada", "--max-gpus", "2.5", "-o", "json").stdout)
    assert (made["role"], made["unix_user"], made["max_gpus"]) == ("admin", "ada", 2.5)
    words = (
        "user",
        "set",
        "ada",
        "--max-gpus",
        "none",
        "--unix-user",
        "none",
        "--role",
        "member",
        "-o",
        "json",
    )
    made = json.loads(grus(*words).stdout)
    assert (made["role"], made["unix_user"], made["max_gpus"]) == ("member", "", None)
    assert "4" in grus("user", "list").stdout.splitlines()[1].split()
    assert grus("user", "set", "ada", "--max-gpus", "few").exit_code == 2
    assert grus("user", "set", "ada", "--max-gpus", "-1").exit_code == 2


def test_user_set_counts_gpus_in_the_singular(grus: Grus, client: FakeClient) -> None:
    assert "Next: grus token new eve" in grus("user", "set", "eve").stdout
    assert "Next:" not in grus("user", "set", "ada").stdout
    assert "may hold 1 GPU at most" in grus("user", "set", "eve", "--max-gpus", "1").stdout
    assert "may hold 2 GPUs at most" in grus("user", "set", "eve", "--max-gpus", "2").stdout
    assert "(found -1)" in grus("user", "set", "eve", "--max-gpus", "-1").stderr


def test_user_set_names_the_unix_user_that_a_server_of_root_needs(grus: Grus, client: FakeClient) -> None:
    advice = "`grus user set nux --unix-user ACCOUNT`"
    assert advice not in grus("user", "set", "nux").stderr
    client.mechanisms = {"isolation": "Unix users: each job runs as the account of its submitter"}
    told = grus("user", "set", "nux").stderr
    assert f"Jobs of nux are refused until their Unix account is set: {advice}." in told
    assert advice not in grus("user", "set", "nux", "--unix-user", "nux").stderr
    assert advice not in grus("user", "set", "nux", "--role", "viewer").stderr


def test_user_delete_stops_jobs_only_when_asked(grus: Grus, client: FakeClient) -> None:
    grus("user", "delete", "ada")
    grus("user", "delete", "ada", "--stop-jobs")
    assert client.asked == [("delete_user", "ada", ""), ("delete_user", "ada", "stop")]


def test_token_list_shows_expired_tokens(grus: Grus, client: FakeClient) -> None:
    client.token_list = [
        TokenOut(digest="a" * 64, user="ada", created_at=SUBMITTED, expires_at=SUBMITTED, expired=True),
        TokenOut(digest="b" * 64, user="ada", created_at=SUBMITTED),
    ]
    lines = grus("token", "list").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["STATE", "expired", "valid"]


def test_members_are_replaced_removed_and_changed_one_by_one(grus: Grus, client: FakeClient) -> None:
    client.queue_list = [QueueOut(name="vision", quota=4, limit=8, parent="research", members=("ada",))]
    rules = "queue set vision --member none --limit none --parent none -o json"
    made = json.loads(grus(*rules.split()).stdout)
    assert (made["members"], made["limit"], made["parent"], made["quota"]) == ([], None, None, 4)
    client.queue_list = client.queue_list[:1]
    made = json.loads(
        grus("queue", "set", "vision", "--member", "bob", "--member", "eve", "-o", "json").stdout
    )
    assert made["members"] == ["bob", "eve"]
    assert grus("queue", "set", "vision", "--member", "none", "--member", "eve").exit_code == 2
    assert grus("queue", "add-member", "vision", "bob").stdout == "Members of vision: ada, bob.\n"
    assert grus("queue", "remove-member", "vision", "bob").stdout == "Members of vision: ada.\n"
    assert grus("queue", "add-member", "nobody", "bob").exit_code == 4


def test_quota_and_reserved_are_removed_by_none_as_well(grus: Grus, client: FakeClient) -> None:
    client.queue_list = [QueueOut(name="vision", quota=4, reserved=2)]
    words = "queue set vision --quota none --reserved none -o json"
    made = json.loads(grus(*words.split()).stdout)
    assert (made["quota"], made["reserved"]) == (0, 0)


def test_the_list_of_queues_shows_limits_and_members(grus: Grus, client: FakeClient) -> None:
    many = ("ada", "bob", "eve", "ian", "joe", "kim")
    client.queue_list = [
        QueueOut(name="research", quota=6, members=many),
        QueueOut(name="vision", quota=4, effective_quota=4, parent="research", limit=8),
        QueueOut(name="default", quota=2),
    ]
    head, first, second, third = grus("queue").stdout.splitlines()
    assert head.split()[1:3] == ["QUOTA", "LIMIT"]
    assert first.endswith("ada, bob, eve, ian and 2 more")
    assert second.split()[2] == "8"
    assert second.endswith("those of research")
    assert third.endswith("all")
    shown = grus("queue", "show", "research").stdout
    assert "ada, bob, eve, ian, joe, kim" in shown
    assert "Limit" in shown
    assert grus("queue", "show", "nobody").exit_code == 4


class ShrinkingDefault(FakeClient):
    """The default queue has what the queue `vision` leaves of eight GPUs."""

    def queues(self) -> list[QueueOut]:
        taken = sum(one.quota for one in self.queue_list if one.name == "vision")
        return [QueueOut(name="default", quota=8 - taken), *self.queue_list[1:]]


def test_the_effect_of_a_quota_on_the_default_queue_is_reported(grus: Grus, client: FakeClient) -> None:
    client.__class__ = ShrinkingDefault
    told = grus("queue", "set", "vision", "--quota", "6").stderr
    assert "Queue default now has quota 2 (before: 8)" in told
    assert "leave idle" not in told
    assert grus("queue", "set", "vision", "--weight", "2").stderr == ""
    client.queue_list = client.queue_list[:1]
    assert "leave idle" in grus("queue", "set", "vision", "--quota", "8").stderr


def test_audit_lists_the_newest_last(grus: Grus, client: FakeClient) -> None:
    client.audited = [
        AuditOut(seq=2, at=SUBMITTED, actor="root", action="user.delete", target="bob", text="gone"),
        AuditOut(seq=1, at=SUBMITTED, actor="root", action="user.set", target="bob", text="role member"),
    ]
    lines = grus("audit", "--actor", "root", "--limit", "7").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NUMBER", "1", "2"]
    assert client.asked == [("audit", "root", "", "None", "7")]
    assert [one["seq"] for one in json.loads(grus("audit", "-o", "json").stdout)] == [1, 2]
    assert grus("audit", "--limit", "1001").exit_code == 2


def test_drain_sends_the_message_and_nodes_shows_it(grus: Grus, client: FakeClient) -> None:
    assert "it is empty" in grus("drain", "node-0", "--message", "new disks").stdout
    assert client.asked == [("drain", "node-0", "new disks")]
    client.drained = DrainOut(message="new disks", by="root", at=SUBMITTED)
    shown = grus("nodes").stdout
    assert "draining" in shown
    assert shown.splitlines()[-1].endswith(": new disks")
    assert grus("drain", "node-9").exit_code == 4


def test_a_limit_of_one_gpu_is_singular(grus: Grus, client: FakeClient) -> None:
    client.user_list = [UserOut(name="ada", role="member", unix_user="", max_gpus=None)]
    assert "may hold 1 GPU at most" in grus("user", "set", "ada", "--max-gpus", "1").stdout


def test_drain_lists_the_jobs_that_leave_apart_from_those_that_stay(grus: Grus, client: FakeClient) -> None:
    client.drained = DrainOut(by="root", at=SUBMITTED, leave=("j2", "j1"), stay=("j3",))
    told = grus("drain", "node-0")
    assert told.stdout.splitlines() == [
        "node-0 takes no new work.",
        "leave: j1, j2",
        "run to their end: j3",
    ]
    assert "`grus nodes`" in told.stderr
    assert "`grus uncordon node-0`" in told.stderr
    answer = json.loads(grus("drain", "node-0", "-o", "json").stdout)
    assert (answer["leave"], answer["stay"], answer["jobs"]) == (["j1", "j2"], ["j3"], ["j1", "j2", "j3"])


def test_a_drain_message_stays_on_one_line(grus: Grus, client: FakeClient) -> None:
    client.drained = DrainOut(message="disks\nnode-1 is fine", by="root", at=SUBMITTED)
    [line] = [line for line in grus("nodes").stdout.splitlines() if "is drained by" in line]
    assert line.endswith("disks\\x0anode-1 is fine")
