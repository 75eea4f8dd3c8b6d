"""Custom resources of Grus: `GpuJob` (namespaced, spec as in a job file) and `GpuQueue` (cluster-wide).

The spec's schemas come from the wire types, so that a field added there is a field here. The status has the
fields that users look for. `record` is the job as the control plane keeps it, and belongs to it alone, as do
its last events (`recent`) and the leader term (`epoch`) of the last writer.
"""

from typing import Any

from grus.api.inputs.job_schema import JobIn
from grus.api.wire_types.pool import QueueIn
from grus.kubernetes.client.resource_kinds import GROUP as GROUP
from grus.kubernetes.client.resource_kinds import VERSION as VERSION
from grus.kubernetes.install.openapi_schemas import OPEN, Schema, structural

API_VERSION = f"{GROUP}/{VERSION}"
JOBS = f"gpujobs.{GROUP}"
QUEUES = f"gpuqueues.{GROUP}"

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NAMESPACES: Schema = {
    "type": "object",
    "description": "Who may use the queue: namespaces by name, or by their labels. All of them if not said.",
    "properties": {
        "names": {"type": "array", "items": _TEXT},
        "labels": {"type": "object", "additionalProperties": _TEXT},
    },
}
CONDITIONS: Schema = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), _TEXT),
    },
}


def definitions() -> tuple[dict[str, Any], ...]:
    """Both definitions, as they are applied to a cluster."""
    return gpu_job(), gpu_queue()


def gpu_job() -> dict[str, Any]:
    spec = structural(JobIn, without=frozenset({"name"}))
    spec["properties"] |= {
        "replicas": {
            **_WHOLE,
            "minimum": 0,
            "description": "Keep an elastic job at so many (kubectl scale).",
        },
        "paused": {"type": "boolean", "description": "Save and wait until this is false again."},
    }
    status: Schema = {
        "type": "object",
        # The fields have no owner, so that the API server need not compute at each write who wrote which.
        "x-kubernetes-map-type": "atomic",
        "properties": {
            **dict.fromkeys(("phase", "reason", "request", "startTime", "endTime", "selector"), _TEXT),
            **dict.fromkeys(("replicas", "attempt", "generation", "team", "lost"), _WHOLE),
            "gpus": _TEXT,
            "observedGeneration": _WHOLE,
            "nodes": {"type": "array", "items": _TEXT},
            "progress": {"type": "object", "additionalProperties": {"type": "number"}},
            "conditions": CONDITIONS,
            "asked": {"type": "object", **OPEN},
            **dict.fromkeys(("record", "recent"), _TEXT),
            "epoch": _WHOLE,
        },
    }
    return _definition(
        "GpuJob",
        "gpujobs",
        short=["gj"],
        scope="Namespaced",
        spec=spec,
        status=status,
        columns=[
            _column("Queue", ".spec.queue"),
            _column("Phase", ".status.phase"),
            _column("GPUs", ".status.gpus"),
            _column("Wants", ".status.request"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
            _column("Why", ".status.reason", priority=1),
        ],
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def gpu_queue() -> dict[str, Any]:
    spec = structural(QueueIn)
    spec["properties"]["namespaces"] = _NAMESPACES
    status: Schema = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("used", "borrowed"), _TEXT),
            **dict.fromkeys(("running", "waiting", "observedGeneration"), _WHOLE),
            "conditions": CONDITIONS,
            "accepted": {"type": "object", **OPEN},
        },
    }
    return _definition(
        "GpuQueue",
        "gpuqueues",
        short=["gq"],
        scope="Cluster",
        spec=spec,
        status=status,
        columns=[
            _column("Parent", ".spec.parent"),
            _column("Used", ".status.used"),
            _column("Waiting", ".status.waiting", kind="integer"),
        ],
    )


def _definition(
    kind: str,
    plural: str,
    *,
    short: list[str],
    scope: str,
    spec: Schema,
    status: Schema,
    columns: list[dict[str, Any]],
    scale: dict[str, str] | None = None,
) -> dict[str, Any]:
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **({"scale": scale} if scale else {})},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short,
                "categories": ["grus"],
            },
            "versions": [version],
        },
    }


def _column(name: str, path: str, *, kind: str = "string", priority: int = 0) -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, **({"priority": priority} if priority else {})}
