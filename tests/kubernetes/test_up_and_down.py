"""A test cluster starts what it needs and, stopped, leaves nothing; nobody else's processes are touched."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kubernetes import clusters
from tests.kubernetes.clusters import CANNOT_BE_HAD, reason, tool
from tools.kubernetes.__main__ import claimed
from tools.kubernetes.processes import Failed, Mark, Processes, end
from tools.kubernetes.settings import Settings, add_user, load

BARE = ("--without", "kube-controller-manager", "--without", "kube-scheduler")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A base of our own: no cluster of anybody else is seen."""
    place = tmp_path / "clusters"
    monkeypatch.setenv("GRUS_KUBERNETES_RUN", str(place))
    monkeypatch.delenv("GRUS_KUBECONFIG", raising=False)
    yield place
    tool("down", "--all")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.fixture
def pretender(base: Path) -> Iterator[Path]:
    """The folder of a cluster whose only process is a sleeping one."""
    settings = claimed(Settings("default", -1, "/nowhere"))
    with started(settings.folder) as process:
        yield settings.folder
        process.kill()


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = Processes(folder).start("etcd", ["sleep", "1000"])
    assert process is not None
    with process:
        yield process


def test_a_cluster_is_repaired_by_up_and_leaves_no_trace_after_down(base: Path) -> None:
    begun = tool("up", *BARE)
    if begun.returncode == CANNOT_BE_HAD:
        pytest.skip(reason(begun.stderr))
    assert begun.returncode == 0, begun.stderr
    etcd, server = Processes(base / "default").marks()
    end([server])
    assert tool("up", *BARE).returncode == 0
    same, new = Processes(base / "default").marks()
    assert same == etcd
    assert new != server
    assert tool("down").returncode == 0
    assert not any(mark.alive() for mark in (same, new))
    assert not base.exists()


def test_two_clusters_share_no_port_and_stop_apart(pretender: Path) -> None:
    other = claimed(Settings("other", -1, "/nowhere"))
    first = load(pretender)
    assert first is not None
    assert not set(first.ports) & set(other.ports)
    (mark,) = Processes(pretender).marks()
    assert tool("down", "--name", "other").returncode == 0
    assert not other.folder.exists()
    assert mark.alive()
    assert tool("down", "--all").returncode == 0
    assert not mark.alive()
    assert not pretender.parent.exists()


def test_a_cluster_stays_while_one_of_its_users_lives(
    pretender: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    add_user(pretender, os.getpid())
    add_user(pretender, sleeper.pid)
    tool("down", "--user", str(os.getpid()))
    tool("down", "--orphans")
    (mark,) = Processes(pretender).marks()
    assert mark.alive()
    sleeper.kill()
    sleeper.wait()
    assert tool("down", "--orphans").returncode == 0
    assert not mark.alive()
    assert not pretender.exists()


def test_a_cluster_stays_until_the_last_use_in_a_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session fixture that another module imports is set up a second time, and ends before the first."""
    calls = []

    def tool(command: str, *words: str) -> subprocess.CompletedProcess[str]:
        calls.append((command, *words[:1]))
        return subprocess.CompletedProcess(words, 0, "kubeconfig\n", "")

    monkeypatch.setattr(clusters, "tool", tool)
    with clusters.shared("twice"):
        with clusters.shared("twice"):
            calls.clear()
        assert calls == []
    assert calls == [("down", "--name")]


def test_a_cluster_that_is_for_nobody_in_particular_is_no_orphan(pretender: Path) -> None:
    assert tool("down", "--orphans").returncode == 0
    assert pretender.exists()


def test_a_name_cannot_stand_for_two_shapes(pretender: Path) -> None:
    with pytest.raises(Failed, match="down --name default"):
        claimed(Settings("default", -1, "/nowhere", without=("kube-scheduler",)))


def test_a_process_is_not_taken_for_an_earlier_one_of_its_number(sleeper: subprocess.Popen[bytes]) -> None:
    mark = Mark.of(sleeper.pid)
    assert mark.alive()
    earlier = Mark(mark.pid, mark.began - 1, mark.boot)
    assert not earlier.alive()
    end([earlier])
    assert sleeper.poll() is None
    end([mark])
    assert sleeper.wait() < 0


def test_a_process_is_recorded_by_itself(tmp_path: Path) -> None:
    """So that one whose starter is killed in between is known too."""
    with started(tmp_path) as process:
        assert Processes(tmp_path).marks() == [Mark.of(process.pid)]
        process.kill()


def test_a_given_cluster_is_used_and_never_stopped(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "kubeconfig"
    given.write_text("{}")
    monkeypatch.setenv("GRUS_KUBECONFIG", str(given))
    assert tool("up").stdout.strip() == str(given)
    assert tool("down").returncode == 0
    assert given.exists()
    assert not base.exists()


def test_a_folder_without_programs_is_named(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    done = tool("up")
    assert done.returncode == CANNOT_BE_HAD
    assert "lacks etcd and kube-apiserver" in done.stderr


def test_where_nothing_can_be_built_the_reason_is_given_and_no_cache_is_left(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    done = tool("up")
    assert done.returncode == CANNOT_BE_HAD
    assert "GRUS_KUBECONFIG" in done.stderr
    assert [file.name for file in (tmp_path / "cache").glob("grus/kubernetes/*")] == ["lock"]
