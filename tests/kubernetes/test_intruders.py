"""People who want more than their container, on a real API server: over HTTP, as GpuJobs, by stolen tokens.

The controller has the rights of the manifests alone. Nodes are virtual; admission and rights are real.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.api.inputs.pod_template import text
from grus.kubernetes.api_objects.job_namespaces import namespace_of
from grus.kubernetes.client.errors import Forbidden
from grus.kubernetes.client.resource_kinds import GPU_JOBS, GPU_QUEUES, NAMESPACES, PODS, SERVICE_ACCOUNTS
from grus.kubernetes.install import rbac
from grus.model.identifiers import QueueName, UserName
from grus.model.jobs import Phase
from grus.operator.options import SYSTEM
from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.intruders import ACCOUNTS, ADMIN, MEMBER, OTHER, InstalledPool, as_account
from tests.trust import intrusion_kubernetes
from tests.trust.intrusion_kubernetes import (
    NODE_ACCOUNTS,
    as_objects,
    by_account,
    out_of_records,
    over_http,
    refused,
)
from tests.trust.pod_attacks import WHOLE


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    with intrusion_kubernetes.cluster() as started:
        yield started


@pytest.fixture(scope="module")
def pool(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledPool]:
    folder = tmp_path_factory.mktemp("intruders")
    with InstalledPool(own_cluster, folder, 4, open={"quota": 2}) as made, made.serving():
        yield made


@pytest.fixture(autouse=True)
def emptied(pool: InstalledPool) -> Iterator[None]:
    yield
    pool.clear()


def space(queue: str = "default", user: str = MEMBER) -> str:
    return namespace_of(QueueName(queue), UserName(user))


def test_no_attack_gets_through_over_http(pool: InstalledPool) -> None:
    """Every attack of the table, with a member's token; nothing of them is stored."""
    assert over_http(pool)[2] == []
    assert pool.api.list(GPU_JOBS)[0] == []


def test_no_attack_gets_through_as_a_gpu_job(pool: InstalledPool) -> None:
    assert as_objects(pool)[2] == []


def test_no_attack_gets_through_out_of_a_record() -> None:
    assert out_of_records()[2] == []


def test_a_job_over_http_runs_in_a_namespace_of_its_queue_and_user_without_a_token(
    pool: InstalledPool,
) -> None:
    for user in (MEMBER, OTHER):
        answer = pool.submit(user, name="honest", run="sleep 60")
        assert answer.status_code == 201, answer.text
    until(lambda: all(pool.api.list(PODS, space(user=user))[0] for user in (MEMBER, OTHER)), "both have pods")
    assert pool.api.list(GPU_JOBS, SYSTEM)[0] == []
    (pod,) = pool.api.list(PODS, space())[0]
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert not any("serviceaccount" in str(mount) for mount in spec["containers"][0]["volumeMounts"])
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 65532)
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    made = pool.api.get(NAMESPACES, space())
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pool.api.get(SERVICE_ACCOUNTS, "default", space())["automountServiceAccountToken"] is False


def test_a_namespace_that_grus_has_not_made_is_not_used(pool: InstalledPool) -> None:
    """Somebody else's namespace of that very name, without a barrier."""
    name = space("open")
    pool.api.create(NAMESPACES, {"metadata": {"name": name}})
    answer = pool.submit(queue="open")
    assert answer.status_code == 409, answer.text
    assert "Grus has not made it" in answer.text
    assert pool.api.list(GPU_JOBS, name)[0] == []
    pool.api.delete(NAMESPACES, name)


def test_a_queue_for_other_namespaces_is_closed_over_http_to_all_but_its_members(
    pool: InstalledPool,
) -> None:
    closed = {"namespaces": {"names": [pool.namespace]}}
    pool.api.patch(GPU_QUEUES, "open", {"spec": closed})
    queues = pool.controller.book.openness
    until(lambda: not queues()[QueueName("open")].silent, "the queue is closed")
    answer = pool.submit(queue="open")
    assert answer.status_code == 403, answer.text
    assert "is not open to namespace" in answer.text
    assert pool.api.list(GPU_JOBS)[0] == []
    assert pool.submit(ADMIN, queue="open").status_code == 201
    pool.api.patch(GPU_QUEUES, "open", {"spec": {"members": [MEMBER]}})
    until(lambda: pool.submit(queue="open").status_code == 201, "a member may use it")
    managed = {"names": None, "labels": {"grus.dev/managed": "true"}}
    pool.api.patch(GPU_QUEUES, "open", {"spec": {"members": None, "namespaces": managed}})
    until(lambda: pool.submit(OTHER, queue="open").status_code == 201, "all namespaces of jobs are open")
    pool.api.patch(GPU_QUEUES, "open", {"spec": {"namespaces": None, "members": None}})
    until(lambda: queues()[QueueName("open")].silent, "the queue is open again")


