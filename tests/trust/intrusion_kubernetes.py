"""Intruders on Kubernetes: `python -m tests.trust.intrusion_kubernetes` prints the table of attacks.

On a real API server, with a controller that has the rights of the manifests alone: every pod section of
`pod_attacks` over HTTP by a member, as a GpuJob, and out of a job's record; every right of `ESCALATIONS` with
the account of the controller, of a node agent and of a profiler. The exit code is 1 if anything got through.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from grus.api.inputs.pod_template import text
from grus.engines.kubernetes.pod_manifest import CannotStart, require_allowed
from grus.kubernetes.client.resource_kinds import GPU_JOBS, PODS
from grus.kubernetes.install import rbac
from grus.model.identifiers import JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec
from grus.operator.options import SYSTEM
from tests.kubernetes.clusters import Cluster, shared, until
from tests.kubernetes.intruders import ACCOUNTS, InstalledPool
from tests.trust.pod_attacks import POD_ATTACKS, Pod

ESCALATIONS = (
    ("create", "pods"),
    ("patch", "pods"),
    ("update", "pods"),
    ("delete", "pods"),
    ("create", "pods/exec"),
    ("create", "pods/binding"),
    ("update", "pods/ephemeralcontainers"),
    ("get", "secrets"),
    ("list", "secrets"),
    ("create", "secrets"),
    ("create", "serviceaccounts"),
    ("create", "serviceaccounts/token"),
    ("create", "services"),
    ("create", "configmaps"),
    ("get", "configmaps"),
    ("create", "deployments.apps"),
    ("create", "daemonsets.apps"),
    ("create", "roles.rbac.authorization.k8s.io"),
    ("patch", "rolebindings.rbac.authorization.k8s.io"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("patch", "clusterroles.rbac.authorization.k8s.io"),
    ("impersonate", "users"),
    ("create", "mutatingwebhookconfigurations.admissionregistration.k8s.io"),
    ("patch", "namespaces"),
    ("delete", "nodes"),
)
"""Rights that lead from a stolen token to the cluster, in a system namespace."""

NODE_ACCOUNTS = (rbac.AGENT, rbac.PROFILER)
"""Accounts whose tokens are on every node."""

Row = tuple[str, int, list[str]]
"""A way in, the number of attacks, and those that got through."""


@contextmanager
def cluster() -> Iterator[Cluster]:
    with shared("intruders", "--without", "kube-scheduler") as started:
        yield started


def refused(pool: InstalledPool, pod: Pod) -> bool:
    """Whether a member's job with this pod section is a mistake of its `pod`; nothing else counts."""
    answer = pool.submit(pod=pod)
    assert answer.status_code in (201, 422), answer.text
    return answer.status_code == 422 and "pod." in answer.text


def over_http(pool: InstalledPool) -> Row:
    through = [name for name, pod in POD_ATTACKS.items() if not refused(pool, pod)]
    return "a member's job over HTTP", len(POD_ATTACKS), through


def as_objects(pool: InstalledPool) -> Row:
    named = {f"attack-{number:02}": name for number, name in enumerate(POD_ATTACKS)}
    for name, attack in named.items():
        pool.api.create(GPU_JOBS, pool.a_job(name, "default", pod=POD_ATTACKS[attack]), pool.namespace)

    def phases() -> dict[str, str]:
        found = pool.api.list(GPU_JOBS, pool.namespace)[0]
        return {one["metadata"]["name"]: (one.get("status") or {}).get("phase", "") for one in found}

    until(lambda: all(phases().get(name) for name in named), "all were looked at")
    now = phases()
    through = [attack for name, attack in named.items() if now[name] != "refused"]
    through += [one["metadata"]["name"] for one in pool.api.list(PODS, pool.namespace)[0]]
    return "a GpuJob of a namespace's user", len(named), through


def out_of_records() -> Row:
    """At the last barrier, as if a record had passed the others. Fields that Grus overwrites do no harm."""
    through = [name for name, pod in POD_ATTACKS.items() if not _stopped(pod)]
    return "a job's record that somebody has changed", len(POD_ATTACKS), through


def _stopped(pod: Pod) -> bool:
    worker = WorkerSpec(
        id=WorkerId("j.1.main.0.1"),
        job=JobId("j"),
        attempt=1,
        node=NodeId("n1"),
        argv=("true",),
        env=(),
        workdir="",
        pod=text(pod),
    )
    try:
        require_allowed(worker, ())
    except CannotStart:
        return True
    return False


def by_account(pool: InstalledPool, account: str, namespace: str = "kube-system") -> Row:
    through = [
        f"{verb} {what}" for verb, what in ESCALATIONS if pool.can(account, verb, what, "-n", namespace)
    ]
    return f"a stolen token of {account}, in {namespace}", len(ESCALATIONS), through


def rows(pool: InstalledPool) -> Iterator[Row]:
    asked: list[Callable[[InstalledPool], Row]] = [over_http, as_objects]
    for ask in asked:
        yield ask(pool)
        pool.clear()
    yield out_of_records()
    for account in ACCOUNTS:
        yield by_account(pool, account)
    for account in NODE_ACCOUNTS:
        yield by_account(pool, account, SYSTEM)


def main() -> int:
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster() as started,
        InstalledPool(started, Path(folder), 4, open={"quota": 2}) as pool,
        pool.serving(),
    ):
        found = list(rows(pool))
    print("| Kubernetes | attacks | got through |\n| --- | --- | --- |")
    for way, count, through in found:
        print(f"| {way} | {count} | {', '.join(through) or '0'} |")
    return 1 if any(through for _, _, through in found) else 0


if __name__ == "__main__":
    sys.exit(main())
