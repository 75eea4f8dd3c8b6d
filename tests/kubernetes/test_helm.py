"""The chart under a real Helm: linted, rendered, installed, upgraded and removed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from grus.cli.main import app
from grus.kubernetes.client.versions import budgets_of, release_of
from grus.kubernetes.install.install_options import PART_OF, Settings
from grus.kubernetes.install.manifests import objects
from tests.kubernetes.clusters import Cluster, shared, until
from tests.kubernetes.helm import helm
from tests.kubernetes.schemas import RELEASES, problems
from tests.kubernetes.test_install import a_job, everything_that_names_grus
from tools.deploy import ROOT

Object = dict[str, Any]

CHART = ROOT / "helm" / "grus"
NAMESPACE = "grus-system"
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "registry": {"image": "registry.example:5000/team/grus@sha256:" + 64 * "0", "pullPolicy": "Always"},
    "other": {"replicas": 1, "resource": "amd.com/gpu", "kubelet": "/var/lib/k0s/kubelet"},
}
FIELDS = {"pullPolicy": "pull_policy"}


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    with shared("helm", "--without", "kube-scheduler") as started:
        yield started


def sorted_objects(made: list[Object]) -> list[Object]:
    return sorted(made, key=lambda one: (one["kind"], one["metadata"]["name"]))


def values_file(folder: Path, values: dict[str, Any]) -> Path:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_finds_nothing_to_complain_of(tmp_path: Path, values: dict[str, Any]) -> None:
    linted = helm("lint", "--strict", CHART, "--values", values_file(tmp_path, values), home=tmp_path)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "1 chart(s) linted, 0 chart(s) failed" in linted.stdout


@pytest.mark.parametrize("release", ["1.20", "1.36"])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_renders_the_objects_of_an_installation(
    tmp_path: Path, values: dict[str, Any], release: str
) -> None:
    budgets = budgets_of(release_of(release)).api_version
    words = ("--namespace", NAMESPACE, "--include-crds", "--kube-version", release)
    done = helm("template", "grus", CHART, *words, "--values", values_file(tmp_path, values), home=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    given = {FIELDS.get(name, name): value for name, value in values.items()}
    settings = replace(Settings(disruption_version=budgets), **given)
    wanted = [one for one in objects(settings) if one["kind"] != "Namespace"]
    assert sorted_objects(found) == sorted_objects(wanted)
    if release == "1.36":
        assert [text for one in RELEASES for made in found for text in problems(one, made)] == []


def test_helm_renders_admission_policies_for_servers_that_have_them(tmp_path: Path) -> None:
    served = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
    words = ("--namespace", NAMESPACE, "--include-crds", "--kube-version", "1.36", "--api-versions", served)
    done = helm("template", "grus", CHART, *words, home=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    wanted = [one for one in objects(Settings(admission_policies=True)) if one["kind"] != "Namespace"]
    assert sorted_objects(found) == sorted_objects(wanted)
    assert [text for made in found for text in problems("1.36", made)] == []


@pytest.mark.parametrize(
    "wrong", ["replica=3", "replicas=none", "pullPolicy=Sometimes", "podSecurity=privileged"]
)
def test_a_value_that_the_chart_does_not_know_is_refused(tmp_path: Path, wrong: str) -> None:
    refused = helm("template", "grus", CHART, "--set", wrong, home=tmp_path)
    assert refused.returncode != 0
    assert wrong.partition("=")[0] in refused.stderr


def ours(own: Cluster) -> set[str]:
    """Kinds and names of everything in the cluster that is labeled as Grus's, or is Helm's own record."""
    resources = own.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    kinds = ",".join(name for name in resources if not name.startswith("events"))
    labeled = json.loads(own.kubectl("get", kinds, "-A", "-l", f"{PART_OF}=grus", "-o", "json"))["items"]
    records = json.loads(own.kubectl("get", "secrets", "-A", "-l", "owner=helm", "-o", "json"))["items"]
    return {f"{one['kind']}/{one['metadata']['name']}" for one in (*labeled, *records)}


def test_a_release_is_installed_upgraded_and_removed(
    own: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page says: jobs and definitions outlive it until `grus kubernetes uninstall`."""

    def run(*words: str | Path) -> str:
        done = helm(*words, "--namespace", NAMESPACE, home=tmp_path, kubeconfig=own.kubeconfig)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("install", "grus", CHART, "--create-namespace")
    release = release_of(own.kubectl("get", "--raw", "/version"))
    made = objects(Settings(disruption_version=budgets_of(release).api_version))
    wanted = {f"{one['kind']}/{one['metadata']['name']}" for one in made if one["kind"] != "Namespace"}
    assert wanted <= ours(own)
    until(lambda: "gpujobs" in own.kubectl("api-resources", "-o", "name"), "the definitions are served")
    own.kubectl("apply", "-f", "-", stdin=a_job("default"))
    uid = own.kubectl("get", "gpujob", "resnet", "-o", "jsonpath={.metadata.uid}")

    run("upgrade", "grus", CHART, "--set", "image=team/grus:2", "--set", "replicas=3")
    shown = ("-n", NAMESPACE, "get", "deploy", "grus-controller", "-o")
    assert own.kubectl(*shown, "jsonpath={.spec.replicas} {..containers[0].image}") == "3 team/grus:2"
    assert own.kubectl("get", "gpujob", "resnet", "-o", "jsonpath={.metadata.uid}") == uid
    assert wanted <= ours(own)

    run("uninstall", "grus")
    definitions = {name for name in wanted if name.startswith("CustomResourceDefinition/")}
    until(lambda: ours(own) == definitions, f"only definitions are left of {ours(own)}")
    assert own.kubectl("get", "gpujob", "resnet", "-o", "jsonpath={.metadata.uid}") == uid

    monkeypatch.setenv("KUBECONFIG", str(own.kubeconfig))
    removed = CliRunner().invoke(app, ["kubernetes", "uninstall", "--yes", "--wait", "1"])
    assert removed.exit_code == 0, removed.output
    own.kubectl("delete", "namespace", NAMESPACE, "--timeout=300s")
    assert everything_that_names_grus(own) == []
