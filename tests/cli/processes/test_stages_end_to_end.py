"""Stages against a real server with real processes: what is handed on, skipped, repeated and refused."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.controlplane.jobs.stage_cache import COARSE
from tests.cli.real import RealGrus
from tests.server.process import eventually

FILE = """
resources: {gpu: 0}
stages:
  prepare:
    run: python3 prepare.py
    outputs: [numbers]
  add:
    run: python3 add.py
    inputs: {numbers: prepare.numbers}
    outputs: {total: out/total.txt}
  show:
    run: cat $GRUS_INPUT_TOTAL
    inputs: {total: add.total}
"""
PREPARE = """
import os
from pathlib import Path
raw = Path("raw.txt").read_text()  # nobody has said that it is read
Path(os.environ["GRUS_OUTPUT_NUMBERS"], "list").write_text(" ".join(sorted(raw.split())))
"""
ADD = """
import os
from pathlib import Path
numbers = Path(os.environ["GRUS_INPUT_NUMBERS"], "list").read_text().split()
Path("out/total.txt").write_text(str(sum(map(int, numbers))))
"""
VIRTUAL = ("--virtual", "1x2x16GB", "--port", "0")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path_factory.mktemp("home"))
    command.up(*VIRTUAL)
    try:
        yield command
    finally:
        command.down()


@pytest.fixture
def grus(home: RealGrus) -> Iterator[RealGrus]:
    """The same server, and a folder with the stages as they were first written."""
    for name, text in (("s.yaml", FILE), ("prepare.py", PREPARE), ("add.py", ADD), ("raw.txt", "3 1 2")):
        (home.work / name).write_text(text)
    yield home
    shutil.rmtree(home.work)


def run(grus: RealGrus, *words: str, code: int | None = 0) -> dict[str, str]:
    """Submit the file and wait; of each stage how it ended, `skipped` if it did not run."""
    grus("submit", "s.yaml", "--watch", *words, code=code)
    return last(grus)


def write_well_before(path: Path, text: str) -> None:
    """Before the next submission, by more than the clock of files is coarse: so that is what it runs."""
    path.write_text(text)
    eventually(
        lambda: time.time() > path.stat().st_ctime + 2 * COARSE, "the file is older than the submission"
    )


def last(grus: RealGrus) -> dict[str, str]:
    (newest, *_) = grus.json("ps", "--tree", "-a", "--limit", "1")
    own = [stage["job"] for stage in newest["stages"] if not stage["earlier"]]
    return {job["name"]: "skipped" if job["same_as"] else job["phase"] for job in own}


def test_what_a_stage_leaves_reaches_the_next_and_a_second_run_skips_both(grus: RealGrus) -> None:
    first = run(grus, "--fresh")
    assert first == {"prepare": "succeeded", "add": "succeeded", "show": "succeeded"}
    assert grus("logs", "show").stdout == "6"
    # What leaves nothing may have an effect that nobody sees: it runs each time.
    assert run(grus) == {"prepare": "skipped", "add": "skipped", "show": "succeeded"}
    assert grus("logs", "show").stdout == "6"
    skipped = grus.json("describe", "add")
    assert "unchanged since run" in str(skipped)
    # Nor is anything lost from one to the next: the third stands on the second.
    assert run(grus) == {"prepare": "skipped", "add": "skipped", "show": "succeeded"}
    assert run(grus, "--fresh") == first


def test_changed_code_and_data_run_again_and_a_stage_that_does_not_see_the_change_does_not(
    grus: RealGrus,
) -> None:
    run(grus)
    write_well_before(grus.work / "add.py", ADD + "# another one\n")
    assert run(grus) == {"prepare": "skipped", "add": "succeeded", "show": "succeeded"}
    # Its code was written just before it was submitted: what it really ran must be on record to stand for it.
    eventually(lambda: grus.json("runs", "show", "add")["code"], "what it ran is on record")
    (grus.work / "prepare.py").write_text(PREPARE + "# another one, which leaves the same\n")
    assert run(grus) == {"prepare": "succeeded", "add": "skipped", "show": "succeeded"}
    (grus.work / "raw.txt").write_text("3 1 2 4")  # read without being named: whatever lies there counts
    assert run(grus) == {"prepare": "succeeded", "add": "succeeded", "show": "succeeded"}
    assert grus("logs", "show").stdout == "10"


def test_another_variable_or_command_is_other_work(grus: RealGrus) -> None:
    run(grus)
    changed = FILE.replace("    run: python3 add.py\n", "    run: python3 add.py\n    env: {SEED: 2}\n")
    (grus.work / "s.yaml").write_text(changed)
    found = run(grus)
    assert (found["add"], found["show"]) == ("succeeded", "succeeded")


def test_a_retry_goes_on_from_the_stage_that_failed(grus: RealGrus) -> None:
    (grus.work / "add.py").write_text("raise SystemExit('not yet')\n")
    assert run(grus, "--fresh", code=1) == {"prepare": "succeeded", "add": "failed", "show": "failed"}
    (grus.work / "add.py").write_text(ADD)
    again = [job["id"] for job in grus.json("retry", "add")]
    grus("attach", again[-1])
    assert last(grus) == {"add": "succeeded", "show": "succeeded"}
    assert grus("logs", "show").stdout == "6"


def test_an_output_that_is_not_there_and_an_artefact_that_is_gone_are_said(grus: RealGrus) -> None:
    (grus.work / "add.py").write_text("print('nothing')\n")
    shutil.rmtree(grus.work / "out", ignore_errors=True)
    assert run(grus, "--fresh", code=73)["add"] == "failed"
    assert "output total is missing" in grus.json("describe", "add")["job"]["reason"]
    (grus.work / "add.py").write_text(ADD)
    (node,) = [one["id"] for one in grus.json("nodes")]
    grus("cordon", node)  # nothing starts before the artefacts are gone
    (job, *_) = [one for one in grus.json("retry", "add") if one["name"] == "add"]
    forget_artefacts(grus.home)
    grus("uncordon", node)
    grus("attach", job["id"], code=None)
    assert "input numbers" in grus.json("describe", job["id"])["job"]["reason"]
    # What is no longer there is made again.
    again = {one["name"]: one["id"] for one in grus.json("retry", job["id"])}
    grus("attach", again["add"])
    assert grus.json("describe", again["add"])["job"]["phase"] == "succeeded"


def forget_artefacts(home: Path) -> None:
    for file in list((home / "state" / "artefacts").rglob("*")):
        if file.is_file():
            file.unlink()


def test_a_server_that_was_killed_still_knows_what_has_not_changed(grus: RealGrus) -> None:
    run(grus)
    told = grus.json("status")
    pid = int((grus.home / "state" / "server.json").read_text().split('"pid": ')[1].split(",")[0])
    assert told
    os.kill(pid, signal.SIGKILL)
    grus.up(*VIRTUAL)
    assert run(grus) == {"prepare": "skipped", "add": "skipped", "show": "succeeded"}


def watched(grus: RealGrus, code: int, **stages: str) -> tuple[list[str], str]:
    """Watch these stages; lines of stdout without those about the submission, and stderr."""
    lines = "".join(f"  {name}: {{resources: {{gpu: 0}}, {rest}}}\n" for name, rest in stages.items())
    (grus.work / "s.yaml").write_text(f"stages:\n{lines}")
    done = grus("submit", "s.yaml", "--watch", code=code)
    return [line for line in done.stdout.splitlines() if line.startswith("[")], done.stderr


def test_watching_shows_the_output_and_phases_of_all_stages(grus: RealGrus) -> None:
    out, err = watched(
        grus,
        0,
        one="run: echo from one",
        two="run: 'echo from two; test $GRUS_ATTEMPT = 2', retries: 1, after: [one]",
        three="run: printf unfinished, after: [one, two]",
    )
    assert out == ["[one] from one", "[two] from two", "[two] from two", "[three] unfinished"]
    assert "[grus] two: attempt 2" in err
    ends = [line for line in err.splitlines() if "succeeded" in line]
    assert [line.split(":")[0] for line in ends] == ["[grus] one", "[grus] two", "[grus] three"]


def test_watching_returns_the_code_of_the_stage_that_failed_and_shows_its_reason(grus: RealGrus) -> None:
    out, err = watched(
        grus,
        3,
        fails="run: 'echo almost; exit 3'",
        beside="run: echo beside",
        later="run: echo later, after: [fails]",
        last="run: echo last, after: [later, beside]",
    )
    assert sorted(out) == ["[beside] beside", "[fails] almost"]
    (fails, _, later, last) = reversed(grus.json("ps", "-a", "--limit", "4"))
    assert f"{fails['id']} (fails) failed: {fails['reason']}" in err
    assert "3" in fails["reason"]
    assert f"[grus] later: failed – {later['reason']}" in err
    assert f"{last['id']} (last) failed" not in err  # it only never started
    assert f"1 of 4 stages succeeded; `grus retry {fails['id']}`" in err


def test_watching_returns_1_when_stages_failed_with_different_codes(grus: RealGrus) -> None:
    _, err = watched(grus, 1, one="run: exit 3", two="run: exit 4", three="run: 'true'")
    assert "(one) failed" in err
    assert "(two) failed" in err


def test_watching_returns_the_code_of_a_stopped_stage(grus: RealGrus) -> None:
    stop = f"{sys.executable} -m grus.cli.main stop slow"
    _, err = watched(
        grus,
        143,
        slow="run: 'touch started; sleep 600'",
        stops=f"run: 'until test -e started; do sleep 0.1; done; {stop}', env: {{GRUS_HOME: {grus.home}}}",
        later="run: 'true', after: [slow]",
    )
    assert "(slow) stopped" in err


def test_a_stage_that_runs_in_any_case_does_not_hide_one_that_failed(grus: RealGrus) -> None:
    tell = "run: echo told, after: [fails], when: always"
    out, err = watched(grus, 3, fails="run: exit 3", tell=tell)
    assert out == ["[tell] told"]
    assert "(fails) failed" in err
