"""What the probe finds, and what is made of it."""

import ast
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from grus.compare import preflight, probe
from grus.compare.environments import Check, PreflightStatus
from grus.compare.workload import Workload
from tests.contracts.driver_contract import a_workload

GB = 1e9


def a_finding(**changes: Any) -> dict[str, Any]:
    """What a probe says of a node at which there is nothing to find fault with."""
    return {
        "at": 100.0,
        "python": "3.11.2",
        "executable": "/usr/bin/python3",
        "user": {
            "uid": 1000,
            "gid": 1000,
            "name": "ada",
            "home": "/home/ada",
            "home_exists": True,
            "home_writable": True,
        },
        "programs": {"python3": "/usr/bin/python3"},
        "paths": {},
        "folder": {
            "path": "/data/code",
            "writable": True,
            "why": "",
            "free": 500 * GB,
            "total": 1000 * GB,
            "write_mb_s": 900.0,
            "read_mb_s": 1200.0,
        },
        "load": {"busy_cores": 0.1, "cores": 16, "usable_cores": 16, "quota_cores": None},
        "gpus": None,
        **changes,
    }


def some_gpus(count: int, **changes: Any) -> dict[str, Any]:
    return {
        "listed": [{"name": "A100", "uuid": f"GPU-{number}"} for number in range(count)],
        "devices": [f"/dev/nvidia{number}" for number in range(count)],
        "visible": None,
        "promised": None,
        "pretend": False,
        "computes": {"gpus": count, "right": count, "wrong": []},
        "others": 0,
        **changes,
    }


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    return a_workload(tmp_path)


@pytest.fixture
def on_gpus(tmp_path: Path) -> Workload:
    return a_workload(tmp_path, resources={"gpu": 2})


def the(name: str, finding: dict[str, Any], workload: Workload, **more: Any) -> Check:
    [found] = [check for check in preflight.judged(finding, workload, **more) if check.name == name]
    return found


# -------------------------------------------------------------------------------------------------- judging


def test_a_quiet_node_passes_every_check(workload: Workload) -> None:
    verdicts = {check.verdict for check in preflight.judged(a_finding(), workload, (99.0, 101.0))}
    assert verdicts == {PreflightStatus.OK, PreflightStatus.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("gpus", "visible", "computes"),
    [
        (some_gpus(2), PreflightStatus.OK, PreflightStatus.OK),
        (some_gpus(1), PreflightStatus.FAILED, PreflightStatus.FAILED),
        (some_gpus(8), PreflightStatus.WARNING, PreflightStatus.OK),
        (some_gpus(0), PreflightStatus.FAILED, PreflightStatus.FAILED),
        (
            some_gpus(2, computes={"gpus": 2, "right": 1, "wrong": ["GPU 1: it computes wrong results"]}),
            PreflightStatus.OK,
            PreflightStatus.FAILED,
        ),
        (some_gpus(0, pretend=True), PreflightStatus.WARNING, PreflightStatus.NOT_APPLICABLE),
    ],
)
def test_gpus_are_judged_by_what_they_compute_and_not_by_a_list(
    gpus: dict[str, Any], visible: PreflightStatus, computes: PreflightStatus, on_gpus: Workload
) -> None:
    finding = a_finding(gpus=gpus)
    assert the("GPU visible", finding, on_gpus).verdict is visible
    assert the("GPU computes", finding, on_gpus).verdict is computes


def test_devices_without_a_driver_ask_for_the_runtime(on_gpus: Workload) -> None:
    there = some_gpus(0, devices=["/dev/nvidia0"])
    assert "runtimeClassName" in the("GPU visible", a_finding(gpus=there), on_gpus).fix


def test_the_reason_of_a_gpu_that_does_not_compute_is_told(on_gpus: Workload) -> None:
    broken = some_gpus(
        2, computes={"gpus": 2, "right": 1, "wrong": ["GPU 1: cuInit answered with error 999"]}
    )
    assert "error 999" in the("GPU computes", a_finding(gpus=broken), on_gpus).found


def changed(part: str, **changes: Any) -> dict[str, Any]:
    whole = a_finding()
    return {**whole, part: {**whole[part], **changes}}


@pytest.mark.parametrize(
    ("name", "finding", "verdict", "word"),
    [
        ("volume writable", changed("folder", writable=False, why="Read-only file system"), "failed", "only"),
        ("volume speed", changed("folder", write_mb_s=12.0), "warning", "12 MB/s"),
        ("volume speed", changed("folder", read_mb_s=9.0), "warning", "9 MB/s"),
        ("free disk", changed("folder", free=3 * GB), "warning", "3.0 GB"),
        ("free disk", changed("folder", free=0.05 * GB), "failed", "0.1 GB"),
        ("data readable", a_finding(paths={"code/data": False, "code/x": True}), "failed", "code/data"),
        ("data readable", a_finding(paths={"code/data": True}), "ok", "code/data"),
        ("interpreter", a_finding(programs={"torchrun": None}), "failed", "torchrun"),
        ("user and home", changed("user", name=None), "warning", "without a name"),
        ("user and home", changed("user", home_writable=False, home_exists=False), "warning", "not there"),
        ("exclusive", changed("load", busy_cores=4.0), "warning", "4.0 busy"),
        ("exclusive", changed("load", busy_cores=None), "warning", "cannot be seen"),
        ("exclusive", a_finding(gpus=some_gpus(1, others=3)), "warning", "3 of their processes"),
    ],
)
def test_what_is_wrong_with_a_node_is_said_with_its_figure_and_what_to_do(
    name: str, finding: dict[str, Any], verdict: str, word: str, workload: Workload
) -> None:
    check = the(name, finding, workload)
    assert (str(check.verdict), bool(check.fix)) == (verdict, verdict != "ok")
    assert word in check.found


