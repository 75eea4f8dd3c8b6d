"""The API server dies and comes back: what watches and what leads goes on by itself."""

import os
from collections.abc import Iterator

import pytest

from grus.kubernetes.api import Api, Gone
from grus.kubernetes.kinds import CONFIG_MAPS
from grus.kubernetes.leadership import Leadership
from grus.kubernetes.reflector import Reflector
from tests.kubernetes.clusters import PATIENCE, Cluster, shared, tool, until
from tools.kubernetes.processes import end, recorded

BARE = ("--without", "kube-scheduler", "--without", "kube-controller-manager")


@pytest.fixture
def alone() -> Iterator[Cluster]:
    """An API server that no other test uses, without controllers."""
    if os.environ.get("GRUS_KUBECONFIG"):
        pytest.skip("GRUS_KUBECONFIG names a cluster whose API server is not ours to kill")
    with shared("restart", *BARE) as started:
        yield started


def kill_api_server(cluster: Cluster) -> None:
    mark = recorded(cluster.kubeconfig.parent / "processes" / "kube-apiserver")
    assert mark is not None
    end([mark])


def test_watching_and_leading_outlive_the_api_server(alone: Cluster) -> None:
    api = Api.connect(alone.kubeconfig)
    leader = Leadership(api, "default", renew=0.5)
    assert leader.acquire() == 1
    with Reflector(api, CONFIG_MAPS, namespace="default") as reflector:
        assert reflector.wait_synced(PATIENCE)
        api.create(CONFIG_MAPS, {"metadata": {"name": "before"}}, "default")
        until(lambda: ("default", "before") in reflector.objects, "it is known")
        kill_api_server(alone)
        again = tool("up", "--name", alone.name, *BARE)
        assert again.returncode == 0, again.stderr
        api.create(CONFIG_MAPS, {"metadata": {"name": "after"}}, "default")
        until(lambda: ("default", "after") in reflector.objects, "so is what was made after the restart")
        assert ("default", "before") in reflector.objects
        with pytest.raises(Gone):  # what was before is not kept
            list(api.watch(CONFIG_MAPS, "default", version="1", timeout=60))
        until(leader.valid, "the leader renews again")
        assert leader.epoch == 1
    leader.release()
    api.close()
