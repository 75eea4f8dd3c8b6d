"""The verbs for queues, nodes, users and tokens."""

import json

import pytest

from grus.api.profile_wire import TagOut
from grus.api.wire_types.pool import QueueOut
from grus.api.wire_types.telemetry import FiguresOut, LostOut, TelemetryOut
from grus.model.errors import BadInput
from grus.model.identifiers import QueueName
from grus.model.queues import Queue, Quota, check_tree
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job


def test_queue_without_a_verb_lists_and_children_stand_under_their_parents(
    grus: Grus, client: FakeClient
) -> None:
    client.queue_list = [
        QueueOut(name="vision", parent="research", quota=4, effective_quota=4),
        QueueOut(name="research", quota=6, effective_quota=5),
    ]
    lines = grus("queue").stdout.splitlines()
    assert lines[1].startswith("research")
    assert "6 (now 5)" in lines[1]
    assert lines[2].startswith("  vision")


def test_queue_set_makes_a_queue(grus: Grus, client: FakeClient) -> None:
    words = "queue set vision --quota 4 --reserved 2 --weight 2 --limit 8 --parent research -o json"
    made = json.loads(grus(*words.split()).stdout)
    assert (made["quota"], made["reserved"], made["weight"], made["limit"]) == (4, 2, 2, 8)
    assert made["parent"] == "research"


def test_queue_set_leaves_what_is_not_given(grus: Grus, client: FakeClient) -> None:
    client.queue_list = [QueueOut(name="vision", quota=4, reserved=2, limit=8, members=("ada",))]
    made = json.loads(grus("queue", "set", "vision", "--weight", "3", "-o", "json").stdout)
    assert (made["quota"], made["reserved"], made["limit"], made["weight"]) == (4, 2, 8, 3)
    assert made["members"] == ["ada"]


def test_queue_set_removes_a_limit_by_none(grus: Grus, client: FakeClient) -> None:
    client.queue_list = [QueueOut(name="vision", quota=4, limit=8)]
    assert json.loads(grus("queue", "set", "vision", "--limit", "none", "-o", "json").stdout)["limit"] is None


def test_a_queues_idle_policy_is_written_with_equals_and_removed_by_none(
    grus: Grus, client: FakeClient
) -> None:
    words = "queue set vision --quota 4 --idle below=5%,for=45m,action=pause -o json"
    asked = {"below": "5%", "for": "45m", "action": "pause"}
    assert json.loads(grus(*words.split()).stdout)["idle"] == asked
    client.queue_list = [QueueOut(name="vision", quota=4, idle=asked)]
    assert json.loads(grus("queue", "set", "vision", "--weight", "3", "-o", "json").stdout)["idle"] == asked
    client.queue_list = [QueueOut(name="vision", quota=4, idle=asked)]
    assert json.loads(grus("queue", "set", "vision", "--idle", "none", "-o", "json").stdout)["idle"] is None
    assert grus("queue", "set", "vision", "--idle", "soon").exit_code == 2
    assert grus("queue", "set", "vision", "--idle", "for=soon").exit_code == 2


def test_a_quota_by_type_is_written_with_equals(grus: Grus) -> None:
    assert (
        json.loads(grus("queue", "set", "v", "--quota", "A100=4,any=8", "-o", "json").stdout)["quota"] == 12
    )


def test_mistakes_of_a_queue_are_told_and_nothing_is_sent(grus: Grus, client: FakeClient) -> None:
    result = grus("queue", "set", "vision", "--quota", "4", "--reserved", "5", "--limit", "2")
    assert result.exit_code == 2
    assert "reserved: must be at most the quota" in result.stderr
    assert "limit: must be at least the quota" in result.stderr
    assert not [ask for ask in client.asked if ask[0] == "put_queue"]
    assert grus("queue", "set", "vision", "--quota", "many").exit_code == 2


@pytest.mark.parametrize("option", ["--quota", "--reserved", "--limit", "--weight"])
def test_a_wrong_number_is_repeated_as_it_was_typed(grus: Grus, option: str) -> None:
    assert "(found -1)" in grus("queue", "set", "vision", option, "-1").stderr
    assert "(found -0.5)" in grus("queue", "set", "vision", option, "-0.5").stderr


