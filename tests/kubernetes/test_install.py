"""Installing into a real API server, and out of it again: nothing is left.

On a cluster of its own: a removal takes the definitions away under everybody else.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from grus.cli.kubernetes import installer, uninstaller
from grus.cli.main import app
from grus.kubernetes.api_objects.job_namespaces import namespace_object
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.versions import budgets_of, release_of
from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import objects
from grus.kubernetes.install.rbac import jobs_binding
from grus.model.identifiers import QueueName, UserName
from tests.kubernetes.clusters import Cluster, new_namespace, shared, until
from tests.kubernetes.objects import a_node

Grus = Callable[..., Any]


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    with shared("install", "--without", "kube-scheduler") as started:
        yield started


@pytest.fixture
def grus(own: Cluster, monkeypatch: pytest.MonkeyPatch) -> Grus:
    """The command against the cluster."""
    monkeypatch.setenv("KUBECONFIG", str(own.kubeconfig))

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["kubernetes", *words])

    return run


@pytest.fixture
def team(own: Cluster) -> Iterator[str]:
    with own.client() as client, new_namespace(client) as name:
        yield name


@pytest.fixture
def api(own: Cluster) -> Iterator[Api]:
    connected = Api.connect(own.kubeconfig)
    yield connected
    connected.close()


def a_job(namespace: str, name: str = "resnet", **metadata: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "grus.dev/v1alpha1",
            "kind": "GpuJob",
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": {"run": "python train.py", "resources": {"gpu": 2}},
        }
    )


def test_everything_is_applied_and_a_second_time_changes_nothing(grus: Grus, own: Cluster) -> None:
    first = grus("install", "--wait", "0", "-o", "json")
    assert first.exit_code == 0, first.stderr
    assert {one["done"] for one in json.loads(first.stdout)["objects"]} == {"created"}
    second = grus("install", "--wait", "0", "-o", "json")
    assert {one["done"] for one in json.loads(second.stdout)["objects"]} == {"unchanged"}
    other = grus("install", "--wait", "0", "--replicas", "3")
    assert "deployment/grus-controller changed" in other.stdout
    replicas = own.kubectl("-n", "grus-system", "get", "deploy", "-o", "jsonpath={..spec.replicas}")
    assert replicas == "3"
    group, version = budgets_of(release_of(own.kubectl("get", "--raw", "/version"))).api_version.split("/")
    own.kubectl("-n", "grus-system", "get", f"poddisruptionbudgets.{version}.{group}", "grus-controller")


def test_what_others_have_changed_is_told_and_taken_over_only_when_asked(grus: Grus, own: Cluster) -> None:
    grus("install", "--wait", "0")
    own.kubectl("-n", "grus-system", "set", "image", "deploy/grus-controller", "controller=other:1")
    refused = grus("install", "--wait", "0")
    assert refused.exit_code == 1
    assert ".image" in refused.stderr
    assert "--force" in refused.stderr
    assert grus("install", "--wait", "0", "--force").exit_code == 0
    image = own.kubectl("-n", "grus-system", "get", "deploy", "-o", "jsonpath={..containers[0].image}")
    assert image == "grus:0.1.0"


def test_where_it_does_not_start_it_says_why(grus: Grus) -> None:
    """No scheduler is in this cluster: nobody puts the controllers on a node."""
    failed = grus("install", "--wait", "3")
    assert failed.exit_code == 1
    assert "0 of 2 controllers are ready" in failed.stderr


def test_without_rights_it_says_which_are_missing(grus: Grus, own: Cluster, tmp_path: Any, team: str) -> None:
    """As somebody who may do nothing: a token of a service account without any role."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = f"/api/v1/namespaces/{team}/serviceaccounts/default"
    made = own.kubectl("create", "--raw", f"{account}/token", "-f", "-", stdin=json.dumps(request))
    config = yaml.safe_load(own.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": json.loads(made)["status"]["token"]}
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    refused = grus("install", "--wait", "0", "--kubeconfig", str(file))
    assert refused.exit_code == 5
    assert 'namespaces "grus-system" is forbidden' in refused.stderr


def test_people_with_edit_rights_can_make_jobs_and_people_with_view_rights_see_them(
    grus: Grus, own: Cluster, team: str
) -> None:
    grus("install", "--wait", "0")
    for role in ("view", "edit"):
        own.kubectl("-n", team, "create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er")

    def can(who: str, *words: str) -> bool:
        with suppress(subprocess.CalledProcessError):
            return own.kubectl("auth", "can-i", "-n", team, f"--as={who}", *words).strip() == "yes"
        return False

    until(lambda: can("editer", "create", "gpujobs.grus.dev"), "the rights have joined edit")
    assert can("editer", "delete", "elastichorovodjobs.ai.centauruscloud.io")
    assert not can("editer", "update", "gpujobs.grus.dev", "--subresource=status")
    assert can("viewer", "list", "gpujobs.grus.dev")
    assert not can("viewer", "create", "gpujobs.grus.dev")


def test_jobs_that_run_are_not_ended_without_a_word(grus: Grus, own: Cluster, team: str) -> None:
    grus("install", "--wait", "0")
    own.kubectl("apply", "-f", "-", stdin=a_job(team))
    refused = grus("uninstall")
    assert refused.exit_code == 1
    assert f"1 job has not ended: {team}/resnet" in refused.stderr
    assert "--yes" in refused.stderr
    assert own.kubectl("-n", team, "get", "gpujobs", "-o", "name") == "gpujob.grus.dev/resnet\n"
    own.kubectl("-n", team, "delete", "gpujob", "resnet")


def test_a_removal_leaves_nothing(grus: Grus, own: Cluster, team: str, api: Api) -> None:
    """Everything that Grus ever writes is there, the controller is not, and what is of others stays.

    Of others is a pod that Grus has scheduled, and a definition that was there before.
    """
    own.kubectl("delete", "crd", "--ignore-not-found", "bbjobs.big-brain.github.com")
    (definition,) = (one for one in objects(Settings()) if one["metadata"]["name"].startswith("bbjobs."))
    del definition["metadata"]["labels"]
    own.kubectl("create", "-f", "-", stdin=yaml.safe_dump(definition))
    installed = grus("install", "--wait", "0")
    assert "customresourcedefinition/bbjobs.big-brain.github.com left" in installed.stdout
    litter(own, team)
    assert uninstaller.left(api, "grus-system")
    done = grus("uninstall", "--yes", "--wait", "0", "-o", "json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["left"] == []
    assert (told["removed"]["gpujobs"], told["removed"]["gpuqueues"]) == (2, 1)
    assert everything_that_names_grus(own) == []
    assert "bbjobs.big-brain.github.com" in own.kubectl("get", "crd", "-o", "name")
    kept = json.loads(own.kubectl("-n", team, "get", "pods", "-o", "json"))["items"]
    assert [pod["metadata"]["name"] for pod in kept] == ["mine"]
    assert kept[0]["metadata"]["labels"] == {"app": "mine"}
    again = grus("uninstall")
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "there was nothing to remove")
    own.kubectl("delete", "node/worker-1", "crd/bbjobs.big-brain.github.com")


def litter(own: Cluster, team: str) -> None:
    """Jobs with finalizers, workers, reservations, leases, services, code, and notes on a node and a pod;
    a namespace of jobs over HTTP, and the controller's rights in the team's."""
    pod = {"containers": [{"name": "main", "image": "x"}], "schedulerName": "grus"}
    job = {"grus.dev/job": "j0000000001"}
    things = [
        {
            "kind": "Namespace",
            "apiVersion": "v1",
            **namespace_object(QueueName("vision"), UserName("ann"), "restricted"),
        },
        jobs_binding(team, "grus-system"),
        {"kind": "GpuQueue", "apiVersion": "grus.dev/v1alpha1", "metadata": {"name": "vision"}, "spec": {}},
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": "worker",
                "namespace": team,
                "labels": job,
                "finalizers": ["grus.dev/worker"],
            },
            "spec": pod,
        },
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": "held",
                "namespace": "grus-system",
                "labels": {"grus.dev/reservation": "true"},
                "finalizers": ["grus.dev/worker"],
            },
            "spec": pod,
        },
        {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": "mine",
                "namespace": team,
                "labels": {"app": "mine", "grus.dev/queue": "vision"},
                "annotations": {"grus.dev/epoch": "3"},
                "finalizers": ["grus.dev/worker"],
            },
            "spec": pod,
        },
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "resnet", "namespace": team, "labels": job},
            "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
        },
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "grus-code-1-0", "namespace": team, "labels": {"grus.dev/code": "1"}},
        },
        {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "grus-controller", "namespace": "grus-system"},
        },
    ]
    until(lambda: made(own, things), "all of it could be made")
    for name in ("resnet", "bert"):
        own.kubectl("apply", "-f", "-", stdin=a_job(team, name, finalizers=["grus.dev/job"]))
    node = {**a_node("worker-1").to_dict(), "kind": "Node", "apiVersion": "v1"}
    own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(node))
    own.kubectl("annotate", "node", "worker-1", "grus.dev/tags=fast")
    own.kubectl("label", "node", "worker-1", "grus.dev/rack=3")


