"""Writes deploy/: the plain YAML and the Helm chart, both out of `grus.kubernetes.install.manifests`.

    python -m tools.deploy

The chart's templates are the same objects with the settings as values, and nothing else: `{{ .Values.x }}`
and one `if`, so that a few lines can render them (tests/kubernetes/test_deploy.py does).
"""

import json
import re
from pathlib import Path
from typing import Any

import grus
from grus.cli.kubernetes.install_commands import as_yaml
from grus.kubernetes.api_objects.job_namespaces import LEVELS, RESTRICTED
from grus.kubernetes.install.install_options import IMAGE, KUBELET, NO_FIELDS, Settings
from grus.kubernetes.install.manifests import objects

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1] / "deploy"
MADE = "# Made by `python -m tools.deploy`; change src/grus/kubernetes/ instead.\n"
_REPLICAS = 7654321
"""A number that stands for another: YAML would put quotes round a template."""
VALUES = {
    "image": IMAGE,
    "replicas": 2,
    "resource": "nvidia.com/gpu",
    "pullPolicy": "IfNotPresent",
    "kubelet": KUBELET,
    "allowedPodFields": NO_FIELDS,
    "podSecurity": RESTRICTED,
}
_ABOUT = {
    "image": "The Grus image, as deploy/Containerfile makes it.",
    "replicas": "Controllers: one acts, the others stand by.",
    "resource": "What the nodes call a GPU.",
    "pullPolicy": "IfNotPresent, Always or Never.",
    "kubelet": "The kubelet's folder on the nodes.",
    "allowedPodFields": "Fields of `pod` that jobs may set too, by commas (spec.tolerations), or none.",
    "podSecurity": "Pod Security of namespaces made for jobs: restricted, or baseline (may be root).",
}
_NEW = '{{ if semverCompare ">=1.21-0" .Capabilities.KubeVersion.Version }}'
_POLICY = f"{_NEW}policy/v1{{{{ else }}}}policy/v1beta1{{{{ end }}}}"
"""As `grus.kubernetes.client.versions.budgets_of` decides."""

_IF_POLICIES = (
    '{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" }}'
)


def files() -> dict[str, str]:
    """Every file of deploy/ that is made, by its path there."""
    made = objects(_template())
    policies = [one for one in made if one["kind"].startswith("ValidatingAdmissionPolicy")]
    definitions = [one for one in made if one["kind"] == "CustomResourceDefinition"]
    # Helm makes the namespace that a release goes to; definitions outlive releases.
    apart = [*definitions, *policies]
    rest = [one for one in made if one not in apart and one["kind"] != "Namespace"]
    return {
        "kubernetes.yaml": MADE + as_yaml(objects(Settings())),
        "helm/grus/Chart.yaml": MADE + as_yaml([_chart()]),
        "helm/grus/values.yaml": MADE + _values(),
        "helm/grus/values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "helm/grus/crds/definitions.yaml": MADE + as_yaml(definitions),
        "helm/grus/templates/grus.yaml": MADE + _templated(as_yaml(rest)),
        "helm/grus/templates/policies.yaml": f"{MADE}{_IF_POLICIES}\n{_unbroken(policies)}{{{{- end }}}}\n",
    }


def _template() -> Settings:
    return Settings(
        namespace="{{ .Release.Namespace }}",
        image="{{ .Values.image }}",
        replicas=_REPLICAS,
        resource="{{ .Values.resource }}",
        pull_policy="{{ .Values.pullPolicy }}",
        kubelet="{{ .Values.kubelet }}",
        allowed_pod_fields="{{ .Values.allowedPodFields }}",
        pod_security="{{ .Values.podSecurity }}",
        disruption_version=_POLICY,
        admission_policies=True,
    )


def _templated(text: str) -> str:
    """The one `if` without the quotes that YAML puts around it; the number as the value it stands for."""
    text = text.replace(str(_REPLICAS), "{{ .Values.replicas }}")
    return re.sub(rf"'({re.escape(_POLICY)})'", r"\1", text)


def _unbroken(objects: list[Object]) -> str:
    """As YAML, with each template on one line."""
    return re.sub(r"\{\{\s+", "{{ ", as_yaml(objects))


def _chart() -> Object:
    return {
        "apiVersion": "v2",
        "name": "grus",
        "description": "One pool out of a team's GPUs: quotas that lend, jobs that pause, grow and shrink.",
        "type": "application",
        "version": grus.__version__,
        "appVersion": grus.__version__,
        "kubeVersion": ">=1.20.0-0",
    }


def _values() -> str:
    return "".join(f"# {_ABOUT[name]}\n{name}: {value}\n" for name, value in VALUES.items())


def _schema() -> Object:
    """Helm refuses values that the chart does not know, instead of ignoring them."""
    kinds = {name: "integer" if isinstance(value, int) else "string" for name, value in VALUES.items()}
    properties: Object = {name: {"type": kind, "description": _ABOUT[name]} for name, kind in kinds.items()}
    properties["replicas"] |= {"minimum": 1, "maximum": 9}
    properties["podSecurity"] |= {"enum": list(LEVELS)}
    properties["pullPolicy"] |= {"enum": ["IfNotPresent", "Always", "Never"]}
    return {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, "global": {"type": "object"}},
    }


def main() -> None:
    for path, text in files().items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main()
