"""Every object that Grus installs, writes or shows in its documentation holds in Kubernetes 1.25 to 1.37.

Strictly: a field that a release does not know is an error, since servers drop it without a word.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grus.kubernetes.bundle import code_bundles
from grus.kubernetes.client.resource_kinds import GPU_JOBS
from grus.kubernetes.client.transport import Transport
from grus.kubernetes.client.versions import release_of
from grus.kubernetes.install import foreign_crds
from grus.kubernetes.install.admission_policies import policies
from grus.kubernetes.install.custom_resources import definitions
from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import objects
from grus.model.interfaces import AccessRole, User
from tests.controlplane.plane import a_spec
from tests.kubernetes.clusters import Cluster, shared, until
from tests.kubernetes.pool import KubernetesPool
from tests.kubernetes.schemas import RELEASES, problems
from tests.kubernetes.test_deploy import rendered
from tests.operator.foreign_jobs.samples import brain_sample, horovod_sample
from tools.deploy import ROOT as DEPLOY
from tools.deploy import VALUES

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_POLICIES = tuple(release for release in RELEASES if release_of(release) >= (1, 30))
FULL = Settings(
    namespace="pool",
    pull_secret="registry",
    history="claim",
    runtime_class="nvidia",
    dcgm="http://$(GRUS_HOST):9400/metrics",
    prometheus="http://prometheus:9090",
    select='node="$(GRUS_NODE)"',
)


def wrong(made: list[Object]) -> list[str]:
    assert made
    return [text for release in RELEASES for one in made for text in problems(release, one)]


def test_all_releases_from_1_25_on_are_there() -> None:
    assert tuple(f"1.{minor}" for minor in range(25, 38)) == RELEASES


def test_a_field_that_no_release_knows_is_found() -> None:
    """The validation itself can fail, in Kubernetes' kinds and in ours."""
    (deployment,) = [one for one in objects(Settings()) if one["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Never"
    assert len(wrong([deployment])) == len(RELEASES)
    job = {"apiVersion": "grus.dev/v1alpha1", "kind": "GpuJob", "metadata": {"name": "x"}}
    assert wrong([{**job, "spec": {"run": "true", "retires": 3}}])
    assert wrong([{**job, "spec": {"run": "true", "retries": "three"}}])


@pytest.mark.parametrize("settings", [Settings(), FULL], ids=["plain", "full"])
def test_an_installation_holds(settings: Settings) -> None:
    assert wrong(objects(settings)) == []


def test_admission_policies_hold_where_servers_have_them() -> None:
    made = policies("pool")
    assert [text for release in WITH_POLICIES for one in made for text in problems(release, one)] == []
    made[0]["spec"]["failurePolice"] = "Fail"
    assert all(list(problems(release, made[0])) for release in WITH_POLICIES)


def test_definitions_hold() -> None:
    assert wrong([*definitions(), *foreign_crds.definitions()]) == []


def test_the_files_and_the_chart_hold() -> None:
    text = (DEPLOY / "helm/grus/templates/grus.yaml").read_text()
    chart = rendered(text, VALUES, namespace="pool", release="1.36")
    files = ("kubernetes.yaml", "helm/grus/crds/definitions.yaml")
    made = [one for file in files for one in yaml.safe_load_all((DEPLOY / file).read_text())]
    assert wrong(chart + made) == []


def test_examples_of_the_documentation_hold() -> None:
    texts = [block for page in sorted(ROOT.glob("docs/*.md")) for block in BLOCK.findall(page.read_text())]
    texts += [file.read_text() for file in sorted(ROOT.glob("examples/**/*.yaml"))]
    found = [one for text in texts for one in yaml.safe_load_all(text) if isinstance(one, dict)]
    shown = [one for one in found if "apiVersion" in one and "kind" in one]
    assert len(shown) >= 7
    samples = [{**one, "metadata": {"name": "sample"}} for one in (horovod_sample(), brain_sample())]
    assert wrong([*shown, *samples]) == []


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    with shared("schemas", "--without", "kube-scheduler") as started:
        yield started


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Object]:
    """Whole objects that this process sends to an API server, as they are sent."""
    found: list[Object] = []
    send = Transport.send

    def recording(self: Transport, method: str, path: str, body: bytes | None, **how: Any) -> bytes:
        if body and (method in ("POST", "PUT") or "apply-patch" in how["content"]) and "/binding" not in path:
            status_alone = {"spec": {"run": "true"}} if path.endswith("/status") else {}
            found.append({**status_alone, **json.loads(body)})
        return send(self, method, path, body, **how)

    monkeypatch.setattr(Transport, "send", recording)
    return found


def uids(pool: KubernetesPool) -> set[str]:
    return {one["metadata"]["uid"] for one in pool.api.list(GPU_JOBS)[0]}


def test_everything_that_a_controller_writes_holds(
    own_cluster: Cluster, tmp_path: Path, written: list[Object]
) -> None:
    """A gang with its service, a slice with its reservation, code in config maps, leases, events, jobs."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    pod = {"spec": {"containers": [{"env": [{"name": "A", "value": "b"}]}]}}
    with KubernetesPool(own_cluster, tmp_path, 4, team={"quota": 4}) as pool:
        code = code_bundles.publish(pool.api, pool.namespace, code_bundles.pack(tmp_path / "code"))
        pool.run("gang", "team", 2, launch="per-gpu", workdir=code, pod=pod, secrets={"TOKEN": "wandb"})
        pool.run("slice", "team", "0.5")
        user = User(name="ada", role=AccessRole.ADMIN)  # type: ignore[arg-type]  # a name
        job = pool.controller.services.actions.submit(user, a_spec("by-http", queue="team")).result()
        kinds = {"Pod", "Service", "ConfigMap", "Lease", "GpuJob", "GpuQueue", "Event"}
        until(lambda: kinds <= {one["kind"] for one in written} | {"GpuQueue"}, "all kinds were written")
        home = pool.controller.jobs_store.home(job.id)
        pool.api.delete(GPU_JOBS, home.name, home.namespace)
        until(lambda: home.uid not in uids(pool), "the job by HTTP is gone")
    pods = [one for one in written if one["kind"] == "Pod"]
    assert any("grus.dev/reservation" in (one["metadata"].get("labels") or {}) for one in pods)
    assert any((one["spec"].get("volumes") or [{}])[0] for one in pods)
    unique = {json.dumps({**one, "metadata": {"name": "x"}}, sort_keys=True): one for one in written}
    assert wrong(list(unique.values())) == []
