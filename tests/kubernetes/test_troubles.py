"""The API server fails in all ways while a controller works: it recovers by itself, and nothing is torn."""

import os
from collections.abc import Iterator

import pytest

from grus.kubernetes.client.api import Api, Gone
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.leader_election import Leadership
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS
from tests.kubernetes.clusters import PATIENCE, Cluster, shared, until
from tests.kubernetes.troubles import TROUBLES, WITHOUT, Scene, restart_api_server


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Of this file alone: its API server dies."""
    if os.environ.get("GRUS_KUBECONFIG"):
        pytest.skip("GRUS_KUBECONFIG names a cluster whose API server is not ours to kill")
    with shared("troubles", *WITHOUT) as started:
        yield started


@pytest.fixture(scope="module")
def scene(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with Scene(own_cluster, tmp_path_factory.mktemp("troubles"), seconds=2.0) as made:
        yield made


@pytest.mark.parametrize("trouble", TROUBLES)
def test_gangs_and_pods_asked_for_in_the_middle_of_trouble_come_out_whole(scene: Scene, trouble: str) -> None:
    scene.round(TROUBLES[trouble])


def test_no_service_of_a_job_outlives_it(scene: Scene) -> None:
    scene.round(lambda _: None)
    scene.sweep()


def test_watching_and_leading_outlive_the_api_server(own_cluster: Cluster) -> None:
    api = Api.connect(own_cluster.kubeconfig)
    leader = Leadership(api, "default", renew=0.5)
    assert leader.acquire() == 1
    with Reflector(api, CONFIG_MAPS, namespace="default") as reflector:
        assert reflector.wait_synced(PATIENCE)
        before = api.create(CONFIG_MAPS, {"metadata": {"name": "before"}}, "default")
        until(lambda: ("default", "before") in reflector.objects, "it is known")
        restart_api_server(own_cluster)
        api.create(CONFIG_MAPS, {"metadata": {"name": "after"}}, "default")
        until(lambda: ("default", "after") in reflector.objects, "so is what was made after the restart")
        assert ("default", "before") in reflector.objects
        old = str(int(before["metadata"]["resourceVersion"]) - 1)
        with pytest.raises(Gone):  # what was before is not kept
            list(api.watch(CONFIG_MAPS, "default", version=old, timeout=300))
        until(leader.valid, "the leader renews again")
        assert leader.epoch == 1
    leader.release()
    api.close()
