"""The agent finds a pod's control group under all names that kubelets give it, in both versions."""

from pathlib import Path

import pytest

from grus.kubernetes.node.cgroups import CgroupUsage, Groups

UID = "0f1e-2d3c"
PLACES = [
    f"kubepods/pod{UID}",
    f"kubepods/burstable/pod{UID}",
    f"grus-test-node1/kubepods/besteffort/pod{UID}",
    "kubepods.slice/kubepods-pod0f1e_2d3c.slice",
    "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0f1e_2d3c.slice",
    "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0f1e_2d3c.slice",
]


def write(place: Path, **files: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name.replace("__", ".")).write_text(text)


def pod_v1(top: Path, place: str) -> None:
    write(top / "memory" / place, memory__stat="total_inactive_file 100\n", memory__usage_in_bytes="1100\n")
    write(top / "memory" / place, cgroup__procs="")
    write(top / "memory" / place / "container", cgroup__procs="7\n8\n")
    write(top / "cpuacct" / place, cpuacct__usage="1500000000\n")


def pod_v2(top: Path, place: str) -> None:
    write(top, cgroup__procs="1\n")
    write(top / place, memory__stat="anon 5\ninactive_file 100\n", memory__current="1100\n")
    write(top / place, cgroup__procs="", cpu__stat="usage_usec 1500000\nuser_usec 5\n")
    write(top / place / "container", cgroup__procs="7\n8\n")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", [pod_v1, pod_v2])
def test_a_pod_is_found_and_measured(tmp_path: Path, make: object, place: str) -> None:
    assert callable(make)
    make(tmp_path, place)
    groups = Groups(tmp_path)
    assert sorted(groups.processes(UID)) == [7, 8]
    assert groups.use(UID) == CgroupUsage(1.5, 1000)


def test_disk_bytes_are_the_pods_own_where_the_kernel_counts_them(tmp_path: Path) -> None:
    pod_v1(tmp_path / "v1", PLACES[0])
    lines = "9999:0 Read 4096\n9999:0 Write 512\n9999:1 Read 1\n9999:1 Discard 7\nTotal 4616\n"
    write(tmp_path / "v1" / "blkio" / PLACES[0], blkio__throttle__io_service_bytes_recursive=lines)
    pod_v2(tmp_path / "v2", PLACES[0])
    lines = "9999:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n9999:1 rbytes=1\n9999:2\n"
    write(tmp_path / "v2" / PLACES[0], io__stat=lines)
    for version in ("v1", "v2"):
        use = Groups(tmp_path / version).use(UID)
        assert use is not None
        assert use.disk == (4097, 512)


def test_a_pod_without_a_group_has_no_processes_and_no_use(tmp_path: Path) -> None:
    pod_v1(tmp_path, PLACES[0])
    groups = Groups(tmp_path)
    assert groups.processes("other") == []
    assert groups.use("other") is None


def test_a_group_that_goes_between_two_looks_is_no_error(tmp_path: Path) -> None:
    pod_v1(tmp_path, PLACES[0])
    groups = Groups(tmp_path)
    assert groups.use(UID) is not None
    (tmp_path / "cpuacct" / PLACES[0] / "cpuacct.usage").unlink()
    assert groups.use(UID) is None
