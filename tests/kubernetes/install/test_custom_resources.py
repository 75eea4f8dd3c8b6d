"""The custom resources: schemas out of the wire types, in the form that an API server takes."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from grus.api.inputs.job_schema import JobIn
from grus.api.wire_types.pool import QueueIn
from grus.kubernetes.install.custom_resources import (
    API_VERSION,
    JOBS,
    QUEUES,
    definitions,
    gpu_job,
    gpu_queue,
)
from tests.kubernetes.clusters import Cluster, until

Node = dict[str, Any]


def spec_of(definition: Node) -> Node:
    found: Node = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def nodes(schema: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from nodes(one, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from nodes(schema[name], f"{path}.{name}")


@pytest.mark.parametrize("definition", definitions(), ids=["GpuJob", "GpuQueue"])
def test_every_schema_is_structural(definition: Node) -> None:
    """Each node names its type or is open, and nothing is referred to: else the server would not prune."""
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, node in nodes(root):
        assert "$ref" not in node, path
        assert "anyOf" not in node, path
        assert node.get("additionalProperties") is not False, path
        openly = "x-kubernetes-preserve-unknown-fields" in node or "x-kubernetes-int-or-string" in node
        assert "type" in node or openly, path


def test_a_job_has_the_fields_of_a_job_file_and_a_queue_those_of_a_queue() -> None:
    names = {field.alias or name for name, field in JobIn.model_fields.items()}
    assert set(spec_of(gpu_job())["properties"]) == names - {"name"} | {"replicas", "paused"}
    assert set(spec_of(gpu_queue())["properties"]) == set(QueueIn.model_fields) | {"namespaces"}


def test_fields_are_explained_in_the_words_of_the_source() -> None:
    fields = spec_of(gpu_job())["properties"]
    assert fields["resources"]["properties"]["gpu"]["description"].startswith("GPUs: 4, 2..8")
    assert fields["idle"]["properties"]["for"]["description"].startswith("Time for which utilization")


@pytest.fixture
def defined(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Both definitions applied to a real API server; gives `kubectl`."""
    manifest = tmp_path / "definitions.yaml"
    manifest.write_text(yaml.safe_dump_all(definitions()))
    cluster.kubectl("apply", "-f", str(manifest))
    for name in (JOBS, QUEUES):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=300s")
    yield cluster.kubectl
    cluster.kubectl("delete", "-f", str(manifest))


def test_a_real_api_server_takes_them_and_kubectl_feels_at_home(
    defined: Callable[..., str], namespace: str, tmp_path: Path
) -> None:
    """Applied, listed with its columns, scaled and explained; wrong types are refused, the unknown pruned."""
    job = {
        "apiVersion": API_VERSION,
        "kind": "GpuJob",
        "metadata": {"name": "resnet", "namespace": namespace},
        "spec": {
            "queue": "vision",
            "run": "python train.py",
            "resources": {"gpu": "2..8"},
            "env": {"A": "1"},
        },
    }
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(job))
    for name in (JOBS, QUEUES):
        kept = json.loads(defined("get", "crd", name, "-o", "json"))["status"]["conditions"]
        assert "NonStructuralSchema" not in {one["type"] for one in kept}
    defined("apply", "-f", str(manifest))
    assert defined("get", "gj", "-n", namespace).splitlines()[0].split() == [
        *("NAME", "QUEUE", "PHASE", "GPUS", "WANTS", "AGE")
    ]
    defined("scale", "gj", "resnet", "--replicas=4", "-n", namespace)
    spec = json.loads(defined("get", "gj", "resnet", "-n", namespace, "-o", "json"))["spec"]
    assert spec == {**job["spec"], "replicas": 4}  # type: ignore[dict-item]  # a mapping
    until(lambda: "GPUs: 4, 2..8" in _explained(defined), "the schema is published")
    manifest.write_text(yaml.safe_dump({**job, "spec": {"run": "x", "retries": "many"}}))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        defined("apply", "-f", str(manifest), "--validate=false")
    assert "spec.retries" in refused.value.stderr


def _explained(kubectl: Callable[..., str]) -> str:
    """The API server publishes a new schema some moments after it has accepted it."""
    with suppress(subprocess.CalledProcessError):
        return kubectl("explain", "gpujob.spec.resources")
    return ""
