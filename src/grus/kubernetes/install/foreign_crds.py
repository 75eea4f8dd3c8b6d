"""Definitions of jobs of other systems that Grus takes as they are. Pure.

`ElasticHorovodJob` is of Alnair (github.com/CentaurusInfra/alnair), `BBJob` of Big Brain
(github.com/chiragcshetty/CS523_bigbrain). Groups, names and fields are theirs, so that their objects can be
applied unchanged; a field that is not known here is kept rather than refused, since some of their samples
have such. What is in the status beyond theirs is ours: they left it empty, or at its first value.
"""

from typing import Any

from grus.kubernetes.install.custom_resources import CONDITIONS
from grus.kubernetes.install.openapi_schemas import OPEN, Schema

HOROVOD_GROUP = "ai.centauruscloud.io"
HOROVOD_VERSION = "v1alpha1"
HOROVOD_PLURAL = "elastichorovodjobs"
HOROVOD_DISCOVERY = "ai-horovod-discover-hosts"
"""ConfigMap of the original's instructions: where it is, images are expected to have horovodrun and sshd."""
BRAIN_GROUP = "big-brain.github.com"
BRAIN_VERSION = "v1"
BRAIN_PLURAL = "bbjobs"
PLURALS = ((HOROVOD_GROUP, HOROVOD_PLURAL), (BRAIN_GROUP, BRAIN_PLURAL))

_TEXT: Schema = {"type": "string"}
_REPLICAS: Schema = {"type": "integer", "format": "int32", "minimum": 0}
_OURS: Schema = {**dict.fromkeys(("phase", "reason", "gpus", "job"), _TEXT), "conditions": CONDITIONS}


def definitions() -> tuple[dict[str, Any], ...]:
    return elastic_horovod_job(), big_brain_job()


def elastic_horovod_job() -> dict[str, Any]:
    spec: Schema = {
        "type": "object",
        "required": ["launcherSpec", "workersSpec"],
        "properties": {
            "launcherSpec": {
                "type": "object",
                "required": ["image", "pythonCommand"],
                "properties": {"image": _TEXT, "pythonCommand": {"type": "array", "items": _TEXT}},
            },
            "workersSpec": {
                "type": "object",
                "required": ["image"],
                "properties": {
                    "image": _TEXT,
                    **dict.fromkeys(("minReplicas", "maxReplicas", "targetReplicas"), _REPLICAS),
                },
            },
        },
        **OPEN,
    }
    return _definition(
        "ElasticHorovodJob",
        HOROVOD_GROUP,
        HOROVOD_VERSION,
        HOROVOD_PLURAL,
        spec=spec,
        status={
            "availableReplicas": {"type": "integer", "format": "int32"},
            "launcher": _TEXT,
            "workers": _TEXT,
            **_OURS,
        },
        columns=[
            _column("Phase", ".status.phase"),
            _column("Workers", ".status.availableReplicas", kind="integer"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
        ],
    )


def big_brain_job() -> dict[str, Any]:
    return _definition(
        "BBJob",
        BRAIN_GROUP,
        BRAIN_VERSION,
        BRAIN_PLURAL,
        spec={
            "type": "object",
            "properties": dict.fromkeys(("model", "data", "loss", "optimizer"), _TEXT),
            **OPEN,
        },
        status=_OURS,
        columns=[
            _column("Model", ".spec.model"),
            _column("Phase", ".status.phase"),
            _column("GPUs", ".status.gpus"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
        ],
    )


def _definition(
    kind: str,
    group: str,
    version: str,
    plural: str,
    *,
    spec: Schema,
    status: Schema,
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    properties = {"spec": spec, "status": {"type": "object", "properties": status}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def _column(name: str, path: str, *, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path}
