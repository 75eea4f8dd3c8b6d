"""What was told can be read again: finely for a while, coarsely for long, also after a restart."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grus.model.errors import BadInput
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, WorkerId
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import POOL, Recorder, of_queue
from tests.telemetry.tsdb.tape import GPU, START, UTILISATION, Tape


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return Tape(tmp_path / "telemetry.db")


def test_what_was_told_is_read_at_once_and_after_a_restart(tape: Tape) -> None:
    tape.tell([0.1, 0.2, 0.3])
    assert tape.read(0, 4) == [0.1, 0.2, 0.3, -1.0]
    tape.again()
    assert tape.read(0, 4) == [0.1, 0.2, 0.3, -1.0]


def test_a_second_without_a_sample_is_a_gap_and_never_a_zero(tape: Tape) -> None:
    tape.tell([0.1])
    tape.now += 2
    tape.tell([0.0])
    assert tape.read(0, 4) == [0.1, -1.0, -1.0, 0.0]


def test_nothing_is_known_of_what_was_never_measured(tape: Tape) -> None:
    tape.tell([0.1])
    found = tape.recorder.read(GPU, Measure.POWER, START, START + 3, 1.0)
    assert np.isnan(found.values).all()
    assert len(found.values) == 3
    stranger = Subject(NodeId("elsewhere"))
    assert np.isnan(tape.recorder.read(stranger, UTILISATION, START, START + 3, 1.0).values).all()


def test_minutes_and_tens_of_minutes_are_means_whether_sealed_or_not(tape: Tape) -> None:
    values = [(i % 60) / 60 for i in range(1900)]
    tape.tell(values)
    for _ in range(2):
        minutes = tape.read(0, 1860, 60.0)
        assert minutes == pytest.approx([np.mean(values[:60])] * 31, abs=1e-5)
        assert tape.read(0, 1800, 600.0) == pytest.approx([np.mean(values[:60])] * 3, abs=1e-5)
        tape.again()


def test_a_peak_outlasts_the_mean(tape: Tape) -> None:
    tape.tell([0.1] * 300 + [0.9] + [0.1] * 1500)
    assert tape.read(0, 600, 600.0, highest=True) == [0.9]
    assert tape.read(0, 600, 600.0) == pytest.approx([0.1 + 0.8 / 600], abs=1e-5)
    assert tape.read(0, 1800, 1.0, highest=True)[300] == 0.9


def test_ten_samples_a_second_are_kept_and_make_means_of_seconds(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "telemetry.db", hz=10)
    values = [i % 10 / 10 for i in range(4000)]
    tape.tell(values, step=0.1)
    for _ in range(2):
        assert tape.read(0, 400, 0.1) == values
        assert tape.read(0, 400, 1.0) == pytest.approx([0.45] * 400, abs=1e-5)
        assert tape.read(0, 360, 60.0) == pytest.approx([0.45] * 6, abs=1e-5)
        assert tape.read(0, 400, 600.0) == pytest.approx([0.45], abs=1e-5)
        tape.again()


def test_another_rate_after_a_restart_goes_on_with_the_same_past(tmp_path: Path) -> None:
    tape = Tape(tmp_path / "telemetry.db", hz=10)
    tape.tell([0.25] * 3000, step=0.1)
    tape.hz = 1
    tape.again()
    tape.tell([0.75] * 900)
    assert tape.read(0, 1200, 1.0) == [0.25] * 300 + [0.75] * 900
    assert tape.read(0, 1200, 600.0) == pytest.approx([0.5, 0.75], abs=1e-5)


def test_without_a_step_it_is_as_fine_as_is_still_known(tape: Tape) -> None:
    tape.tell([0.5] * 10)
    assert tape.recorder.read(GPU, UTILISATION, START, tape.now).step == 1.0
    assert tape.recorder.read(GPU, UTILISATION, START - 2 * 86_400, tape.now).step == 60.0
    assert tape.recorder.read(GPU, UTILISATION, START - 30 * 86_400, tape.now).step == 600.0


def test_late_samples_find_their_place_and_those_too_late_or_from_the_future_are_dropped(tape: Tape) -> None:
    tape.tell([0.5] * 1000)
    tape.recorder.add([Sample(GPU, tape.now - 100, {UTILISATION: 0.7})])
    assert tape.read(899, 902) == [0.5, 0.7, 0.5]
    tape.recorder.add([Sample(GPU, START + 5, {UTILISATION: 0.7})])
    tape.recorder.add([Sample(GPU, tape.now + 3600, {UTILISATION: 0.7})])
    assert tape.read(5, 6) == [0.5]
    assert tape.read(1000, 5000, 60.0) == [0.5, *[-1.0] * 67]


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_was_ahead_and_was_set_right_costs_nothing_afterwards(tape: Tape, restart: bool) -> None:
    tape.tell([0.25] * 1000)
    tape.now += 7200
    tape.tell([0.5] * 1000)
    tape.now = START + 1000
    if restart:
        tape.again()
    tape.tell([0.75] * 1000)
    tape.again()
    assert tape.read(0, 2000) == [0.25] * 1000 + [0.75] * 1000


def test_subjects_and_their_measures_come_back_after_a_restart(tape: Tape) -> None:
    worker = Subject(NodeId("n0"), job=JobId("j1"), worker=WorkerId("j1.1"))
    slice_ = Subject(NodeId("n0"), DeviceId("GPU-0"), "3")
    for subject in (worker, slice_, of_queue(QueueName("vision")), POOL):
        tape.tell([0.5], of=subject)
    tape.tell([3.0], of=worker, what=Measure.CPU)
    tape.again()
    assert tape.recorder.subjects() == {worker, slice_, of_queue(QueueName("vision")), POOL}
    assert tape.recorder.measures(worker) == {Measure.CPU, UTILISATION}
    assert tape.recorder.measures(POOL) == {UTILISATION}


def test_more_points_than_anybody_can_use_are_refused_with_advice(tape: Tape) -> None:
    with pytest.raises(BadInput, match="ask for a larger one"):
        tape.recorder.read(GPU, UTILISATION, 0, START, 1.0)


def test_a_closed_recorder_takes_nothing_and_does_no_harm(tape: Tape) -> None:
    tape.recorder.close()
    tape.recorder.close()
    tape.tell([0.5])
    assert tape.read(0, 1) == [-1.0]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    told=st.lists(
        st.tuples(st.integers(0, 4000), st.floats(0, 1, width=32)),
        max_size=60,
        unique_by=lambda pair: pair[0],
    ),
    step=st.sampled_from([1, 7, 60, 90, 600]),
    again=st.booleans(),
)
def test_reading_is_the_mean_of_what_was_told(
    tmp_path: Path, told: list[tuple[int, float]], step: int, again: bool
) -> None:
    path = tmp_path / "random.db"
    path.unlink(missing_ok=True)
    tape = Tape(path)
    for at, value in sorted(told):
        tape.now = START + at
        tape.tell([value])
    tape.now = START + 5000  # everything but the last minutes is sealed
    tape.recorder.add([])
    if again:
        tape.again()
    slots: dict[int, list[float]] = {}
    first = math.floor(START / step) * step
    for at, value in told:
        slots.setdefault(int(START + at - first) // step, []).append(value)
    found = tape.recorder.read(GPU, UTILISATION, START, START + 4200, float(step)).values
    tape.recorder.close()
    tier = max(size for size in (1, 60, 600) if size <= step)
    if step % tier == 0 and tier == 1:
        expected = [float(np.mean(slots[i])) if i in slots else np.nan for i in range(len(found))]
        assert found.tolist() == pytest.approx(expected, abs=1e-6, nan_ok=True)
    else:  # means of means: known where it was told, and between its lowest and highest
        low, high = min((v for _, v in told), default=0), max((v for _, v in told), default=1)
        there = found[~np.isnan(found)]
        assert len(there) <= len(told)
        assert ((there >= low - 1e-6) & (there <= high + 1e-6)).all()
        assert bool(len(there)) == bool(told)


def test_two_recorders_on_two_files_know_nothing_of_each_other(tmp_path: Path) -> None:
    one, two = Tape(tmp_path / "1.db"), Tape(tmp_path / "2.db")
    one.tell([0.5])
    assert two.recorder.subjects() == frozenset()
    assert isinstance(two.recorder, Recorder)
