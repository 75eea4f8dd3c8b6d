"""A real server drives real trials: it is killed in the middle, paused and resumed, and counts are exact.

What ran is counted from a journal that the trials write, and what lives from the kernel.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from grus.model.jobs import TERMINAL
from tests.live import witness
from tests.live.pool import PATIENCE, LivePool
from tests.live.sweep_program import STEPS
from tests.server.process import eventually

PROGRAM = Path(__file__).parent / "sweep_program.py"
TRIALS = 8


class Journal:
    """What the trials have noted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def steps(self) -> Counter[tuple[int, int]]:
        """How often each step of each trial was done."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return Counter((int(number), int(step)) for number, step, _ in map(str.split, lines))

    def wait_for(self, steps: int) -> None:
        """Until so many steps were done."""
        eventually(lambda: len(self.steps()) >= steps, f"the trials do {steps} steps", PATIENCE)


def a_sweep(folder: Path, journal: Journal, **search: object) -> dict[str, object]:
    return {
        "name": "tune",
        "run": [sys.executable, str(PROGRAM), str(journal.path)],
        "workdir": str(folder),
        "resources": {"gpu": 0.5},
        "checkpoint": {"path": "saved.json", "grace": "20s"},
        "sweep": {
            "metric": "loss",
            "space": {"x": {"uniform": [0, 1]}},
            "sampler": "random",
            "stopping": {"rule": "none"},
            "budget": {"trials": TRIALS},
            **search,
        },
    }


def test_a_server_killed_in_the_middle_of_a_sweep_loses_nothing_and_runs_nothing_twice(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal")
    stopping = {"rule": "asha", "first": 3, "most": STEPS}
    with LivePool(tmp_path, "1x2x1GB") as pool:
        handle = pool.grus.submit(a_sweep(tmp_path, journal, stopping=stopping))
        for kill in range(1, 4):
            journal.wait_for(6 * kill)
            pool.kill()
            pool.start()
        assert handle.wait(PATIENCE).phase == "succeeded"
        found = pool.grus.sweep(handle.id)
        assert [one.number for one in found.trials] == list(range(TRIALS))
        assert len({one.job for one in found.trials}) == TRIALS
        assert all(one.value is not None for one in found.trials)
        steps = journal.steps()
        assert set(steps.values()) == {1}, [one for one, times in steps.items() if times > 1]
        for one in found.trials:
            mine = sorted(step for number, step in steps if number == one.number)
            assert mine == list(range(1, len(mine) + 1))
            assert one.reached == len(mine), one
            assert (len(mine) == STEPS) == (one.phase == "succeeded"), one


def test_a_sweep_gives_its_gpus_back_when_it_is_paused_or_stopped_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal")
    with LivePool(tmp_path, "1x2x1GB") as pool:
        handle = pool.grus.submit(a_sweep(tmp_path, journal))
        journal.wait_for(6)
        pool.grus.pause(handle.id)
        eventually(lambda: handle.refresh().phase == "paused", "the sweep is paused", PATIENCE)
        assert witness.workers(pool.home) == []
        assert all(one.gpus == 0 for one in pool.grus.sweep(handle.id).trials)
        before = journal.steps()
        probe = {"name": "probe", "run": ["true"], "resources": {"gpu": 2}, "workdir": "/"}
        assert pool.grus.submit(probe).wait(PATIENCE).phase == "succeeded"
        assert journal.steps() == before
        pool.grus.resume(handle.id)
        assert handle.wait(PATIENCE).phase == "succeeded"
        steps = journal.steps()
        assert set(steps.values()) == {1}
        assert len(steps) == TRIALS * STEPS
        again = pool.grus.submit(a_sweep(tmp_path, journal))
        eventually(lambda: witness.workers(pool.home) != [], "trials run")
        again.stop()
        assert again.wait(PATIENCE).phase == "stopped"
        assert witness.workers(pool.home) == []
        assert {one.phase in TERMINAL for one in pool.grus.sweep(again.id).trials} == {True}


def test_trials_get_their_values_as_arguments_and_as_parameters(tmp_path: Path) -> None:
    kinds = ["adam", "two words", "$(touch out)", "it's"]
    program = (
        "import grus, json, os, sys; "
        "open('trial-' + os.environ['GRUS_TRIAL'], 'w').write(json.dumps([sys.argv[1:], grus.params()])); "
        "grus.report(step=1, loss=1.0)"
    )
    (tmp_path / "tell.py").write_text(program)
    sweep = {
        "name": "arguments",
        "run": f"{sys.executable} tell.py --kind={{kind}} --lr {{lr}} $HOME {{{{kind}}}}",
        "workdir": str(tmp_path),
        "env": {"HOME": "home"},
        "resources": {"gpu": 0.5},
        "sweep": {"metric": "loss", "sampler": "grid", "space": {"kind": kinds, "lr": [1e-5]}},
    }
    with LivePool(tmp_path, "1x2x1GB") as pool:
        assert pool.grus.submit(sweep).wait(PATIENCE).phase == "succeeded"
    told = [json.loads((tmp_path / f"trial-{number}").read_text()) for number in range(len(kinds))]
    assert sorted(params["kind"] for _, params in told) == sorted(kinds)
    for words, params in told:
        assert words == [f"--kind={params['kind']}", "--lr", "1e-05", "home", "{kind}"]
    assert not (tmp_path / "out").exists()
