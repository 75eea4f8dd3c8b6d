"""The driver of a pool of Grus, against a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.compare.backends.grus import Grus
from grus.compare.environments import Driver, DriverFailed, EndingKind, Order, PreflightStatus, parse
from grus.model.jobs import TERMINAL, Phase
from grus.sdk.client import Client
from tests.cli.real import RealGrus
from tests.compare.end_to_end import a_job, check_whole, compare, sides
from tests.contracts.driver_contract import DriverContract, a_bundle, a_workload, run

ENVIRONMENT = parse(["grus", "local"])[0]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    """Two virtual GPUs; the client of this process finds it."""
    real = RealGrus(tmp_path_factory.mktemp("grus"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRUS_HOME", str(real.home))
        for name in ("GRUS_SERVER", "GRUS_TOKEN"):
            patch.delenv(name, raising=False)
        try:
            real.up("--virtual", "1x2x8GB", "--port", "0")
            yield real
        finally:
            real.down()


def alive() -> list[str]:
    with Client() as client:
        return [job.name for job in client.jobs(limit=1000) if Phase(job.phase) not in TERMINAL]


class TestGrus(DriverContract):
    @pytest.fixture(autouse=True)
    def place(self, pool: RealGrus, tmp_path: Path) -> None:
        self.base = tmp_path / "shared"

    @pytest.fixture
    def driver(self) -> Driver:
        return Grus(ENVIRONMENT, base=self.base)

    @pytest.fixture
    def again(self) -> Driver:
        return Grus(ENVIRONMENT, base=self.base)

    def left(self) -> list[str]:
        return [*alive(), *(str(path) for path in self.base.glob("*"))]

    def test_a_run_that_somebody_stops_was_killed_or_never_began(self, ready: Driver) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py", "hang")))
        told: list[str] = []

        def stop(said: str) -> None:
            told.append(said)
            if said.startswith("running"):
                with Client() as client:
                    client.stop(started.handle)

        ending = ready.wait(started, 60.0, stop)
        assert ending.end in (
            EndingKind.KILLED,
            EndingKind.NEVER_STARTED,
        )  # before or after the sampler's first line
        assert "stop" in ending.why
        assert ending.node
        assert told

    def test_the_time_in_the_queue_is_told_by_the_pool(self, ready: Driver) -> None:
        ending, _, _ = run(ready, Order(name="one", argv=("python3", "program.py")))
        assert ending.queued is not None
        assert ending.queued >= 0.0


def test_virtual_gpus_are_told_apart_from_real_ones(pool: RealGrus, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    workload = a_workload(tmp_path / "work", resources={"gpu": 1})
    driver = Grus(ENVIRONMENT, base=tmp_path / "shared")
    driver.prepare(workload, a_bundle(tmp_path / "bundle", workload))
    try:
        checks = {check.name: check for check in driver.preflight(workload)}
    finally:
        driver.clean_up()
    assert checks["GPU visible"].verdict is PreflightStatus.WARNING
    assert checks["GPU computes"].verdict is PreflightStatus.NOT_APPLICABLE


def test_more_gpus_than_the_pool_has_are_refused_in_its_words(pool: RealGrus, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    workload = a_workload(tmp_path / "work", resources={"gpu": 64})
    driver = Grus(ENVIRONMENT, base=tmp_path / "shared")
    driver.prepare(workload, a_bundle(tmp_path / "bundle", workload))
    try:
        with pytest.raises(DriverFailed, match="at least 64 GPUs, and there are 2"):
            driver.start(Order(name="one", argv=("true",)))
    finally:
        driver.clean_up()


def test_without_a_server_preparing_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRUS_HOME", str(tmp_path / "nothing"))
    monkeypatch.delenv("GRUS_SERVER", raising=False)
    (tmp_path / "work").mkdir()
    workload = a_workload(tmp_path / "work")
    driver = Grus(ENVIRONMENT, base=tmp_path / "shared")
    with pytest.raises(DriverFailed, match="grus up"):
        driver.prepare(workload, a_bundle(tmp_path / "bundle", workload))
    driver.clean_up()
    assert not (tmp_path / "shared").exists()


def test_this_machine_is_compared_with_a_pool_on_virtual_gpus_by_one_command(
    pool: RealGrus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRUS_SHARED", str(tmp_path / "shared"))
    code, report, _ = compare(a_job(tmp_path / "job"), "local", "grus", out=tmp_path / "out")
    assert code == 0
    check_whole(report, ["local", "grus"])
    assert sides(report)["grus"]["manual_steps"] == []
    assert [*alive(), *(tmp_path / "shared").glob("*")] == []
