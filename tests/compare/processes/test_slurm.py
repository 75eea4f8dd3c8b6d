"""The driver of Slurm, against a real one."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.slurm_cluster import SlurmCluster
from grus.compare.backends.run_wait import PollSchedule
from grus.compare.backends.slurm import Slurm
from grus.compare.environments import Driver, DriverFailed, EndingKind, Order, PreflightStatus, parse
from grus.compare.workload import Workload
from tests.compare.end_to_end import a_job, check_whole, compare, sides
from tests.compare.slurms import a_slurm
from tests.contracts.driver_contract import DriverContract, a_bundle, a_workload, run

ENVIRONMENT = parse(["slurm=low", "local"])[0]
OFTEN = PollSchedule(clock=time.time, pause=time.sleep, every=0.1)


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with a_slurm() as cluster:
        yield cluster


class TestSlurm(DriverContract):
    @pytest.fixture(autouse=True)
    def place(self, slurm: SlurmCluster, tmp_path: Path) -> None:
        self.slurm, self.base = slurm, tmp_path / "100% shared"

    @pytest.fixture
    def driver(self) -> Driver:
        return Slurm(ENVIRONMENT, base=self.base, watch=OFTEN)

    @pytest.fixture
    def again(self) -> Driver:
        return Slurm(ENVIRONMENT, base=self.base, watch=OFTEN)

    def left(self) -> list[str]:
        return [*self.slurm.queued(), *(str(path) for path in self.base.glob("*"))]

    def test_a_run_that_slurm_ends_was_killed_and_slurm_says_why(self, ready: Driver) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py", "hang")))

        def end_it(said: str) -> None:
            if said.startswith("running"):
                self.slurm.ask("scancel", started.handle)

        ending = ready.wait(started, 60.0, end_it)
        assert ending.end in (
            EndingKind.KILLED,
            EndingKind.NEVER_STARTED,
        )  # before or after the sampler's first line
        assert "CANCELLED" in ending.why

    def test_a_controller_that_is_silent_for_a_while_does_not_end_a_run(
        self, ready: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py")))
        silent, real = tmp_path / "silent", shutil.which("scontrol")
        silent.touch()
        (tmp_path / "bin").mkdir()
        stand_in = tmp_path / "bin" / "scontrol"
        complaint = f'rm "{silent}"; echo "Unable to contact slurm controller" >&2; exit 1'
        stand_in.write_text(f'#!/bin/sh\nif [ -e "{silent}" ]; then {complaint}; fi\nexec {real} "$@"\n')
        stand_in.chmod(0o755)
        monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
        told: list[str] = []
        ending = ready.wait(started, 60.0, told.append)
        assert told[0] == "Slurm does not answer: Unable to contact slurm controller"
        assert ending.end is EndingKind.ENDED

    def test_the_time_in_the_queue_is_told(self, ready: Driver) -> None:
        ending, _, _ = run(ready, Order(name="one", argv=("python3", "program.py")))
        assert ending.queued is not None
        assert ending.queued > 0.0
        assert ending.node in ("n0", "n1")

    def test_with_two_clocks_the_queue_is_timed_by_this_machines_alone(
        self, workload: Workload, bundle: Path
    ) -> None:
        """This machine's clock goes an hour ahead of the nodes'."""
        ahead = PollSchedule(clock=lambda: time.time() + 3600.0, pause=time.sleep, every=0.05)
        driver = Slurm(ENVIRONMENT, base=self.base, watch=ahead)
        driver.prepare(workload, bundle)
        try:
            checks = {check.name: check for check in driver.preflight(workload)}
            ending, _, _ = run(driver, Order(name="one", argv=("sleep", "1")))
        finally:
            driver.clean_up()
        assert checks["clock"].verdict is PreflightStatus.WARNING, checks
        assert ending.queued is not None
        assert ending.queued < 1800.0
        assert ending.startup is not None

    def test_the_words_of_sbatch_come_home(self, ready: Driver) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py")))
        ready.wait(started, 60.0, lambda _: None)
        assert "--partition=low" in dict(ready.collect(started).files)["sbatch.txt"]


def test_pretended_gpus_are_promised_and_found_missing(slurm: SlurmCluster, tmp_path: Path) -> None:
    driver, workload = prepared(tmp_path, resources={"gpu": 1})
    try:
        checks = {check.name: check for check in driver.preflight(workload)}
    finally:
        driver.clean_up()
    assert checks["GPU visible"].verdict is PreflightStatus.FAILED
    assert "promised" in checks["GPU visible"].fix
    assert checks["GPU computes"].verdict is PreflightStatus.FAILED


def test_more_gpus_than_there_are_are_refused_in_slurms_words(slurm: SlurmCluster, tmp_path: Path) -> None:
    driver, _ = prepared(tmp_path, resources={"gpu": 64})
    try:
        with pytest.raises(DriverFailed, match=r"sbatch did not take the job: .*not available"):
            driver.start(Order(name="one", argv=("true",)))
    finally:
        driver.clean_up()


def test_a_partition_that_is_not_there_is_named(slurm: SlurmCluster, tmp_path: Path) -> None:
    driver, workload = prepared(tmp_path, environment="slurm=nowhere")
    try:
        [check] = driver.preflight(workload)
    finally:
        driver.clean_up()
    assert (check.name, check.verdict) == ("environment reachable", PreflightStatus.FAILED)
    assert "nowhere" in check.found


def test_without_slurm_preflight_says_where_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    driver, workload = prepared(tmp_path)
    [check] = driver.preflight(workload)
    driver.clean_up()
    assert (check.name, check.verdict) == ("environment reachable", PreflightStatus.FAILED)
    assert "log in" in check.fix


def prepared(
    folder: Path, *, environment: str = "slurm=low", resources: dict[str, object] | None = None
) -> tuple[Driver, Workload]:
    (folder / "work").mkdir()
    workload = a_workload(folder / "work", resources=resources or {"gpu": 0})
    driver = Slurm(parse([environment, "local"])[0], base=folder / "shared")
    driver.prepare(workload, a_bundle(folder / "bundle", workload))
    return driver, workload


def test_this_machine_is_compared_with_slurm_by_one_command(slurm: SlurmCluster, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRUS_SHARED", str(tmp_path / "shared"))
        code, report, _ = compare(
            a_job(tmp_path / "job"), "local", "slurm=low", out=tmp_path / "out", repeats=2
        )
    assert code == 0
    check_whole(report, ["local", "slurm-low"])
    there = sides(report)["slurm-low"]
    assert there["figures"]["queue"]["summary"]["mean"] > 0
    assert len(there["manual_steps"]) == 1
    assert [*slurm.queued(), *(tmp_path / "shared").glob("*")] == []


def test_a_slurm_that_cannot_do_it_leaves_a_partial_report_that_names_the_step(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRUS_SHARED", str(tmp_path / "shared"))
        code, report, told = compare(a_job(tmp_path / "job"), "local", "slurm=nowhere", out=tmp_path / "out")
    assert code == 1
    there = sides(report)
    assert (there["local"]["blocked"], len(there["local"]["runs"])) == (None, 1)
    assert there["slurm-nowhere"]["blocked"]["step"] == "preflight"
    assert "nowhere" in there["slurm-nowhere"]["blocked"]["why"]
    assert "slurm-nowhere: blocked at preflight" in told
    assert not report["whole"]
