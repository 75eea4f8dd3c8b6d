"""The custom resources: schemas out of the wire types, in the form that an API server takes."""

from collections.abc import Iterator
from typing import Any

import pytest

from grus.api.wire import JobIn, QueueIn
from grus.kubernetes.resources import definitions, gpu_job, gpu_queue

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
    assert fields["idle"]["properties"]["for"]["description"] == "… for this long."
