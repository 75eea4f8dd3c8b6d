"""Make `objects.json` of a fixture: `python -m tests.compatibility.make_objects tests/fixtures/state-vX.Y`.

A real controller on a test cluster brings jobs into each phase; then all objects that Grus has written are
exported as kubectl shows them, without what the API server adds for itself.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.cli.kubernetes.kubernetes_backend import KubernetesClient
from grus.kubernetes.client.resource_kinds import GPU_JOBS, Object
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import AccessRole, User
from grus.model.phases import Phase
from tests.compatibility.archive import refuse
from tests.compatibility.kept import described
from tests.kubernetes.clusters import Cluster, shared, until
from tests.kubernetes.kubelets import Kubelets
from tests.kubernetes.pool import KubernetesPool

NAMESPACE = "team"
GPUS = 16
KINDS = ("gpuqueues", "gpujobs", "configmaps", "services", "leases", "pods", "nodes")
FOREIGN = ("kube-", "default")
"""Beginnings of namespaces that are not Grus's."""
DROPPED = ("managedFields", "resourceVersion", "selfLink")
ADMIN = User(name=UserName("admin"), role=AccessRole.ADMIN)


class Maker:
    """Brings the jobs of one pool into each phase."""

    def __init__(self, pool: KubernetesPool) -> None:
        self.pool = pool

    def id_of(self, name: str) -> JobId:
        return JobId(self.pool.record(name)["id"])

    def phase_of(self, name: str) -> str:
        return str((self.pool.job(name).get("status") or {}).get("phase", ""))

    def submit(self, name: str, queue: str = "a", gpu: int | str = 1, **spec: Any) -> None:
        self.pool.apply_all([self.pool.a_job(name, queue, gpu, **spec)])

    def reaches(self, name: str, phase: str) -> None:
        until(lambda: self.phase_of(name) == phase, f"{name} is {phase}")

    def running(self, name: str, **spec: Any) -> None:
        self.submit(name, **spec)
        self.reaches(name, Phase.RUNNING)

    def ended(self) -> None:
        self.pool.run("succeeds", "a")
        self.pool.finish("succeeds")
        self.pool.run("fails", "a")
        for pod in self.pool.pods("fails"):
            self.pool.kubelets.finish(NAMESPACE, pod["metadata"]["name"], 3)
        self.reaches("fails", Phase.FAILED)
        self.running("stops")
        self.pool.controller.services.actions.stop(ADMIN, self.id_of("stops"))
        self.reaches("stops", Phase.STOPPED)

    def by_other_ways(self, code: Path) -> None:
        """With a code bundle, by `grus --kubernetes submit`; without an object, by HTTP."""
        (code / "train.py").write_text("print('trained')\n")
        client = KubernetesClient(self.pool.api, namespace=NAMESPACE)
        job = {"name": "bundled", "queue": "a", "run": "python3 train.py", "resources": {"gpu": 1}}
        client.submit({**job, "workdir": str(code)}, key="bundle")
        given = JobIn.model_validate({**job, "name": "by-http", "run": "true"})
        self.pool.controller.services.actions.submit(ADMIN, to_spec(given), key="http").result()

    def live(self) -> None:
        self.running("paused")
        self.pool.kubectl(
            "patch", "gpujob", "paused", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"paused":true}}'
        )
        self.reaches("paused", Phase.PAUSED)
        self.running("runs")
        self.running("slice", gpu=0.5)
        self.running("elastic", gpu="1..2", launch="per-gpu", checkpoint={"path": "saved", "every": "1m"})
        self.running("session", queue="b", type="dev")
        self.running("pausing")
        self.submit("follows", after=["runs"])
        self.submit("refused", queue="none")
        search = {"metric": "loss", "space": {"x": [1, 2]}, "budget": {"trials": 2}}
        self.submit("sweep", type="sweep", sweep=search)
        for name in ("refused", "sweep"):
            self.reaches(name, "refused")

    def between(self) -> None:
        """Phases that last only until a kubelet acts."""
        self.pool.kubelets.close()
        self.pool.kubectl(
            "patch", "gpujob", "pausing", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"paused":true}}'
        )
        self.reaches("pausing", Phase.PAUSING)
        self.submit("starting")
        self.reaches("starting", Phase.STARTING)
        self.submit("waits", gpu=16)
        self.reaches("waits", Phase.PENDING)


def exported(cluster: Cluster) -> list[Object]:
    found: list[Object] = []
    for kind in KINDS:
        items = json.loads(cluster.kubectl("get", kind, "--all-namespaces", "-o", "json"))["items"]
        found += [cleaned(one) for one in items if ours(one)]
    return found


def ours(item: Object) -> bool:
    metadata = item["metadata"]
    if metadata["name"] in ("kube-root-ca.crt", "kubernetes"):
        return False
    return not metadata.get("namespace", "").startswith(FOREIGN)


def cleaned(item: Object) -> Object:
    metadata = {name: value for name, value in item["metadata"].items() if name not in DROPPED}
    notes = metadata.get("annotations") or {}
    notes.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    if item["kind"] == "Node":
        return {**item, "metadata": metadata, "status": {"allocatable": item["status"]["allocatable"]}}
    if item["kind"] == "Lease":
        item["spec"]["holderIdentity"] = ""
    return {**item, "metadata": metadata}


def jobs_of(pool: KubernetesPool) -> dict[str, object]:
    """The jobs as the controller knows them, by the names of their objects."""
    objects = pool.api.list(GPU_JOBS)[0]
    homes = {json.loads(one["status"]["record"])["id"]: one for one in objects if "record" in one["status"]}
    return {homes[job.id]["metadata"]["name"]: described(job) for job in pool.controller.jobs_store.jobs()}


def make(cluster: Cluster, folder: Path) -> tuple[list[Object], dict[str, object]]:
    only = {"names": [NAMESPACE]}
    pool = KubernetesPool(cluster, folder, GPUS, a={"quota": 12}, b={"quota": 4, "namespaces": only})
    pool.namespace = NAMESPACE
    code = folder / "code"
    code.mkdir()
    with pool:
        maker = Maker(pool)
        maker.ended()
        maker.by_other_ways(code)
        maker.live()
        pool.apply_all([pool.a_pod("plain", queue="b")])
        until(lambda: bool(pool.node_of("plain")), "the plain pod is placed")
        maker.between()
        found, told = exported(cluster), jobs_of(pool)
        with Kubelets(pool.api):  # so that everything can end
            pool.kubectl("delete", "gpujobs,pods", "--all", "--all-namespaces", "--timeout=300s")
    return found, told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="the folder of the fixture")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, shared("fixture", "--without", "kube-scheduler") as one:
        found, told = make(one, Path(temporary))
    lines = ",\n".join(json.dumps(item, sort_keys=True) for item in found)
    refuse(lines.encode(), "objects.json")
    (options.target / "objects.json").write_text(f"[\n{lines}\n]\n")
    about = options.target / "made.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "objects": told}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