def made(own: Cluster, things: list[dict[str, Any]]) -> bool:
    """Pods are refused until the new namespaces have their accounts."""
    try:
        own.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(things))
    except subprocess.CalledProcessError as error:
        if "serviceaccount" in error.stderr.replace(" ", "") or "no API token found" in error.stderr:
            return False
        raise AssertionError(error.stderr) from error
    return True


def everything_that_names_grus(own: Cluster) -> list[str]:
    """Asked of kubectl alone: every object of every kind that the server can list.

    But for old events, and for the tests' own policies, which name the folder of this project.
    """
    resources = own.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    assert not [name for name in resources if "grus" in name]
    kinds = ",".join(name for name in resources if not name.startswith(("events", "podsecuritypolicies")))
    found = json.loads(own.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    assert len(found) > 50
    return [
        f"{one['kind']}/{one['metadata']['name']}"
        for one in found
        if one["metadata"]["name"] != "mine" and "grus" in json.dumps({**one, "status": None})
    ]


def test_troubles_are_told_in_the_clusters_words_once() -> None:
    deployment = {
        "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]}
    }
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    crashed = {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "message": "no rights\n"}},
    }
    pods = [
        {"metadata": {"name": "a"}, "status": {"containerStatuses": [waiting]}},
        {"metadata": {"name": "b"}, "status": {"containerStatuses": [crashed]}},
        {
            "metadata": {"name": "c"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]},
        },
        {"metadata": {"name": "d"}, "status": {"containerStatuses": [{"state": {"running": {}}}]}},
    ]
    events = [{"reason": "FailedMount", "message": "no claim", "involvedObject": {"name": "a"}}] * 2
    assert installer.troubles(deployment, pods, events) == [
        "quota",
        "a: ImagePullBackOff: no such image",
        "b: CrashLoopBackOff: back-off",
        "b: it ended with code 2 (Error): no rights",
        "c: no node takes it: 0/3 nodes",
        "a: no claim",
    ]
