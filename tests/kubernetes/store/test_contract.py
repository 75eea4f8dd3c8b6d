"""The Kubernetes store keeps every promise of the contract on a real API server, and shows jobs to people."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, run_state_machine_as_test

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Exists, Missing
from grus.kubernetes.client.resource_kinds import GPU_JOBS, LEASES, NODES
from grus.model.errors import Conflict
from grus.model.identifiers import DeviceId, NodeId
from grus.model.interfaces import Store
from grus.model.jobs import Phase, Seat
from grus.model.resources import GPU
from grus.store.kubernetes import lease_epochs
from grus.store.kubernetes.store import KubernetesStore
from grus.store.sqlite import SqliteStore
from tests.contracts.store_contract import StoreContract
from tests.contracts.store_together_contract import some
from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.store.clusters import NAMESPACE, emptied
from tests.kubernetes.store.conftest import Opener
from tests.store.builders import a_job, an_event, done, stored
from tests.store.test_against_memory import SqliteAgainstMemory

SEAT = Seat("worker", 0, NodeId("node1"), (DeviceId("node1/0"),), GPU)


class TestKubernetesStore(StoreContract):
    @pytest.fixture
    def store(self, empty: Api) -> Iterator[Store]:
        for node in ("n1", "n2"):
            with suppress(Exists):
                empty.create(NODES, {"metadata": {"name": node}})
        store = KubernetesStore(empty)
        yield store
        store.close()


def test_kubectl_shows_waits_for_and_describes_a_job_made_by_other_ways(
    open_store: Opener, alone: Cluster
) -> None:
    store = open_store()
    [job] = stored(store, a_job("j1"))
    name = store.home(job.id).name
    assert name == "resnet-j1"
    assert alone.kubectl("get", "gj", name, "--no-headers").split()[:5] == [
        *(name, "vision", "pending", "0", "1")
    ]
    job = done(store.replace(replace(job, phase=Phase.STARTING, seats=(SEAT,)), an_event(job, "starting")))
    job = done(store.replace(replace(job, phase=Phase.RUNNING), an_event(job, "running")))
    alone.kubectl("wait", "gj", name, "--for=condition=Running", "--timeout=300s")
    assert alone.kubectl("get", "gj", name, "--no-headers").split()[2:4] == ["running", "1"]
    done(store.replace(replace(job, phase=Phase.SUCCEEDED, seats=(), ended_at=2000.0), an_event(job, "done")))
    for condition in ("Running=False", "Complete", "Finished"):
        alone.kubectl("wait", "gj", name, f"--for=condition={condition}", "--timeout=300s")
    until(lambda: "It was running." in alone.kubectl("describe", "gj", name), "the events are told")
    assert "End Time:" in alone.kubectl("describe", "gj", name)


def test_several_jobs_at_once_are_refused(open_store: Opener) -> None:
    """A cluster changes one object at a time: a part of them would be there if the controller died."""
    store = open_store()
    with pytest.raises(Conflict, match="one by one"):
        done(store.create_all(some("j1", "j2")))
    assert store.jobs() == []


def test_one_job_alone_is_stored_however_it_comes(open_store: Opener) -> None:
    store = open_store()
    assert done(store.create_all(some("j1"))) == store.jobs() != []
    with pytest.raises(Conflict, match="there is a job"):
        done(store.create_all([replace(some("j1")[0], key=None)]))
    assert done(store.create_all([])) == []


def test_a_job_that_a_person_applied_is_recorded_in_that_object(
    open_store: Opener, alone: Cluster, empty: Api
) -> None:
    store = open_store()
    manifest = """
        apiVersion: grus.dev/v1alpha1
        kind: GpuJob
        metadata: {name: mine}
        spec: {queue: vision, run: python train.py}
    """
    seen: list[str] = []
    store.watch(lambda what, item: seen.append(item["metadata"]["name"]))
    alone.kubectl("apply", "-f", "-", stdin=manifest)
    until(lambda: "mine" in seen, "whoever watches has heard")
    assert store.jobs() == []
    item = empty.get(GPU_JOBS, "mine", NAMESPACE)
    alone.kubectl("annotate", "gj", "mine", "note=changed-meanwhile")
    item["status"] = {"observedGeneration": 1}
    job = done(store.admit(a_job("jmine"), an_event(), item))
    assert (job.version, store.jobs()) == (1, [job])
    assert store.home(job.id).name == "mine"
    assert empty.get(GPU_JOBS, "mine", NAMESPACE)["status"]["observedGeneration"] == 1
    alone.kubectl("wait", "gj", "mine", "--for=condition=Admitted", "--timeout=300s")


def test_whatever_is_done_to_both_the_store_and_the_reference_answer_the_same(empty: Api) -> None:
    """The machine that compares the SQLite store with the one in memory, with this store in its place."""
    for node in ("ada", "bob"):
        with suppress(Exists):
            empty.create(NODES, {"metadata": {"name": node}})

    class Machine(SqliteAgainstMemory):
        @initialize()
        def open(self) -> None:
            emptied(empty)
            for node in empty.list(NODES)[0]:
                empty.patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": None}})
            with suppress(Missing):
                empty.delete(LEASES, lease_epochs.NAME, NAMESPACE)
            super().open()

        def opened(self) -> SqliteStore:
            return KubernetesStore(empty, history=self.path)

    few = settings(
        max_examples=10,
        stateful_step_count=40,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=few)
