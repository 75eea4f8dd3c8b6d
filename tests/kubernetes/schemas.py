"""Strict validation of objects: Kubernetes' own schemas of many releases, and those of Grus's definitions."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
from kubernetes_validate.utils import all_versions, schema_contents
from referencing import Registry, Resource

from grus.kubernetes.install import custom_resources, foreign_crds

Object = Mapping[str, Any]

RELEASES = tuple(dict.fromkeys(version.rpartition(".")[0] for version in all_versions()))
"""All that the package has: 1.25 to 1.37."""


def problems(release: str, one: Object) -> Iterator[str]:
    """Everything that this release would not take, or would drop."""
    validator = _of_definition(one["apiVersion"], one["kind"]) or _of_release(
        release, one["apiVersion"], one["kind"]
    )
    for error in validator.iter_errors(one):
        where = ".".join(map(str, error.path))
        name = one["metadata"].get("name") or one["metadata"].get("generateName")
        yield f"{release} {one['kind']}/{name} {where}: {error.message[:300]}"


@cache
def _of_release(release: str, api_version: str, kind: str) -> jsonschema.Draft202012Validator:
    """By the names that the package gives its files: rbac.authorization.k8s.io/v1 → rbac-v1."""
    api = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    folder = f"kubernetes-json-schema/v{release}.0-local-strict"
    schema = schema_contents(f"{folder}/{kind.lower()}-{api}.json", release)
    registry = _definitions(folder, release) @ (Resource.from_contents(schema) @ Registry())
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def _definitions(folder: str, release: str) -> Resource[Any]:
    return Resource.from_contents(schema_contents(f"{folder}/_definitions.json", release))


@cache
def _of_definition(api_version: str, kind: str) -> jsonschema.Draft202012Validator | None:
    """None for kinds of Kubernetes itself."""
    for definition in (*custom_resources.definitions(), *foreign_crds.definitions()):
        spec = definition["spec"]
        for version in spec["versions"]:
            if (f"{spec['group']}/{version['name']}", spec["names"]["kind"]) == (api_version, kind):
                whole = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {}}
                schema = version["schema"]["openAPIV3Schema"]
                schema = {**schema, "properties": {**whole, **schema["properties"]}}
                return jsonschema.Draft202012Validator(_strict(schema))
    return None


def _strict(schema: Any) -> Any:
    """A structural schema as JSON Schema in which a field that would be pruned is an error."""
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(value) for key, value in schema.items() if key not in ("properties", "default")}
    if "properties" in schema:
        made["properties"] = {name: _strict(one) for name, one in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    kinds = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [made.get("type")]
    if kinds != [None]:
        made["type"] = [*kinds, "null"] if schema.get("nullable") else kinds
    return made
