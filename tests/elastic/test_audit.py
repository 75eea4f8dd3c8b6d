"""The audit says "every sample once an epoch" of histories in which that is so, and of no other."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.elastic.audit import Audit, Committed, Findings, Line, Processed, check, examine, main, read
from grus.elastic.data import sample_schedule
from grus.elastic.data.sample_schedule import Progress
from tests.properties.profiles import profile

SAMPLES, BATCH, SIZE = 26, 6, 2


class Story:
    """Plays a run: teams do steps and are lost; writes down what the workers would."""

    def __init__(self, samples: int = SAMPLES, batch: int = BATCH) -> None:
        self.samples, self.batch = samples, batch
        self.lines: dict[str, list[Line]] = {}
        self.at = Progress()
        self.begun = 1

    def step(self, team: int, *workers: str, commit: tuple[str, ...] | None = None) -> None:
        """All process their share; those named (or all) commit. If nobody does, the step is to be redone."""
        parts = sample_schedule.micros(self.at, self.samples, self.batch, SIZE)
        order = sample_schedule.order(1, self.at.epoch, self.samples).tolist()
        for rank, worker in enumerate(workers):
            for micro in sample_schedule.share(parts, rank, len(workers)):
                used = tuple(order[micro.start : micro.stop])
                key = (self.begun, team)
                self._write(worker, Processed(key, self.at.step, self.at.epoch, micro.index, used))
        committers = workers if commit is None else commit
        for worker in committers:
            bounds = (parts[0].start, parts[-1].stop)
            self._write(worker, Committed((self.begun, team), self.at.step, self.at.epoch, *bounds))
        if committers:
            self.at = sample_schedule.after(self.at, self.samples, self.batch)

    def to_the_end(self, team: int, *workers: str, epochs: int = 2) -> "Story":
        while not sample_schedule.finished(self.at, epochs):
            self.step(team, *workers)
        return self

    def _write(self, worker: str, line: Line) -> None:
        self.lines.setdefault(worker, []).append(line)

    def examined(self, epochs: int | None = 2) -> Findings:
        return examine(self.lines, samples=self.samples, epochs=epochs)


def eventful() -> Story:
    """Grows, loses a member inside a step, leaves survivors one step apart, shrinks, starts anew."""
    story = Story()
    story.step(1, "a")
    story.step(2, "a", "b")
    story.step(2, "a", "b", "c", commit=())  # c dies; nobody could finish
    story.step(3, "a", "b")
    story.step(3, "a", "b", "d", commit=("b",))  # d dies inside the exchange; a is one step behind
    story.step(4, "b", "a")
    kept = story.at
    story.step(5, "a")  # all are lost after this; it was not saved
    story.at, story.begun = kept, 100
    return story.to_the_end(1, "e", "f")


def test_a_run_with_all_kinds_of_events_is_found_right_and_its_redone_steps_are_counted() -> None:
    findings = eventful().examined()
    assert findings.wrong == ()
    assert (findings.epochs, findings.steps, findings.workers) == (2, 10, 6)
    assert (findings.redone, findings.void, findings.teams) == (2, 1, 6)


def test_an_epoch_under_way_is_right_unless_it_was_to_be_complete() -> None:
    story = Story()
    for _ in range(7):
        story.step(1, "a", "b", "c", "d")
    assert story.examined(epochs=None).wrong == ()
    assert story.examined(epochs=None).epochs == 1
    assert "2 epochs were to be done" in story.examined(epochs=2).wrong[0]


@given(st.integers(1, 40), st.integers(1, 12), st.randoms(use_true_random=False))
@profile(60)
def test_no_history_of_losses_and_resizes_that_goes_by_the_rules_is_called_wrong(
    samples: int, batch: int, chance: random.Random
) -> None:
    story, team, born = Story(samples, batch), 1, 1
    workers = ["w0"]
    while not sample_schedule.finished(story.at, 2):
        event = chance.choice(["step", "step", "grow", "shrink", "kill", "apart"])
        if event == "step":
            story.step(team, *workers)
            continue
        team += 1
        if event == "grow":
            workers.append(f"w{born}")
            born += 1
        elif len(workers) > 1:
            if event == "kill":
                story.step(team - 1, *workers, commit=())
            elif event == "apart":
                ahead = workers[0]
                story.step(team - 1, *workers, commit=(ahead,))
            workers.pop()
    assert story.examined().wrong == ()


def first(story: Story, worker: str, kind: type[Line]) -> int:
    return next(number for number, line in enumerate(story.lines[worker]) if isinstance(line, kind))


def a_micro_batch_is_lost(story: Story) -> None:
    del story.lines["b"][first(story, "b", Processed)]


def a_micro_batch_is_done_by_two(story: Story) -> None:
    story.lines["b"].insert(0, story.lines["a"][first(story, "a", Processed)])


def a_sample_is_used_in_place_of_another(story: Story) -> None:
    number = first(story, "a", Processed)
    line = story.lines["a"][number]
    assert isinstance(line, Processed)
    other = story.lines["b"][first(story, "b", Processed)]
    assert isinstance(other, Processed)
    story.lines["a"][number] = replace(line, samples=(other.samples[0], *line.samples[1:]))


def a_sample_that_is_none(story: Story) -> None:
    number = first(story, "a", Processed)
    line = story.lines["a"][number]
    assert isinstance(line, Processed)
    story.lines["a"][number] = replace(line, samples=(SAMPLES, *line.samples[1:]))


def of_another_epoch(story: Story) -> None:
    number = first(story, "a", Processed)
    story.lines["a"][number] = replace(story.lines["a"][number], epoch=1)


def a_step_nobody_committed(story: Story) -> None:
    for worker, lines in story.lines.items():
        story.lines[worker] = [line for line in lines if not (isinstance(line, Committed) and line.step == 3)]


def workers_disagree(story: Story) -> None:
    number = first(story, "b", Committed)
    line = story.lines["b"][number]
    assert isinstance(line, Committed)
    story.lines["b"][number] = replace(line, stop=line.stop - 1)


def a_step_overlaps_the_one_before(story: Story) -> None:
    for worker, lines in story.lines.items():
        story.lines[worker] = [
            replace(line, start=line.start - 1, stop=line.stop - 1)
            if isinstance(line, Committed) and line.step == 3
            else line
            for line in lines
        ]


def samples_of_a_whole_step_come_again(story: Story) -> None:
    """The cursor moved and the data did not: only the epoch as a whole shows it."""
    again = [line for line in story.lines["a"] + story.lines["b"] if isinstance(line, Processed)]
    old = {line.micro: line.samples for line in again if line.step == 1}
    for worker, lines in story.lines.items():
        story.lines[worker] = [
            replace(line, samples=old[line.micro]) if isinstance(line, Processed) and line.step == 2 else line
            for line in lines
        ]


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (a_micro_batch_is_lost, r"step 0 under team 1: micro-batches 1 were never processed"),
        (a_micro_batch_is_done_by_two, r"micro-batch 0 was processed 2 times, by a, b"),
        (a_sample_is_used_in_place_of_another, r"epoch 0: 1 samples were used more than once"),
        (a_sample_that_is_none, r"the dataset has no sample 26"),
        (of_another_epoch, r"samples of another epoch than 0"),
        (a_step_nobody_committed, r"no step 3 was committed; the next one is 4"),
        (workers_disagree, r"workers disagree"),
        (a_step_overlaps_the_one_before, r"step 3 is \[17, 23\) of epoch 0, but .* came to 18 of epoch 0"),
        (samples_of_a_whole_step_come_again, r"epoch 0: 6 samples were never used"),
    ],
)
def test_a_planted_wrong_is_found_and_named(plant: Callable[[Story], None], told: str) -> None:
    story = Story().to_the_end(1, "a", "b")
    assert story.examined().wrong == ()
    plant(story)
    assert [text for text in story.examined().wrong if re.search(told, text)], story.examined().wrong


def test_going_back_behind_a_step_that_a_survivor_committed_is_wrong() -> None:
    story = Story()
    story.step(1, "a", "b")
    kept = story.at
    story.step(1, "a", "b", commit=("b",))
    story.at = kept
    story.to_the_end(2, "a", "b")  # b was ahead, and yet its step is done again
    assert "yet b lived on" in " ".join(story.examined().wrong)


def test_going_back_behind_a_step_that_only_the_dead_had_committed_is_right() -> None:
    story = Story()
    story.step(1, "a", "b")
    kept = story.at
    story.step(1, "a", "b", commit=("b",))
    story.at = kept
    findings = story.to_the_end(2, "a").examined()
    assert (findings.wrong, findings.void, findings.redone) == ((), 1, 1)


def test_going_back_is_right_when_all_who_were_ahead_are_lost_before_they_could_share_their_state() -> None:
    """One is ahead, begins the next step in the next team, and dies before the other has its state."""
    story = Story()
    story.step(1, "a", "b")
    kept = story.at
    story.step(1, "a", "b", "c", commit=("a",))
    story.step(2, "a", commit=())
    story.at = kept
    findings = story.to_the_end(3, "b").examined()
    assert (findings.wrong, findings.void) == ((), 1)


def test_a_worker_that_begins_again_a_step_that_it_had_committed_is_wrong_even_if_it_dies_of_it() -> None:
    story = Story()
    story.step(1, "a", "b")
    kept = story.at
    story.step(1, "a", "b", commit=("a",))
    story.at = kept
    story.step(2, "a", "b", commit=())
    assert "yet a lived on" in " ".join(story.to_the_end(3, "b").examined().wrong)


def test_a_resumed_run_that_was_ahead_before_does_not_count_what_it_lost() -> None:
    """The first attempt came to step 5; the second began at 2 and is at 3: steps 3 to 5 are nobody's."""
    story = Story(samples=100)
    for _ in range(2):
        story.step(1, "a")
    kept = story.at
    for _ in range(4):
        story.step(1, "a")
    story.at, story.begun = kept, 50
    story.step(1, "b")
    findings = story.examined(epochs=None)
    assert (findings.wrong, findings.steps, findings.void) == ((), 3, 4)


