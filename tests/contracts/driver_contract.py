"""What every Driver of an environment promises, as tests: inherit `DriverContract` and give its fixtures.

The real sampler runs in the real environment. Workloads are small programs of Python.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.api.inputs.yaml_job_file import parse_job_file
from grus.compare import sampler
from grus.compare.environments import (
    CODE,
    SAMPLER,
    Check,
    Driver,
    Ending,
    EndingKind,
    Order,
    PreflightStatus,
)
from grus.compare.records import RunRecord
from grus.compare.records import read as read_record
from grus.compare.workload import Workload
from grus.compare.workload import of as workload_of

ODD = "a b'\"$(touch /tmp/grus-never)`;\\\n%j ünï"
"""What a shell, a batch system or a template might read as something else."""
PATIENCE = 300.0

PROGRAM = """
import json, os, sys, time
words = sys.argv[1:]
print("printed", *words)
with open(os.environ["GRUS_REPORT"], "a") as report:
    for step in range(3):
        report.write(json.dumps({"at": time.time(), "figures": {"step": step, "batch": 8}}) + "\\n")
if words[:1] == ["show"]:
    print(json.dumps({"words": words[1:], "odd": os.environ.get("ODD")}))
elif words[:1] == ["fail"]:
    sys.exit(3)
elif words[:1] == ["hang"]:
    time.sleep(600)
"""


def a_workload(folder: Path, **fields: object) -> Workload:
    (folder / "program.py").write_text(PROGRAM)
    job = {"run": ["python3", "program.py"], "resources": {"gpu": 0}, **fields}
    return workload_of(parse_job_file(json.dumps(job), folder=str(folder)))


def a_bundle(folder: Path, workload: Workload) -> Path:
    folder.mkdir()
    shutil.copytree(workload.folder, folder / CODE)
    shutil.copy(sampler.__file__, folder / SAMPLER)
    return folder


class DriverContract(ABC):
    """Inherit this as `TestX(DriverContract)`; every test has a driver that is prepared."""

    fields: dict[str, object] = {}  # noqa: RUF012 - read only
    """More of the job, where an environment needs it."""

    @pytest.fixture
    @abstractmethod
    def driver(self) -> Driver:
        """A new driver of the same environment each time."""

    @abstractmethod
    def left(self) -> list[str]:
        """Whatever of the driver is still there: runs, files, objects."""

    @pytest.fixture
    def workload(self, tmp_path: Path) -> Workload:
        (tmp_path / "work").mkdir()
        return a_workload(tmp_path / "work", **self.fields)

    @pytest.fixture
    def bundle(self, tmp_path: Path, workload: Workload) -> Path:
        return a_bundle(tmp_path / "bundle", workload)

    @pytest.fixture
    def ready(self, driver: Driver, workload: Workload, bundle: Path) -> Iterator[Driver]:
        driver.prepare(workload, bundle)
        yield driver
        driver.clean_up()

    def test_preflight_names_the_same_things_everywhere_and_says_what_to_do(
        self, ready: Driver, workload: Workload
    ) -> None:
        checks = {check.name: check for check in ready.preflight(workload)}
        assert expected_names() <= set(checks)
        assert [check for check in checks.values() if check.verdict is PreflightStatus.FAILED] == []
        assert [check for check in checks.values() if needs_a_fix(check) and not check.fix] == []
        assert checks["GPU visible"].verdict is PreflightStatus.NOT_APPLICABLE
        assert checks["volume writable"].verdict is PreflightStatus.OK

    def test_a_run_brings_home_its_record_and_what_it_printed(self, ready: Driver) -> None:
        ending, record, output = run(ready, Order(name="one", argv=("python3", "program.py", "show")))
        assert (ending.end, ending.why) == (EndingKind.ENDED, "")
        assert record.finish is not None
        assert (record.name, record.finish.code) == ("one", 0)
        assert [told.figures["step"] for told in record.told] == [0.0, 1.0, 2.0]
        assert "printed show" in output
        assert ending.startup is not None
        assert ending.startup >= 0.0

    def test_words_and_variables_arrive_as_they_were_written(self, ready: Driver) -> None:
        argv = ("python3", "program.py", "show", ODD)
        _, _, output = run(ready, Order(name="one", argv=argv, env=(("ODD", ODD),)))
        shown = json.loads(output.strip().splitlines()[-1])
        assert shown == {"words": [ODD], "odd": ODD}
        assert not Path("/tmp/grus-never").exists()

    def test_a_failed_run_has_ended_and_a_second_of_its_name_shows_nothing_of_it(self, ready: Driver) -> None:
        ending, failed, _ = run(ready, Order(name="one", argv=("python3", "program.py", "fail")))
        assert ending.end is EndingKind.ENDED
        _, record, output = run(ready, Order(name="one", argv=("python3", "program.py", "show", "again")))
        assert failed.finish is not None
        assert record.finish is not None
        assert (failed.finish.code, record.finish.code) == (3, 0)
        assert "printed fail" not in output

    def test_a_run_that_takes_too_long_is_taken_back(self, ready: Driver) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py", "hang")))
        told: list[str] = []
        ending = ready.wait(started, 1.0, told.append)
        assert ending.end is EndingKind.TIMED_OUT
        ready.clean_up()
        assert self.left() == []

    def test_after_cleaning_up_nothing_is_left_however_often(
        self, driver: Driver, workload: Workload, bundle: Path
    ) -> None:
        driver.prepare(workload, bundle)
        driver.start(Order(name="one", argv=("python3", "program.py", "hang")))
        driver.clean_up()
        driver.clean_up()
        assert self.left() == []

    def test_one_that_was_never_prepared_has_nothing_to_clean_up(self, driver: Driver) -> None:
        driver.clean_up()
        assert self.left() == []

    def test_a_comparison_that_is_taken_up_again_takes_away_what_its_first_attempt_left(
        self, driver: Driver, again: Driver, workload: Workload, bundle: Path
    ) -> None:
        driver.prepare(workload, bundle)
        driver.start(Order(name="one", argv=("python3", "program.py", "hang")))
        again.prepare(workload, bundle)
        ending, record, _ = run(again, Order(name="one", argv=("python3", "program.py", "show")))
        again.clean_up()
        driver.clean_up()
        assert (ending.end, record.finish is not None) == (EndingKind.ENDED, True)
        assert self.left() == []

    def test_a_program_that_is_not_there_fails_the_check_and_not_the_driver(
        self, ready: Driver, workload: Workload
    ) -> None:
        checks = ready.preflight(replace(workload, argv=("no-such-program", "x")))
        failed = {check.name: check for check in checks if check.verdict is PreflightStatus.FAILED}
        assert set(failed) == {"interpreter"}
        assert "no-such-program" in failed["interpreter"].found


def run(driver: Driver, order: Order) -> tuple[Ending, RunRecord, str]:
    started = driver.start(order)
    ending = driver.wait(started, PATIENCE, lambda _: None)
    found = driver.collect(started)
    return ending, read_record(found.record), found.output


def needs_a_fix(check: Check) -> bool:
    return check.verdict in (PreflightStatus.WARNING, PreflightStatus.FAILED)


def expected_names() -> set[str]:
    return {
        "GPU visible",
        "GPU computes",
        "volume writable",
        "volume speed",
        "free disk",
        "interpreter",
        "image",
        "registry pull",
        "registry push",
        "user and home",
        "exclusive",
    }
