"""`grus --kubernetes`: the verbs of the command on objects of a cluster, with what the user may see."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from grus.cli import connection
from grus.cli.kubernetes.kubernetes_backend import KubernetesClient
from grus.cli.main import app
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, GPU_JOBS, GPU_QUEUES, NODES, PODS
from grus.kubernetes.names import ENDED, WAS
from grus.model.errors import NotAllowed
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Exit, ExitCause, Launch, Phase, Seat, Spec
from grus.model.resources import GPU, Range
from tests.cli.kubernetes.memory import TEAM, Memory, with_job, with_node, with_queue, with_worker
from tests.store.builders import a_spec

Grus = Callable[..., Result]


@pytest.fixture
def api() -> Memory:
    return Memory()


@pytest.fixture
def grus(api: Memory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Grus:
    namespace = [""]

    def client(**_: object) -> KubernetesClient:
        return KubernetesClient(api, namespace=namespace[0], pause=lambda _: None)  # type: ignore[arg-type]  # as far as it is asked

    monkeypatch.setattr(connection, "connect", client)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, everywhere: bool = False) -> Result:
        namespace[0] = "*" if everywhere else ""
        return CliRunner().invoke(app, list(words), prog_name="grus")

    return run


def seats(node: str, *numbers: int) -> tuple[Seat, ...]:
    return tuple(
        Seat("worker", index, NodeId(node), (DeviceId(f"{node}/{number}"),), GPU)
        for index, number in enumerate(numbers)
    )


# ---------------------------------------------------------------------------------------------------- look


def test_jobs_of_the_namespace_are_listed_and_of_all_when_asked(api: Memory, grus: Grus) -> None:
    with_job(api, "resnet", reason="waits for 2 GPUs")
    with_job(api, "bert", namespace="others")
    assert "waits for 2 GPUs" in grus("ps").stdout
    assert "bert" not in grus("ps").stdout
    assert "bert" in grus("ps", everywhere=True).stdout


def test_a_job_that_was_refused_or_not_looked_at_yet_is_shown_as_such(api: Memory, grus: Grus) -> None:
    for name, status in (("odd", {"phase": "refused", "reason": "queue: names no queue"}), ("new", {})):
        item = {"metadata": {"name": name, "namespace": TEAM}, "spec": {"run": "x"}, "status": status}
        api.put(GPU_JOBS, item)
    found = {job["name"]: job for job in json.loads(grus("ps", "-a", "-o", "json").stdout)}
    assert (found["odd"]["status"], found["odd"]["reason"]) == ("refused", "queue: names no queue")
    assert found["new"]["phase"] == "pending"
    assert "no controller has looked at it" in found["new"]["reason"]
    assert "names no queue" in grus("why", "odd").stdout


def test_why_says_who_holds_what_it_waits_for(api: Memory, grus: Grus) -> None:
    with_node(api, "node-1", 1)
    with_queue(api, "vision", quota=1)
    with_job(api, "first", phase=Phase.RUNNING, attempt=1, seats=seats("node-1", 0), started_at=1000.0)
    with_job(api, "second")
    said = grus("why", "second").stdout
    assert "held by: first" in said


def test_who_may_not_see_the_cluster_is_told_what_the_controller_wrote(api: Memory, grus: Grus) -> None:
    with_job(api, "second", reason="waits for 1 GPU of vision")
    with_queue(api, "vision", quota=1)
    api.secret = {PODS, NODES, GPU_JOBS}
    assert grus("why", "second").stdout == "waits for 1 GPU of vision\n"
    assert "vision" in grus("queue", "list").stdout
    refused = grus("nodes")
    assert (refused.exit_code, "cannot list pods" in refused.stderr) == (5, True)


def test_nodes_and_queues_show_who_holds_what(api: Memory, grus: Grus) -> None:
    with_node(api, "node-1", 2)
    with_queue(api, "vision", quota=1)
    with_job(api, "first", phase=Phase.RUNNING, attempt=1, seats=seats("node-1", 1), started_at=1000.0)
    (node,) = json.loads(grus("nodes", "-o", "json").stdout)
    assert [gpu["free"] for gpu in node["gpus"]] == [1, 0]
    queues = {one["name"]: one for one in json.loads(grus("queue", "list", "-o", "json").stdout)}
    assert (queues["vision"]["quota"], queues["vision"]["held"], queues["default"]["quota"]) == (1, 1, 1)


def test_everything_about_a_job_is_told(api: Memory, grus: Grus) -> None:
    job = with_job(api, phase=Phase.RUNNING, attempt=1, seats=seats("node-1", 0, 1), started_at=1000.0)
    for index in (1, 0):
        with_worker(api, job, f"1.worker.{index}.1")
    told = json.loads(grus("describe", "resnet", "-o", "json").stdout)
    assert [worker["number"] for worker in told["workers"]] == [0, 1]
    assert [event["text"] for event in told["events"]] == ["resnet was submitted"]


# ---------------------------------------------------------------------------------------------------- logs


def test_logs_are_those_of_the_pods_of_all_attempts_by_number(api: Memory, grus: Grus) -> None:
    job = with_job(api, phase=Phase.RUNNING, attempt=2, seats=seats("node-1", 0, 1), started_at=1000.0)
    with_worker(api, job, "1.worker.0.1", b"old\n", "Failed")
    with_worker(api, job, "2.worker.1.1", b"second\n")
    with_worker(api, job, "2.worker.0.1", b"first\n")
    with_worker(api, job, "2.setup.0.0", b"prepared\n", "Succeeded")
    assert grus("logs", "resnet").stdout == "old\nprepared\nfirst\n"
    assert grus("logs", "resnet", "--attempt", "2").stdout == "prepared\nfirst\n"
    assert grus("logs", "resnet", "--attempt", "1").stdout == "old\n"
    assert grus("logs", "resnet", "--worker", "1").stdout == "second\n"
    assert grus("logs", "resnet", "--tail", "1").stdout == "first\n"
    assert grus("logs", "resnet", "--worker", "2").exit_code == 4


def test_logs_are_followed_to_the_end_of_the_job(api: Memory, grus: Grus) -> None:
    end = Exit(ExitCause.DONE, 0)
    job = with_job(api, phase=Phase.SUCCEEDED, attempt=1, ended_at=1010.0, exit=end)
    with_worker(api, job, "1.worker.0.1", b"a\nb\n", "Succeeded")
    assert grus("logs", "-f", "resnet").stdout == "a\nb\n"


def test_the_log_of_an_ended_job_is_read_from_the_pod_that_was_left_for_it(api: Memory, grus: Grus) -> None:
    job = with_job(api, phase=Phase.SUCCEEDED, attempt=1, ended_at=1010.0)
    with_worker(api, job, "1.worker.0.1", b"done\n", "Succeeded")
    (pod,) = api.list(PODS)[0]
    pod["metadata"] |= {"labels": {ENDED: job.id}, "annotations": {WAS: f"{job.id}.1.worker.0.1"}}
    api.put(PODS, pod)
    assert grus("logs", "resnet").stdout == "done\n"


def test_logs_whose_pods_are_gone_are_said_to_be(api: Memory, grus: Grus) -> None:
    with_job(api, phase=Phase.SUCCEEDED, attempt=1, ended_at=1010.0)
    gone = grus("logs", "resnet")
    assert gone.exit_code == 4
    assert "port-forward" in gone.stderr


# --------------------------------------------------------------------------------------------------- wishes


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        (("pause", "resnet"), {"paused": True}),
        (("resume", "resnet"), {"paused": False}),
        (("scale", "resnet", "3"), {"replicas": 3}),
        (("scale", "resnet", "auto"), {"replicas": None}),
    ],
)
def test_wishes_are_changes_of_the_objects_spec(
    api: Memory, grus: Grus, words: tuple[str, ...], spec: dict[str, Any]
) -> None:
    with_job(api, spec=elastic("resnet"))
    assert grus(*words).exit_code == 0
    found = api.objects[GPU_JOBS, TEAM, "resnet"]["spec"]
    assert {name: found[name] for name in spec} == spec


def elastic(name: str) -> Spec:
    spec = a_spec(name, "vision")
    roles = tuple(replace(role, replicas=Range(1, 4)) for role in spec.request.roles)
    return replace(spec, launch=Launch.PER_GPU, request=replace(spec.request, roles=roles))


@pytest.mark.parametrize(
    ("words", "phase", "why"),
    [
        (("scale", "resnet", "2"), Phase.RUNNING, "has a fixed size; only a job that asks for a range"),
        (("pause", "resnet"), Phase.SUCCEEDED, "has already succeeded"),
        (("resume", "resnet"), Phase.FAILED, "has already failed"),
    ],
)
def test_a_wish_that_no_controller_would_carry_out_is_refused_and_writes_nothing(
    api: Memory, grus: Grus, words: tuple[str, ...], phase: Phase, why: str
) -> None:
    with_job(api, phase=phase)
    before = dict(api.objects[GPU_JOBS, TEAM, "resnet"]["spec"])
    refused = grus(*words)
    assert refused.exit_code == 1
    assert why in refused.stderr
    assert "size 2" not in refused.stdout
    assert api.objects[GPU_JOBS, TEAM, "resnet"]["spec"] == before


@pytest.mark.parametrize(
    ("gpu", "size", "why"),
    [(1, "2", "has a fixed size"), ("1..4", "9", "must lie within 1..4"), ("1..4", "2", "")],
)
def test_a_size_of_a_job_that_no_controller_has_seen_is_checked_too(
    api: Memory, grus: Grus, gpu: int | str, size: str, why: str
) -> None:
    spec = {"run": "x", "after": ["other"], "resources": {"gpu": gpu}}
    api.put(GPU_JOBS, {"metadata": {"name": "fresh", "namespace": TEAM}, "spec": spec})
    asked = grus("scale", "fresh", size)
    assert (asked.exit_code == 0) == (not why)
    assert why in asked.stderr
    assert ("size" in asked.stdout) == (not why)


def test_a_size_outside_the_range_is_refused(api: Memory, grus: Grus) -> None:
    with_job(api, spec=elastic("resnet"))
    refused = grus("scale", "resnet", "9")
    assert refused.exit_code == 2
    assert "must lie within 1..4" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("user", "list"),
        ("user", "set", "ada"),
        ("user", "delete", "ada"),
        ("token", "list"),
        ("token", "new", "ada"),
        ("token", "delete", "3f9a"),
        ("dashboard",),
    ],
    ids=" ".join,
)
def test_a_command_that_needs_a_server_says_so_and_how_to_reach_one(
    api: Memory, grus: Grus, words: tuple[str, ...]
) -> None:
    with_job(api)
    refused = grus(*words)
    assert refused.exit_code == 5, refused.output
    assert "needs a Grus server" in refused.stderr
    assert "port-forward svc/grus" in refused.stderr


def test_every_other_question_to_a_server_is_refused_too(api: Memory) -> None:
    client = KubernetesClient(api, pause=lambda _: None)  # type: ignore[arg-type]  # as far as it is asked
    for ask in (client.session, client.sweep, client.best, client.curves, lambda job: client.diff(job, job)):
        with pytest.raises(NotAllowed, match="needs a Grus server"):
            ask("resnet")


def test_why_of_a_job_that_comes_after_another_names_it(api: Memory, grus: Grus) -> None:
    with_node(api, "node-1", 4)
    with_queue(api, "vision", quota=4)
    first = with_job(api, "prepare", phase=Phase.RUNNING, attempt=1, seats=seats("node-1", 0))
    with_job(api, "train", spec=replace(a_spec("train", "vision"), after=(first.id,)))
    said = json.loads(grus("why", "train", "-o", "json").stdout)
    assert said["code"] == "after"
    assert f"waits for prepare ({first.id}) to succeed" in said["sentence"]


def test_a_range_cannot_be_asked_for_and_is_said_so(api: Memory, grus: Grus) -> None:
    with_job(api)
    assert grus("scale", "resnet", "2..4").exit_code == 2


def test_stop_deletes_the_object_and_waits_until_it_is_gone(api: Memory, grus: Grus) -> None:
    with_job(api)
    done = grus("stop", "resnet", "--wait", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["phase"] == "stopped"
    assert (GPU_JOBS, TEAM, "resnet") not in api.objects


def test_queues_and_nodes_are_changed_by_those_who_may(api: Memory, grus: Grus) -> None:
    with_node(api, "node-1", 4)
    assert grus("queue", "set", "vision", "--quota", "2").exit_code == 0
    assert grus("queue", "set", "vision", "--limit", "4").exit_code == 0
    assert (
        api.objects[GPU_QUEUES, "", "vision"]["spec"] | {"quota": 2, "limit": 4}
        == (api.objects[GPU_QUEUES, "", "vision"]["spec"])
    )
    assert grus("cordon", "node-1").exit_code == 0
    assert api.objects[NODES, "", "node-1"]["spec"] == {"unschedulable": True}


# --------------------------------------------------------------------------------------------------- submit


def job_file(folder: Path, text: str = "name: resnet\nrun: python train.py\nresources: {gpu: 2}\n") -> str:
    (folder / "train.py").write_text("print(1)\n")
    (folder / "job.yaml").write_text(text)
    return str(folder / "job.yaml")


def admitted(item: dict[str, Any]) -> None:
    item["status"] = {"phase": "pending", "reason": "waits"}


def test_a_job_file_becomes_an_object_with_the_code_of_its_folder(
    api: Memory, grus: Grus, tmp_path: Path
) -> None:
    api.on_create = lambda item: admitted(item) if "spec" in item else None
    done = grus("submit", job_file(tmp_path))
    assert done.exit_code == 0, done.stderr
    spec = api.objects[GPU_JOBS, TEAM, "resnet"]["spec"]
    assert spec["resources"] == {"gpu": 2}
    assert spec["workdir"].startswith("bundle:")
    (code,) = [item for (kind, _, _), item in api.objects.items() if kind == CONFIG_MAPS]
    owner = code["metadata"]["ownerReferences"][0]
    assert owner["uid"] == api.objects[GPU_JOBS, TEAM, "resnet"]["metadata"]["uid"]


def test_code_that_goes_with_another_job_at_that_moment_is_sent_again(
    api: Memory, grus: Grus, tmp_path: Path
) -> None:
    def made(item: dict[str, Any]) -> None:
        if "spec" in item:
            admitted(item)
            api.objects = {key: one for key, one in api.objects.items() if key[0] != CONFIG_MAPS}

    api.on_create = made
    assert grus("submit", job_file(tmp_path)).exit_code == 0
    (code,) = [item for (kind, _, _), item in api.objects.items() if kind == CONFIG_MAPS]
    owner = code["metadata"]["ownerReferences"][0]
    assert owner["uid"] == api.objects[GPU_JOBS, TEAM, "resnet"]["metadata"]["uid"]


def test_without_code_the_image_has_it(
    api: Memory, grus: Grus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        connection,
        "connect",
        lambda **_: KubernetesClient(api, code=False, pause=lambda _: None),  # type: ignore[arg-type]  # as far as it is asked
    )
    api.on_create = admitted
    assert grus("submit", job_file(tmp_path)).exit_code == 0
    assert "workdir" not in api.objects[GPU_JOBS, TEAM, "resnet"]["spec"]
    assert not [kind for kind, _, _ in api.objects if kind == CONFIG_MAPS]


def test_a_name_that_is_taken_gets_a_tail_and_a_key_finds_the_first(
    api: Memory, grus: Grus, tmp_path: Path
) -> None:
    api.on_create = lambda item: admitted(item) if "spec" in item else None
    file = job_file(tmp_path)
    for words in ((), (), ("--key", "nightly"), ("--key", "nightly")):
        assert grus("submit", file, *words).exit_code == 0
    names = sorted(name for kind, _, name in api.objects if kind == GPU_JOBS)
    assert len(names) == 3
    assert names[0] == "resnet"
    assert all(name.startswith("resnet") for name in names)


def test_what_the_controller_refuses_is_taken_away_and_told(api: Memory, grus: Grus, tmp_path: Path) -> None:
    def refuse(item: dict[str, Any]) -> None:
        if "spec" in item:
            item["status"] = {"phase": "refused", "reason": "queue: names no queue"}

    api.on_create = refuse
    refused = grus("submit", job_file(tmp_path))
    assert refused.exit_code == 2
    assert "names no queue" in refused.stderr
    assert not [kind for kind, _, _ in api.objects if kind == GPU_JOBS]


def test_what_needs_a_server_says_how_to_reach_it(grus: Grus, tmp_path: Path) -> None:
    for words in (("status",), ("submit", job_file(tmp_path), "--plan")):
        refused = grus(*words)
        assert refused.exit_code == 5
        assert "port-forward" in refused.stderr


def test_the_flag_leads_to_the_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GRUS_KUBERNETES", "GRUS_NAMESPACE"):
        monkeypatch.setenv(name, "")  # whatever the command sets is taken back afterwards
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    refused = CliRunner().invoke(app, ["--kubernetes", "--namespace", "x", "ps"], prog_name="grus")
    assert refused.exit_code == 6
    assert "there is no file" in refused.stderr