# ------------------------------------------------------------------------------- files and command


def write(folder: Path, story: Story) -> None:
    for worker, lines in story.lines.items():
        audit = Audit(folder, worker)
        for line in lines:
            if isinstance(line, Processed):
                audit.processed(line.team, line.step, line.epoch, line.micro, list(line.samples))
            else:
                audit.committed(line.team, line.step, line.epoch, line.start, line.stop)
        audit.close()


def test_what_is_written_is_read_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "audit", Story().to_the_end(1, "127.0.0.1:4711"))
    assert main([str(tmp_path / "audit"), "--samples", str(SAMPLES), "--epochs", "2"]) == 0
    assert "every sample was used exactly once an epoch" in capsys.readouterr().out
    assert main([str(tmp_path / "audit"), "--samples", "27", "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["wrong"]


def test_a_line_in_which_its_writer_died_is_left_out_and_any_other_bad_line_is_told(tmp_path: Path) -> None:
    write(tmp_path, Story().to_the_end(1, "a"))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"at":1,"team":1,"st')
    assert check(tmp_path, SAMPLES, 2).wrong == ()
    lines = whole.splitlines(keepends=True)
    lines[3] = lines[3][: len(lines[3]) // 2] + b"\n"
    file.write_bytes(b"".join(lines))
    assert "line 4 cannot be read" in check(tmp_path, SAMPLES, 2).wrong[0]


def test_lines_that_do_not_say_when_their_attempt_began_are_read_as_the_first_one(tmp_path: Path) -> None:
    write(tmp_path, Story().to_the_end(1, "a"))
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text().replace('"begun":1,', ""))
    assert check(tmp_path, SAMPLES, 2).wrong == ()


def test_two_processes_of_one_worker_write_two_files(tmp_path: Path) -> None:
    for _ in range(2):
        Audit(tmp_path, "a").close()
    assert len(read(tmp_path)[0]) == 2


def test_lines_outlive_a_kill_9_of_their_writer(tmp_path: Path) -> None:
    script = (
        "import os, sys; from grus.elastic.audit import Audit; a = Audit(sys.argv[1], 'w'); "
        "a.processed((1, 1), 0, 0, 0, [0]); a.committed((1, 1), 0, 0, 0, 1); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)]).returncode == -9
    assert check(tmp_path, 1, 1).wrong == ()


def test_a_full_disk_ends_the_audit_and_not_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = Audit(tmp_path, "a")
    own = audit._file
    assert own is not None
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), own)
    for _ in range(2):
        audit.committed((1, 1), 0, 0, 0, 1)
    assert [record.getMessage()[:29] for record in caplog.records] == ["the audit cannot be written, "]


def test_an_audit_of_nothing_proves_nothing(tmp_path: Path) -> None:
    assert check(tmp_path, 3).wrong == ("no step was committed",)


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "none"), "--samples", "3"])
    assert "there is no folder" in capsys.readouterr().err
