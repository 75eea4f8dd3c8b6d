"""The engine believes labels and annotations of pods only where their job lives."""

import time

import pytest

from grus.engines.kubernetes.node_agents import Agents
from grus.engines.kubernetes.node_inventory import KubernetesPool
from grus.engines.kubernetes.nodes import Rules
from grus.engines.kubernetes.watcher import Watcher
from grus.engines.kubernetes.worker_registry import started
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import AGENT, JOB, USAGE, WAS
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec
from tests.engines.kubernetes.builders import GPU_RESOURCE, a_pod, a_worker_pod

VICTIM = WorkerId("j1.1.main.0.1")
HOMES = {"j1": Home("team", "victim"), "j2": Home("mallory", "own")}


def where(job: JobId) -> Home:
    if job not in HOMES:
        raise NotFound(f"no job {job}")
    return HOMES[job]


@pytest.fixture
def watcher() -> Watcher:
    pool = KubernetesPool(Rules(GPU_RESOURCE), 60.0, time.monotonic)
    return Watcher(pool, GPU_RESOURCE, "", "grus-system", lambda _: None, where)


def foreign(pod: Object, **labels: str) -> Object:
    """The same pod in the namespace of another user."""
    metadata = {**pod["metadata"], "namespace": "mallory", "uid": "forged"}
    metadata["labels"] = {**metadata["labels"], **labels}
    return {**pod, "metadata": metadata}


@pytest.mark.parametrize("label", ["j1", "j2"])
def test_a_pod_of_another_namespace_is_no_worker_of_a_job(watcher: Watcher, label: str) -> None:
    forged = foreign(a_worker_pod(VICTIM, phase="Failed"), **{JOB: label})
    watcher.pod_changed("ADDED", forged)
    assert watcher.records == {}
    worker = WorkerSpec(
        id=VICTIM, job=JobId("j1"), attempt=1, node=NodeId("n1"), argv=("true",), env=(), workdir=""
    )
    watcher.add(started(worker))
    watcher.pod_changed("MODIFIED", forged)
    assert watcher.records[VICTIM].pod is None
    watcher.pod_changed("ADDED", a_worker_pod(VICTIM))
    found = watcher.records[VICTIM].pod
    assert found is not None
    assert found["metadata"]["namespace"] == "team"


def test_a_pod_of_another_namespace_brings_no_forgotten_worker_back(watcher: Watcher) -> None:
    watcher.forgotten[VICTIM] = "uid-1"
    watcher.pod_changed("ADDED", foreign(a_pod("liar", notes={WAS: VICTIM})))
    assert watcher.forgotten == {VICTIM: "uid-1"}


def test_a_worker_of_a_job_that_is_gone_is_still_seen(watcher: Watcher) -> None:
    watcher.pod_changed("ADDED", a_worker_pod("j9.1.main.0.1"))
    assert list(watcher.records) == ["j9.1.main.0.1"]


def test_an_attempt_that_is_no_number_does_not_stop_the_others(watcher: Watcher) -> None:
    watcher.pod_changed("ADDED", a_worker_pod("j9.1.main.0.1", notes={"grus.dev/attempt": "first"}))
    watcher.pod_changed("ADDED", a_worker_pod(VICTIM))
    assert VICTIM in watcher.records


def test_a_pod_of_another_namespace_is_no_node_agent() -> None:
    agents = Agents("grus-system")
    said = '{"at": 1, "pods": {"u1": [1, 1, null, null]}}'
    liar = a_pod("grus-agent-x", labels={AGENT: "true"}, notes={USAGE: said})
    agents.pod_changed("ADDED", liar)
    assert agents.on({"n1"}) == []
    assert agents.usage({"u1": VICTIM}) == ()
    honest = {**liar, "metadata": {**liar["metadata"], "namespace": "grus-system"}}
    agents.pod_changed("ADDED", honest)
    agents.pod_changed("DELETED", liar)
    assert agents.on({"n1"}) == [honest]
    assert len(agents.usage({"u1": VICTIM})) == 1
