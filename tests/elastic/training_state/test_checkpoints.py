"""A checkpoint is there whole or not at all, and a bad one never hides or harms an earlier one."""

import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from grus.elastic.training_state import checkpoint_files as files
from grus.elastic.training_state.checkpoints import CheckpointError, Checkpoints, snapshot

STEP_1, STEP_2 = "step-000000000001", "step-000000000002"


def save(folder: Path, *steps: int) -> None:
    checkpoints = Checkpoints(folder)
    for step in steps:
        checkpoints.save(step, {"w": torch.full((1000,), float(step))}, wait=True)
    checkpoints.wait()


def loaded(folder: Path) -> int | None:
    """The step that is loaded; its content must be that step's."""
    found = Checkpoints(folder).load()
    if found is None:
        return None
    step, state = found
    assert torch.equal(state["w"], torch.full((1000,), float(step)))
    return step


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


class Gate:
    """Holds the writer thread at `place` until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real = files.place

        def held(*arguments: Any) -> Path:
            self.reached.set()
            self.open.wait()
            return real(*arguments)

        monkeypatch.setattr(files, "place", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.open.set()


def test_what_is_loaded_is_what_was_saved_with_its_types_and_shared_tensors(tmp_path: Path) -> None:
    class Mode(IntEnum):
        FAST = 2

    shared = torch.randn(3, 2)
    module = torch.nn.BatchNorm1d(3)
    state = {
        "model": module.state_dict(),
        "tied": [shared, shared],
        "half": torch.ones(2, dtype=torch.bfloat16),
        "plain": {1: (True, None, "text", 2.5), "set": {1, 2}},
        "milestones": Counter({3: 1}),
        "mode": Mode.FAST,
        "best": [np.float64(0.5), np.int64(7), np.float32(0.25)],
    }
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.save(7, state)
    checkpoints.wait()
    step, found = Checkpoints(tmp_path).load() or pytest.fail("nothing was saved")
    assert step == 7
    assert torch.equal(found["tied"][0], shared)
    assert found["tied"][0].data_ptr() == found["tied"][1].data_ptr()
    assert found["half"].dtype is torch.bfloat16
    assert found["plain"] == state["plain"]
    assert (found["milestones"], found["mode"]) == (Counter({3: 1}), 2)
    assert [type(number) for number in found["best"]] == [float, int, float]
    assert isinstance(found["model"], OrderedDict)
    assert found["model"]._metadata == state["model"]._metadata  # type: ignore[attr-defined]  # torch's
    module.load_state_dict(found["model"])


def test_the_state_may_change_as_soon_as_save_returns(tmp_path: Path, gate: Gate) -> None:
    weights = torch.full((1000,), 1.0)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"w": weights})
    weights.fill_(9.0)
    gate.open.set()
    checkpoints.wait()
    assert loaded(tmp_path) == 1


def test_a_save_while_another_is_written_is_skipped_or_waits_as_asked(tmp_path: Path, gate: Gate) -> None:
    checkpoints = Checkpoints(tmp_path)
    state = {"w": torch.full((1000,), 1.0)}
    assert checkpoints.save(1, state)
    gate.reached.wait()
    assert not checkpoints.save(2, state)
    gate.open.set()
    assert checkpoints.save(3, {"w": torch.full((1000,), 3.0)}, wait=True)
    checkpoints.wait()
    assert names(tmp_path) == [STEP_1, "step-000000000003"]
    assert loaded(tmp_path) == 3


def test_the_callback_hears_a_step_when_it_can_be_loaded(tmp_path: Path) -> None:
    heard: list[tuple[int, int | None]] = []
    checkpoints = Checkpoints(tmp_path, on_saved=lambda step: heard.append((step, loaded(tmp_path))))
    checkpoints.save(4, {"w": torch.full((1000,), 4.0)})
    checkpoints.wait()
    assert heard == [(4, 4)]


def test_a_checkpoint_is_told_when_its_name_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name lasts when its folder was synced after it was given: neither before, nor the files alone."""
    lasting: set[str] = set()
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        if os.readlink(f"/proc/self/fd/{handle}") == str(tmp_path):
            lasting.update(os.listdir(tmp_path))

    monkeypatch.setattr(os, "fsync", fsync)
    told: list[set[str]] = []
    checkpoints = Checkpoints(tmp_path, on_saved=lambda _: told.append(set(lasting)))
    checkpoints.save(1, {"w": torch.zeros(10)}, wait=True)
    checkpoints.wait()
    assert [STEP_1 in names for names in told] == [True]


def test_two_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4)
    assert names(tmp_path) == ["step-000000000003", "step-000000000004"]