def test_quotas_above_the_pool_name_the_option(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistakes = check_tree([Queue(name=QueueName("vision"), quota=Quota.of(4))], pool=0)

    def refuse(*_: object) -> QueueOut:
        raise BadInput(mistakes)

    monkeypatch.setattr(client, "put_queue", refuse)
    told = grus("queue", "set", "vision", "--quota", "4").stderr
    assert "lower them, or give --oversubscribe" in told


def test_a_change_of_a_queue_of_the_file_says_that_the_next_start_undoes_it(
    grus: Grus, client: FakeClient
) -> None:
    sentence = "config.toml defines robots and sets it again at the next start of the server"
    client.queue_list = [QueueOut(name="robots"), QueueOut(name="vision")]
    assert sentence not in grus("queue", "set", "robots", "--weight", "2").stderr
    assert sentence not in grus("queue", "delete", "robots").stderr
    client.configured = frozenset({"robots"})
    client.queue_list = [QueueOut(name="robots", configured=True), QueueOut(name="vision")]
    assert sentence in grus("queue", "set", "robots", "--weight", "2").stderr
    assert sentence in grus("queue", "add-member", "robots", "ada").stderr
    assert sentence in grus("queue", "delete", "robots").stderr
    assert "config.toml" not in grus("queue", "delete", "vision").stderr
    assert "Defined in" in grus("queue", "show", "robots").stdout


def test_nodes_shows_each_gpu(grus: Grus) -> None:
    assert grus("nodes").stdout.count("GPU-") == 4


def test_a_node_that_is_not_there_is_not_found_with_the_ones_that_are(grus: Grus) -> None:
    result = grus("cordon", "node-9")
    assert result.exit_code == 4
    assert "node-0" in result.stderr


def test_top_prints_one_snapshot_when_not_on_a_terminal(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    text = grus("top").stdout
    assert "node-0" in text
    assert "resnet" in text
    parts = {"nodes", "queues", "jobs", "usage", "telemetry"}
    assert set(json.loads(grus("top", "-o", "json").stdout)) == parts


def test_top_shows_what_gpus_and_jobs_do_and_what_was_recognised(grus: Grus, client: FakeClient) -> None:
    at = "2026-11-15T12:00:00.000Z"
    tag = TagOut(kind="training", at=at, expires=at, period=12.5, stage="evaluation")
    client.known = [a_job("j0000000001", tag=tag), a_job("j0000000002", name="quiet")]
    gpu = {"utilisation": 0.83, "memory": 4e9, "power": 211.4, "temperature": 61.0}
    worker = {"utilisation": 0.5, "memory": 2e9, "cpu": 1.25}
    client.measured = TelemetryOut(
        at=at,
        every=1.0,
        shortest_period=2.0,
        figures=[
            FiguresOut(node="node-0", gpu="GPU-0", at=at, values=gpu),
            FiguresOut(node="node-0", gpu="GPU-1", instance="3", at=at, values={"active": 0.4}),
            FiguresOut(node="node-0", job="j0000000001", worker="w", at=at, values=worker),
        ],
        lost=[LostOut(what="GPU-3", why="fell off the bus", since=at)],
    )
    lines = grus("top", "--once").stdout.splitlines()
    [line] = [line for line in lines if line.startswith("GPU-0 ")]
    for word in ("83%", "4GB of 16GB", "211W", "61°C"):
        assert word in line
    assert [line.split()[1] for line in lines if line.startswith("GPU-1#3")] == ["40%"]
    assert [line.split()[1] for line in lines if line.startswith("GPU-2")] == ["–"]
    [line] = [line for line in lines if line.startswith("j0000000001")]
    for word in ("50%", "2GB", "1.2", "training", "12.5s", "evaluation"):
        assert word in line
    [line] = [line for line in lines if line.startswith("j0000000002")]
    assert line.count("–") == 6
    assert any("GPU-3 (fell off the bus)" in line for line in lines)


def test_a_new_token_prints_the_secret_alone(grus: Grus) -> None:
    assert grus("token", "new", "ada", "--label", "laptop").stdout == "s3cret\n"


def test_a_token_is_meant_by_the_beginning_of_its_digest(grus: Grus, client: FakeClient) -> None:
    assert grus("token", "delete", "3f9a").exit_code == 0
    assert client.asked[-1][0] == "delete_token"
    assert grus("token", "delete", "zzz").exit_code == 4


def test_users_are_listed_set_and_deleted(grus: Grus, client: FakeClient) -> None:
    assert "ada" in grus("user").stdout
    assert json.loads(grus("user", "set", "bob", "--role", "viewer", "-o", "json").stdout)["role"] == "viewer"
    assert grus("user", "set", "bob", "--role", "king").exit_code == 2
    assert grus("user", "delete", "bob").exit_code == 0
