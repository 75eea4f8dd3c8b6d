"""The files of deploy/ are what the code would make, and the chart renders to the same objects."""

import re
from pathlib import Path
from typing import Any

import yaml

from grus.kubernetes.client.versions import release_of
from grus.kubernetes.install.admission_policies import policies
from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import objects
from tools.deploy import ROOT, VALUES, files

Object = dict[str, Any]

POLICY = re.compile(
    r'\{\{ if semverCompare ">=(?P<least>[^"]+)-0" \.Capabilities\.KubeVersion\.Version \}\}(?P<yes>[^{]*)'
    r"\{\{ else \}\}(?P<no>[^{]*)\{\{ end \}\}"
)


def rendered(text: str, values: dict[str, Any], *, namespace: str, release: str) -> list[Object]:
    """As Helm would, for the few forms that the chart uses; anything else is left and fails."""

    def chosen(found: re.Match[str]) -> str:
        return found["yes"] if release_of(release) >= release_of(found["least"]) else found["no"]

    text = POLICY.sub(chosen, text)
    text = text.replace("{{ .Release.Namespace }}", namespace)
    text = re.sub(r"\{\{ \.Values\.(\w+) \}\}", lambda found: str(values[found[1]]), text)
    assert "{{" not in text
    return list(yaml.safe_load_all(text))


def test_the_files_are_up_to_date() -> None:
    for path, text in files().items():
        assert (ROOT / path).read_text() == text, f"deploy/{path} is old: run python -m tools.deploy"


def test_nothing_else_is_in_the_chart() -> None:
    chart = {
        f"helm/{path.relative_to(ROOT / 'helm')}" for path in (ROOT / "helm").rglob("*") if path.is_file()
    }
    assert chart == {path for path in files() if path.startswith("helm/")}


def test_the_chart_renders_to_the_objects_of_an_installation() -> None:
    made = files()
    values = yaml.safe_load(made["helm/grus/values.yaml"])
    assert values == VALUES
    found = rendered(made["helm/grus/templates/grus.yaml"], values, namespace="grus-system", release="1.36")
    found += list(yaml.safe_load_all(made["helm/grus/crds/definitions.yaml"]))
    wanted = [one for one in objects(Settings()) if one["kind"] != "Namespace"]
    key = lambda one: (one["kind"], one["metadata"]["name"])  # noqa: E731 - of this comparison only
    assert sorted(found, key=key) == sorted(wanted, key=key)


def test_the_chart_has_the_admission_policies_for_servers_that_take_them() -> None:
    first, condition, *lines, end = files()["helm/grus/templates/policies.yaml"].splitlines()
    assert first.startswith("#")
    assert condition == (
        '{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" }}'
    )
    assert end == "{{- end }}"
    found = rendered("\n".join(lines), {}, namespace="pool", release="1.36")
    named = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"].endswith("Policy")}
    wanted = {
        one["metadata"]["name"]: one["spec"] for one in policies("pool") if one["kind"].endswith("Policy")
    }
    assert named == wanted
    assert "system:serviceaccount:pool:grus-agent" in str(named["grus-nodes-own-pods"])


def test_the_chart_takes_values_and_the_older_policy_of_an_old_server() -> None:
    values = VALUES | {"image": "team/grus:9", "replicas": 1, "resource": "amd.com/gpu"}
    found = rendered(files()["helm/grus/templates/grus.yaml"], values, namespace="pool", release="1.20")
    settings = Settings(
        namespace="pool",
        image="team/grus:9",
        replicas=1,
        resource="amd.com/gpu",
        disruption_version="policy/v1beta1",
    )
    skipped = ("Namespace", "CustomResourceDefinition")
    assert found == [one for one in objects(settings) if one["kind"] not in skipped]


def test_the_image_runs_as_any_user_of_group_0_and_never_as_root() -> None:
    lines = Path(ROOT, "Containerfile").read_text().splitlines()
    words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    (user,) = [line[1] for line in words if line[0] == "USER"]
    number, _, group = user.partition(":")
    assert int(number) > 0
    assert group == "0"
    after = words[[line[0] for line in words].index("USER") :]
    assert not [line for line in after if line[0] in ("RUN", "COPY", "ADD")]
    assert ["COPY", "src", "src"] in words
    assert any(line[:3] == ["RUN", "mkdir", "-p"] and "chmod" in line for line in words)