@pytest.mark.parametrize(("at", "verdict"), [(100.0, "ok"), (90.0, "warning"), (130.0, "warning")])
def test_a_clock_that_differs_shows(at: float, verdict: str, workload: Workload) -> None:
    assert str(the("clock", a_finding(at=at), workload, between=(99.0, 110.0)).verdict) == verdict


@pytest.mark.parametrize(
    ("run", "programs"),
    [
        (["torchrun", "a.py"], ["torchrun"]),
        ("python3 train.py --x 1", ["python3"]),
        ("X=1 python3 train.py", []),
        ("$(evil) x", []),
    ],
)
def test_the_programs_that_are_looked_for_are_those_that_the_command_names_plainly(
    run: object, programs: list[str], tmp_path: Path
) -> None:
    found = preflight.programs(a_workload(tmp_path, run=run))
    assert [name for name in found if os.path.basename(name) != "sh"] == programs


def test_the_last_whole_line_of_the_probe_counts_among_all_that_is_printed() -> None:
    said = f'module loaded\n{probe.MARK}{{"at": 1}}\n\n{probe.MARK}{{"at": 2}}\nbye\n'
    assert preflight.found_in(said) == {"at": 2}
    assert preflight.found_in(f'{probe.MARK}{{"at": ') is None
    assert preflight.found_in("nothing") is None


# ---------------------------------------------------------------------------------------------------- probe


def test_the_probe_leaves_nothing_in_the_folder_it_tries(tmp_path: Path) -> None:
    found = probe.folder(str(tmp_path), 2)
    assert found["writable"]
    assert found["write_mb_s"] > 0.0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_not_writable_and_says_why(tmp_path: Path) -> None:
    found = probe.folder(str(tmp_path / "nowhere"), 2)
    assert not found["writable"]
    assert "No such file" in found["why"]


def test_the_probe_is_a_program_of_an_older_python_and_of_the_standard_library_alone() -> None:
    tree = ast.parse(preflight.source(), feature_version=(3, 8))
    named = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    named |= {
        (node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    assert named <= set(sys.stdlib_module_names)


class Driver:
    """A pretended CUDA driver of so many GPUs: `broken` ones miscalculate, `failing` calls err."""

    def __init__(self, gpus: int, *, broken: tuple[int, ...] = (), failing: tuple[str, ...] = ()) -> None:
        self.gpus, self.broken, self.failing = gpus, broken, failing
        self.current = -1
        self.held: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: 999 if name in self.failing else self.did(name, arguments)

    def did(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "cuDeviceGetCount":
            arguments[0]._obj.value = self.gpus
        elif name == "cuDeviceGet":
            arguments[0]._obj.value = self.current = arguments[1]
        elif name == "cuDevicePrimaryCtxRetain":
            self.held.append(self.current)
        elif name == "cuDevicePrimaryCtxRelease":
            self.held.remove(arguments[0].value)
        elif name == "cuMemcpyDtoH_v2":
            results: ctypes.Array[ctypes.c_uint32] = arguments[0]
            for place in range(len(results)):
                results[place] = place * place + (8 if self.current in self.broken else 7)
        return 0


def test_every_gpu_computes_and_is_let_go() -> None:
    driver = Driver(2)
    assert probe.tried(driver) == {"gpus": 2, "right": 2, "wrong": []}
    assert driver.held == []


def test_a_gpu_that_miscalculates_is_found_among_sound_ones() -> None:
    found = probe.tried(Driver(3, broken=(1,)))
    assert found == {"gpus": 3, "right": 2, "wrong": ["GPU 1: it computes wrong results"]}


@pytest.mark.parametrize("call", ["cuInit", "cuModuleLoadData", "cuLaunchKernel", "cuCtxSynchronize"])
def test_a_call_of_the_driver_that_fails_is_named_and_the_gpu_let_go(call: str) -> None:
    driver = Driver(1, failing=(call,))
    found = probe.tried(driver)
    assert found["right"] == 0
    assert f"{call} answered with error 999" in found["wrong"][0]
    assert driver.held == []


def test_without_a_driver_library_no_gpu_computes() -> None:
    assert "libcuda" in probe.tried(None)["wrong"][0]