def torn_manifest(one: Path) -> None:
    file = one / files.MANIFEST
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def wrong_manifest(one: Path) -> None:
    (one / files.MANIFEST).write_text('["format", 1]')


def manifest_of_another(one: Path) -> None:
    (one / files.MANIFEST).write_bytes((one.parent / STEP_1 / files.MANIFEST).read_bytes())


def of_another_format(one: Path) -> None:
    file = one / files.MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 2}))


def flipped_bit(one: Path) -> None:
    file = one / files.STATE
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def truncated(one: Path) -> None:
    os.truncate(one / files.STATE, 100)


def no_state(one: Path) -> None:
    (one / files.STATE).unlink()


def no_manifest(one: Path) -> None:
    (one / files.MANIFEST).unlink()


def not_of_torch(one: Path) -> None:
    """Whole by its manifest, yet no file of torch."""
    content = b"not a checkpoint"
    (one / files.STATE).write_bytes(content)
    told = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (one / files.MANIFEST).write_text(json.dumps({"format": 1, "step": 2, "files": {files.STATE: told}}))


DAMAGES = [
    torn_manifest,
    wrong_manifest,
    manifest_of_another,
    of_another_format,
    flipped_bit,
    truncated,
    no_state,
    no_manifest,
    not_of_torch,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_by_name_and_the_one_before_is_loaded(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 1, 2)
    damage(tmp_path / STEP_2)
    assert loaded(tmp_path) == 1
    assert [STEP_2 in record.getMessage() for record in caplog.records] == [True]


def test_a_damaged_checkpoint_does_not_count_as_kept_and_is_replaced_when_its_step_comes_again(
    tmp_path: Path,
) -> None:
    save(tmp_path, 1, 2)
    flipped_bit(tmp_path / STEP_2)
    save(tmp_path, 3)
    assert names(tmp_path) == [STEP_1, STEP_2, "step-000000000003"]
    save(tmp_path, 2)
    assert names(tmp_path) == [STEP_2, "step-000000000003"]
    flipped_bit(tmp_path / "step-000000000003")
    assert loaded(tmp_path) == 2


def test_when_all_are_damaged_the_run_begins_anew_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 1, 2)
    for name in (STEP_1, STEP_2):
        truncated(tmp_path / name)
    assert loaded(tmp_path) is None
    assert "starts from its beginning" in caplog.text
    caplog.clear()
    assert Checkpoints(tmp_path / "nowhere").load() is None
    assert not caplog.records


def test_the_same_step_saved_by_another_worker_is_success_and_its_files_stay(tmp_path: Path) -> None:
    save(tmp_path, 1)
    before = (tmp_path / STEP_1 / files.STATE).stat().st_ino
    save(tmp_path, 1)
    assert names(tmp_path) == [STEP_1]
    assert (tmp_path / STEP_1 / files.STATE).stat().st_ino == before


def test_two_workers_that_save_at_the_same_time_both_succeed(tmp_path: Path) -> None:
    heard: list[int] = []
    both = [Checkpoints(tmp_path, on_saved=heard.append) for _ in range(2)]
    for step in range(1, 11):
        for one in both:
            one.save(step, {"w": torch.full((1000,), float(step))})
        for one in both:
            one.wait()
    assert heard == [step for step in range(1, 11) for _ in range(2)]
    assert loaded(tmp_path) == 10
    assert len(names(tmp_path)) == 2


def test_what_dead_writers_left_is_cleared_and_what_living_ones_write_is_not(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = int(psutil.Process(child.pid).create_time())
    host = files._host()
    living = f".tmp-{host}-{child.pid}-{start}-aa"
    reused = f".tmp-{host}-{child.pid}-{start - 1000}-bb"
    elsewhere, forgotten = ".tmp-0123456789ab-7-1000-cc", ".tmp-0123456789ab-7-1000-dd"
    for name in (living, reused, elsewhere, forgotten, ".tmp-of-the-user"):
        (tmp_path / name).mkdir()
    days_ago = time.time() - 2 * 24 * 3600
    os.utime(tmp_path / forgotten, (days_ago, days_ago))
    save(tmp_path, 1)
    assert names(tmp_path) == sorted([living, elsewhere, ".tmp-of-the-user", STEP_1])
    child.communicate(b"\n")
    save(tmp_path, 2)
    assert names(tmp_path) == sorted([elsewhere, ".tmp-of-the-user", STEP_1, STEP_2])


def test_a_state_that_could_not_be_loaded_again_is_refused_at_save_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"state\['scheduler'\]\['fn'\].* is a .*function"):
        Checkpoints(tmp_path).save(1, {"scheduler": {"fn": lambda: 1}})
    assert names(tmp_path) == []


