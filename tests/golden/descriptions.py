"""Interfaces that are described by schemas: the HTTP API and the kinds of Kubernetes objects."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import objects
from tests.server.house import House


@contextmanager
def a_server() -> Iterator[House]:
    with TemporaryDirectory() as folder:
        house = House(Path(folder))
        try:
            yield house
        finally:
            house.close()


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI description, without the version of Grus."""
    with a_server() as house:
        found: dict[str, Any] = house.ask("GET", "/v1/openapi.json").json()
    del found["info"]["version"]
    return found


@cache
def crds() -> dict[str, Any]:
    """The custom resource definitions by their names."""
    made = objects(Settings(converters=True))
    return {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "CustomResourceDefinition"}
