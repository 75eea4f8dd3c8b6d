"""Definitions of another version in the cluster."""

import copy

from grus.kubernetes.install.custom_resources import gpu_job, gpu_queue
from grus.operator.crd_schema_check import missing


def test_a_definition_of_this_version_lacks_nothing() -> None:
    for definition in (gpu_job(), gpu_queue()):
        assert missing(definition, definition) == []


def test_fields_that_an_older_definition_does_not_know_are_named() -> None:
    old = copy.deepcopy(gpu_job())
    fields = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del fields["spec"]["properties"]["pod"]
    del fields["spec"]["properties"]["resources"]["properties"]["sizes"]
    del fields["status"]["properties"]["asked"]
    assert missing(old, gpu_job()) == [".spec.pod", ".spec.resources.sizes", ".status.asked"]


def test_a_field_that_takes_anything_lacks_nothing() -> None:
    old = copy.deepcopy(gpu_job())
    fields = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert missing(old, gpu_job()) == []
