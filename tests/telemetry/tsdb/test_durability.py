"""The recorder's file: it stays small, outlives kills, and is never a reason not to start."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from grus.model.identifiers import NodeId
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import Keep, Recorder
from grus.telemetry.tsdb.tiers import DAY, HOUR
from tests.telemetry.tsdb.tape import GPU, START, UTILISATION, Tape


def test_many_series_are_sealed_in_several_goes_and_a_restart_between_changes_nothing(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "telemetry.db")
    subjects = [Subject(NodeId(f"n{i}")) for i in range(200)]

    def tell(seconds: int) -> None:
        for _ in range(seconds):
            samples = [Sample(one, tape.now, {UTILISATION: i / 200}) for i, one in enumerate(subjects)]
            tape.recorder.add(samples)
            tape.now += 10

    tell(72)  # a block, and as long as its samples may be late
    tape.now += 10
    tell(1)
    again = Recorder(tape.path, clock=lambda: tape.now)  # as if the first one had been killed here
    for recorder in (tape.recorder, again):
        for i, one in enumerate(subjects):
            assert recorder.read(one, UTILISATION, START, START + 600, 600.0).values[0] == pytest.approx(
                i / 200
            )
    again.close()
    tell(10)
    for i, one in enumerate(subjects):
        seconds = tape.recorder.read(one, UTILISATION, START, START + 600, 1.0).values
        assert np.count_nonzero(~np.isnan(seconds)) == 60
        assert np.nanmean(seconds) == pytest.approx(i / 200)


def test_the_finer_the_shorter(tmp_path: Path) -> None:
    keep = Keep(seconds=HOUR, minutes=3 * HOUR, tens=DAY)
    tape = Tape(tmp_path / "telemetry.db", keep=keep)
    for _ in range(12 * 60):
        tape.tell([0.5])
        tape.now += 59
    assert tape.read(0, HOUR) == [-1.0] * 3600
    assert tape.read(0, HOUR, 60.0) == [-1.0] * 60
    assert tape.read(0, HOUR, 600.0) == [0.5] * 6
    assert tape.read(10 * HOUR, 11 * HOUR, 60.0) == [0.5] * 60
    assert -1.0 in tape.read(11.5 * HOUR, 12 * HOUR)
    assert 0.5 in tape.read(11.5 * HOUR, 12 * HOUR)


def test_the_file_stays_below_its_size_however_much_is_told(tmp_path: Path) -> None:
    keep = Keep(size=200_000)
    tape = Tape(tmp_path / "telemetry.db", keep=keep)
    rng = np.random.default_rng(1)
    sizes = []
    subjects = [Subject(NodeId(f"n{i}")) for i in range(8)]
    for _ in range(30):
        for value in rng.random(600):
            samples = [
                Sample(one, tape.now + 0.5, {UTILISATION: value * i}) for i, one in enumerate(subjects)
            ]
            tape.recorder.add(samples)
            tape.now += 1
        sizes.append(tape.recorder.size)
    # The write-ahead log of SQLite, which is at most 4 MB, comes on top.
    assert max(sizes[15:]) <= max(sizes[:15]) + 200_000
    first, last = Subject(NodeId("n1")), tape.now
    assert np.isnan(tape.recorder.read(first, UTILISATION, START, START + 600, 1.0).values).all()
    assert not np.isnan(tape.recorder.read(first, UTILISATION, last - 600, last, 1.0).values).any()


def test_a_subject_of_which_nothing_is_left_is_forgotten(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "telemetry.db", keep=Keep(seconds=HOUR, minutes=HOUR, tens=HOUR))
    old, new = Subject(NodeId("old")), Subject(NodeId("new"))
    tape.tell([0.5], of=old)
    for _ in range(60):
        tape.now += HOUR
        tape.tell([0.5], of=new)
    assert tape.recorder.subjects() == {new}
    tape.again()
    assert tape.recorder.subjects() == {new}
    tape.tell([0.25], of=old)
    found = tape.recorder.read(old, UTILISATION, tape.now - 1, tape.now, 1.0)
    assert found.values.tolist() == [0.25]


@pytest.mark.parametrize("damage", ["garbage", "empty header", "of another version"])
def test_a_file_that_cannot_be_read_is_put_aside_and_told(tmp_path: Path, damage: str) -> None:
    tape = Tape(tmp_path / "telemetry.db")
    tape.tell([0.5] * 1500)
    tape.recorder.close()
    data = bytearray(tape.path.read_bytes())
    if damage == "garbage":
        data[:] = b"\x17" * len(data)
    elif damage == "empty header":
        data[:100] = bytes(100)
    else:
        data[60:64] = (99).to_bytes(4, "big")
    tape.path.write_bytes(data)
    again = tape.opened()
    assert "a new one has begun" in again.trouble
    assert (tmp_path / "telemetry.db.damaged").read_bytes() == data
    again.add([Sample(GPU, tape.now - 0.5, {UTILISATION: 0.25})])
    assert again.read(GPU, UTILISATION, tape.now - 1, tape.now, 1.0).values.tolist() == [0.25]


def test_damage_that_shows_later_costs_the_past_and_not_the_present(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "telemetry.db")
    rng = np.random.default_rng(1)
    for _ in range(8):
        tape.tell(rng.random(600).tolist())
    tape.again()
    with tape.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x17" * (tape.path.stat().st_size - 4096))
    tape.recorder._file._db.execute("PRAGMA shrink_memory")  # what it has in memory is still right
    assert tape.read(0, 600) == [-1.0] * 600
    assert "a new one has begun" in tape.recorder.trouble
    tape.tell([0.25] * 1500)
    tape.again()
    assert tape.read(4800, 6300) == [0.25] * 1500
    assert tape.recorder.subjects() == {GPU}


def test_a_disk_that_refuses_is_told_and_forgiven(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "telemetry.db")
    tape.tell([0.5] * 10)
    full = tape.recorder._file._db
    [(pages,)] = full.execute("PRAGMA page_count").fetchall()
    full.execute(f"PRAGMA max_page_count = {pages}")
    rng = np.random.default_rng(1)
    tape.tell(rng.random(9000).tolist(), what=Measure.POWER)
    assert "full" in tape.recorder.trouble
    full.execute("PRAGMA max_page_count = 1000000")
    tape.tell([0.75] * 60)
    assert not tape.recorder.trouble
    tape.again()
    assert tape.recorder.read(GPU, UTILISATION, tape.now - 5, tape.now, 1.0).values.tolist() == [0.75] * 5


def test_a_place_that_cannot_be_written_is_no_reason_not_to_start(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "missing" / "telemetry.db")
    assert "in memory only" in tape.recorder.trouble
    tape.tell([0.5])
    assert tape.read(0, 1) == [0.5]


def test_many_threads_add_and_read_at_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "telemetry.db", clock=lambda: START + 100)

    def work(number: int) -> None:
        one = Subject(NodeId(f"n{number}"))
        for second in range(100):
            recorder.add([Sample(one, START + second, {UTILISATION: number})])
            recorder.read(one, UTILISATION, START, START + 100, 1.0)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    for number in range(4):
        found = recorder.read(Subject(NodeId(f"n{number}")), UTILISATION, START, START + 100, 1.0)
        assert found.values.tolist() == [float(number)] * 100
    recorder.close()