def test_the_states_of_torchs_schedulers_optimizers_and_scaler_are_taken() -> None:
    schedulers = torch.optim.lr_scheduler
    weights = [torch.nn.Parameter(torch.ones(2))]
    optimizer = torch.optim.AdamW(weights, lr=0.1)
    weights[0].grad = torch.ones(2)
    optimizer.step()
    made = [
        schedulers.MultiStepLR(optimizer, [2, 3]),
        schedulers.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
        schedulers.OneCycleLR(optimizer, 0.1, total_steps=10),
        schedulers.CosineAnnealingWarmRestarts(optimizer, 5),
        schedulers.ReduceLROnPlateau(optimizer),
        schedulers.SequentialLR(optimizer, [schedulers.ConstantLR(optimizer)] * 2, milestones=[2]),
    ]
    taken = snapshot({"s": [one.state_dict() for one in made], "o": optimizer.state_dict()})
    assert len(taken["s"]) == len(made)
    assert torch.equal(taken["o"]["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])


# ------------------------------------------------------------------------------------- bad places


def test_check_makes_the_folder_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "new").check()
    assert names(tmp_path / "new") == []
    save(tmp_path / "new", 1)
    Checkpoints(tmp_path / "new").check()
    assert names(tmp_path / "new") == [STEP_1]


def test_a_missing_parent_and_a_file_in_the_way_are_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"missing/here cannot be made: its parent .*missing does not"):
        Checkpoints(tmp_path / "missing" / "here").check()
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file is a file\. Name another folder"):
        Checkpoints(tmp_path / "file").check()
    with pytest.raises(CheckpointError, match="not a folder"):
        Checkpoints(tmp_path / "file" / "below").check()
    assert names(tmp_path) == ["file"]


def test_a_disk_with_too_little_room_is_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"GB are left .* needs about 1000000000\.00 GB"):
        Checkpoints(tmp_path).check(size=10**18)


def in_a_child(act: Callable[[], None]) -> str:
    """What the error says that an act raises in a process of its own; nothing if it raises none."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except CheckpointError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read().decode()
    os.waitpid(pid, 0)
    return said


def test_a_folder_that_may_not_be_written_is_told_before_training(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    save(folder, 1)
    folder.chmod(0o555)

    def act() -> None:
        os.chdir(tmp_path)  # while it may: the folders above belong to this user alone
        if os.getuid() == 0:
            os.setuid(65534)
        Checkpoints(Path("theirs")).check()

    assert "theirs cannot be used: this user may not write there. Change its owner" in in_a_child(act)
    assert loaded(folder) == 1
    folder.chmod(0o755)


def test_a_disk_that_fills_up_costs_that_save_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A limit on the size of files stands in for the disk: the error comes in the middle of the file."""
    save(tmp_path, 1, 2)
    checkpoints = Checkpoints(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        assert checkpoints.save(3, {"w": torch.ones(1_000_000)})
        with pytest.raises(CheckpointError, match=r"did not take step 3: .*ulimit"):
            checkpoints.wait()
        assert checkpoints.save(4, {"w": torch.ones(1_000_000)})
        assert checkpoints.save(5, {"w": torch.full((1000,), 5.0)}, wait=True)
        assert "did not take step 4" in caplog.text
        checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == [STEP_2, "step-000000000005"]
    assert loaded(tmp_path) == 5


def test_a_full_disk_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(files._FullWriter, "write", lambda _, data: full.write(data))
        checkpoints = Checkpoints(tmp_path)
        checkpoints.save(2, {"w": torch.ones(10)})
        with pytest.raises(CheckpointError, match=r"the disk is full\. Make room"):
            checkpoints.wait()
    assert names(tmp_path) == [STEP_1]
    assert loaded(tmp_path) == 1


def test_a_folder_that_vanishes_is_a_warning_and_comes_back_when_it_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    checkpoints = Checkpoints(folder)
    checkpoints.save(1, {"w": torch.ones(1)})
    with pytest.raises(CheckpointError, match="it is gone"):
        checkpoints.wait()
    folder.mkdir()
    save(folder, 2)
    assert loaded(folder) == 2


def test_kill_9_while_saving_leaves_a_whole_checkpoint_with_the_right_content() -> None:
    """`python -m tests.elastic.checkpoint_kills 200` is the same at length."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.elastic.checkpoint_kills", "15"], capture_output=True, text=True
    )
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, figures["kills"]) == (0, 15), ran.stderr
    assert (figures["corrupt"], figures["lost"], figures["damaged"], figures["left"]) == (0, 0, 0, 0)
    assert figures["inside"] > 0
