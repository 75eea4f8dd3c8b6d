"""What goes wrong with a run is said in words, ends only whom it must, and costs nothing that was saved."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.elastic import curves
from tests.elastic.conductor import WHILE_GIVING, Conductor
from tests.fork_server import ForkServer

OUT = 75


@pytest.fixture
def job(forks: ForkServer, tmp_path: Path) -> Iterator[Conductor]:
    with Conductor(forks, tmp_path / "job") as made:
        yield made


def words(job: Conductor, **task: Any) -> str:
    """What a worker says that fails at once."""
    worker = job.begin(**task)
    job.gone(worker)
    assert job.code(worker) == 1
    return job.output(worker)


def test_several_mistakes_are_named_together(job: Conductor) -> None:
    said = words(job, samples=40, batch=48, micro=64, epochs=0)
    assert "dataset: has fewer samples than one step takes: global_batch is 48 (found 40 samples)" in said
    assert "micro_batch: must be from 1 to the (least) global batch (found 64)" in said
    assert "epochs: must be at least 1 (found 0)" in said


def test_a_model_that_differs_when_all_begin_fails_the_job_by_its_name(job: Conductor) -> None:
    job.publish([*job.spawn(2), *job.spawn(1, width=33)])
    odd = job.members[2]
    job.gone(odd)
    assert job.code(odd) == 1
    said = "the model is not the same: model.0.weight is 33×12 float32 here and 32×12 float32 there"
    assert said in job.output(odd)


def test_a_joiner_whose_model_differs_is_out_and_the_others_go_on(job: Conductor) -> None:
    job.publish(job.spawn(2))
    job.go_on(2)
    (odd,) = job.spawn(1, width=33)
    job.publish([*job.members, odd])
    job.go_on_until_gone(odd)
    assert job.code(odd) == OUT
    assert "model.0.weight is 33×12" in job.output(odd)
    job.publish(job.members[:2], lost=True)
    assert job.go_on(3) >= 5


def test_a_joiner_with_other_data_is_out_too(job: Conductor) -> None:
    job.publish(job.spawn(1))
    job.go_on(2)
    (odd,) = job.spawn(1, samples=510)
    job.publish([*job.members, odd])
    job.go_on_until_gone(odd)
    assert job.code(odd) == OUT
    assert "samples is not the same: 510 here, 509 there" in job.output(odd)


def test_a_program_that_has_changed_leaves_its_checkpoints_alone(job: Conductor, tmp_path: Path) -> None:
    options = {"checkpoint": str(tmp_path / "saved")}
    job.publish(job.spawn(2, options=options))
    job.go_on(3)
    job.gate(None)
    job.pause()
    assert [job.code(one) for one in job.members] == [0, 0]
    before = content(tmp_path / "saved")
    assert before
    job.publish(job.spawn(1, options=options, width=33))
    job.gone(job.members[0])
    assert "model.0.weight is 33×12" in job.output(job.members[0])
    assert content(tmp_path / "saved") == before


def test_a_folder_that_cannot_be_used_is_named_before_anything_starts(job: Conductor, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such" / "folder"
    said = words(job, options={"checkpoint": str(missing)})
    assert (
        f"the checkpoint folder {missing} cannot be made: its parent {missing.parent} does not exist" in said
    )


def test_if_all_ends_while_there_is_no_team_everybody_saves(job: Conductor, tmp_path: Path) -> None:
    """A worker is lost and the job is paused before those who are left could form a team."""
    options = {"checkpoint": str(tmp_path / "saved")}
    job.publish(job.spawn(2, options=options))
    done = job.go_on(3)
    lost, left = job.members
    job.kill(lost)
    job.gate(done + 5)
    job.publish([left], lost=True, pause=True)
    job.gone(left)
    assert job.code(left) == 0
    assert any(f"{done}" in one.name for one in (tmp_path / "saved").iterdir())


def test_one_that_comes_when_all_is_done_has_nothing_to_do(job: Conductor, tmp_path: Path) -> None:
    options = {"checkpoint": str(tmp_path / "saved")}
    job.publish(job.spawn(2, options=options, epochs=1))
    job.gate(None)
    job.gone(*job.members)
    (late,) = job.spawn(1, options=options, epochs=1)
    job.publish([late], lost=True)
    job.gone(late)
    assert job.code(late) == 0
    assert not [name for name, own in curves.lines(job.folder).items() if name.startswith(late.name) and own]


@pytest.mark.parametrize("saved", [True, False])
def test_whoever_has_half_a_state_begins_from_what_was_saved_or_not_at_all(
    job: Conductor, tmp_path: Path, saved: bool
) -> None:
    """The only one that was anywhere dies while it sends its state to one that is new."""
    options = {"checkpoint": str(tmp_path / "saved"), "checkpoint_every": 1e-9} if saved else {}
    job.publish(job.spawn(1, options=options))
    job.go_on(3)
    (giver,), (new,) = job.members, job.spawn(1, options=options)
    (job.folder / "die" / giver.name).write_text(WHILE_GIVING)
    job.publish([giver, new])
    job.go_on_until_gone(giver)
    job.publish([new], lost=True)
    if saved:
        job.go_on(1)
        (own,) = (lines for name, lines in curves.lines(job.folder).items() if name.startswith(new.name))
        assert own[0].step > 0
    else:
        job.gone(new)
        assert job.code(new) == OUT
        assert "nothing is saved" in job.output(new)


def content(folder: Path) -> dict[str, str]:
    """Every file, and a hash of what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_without_torch_everything_else_works_and_train_says_what_to_install() -> None:
    program = """
import json, sys
sys.modules["torch"] = None
import grus, grus.cli.main, grus.server, grus.controlplane.reconciler.loop, grus.sdk.client
names = [name for name in grus.__all__ if name not in ("train", "Run") and getattr(grus, name)]
try:
    grus.train
except ImportError as error:
    print(json.dumps([names, str(error)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    names, told = json.loads(done.stdout)
    assert {"Client", "Job", "report", "should_pause"} <= set(names)
    assert told == "grus.train needs torch: pip install 'grus-gpu-sdk[torch]'"
