"""CPU limits by control groups of either version: entered before the command, removed after its end."""

import os
from pathlib import Path

import pytest

from grus.engines.local.cgroup_detection import WORKERS, CpuGroups, find_groups, prepare
from grus.engines.local.engine import LocalEngine
from grus.engines.local.worker_cgroup import CpuGroup
from grus.model.interfaces import WorkerState
from grus.telemetry.virtual_gpus import VirtualSource
from tests.contracts.engine_contract import until
from tests.engines.conftest import opened
from tests.engines.test_local import a_worker

V1 = "30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:11 - cgroup cgroup rw,cpu,cpuacct\n"
V1_OTHER = "31 23 0:27 / /sys/fs/cgroup/memory rw,relatime shared:12 - cgroup cgroup rw,memory\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def a_machine(root: Path, mounts: str, groups: str) -> Path:
    """Files of the kernel as this process would see them."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/self/cgroup").write_text(groups)
    return root


def a_group(root: Path, path: str, controllers: str = "cpu io memory", processes: str = "") -> Path:
    made = root / path.lstrip("/")
    made.mkdir(parents=True, exist_ok=True)
    (made / "cgroup.controllers").write_text(controllers)
    (made / "cgroup.procs").write_text(processes)
    (made / "cgroup.subtree_control").write_text("")
    return made


def test_version_1_is_found_by_its_mount_and_the_servers_own_group(tmp_path: Path) -> None:
    root = a_machine(
        tmp_path, V1_OTHER + V1, "4:memory:/other\n2:cpu,cpuacct:/system.slice/grus.service\n0::/\n"
    )
    a_group(root, "/sys/fs/cgroup/cpu,cpuacct/system.slice/grus.service")
    own = "/sys/fs/cgroup/cpu,cpuacct/system.slice/grus.service"
    assert find_groups(root) == CpuGroups(1, own, own)


def test_in_version_2_groups_of_workers_are_beside_the_servers_own(tmp_path: Path) -> None:
    root = a_machine(tmp_path, V2, "0::/system.slice/grus.service/server\n")
    base = "/sys/fs/cgroup/system.slice/grus.service"
    a_group(root, base)
    assert find_groups(root) == CpuGroups(2, base, f"{base}/server")


@pytest.mark.parametrize(
    ("controllers", "processes", "why"),
    [
        ("io memory", "", "no cpu controller"),
        ("cpu", "17\n", "there are processes in /sys/fs/cgroup/user.slice"),
    ],
)
def test_in_version_2_the_group_above_needs_the_controller_and_no_processes(
    tmp_path: Path, controllers: str, processes: str, why: str
) -> None:
    root = a_machine(tmp_path, V2, "0::/user.slice/shell.scope\n")
    a_group(root, "/sys/fs/cgroup/user.slice", controllers, processes)
    found = find_groups(root)
    assert found.version == 0
    assert why in found.words()
    assert found.plan("x", 1000) is None


def test_without_control_groups_the_reason_is_told(tmp_path: Path) -> None:
    assert "cannot be found" in find_groups(tmp_path).words()
    assert "no control group" in find_groups(a_machine(tmp_path, V1_OTHER, "4:memory:/\n")).words()


def test_in_a_container_the_mounts_root_is_left_out_of_the_path(tmp_path: Path) -> None:
    mount = "30 23 0:26 /docker/7f /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    root = a_machine(tmp_path, mount, "2:cpu:/docker/7f/inner\n")
    a_group(root, "/sys/fs/cgroup/cpu/inner")
    assert find_groups(root).base == "/sys/fs/cgroup/cpu/inner"


@pytest.mark.parametrize(
    ("version", "limit"),
    [(2, {"cpu.max": "150000 100000"}), (1, {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"})],
)
def test_the_limit_is_written_in_the_words_of_each_version(
    tmp_path: Path, version: int, limit: dict[str, str]
) -> None:
    """On plain files: this kernel has one of the two versions only."""
    home, path = tmp_path / "home", tmp_path / "w"
    home.mkdir()
    path.mkdir()
    for name in ("cpu.max", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cgroup.procs"):
        (path / name).touch()
    (home / "cgroup.procs").touch()
    group = CpuGroup(version, str(path), str(home), 1500)
    assert group.enter() == ""
    assert (path / "cgroup.procs").read_text() == str(os.getpid())
    assert {name: (path / name).read_text() for name in limit} == limit
    group.leave()
    assert (home / "cgroup.procs").read_text() == str(os.getpid())


def test_version_2_turns_the_controller_on_above_the_workers(tmp_path: Path) -> None:
    base = a_group(tmp_path, "base")
    workers = a_group(tmp_path, f"base/{WORKERS}")
    groups = CpuGroups(2, str(base), str(base / "server"))
    assert prepare(groups) == groups
    assert [(one / "cgroup.subtree_control").read_text() for one in (base, workers)] == ["+cpu", "+cpu"]
    os.remove(base / "cgroup.subtree_control")
    assert prepare(groups).version == 0


def own_groups() -> CpuGroups:
    found = find_groups()
    return found if not found.version else prepare(found)


needs_groups = pytest.mark.skipif(not find_groups().version, reason=f"CPU is {find_groups().words()}")


@needs_groups
def test_a_worker_runs_in_a_limited_group_that_is_removed_at_its_end(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"cat /proc/self/cgroup > {told}.new; (sleep 60 &); mv {told}.new {told}; sleep 60"
    groups = own_groups()
    engine = LocalEngine(tmp_path / "engine", VirtualSource("1x4x16GB"), cpu=groups)
    with opened(engine):
        worker = a_worker("j1.1.worker.0.1", script, cpu=250)
        engine.start(worker)
        until(told.exists)
        [group] = [line.rsplit("/", 1)[1] for line in told.read_text().splitlines() if WORKERS in line]
        folder = Path(groups.base, WORKERS, group)
        name = "cpu.max" if groups.version == 2 else "cpu.cfs_quota_us"
        assert (folder / name).read_text().split()[0] == "25000"
        assert len((folder / "cgroup.procs").read_text().split()) >= 3  # supervisor, shell, sleep
        engine.stop(worker.id, 0)
        until(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()))
        until(lambda: not folder.exists())
    assert "control groups" in engine.mechanisms()["cpu"]
    with open("/proc/self/cgroup") as own:
        assert WORKERS not in own.read()


@needs_groups
def test_a_worker_without_a_limit_stays_in_the_servers_group(tmp_path: Path) -> None:
    told = tmp_path / "told"
    engine = LocalEngine(tmp_path / "engine", VirtualSource("1x4x16GB"), cpu=own_groups())
    with opened(engine):
        engine.start(a_worker("j1.1.worker.0.1", f"cat /proc/self/cgroup > {told}.n; mv {told}.n {told}"))
        until(told.exists)
    assert WORKERS not in told.read_text()


def test_a_group_that_cannot_be_made_lets_the_command_run_and_says_so(tmp_path: Path) -> None:
    groups = CpuGroups(1, str(tmp_path / "base"), str(tmp_path / "base"))
    engine = LocalEngine(tmp_path / "engine", VirtualSource("1x4x16GB"), cpu=groups)
    with opened(engine):
        worker = a_worker("j1.1.worker.0.1", "echo hello", cpu=250)
        engine.start(worker)
        until(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()))
        text = engine.log(worker.id)[0].decode()
    assert "its CPU is not limited" in text
    assert text.endswith("hello\n")
