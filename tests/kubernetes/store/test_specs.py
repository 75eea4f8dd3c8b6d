"""Specs and queues as people would have written them, and back."""

from dataclasses import replace
from typing import Any

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import read
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import Idle, Job, Sizing
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU
from grus.store.kubernetes.job_manifest import written
from grus.store.kubernetes.job_status_codec import new_object
from grus.store.kubernetes.queues import form, queue_of
from tests.store.builders import a_full_job

JOBS: list[dict[str, Any]] = [
    {"run": "python train.py"},
    {"run": ["python", "train.py", "--fast"], "resources": {"gpu": 0}},
    {"run": "x", "resources": {"gpu": "A100|H100:2..8", "sizes": [2, 4, 8], "cpu": 2.5, "memory": "32GB"}},
    {"run": "x", "resources": {"gpu": 0.5}, "type": "dev", "priority": 125},
    {"run": "x", "resources": {"gpu": "A100:12GiB", "memory": "1GiB", "cpu": 1}},
    {"run": "x", "resources": {"gpu": 8}, "launch": "per-node", "resize": "restart"},
    {"run": "x", "resources": {"gpu": "auto"}},
    {
        "run": "x",
        "resources": {
            "gpu": "A100:auto",
            "ways": [{"memory": "3GB"}, {"gpus": 2, "how": "split", "speed": 0.5}],
        },
    },
    {
        "roles": {
            "launcher": {"run": ["mpirun"], "resources": {"gpu": 0, "cpu": 1}},
            "worker": {
                "run": "sleep 1",
                "image": "worker:2",
                "replicas": "2..8",
                "resources": {"gpu": 2, "memory": "3GB", "sizes": [2, 8]},
            },
        }
    },
    {
        "run": "x",
        "image": "train:1",
        "pod": {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
        "setup": ["pip install ."],
        "checkpoint": {"path": "ckpt", "grace": 0.5, "every": "10m"},
        "idle": {"below": "5%", "for": "10m", "action": "pause"},
        "max_runtime": "3d",
        "retries": 3,
        "after": ["j0123456789"],
        "env": {"A": "1", "B": ""},
        "workdir": "/data/code",
        "snapshot": True,
        "data": ["sets/one", "imagenet", "s3://bucket/x"],
        "node_selector": {"zone": "a"},
        "affinity": {"prefer": {"disk": "fast"}, "avoid_nodes": ["n9"]},
    },
]


@pytest.mark.parametrize("given", JOBS)
def test_a_spec_written_out_and_read_again_is_the_same(given: dict[str, Any]) -> None:
    spec = to_spec(read(JobIn, {"name": "resnet", "queue": "vision", **given}))
    assert to_spec(read(JobIn, {"name": "resnet", **written(spec)})) == spec


def test_the_object_of_a_job_says_what_was_asked_for_and_not_what_became_of_it() -> None:
    spec = to_spec(read(JobIn, {"run": "x", "resources": {"gpu": "2GB"}}))
    larger = to_spec(read(JobIn, {"run": "x", "resources": {"gpu": "3GB"}})).request
    job = Job(
        id=JobId("j1"),
        spec=replace(spec, request=larger),
        user=UserName("ann"),
        submitted_at=0.0,
        sizing=Sizing(asked=spec.request),
    )
    assert new_object(job, namespace="team", now=0.0)["spec"]["resources"] == {"gpu": "2GB"}


def test_a_spec_that_no_file_could_say_is_written_as_well_as_it_can_be() -> None:
    assert set(written(a_full_job().spec)["roles"]) == {"launcher", "worker"}


QUEUES = [
    Queue(name=QueueName("vision")),
    Queue(name=QueueName("vision"), quota=Quota.of(0)),
    Queue(name=QueueName("vision"), quota=Quota.of(2.5), reserved=GPU // 2, limit=3 * GPU, weight=0.5),
    Queue(
        name=QueueName("vision"),
        parent=QueueName("all"),
        quota=Quota.of({"A100": 4, "any": 2}),
        nodes=("n1",),
        members=(UserName("ada"),),
        max_priority=50,
        max_runtime=90.5,
        idle=Idle(below=0.05, seconds=90.5, action="pause"),
        oversubscribe=True,
    ),
]


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_written_out_and_read_again_is_the_same(queue: Queue) -> None:
    item = {
        "metadata": {"name": queue.name},
        "spec": {**form(queue), "namespaces": {"names": ["team-a"]}},
    }
    assert queue_of(item) == queue