def test_an_administrator_allows_a_field_by_setting_and_by_annotation(pool: InstalledPool) -> None:
    tolerant = {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
    assert refused(pool, tolerant)
    assert pool.submit(OTHER, queue="open", pod=tolerant).status_code == 201
    pool.api.create(GPU_JOBS, pool.a_job("tolerant", "default", pod=tolerant), pool.namespace)
    pool.until_said("gpujob", "tolerant", "Admitted", "False", "spec.tolerations")
    note = {"grus.dev/allowed-pod-fields": "spec.tolerations"}
    pool.api.patch(NAMESPACES, pool.namespace, {"metadata": {"annotations": note}})
    pool.until_said("gpujob", "tolerant", "Admitted", "True", "")
    pool.api.patch(NAMESPACES, pool.namespace, {"metadata": {"annotations": dict.fromkeys(note)}})


def test_a_record_that_is_older_than_the_rules_does_not_start(pool: InstalledPool) -> None:
    """The controller's last barrier: somebody has written an attack into a job's record."""
    pool.cordon()
    answer = pool.submit(name="sleeper")
    assert answer.status_code == 201, answer.text
    store = pool.controller.store
    job = store.job(answer.json()["id"])
    store.replace(replace(job, spec=replace(job.spec, pod=text(WHOLE))), None).result()
    pool.uncordon()
    until(lambda: store.job(job.id).terminal, "it has ended")
    ended = store.job(job.id)
    assert ended.phase is Phase.FAILED
    assert "pod.spec.volumes[0].hostPath" in ended.reason
    assert not any("hostPath" in str(pod["spec"]) for pod in pool.api.list(PODS, space())[0])


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", SYSTEM])
def test_no_job_runs_in_a_system_namespace(pool: InstalledPool, namespace: str) -> None:
    job = pool.a_job("inside", "default")
    job["metadata"]["namespace"] = namespace
    pool.api.create(GPU_JOBS, job, namespace)

    def said() -> str:
        status = pool.api.get(GPU_JOBS, "inside", namespace).get("status") or {}
        return str(status.get("reason", ""))

    until(lambda: "system namespace" in said(), "it is refused")
    assert [one for one in pool.api.list(PODS, namespace)[0] if "inside" in one["metadata"]["name"]] == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_account_can_act_in_a_system_namespace(pool: InstalledPool, account: str) -> None:
    assert by_account(pool, account)[2] == []


@pytest.mark.parametrize("account", NODE_ACCOUNTS)
def test_no_account_of_a_node_can_act_in_the_controllers_namespace(pool: InstalledPool, account: str) -> None:
    assert by_account(pool, account, SYSTEM)[2] == []


@pytest.mark.parametrize("account", NODE_ACCOUNTS)
def test_a_stolen_token_of_a_node_changes_no_pod(
    pool: InstalledPool, own_cluster: Cluster, tmp_path: Path, account: str
) -> None:
    """The image of a pod on another node, in a namespace with jobs."""
    api = as_account(own_cluster, pool.api, tmp_path, account)
    container = {"name": "main", "image": "honest:1"}
    body = {"metadata": {"name": "victim"}, "spec": {"nodeName": "n2", "containers": [container]}}
    victim = pool.api.create(PODS, body, pool.namespace)["metadata"]["name"]
    change = {"spec": {"containers": [{"name": "main", "image": "evil:1"}]}}
    with pytest.raises(Forbidden):
        api.patch(PODS, victim, change, pool.namespace, how="strategic")
    api.patch(PODS, victim, change, pool.namespace, part="status", how="strategic")
    found = pool.api.get(PODS, victim, pool.namespace)
    assert "evil" not in str(found["spec"])
    with pytest.raises(Forbidden):
        api.create(PODS, {"metadata": {"name": "own"}, **WHOLE}, pool.namespace)
    api.close()
    pool.api.delete(PODS, victim, pool.namespace, grace=0)


def test_the_controller_writes_pods_only_where_jobs_are(pool: InstalledPool) -> None:
    pool.api.create(NAMESPACES, {"metadata": {"name": f"{pool.namespace}-other"}})
    assert not pool.can(rbac.CONTROLLER, "create", "pods", "-n", f"{pool.namespace}-other")
    assert pool.submit(name="first").status_code == 201
    assert pool.can(rbac.CONTROLLER, "create", "pods", "-n", space())
    pool.api.delete(NAMESPACES, f"{pool.namespace}-other")
