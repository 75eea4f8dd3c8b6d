"""Names of namespaces for jobs that come over HTTP, and namespaces where no job runs."""

import re
from itertools import product

import pytest

from grus.kubernetes.api_objects.job_namespaces import (
    allowed_fields,
    belongs_to,
    forbids_root,
    is_system,
    namespace_object,
    namespace_of,
    system_mistake,
)
from grus.model.identifiers import QueueName, UserName

NAMES = ("a", "b", "a-b", "b-c", "c", "A", "a_b", "a.b", "x" * 63, "x" * 64, "ünï", "-", "", "../kube-system")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def test_every_pair_has_a_namespace_of_its_own_that_kubernetes_takes() -> None:
    found = {
        (queue, user): namespace_of(QueueName(queue), UserName(user)) for queue, user in product(NAMES, NAMES)
    }
    assert len(set(found.values())) == len(found)
    assert all(LABEL.fullmatch(name) for name in found.values())
    assert all(name.startswith("grus-") and not is_system(name, "grus-system") for name in found.values())


def test_the_name_stays_the_same_and_can_be_read() -> None:
    assert namespace_of(QueueName("vision"), UserName("ann")) == "grus-vision-ann-4cd106788476"


def test_a_namespace_that_grus_makes_enforces_its_pod_security_and_says_whose_it_is() -> None:
    made = namespace_object(QueueName("vision"), UserName("Änn"), "restricted")
    assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert forbids_root(made)
    assert belongs_to(made, QueueName("vision"), UserName("Änn"))
    assert not belongs_to(made, QueueName("vision"), UserName("ann"))
    assert not forbids_root(namespace_object(QueueName("vision"), UserName("ann"), "baseline"))


def test_a_namespace_that_somebody_else_has_made_is_not_used() -> None:
    made = namespace_object(QueueName("vision"), UserName("ann"), "restricted")
    del made["metadata"]["labels"]["grus.dev/managed"]
    assert not belongs_to(made, QueueName("vision"), UserName("ann"))


@pytest.mark.parametrize("name", ["kube-system", "kube-public", "kube-node-lease", "openshift-etcd", "pool"])
def test_no_job_runs_in_a_system_namespace(name: str) -> None:
    mistake = system_mistake(name, "pool")
    assert mistake is not None
    assert "is a system namespace" in mistake.rule


def test_jobs_run_elsewhere() -> None:
    assert system_mistake("team", "pool") is None


def test_an_administrator_allows_fields_by_annotation() -> None:
    notes = {"grus.dev/allowed-pod-fields": " spec.tolerations, spec.volumes.nfs\n"}
    assert allowed_fields({"metadata": {"annotations": notes}}) == {"spec.tolerations", "spec.volumes.nfs"}
    assert allowed_fields({"metadata": {}}) == frozenset()
