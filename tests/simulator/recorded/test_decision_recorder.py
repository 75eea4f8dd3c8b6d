"""Records of decisions: written line by line, bounded, and refused when they are none."""

from dataclasses import replace

import pytest

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.errors import BadInput
from grus.model.jobs import Phase
from grus.scheduler import cycle
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.queues.policies import SRTF
from grus.scheduler.state.snapshot import Snapshot
from grus.simulator.recorded.decision_recorder import Decide, Note, Recording
from grus.simulator.recorded.decision_recorder import lines as read
from grus.simulator.recorded.replay import replay
from tests.scheduler.builders import a_job, a_pool, a_queue


def record_of(most: int = 1 << 20) -> tuple[list[bytes], list[str]]:
    """Three jobs come to four GPUs, one of them ends; the lines, and why the recording ended."""
    lines: list[bytes] = []
    ends: list[str] = []
    recording = Recording(lines.append, most=most, on_end=ends.append)
    snapshot, decide = recording.snapshot(), recording.of(cycle.decide)
    snapshot.nodes = a_pool("1x4")
    snapshot.set_queues([a_queue("default", quota=4)])
    for number in range(3):
        snapshot.put(a_job(f"j{number}", gpus=2, submitted_at=float(number)))
        act(snapshot, decide, 10.0 + number)
    first = snapshot.job(a_job("j0").id)
    assert first is not None
    snapshot.put(replace(first, phase=Phase.SUCCEEDED, seats=(), version=first.version + 1))
    act(snapshot, decide, 20.0)
    return lines, ends


def act(snapshot: Snapshot, decide: Decide, now: float) -> None:
    from grus.controlplane.jobs.apply_decision import rule

    for action in decide(snapshot, now).actions:
        job = snapshot.job(action.job)
        assert job is not None
        ruled = rule(job, action, now)
        assert ruled is not None
        snapshot.put(replace(ruled.job, version=job.version + 1))


def test_a_record_played_again_gives_the_same_decisions() -> None:
    lines, ends = record_of()
    found = replay(lines)
    assert (found.decisions, found.actions, found.carried, found.lives, ends) == (4, 3, 3, 1, [])


def test_a_change_of_the_pool_does_not_tell_all_jobs_again() -> None:
    lines: list[bytes] = []
    snapshot = Recording(lines.append, on_end=lambda _: None).snapshot()
    snapshot.set_queues([a_queue("default", quota=4)])
    snapshot.put(a_job("one"))
    snapshot.set_nodes(a_pool("1x4"))
    assert [line[2:6] for line in lines] == [b"begi", b"pool", b'put"', b"pool"]


def test_what_is_expected_of_a_job_and_the_policy_are_on_record_too() -> None:
    """Both change decisions: without them the replay would not be one."""
    lines: list[bytes] = []
    recording = Recording(lines.append, on_end=lambda _: None)
    snapshot = recording.snapshot(SRTF)
    snapshot.nodes = a_pool("1x4")
    snapshot.set_queues([a_queue("default", quota=4)])
    for name, left in (("long", 9000.0), ("short", 10.0)):
        snapshot.put(a_job(name, gpus=3))
        snapshot.expect(a_job(name).id, Outlook((1,), (1.0,), left=left))
    decided = recording.of(cycle.decide)(snapshot, 5.0)
    assert [action.job for action in decided.actions] == ["short"]
    assert [line[2:8] for line in lines] == [
        *(b'begin"', b'pool":', b'put":{', b"expect", b'put":{', b"expect", b"decide")
    ]
    assert replay(lines).difference is None
    without = [line.replace(b'"srtf"', b'"grus"') for line in lines]
    assert replay(without).difference is not None


def test_what_was_recognised_of_a_job_is_on_record_too() -> None:
    lines: list[bytes] = []
    snapshot = Recording(lines.append, on_end=lambda _: None).snapshot()
    snapshot.nodes = a_pool("1x4")
    snapshot.set_queues([a_queue("default", quota=4)])
    snapshot.put(a_job("one"))
    tag = Tag(kind=WorkloadKind.TRAINING, at=1.0, expires=9.0, period=4.0, boundary=0.5)
    snapshot.note(a_job("one").id, tag)
    snapshot.set_nodes(a_pool("1x2"))  # built anew: it still knows
    assert snapshot.entries[a_job("one").id].tag == tag
    noted = [line.note for _, line in read(lines) if line.note is not None]
    assert noted == [Note(a_job("one").id, tag)]
    assert replay(lines).difference is None


def test_a_record_is_bounded_and_says_where_it_was_cut() -> None:
    lines, ends = record_of(most=2500)
    assert sum(map(len, lines[:-1])) <= 2500
    assert lines[-1] == b'{"full":{"bytes":2500}}\n'
    assert ends == ["it has 2500 bytes"]
    found = replay(lines)
    assert found.full
    assert "cut" in found.sentence()


def test_a_disk_that_is_full_ends_the_recording_and_nothing_else() -> None:
    def refuse(line: bytes) -> None:
        raise OSError("no space left")

    ends: list[str] = []
    recording = Recording(refuse, on_end=ends.append)
    snapshot = recording.snapshot()
    snapshot.set_queues([a_queue("default", quota=4)])
    snapshot.put(a_job("one"))
    assert ends == ["no space left"]
    assert snapshot.job(a_job("one").id) is not None


@pytest.mark.parametrize(
    ("changed", "line", "words"),
    [
        ([], 1, "is empty"),
        ([b"\n", b"\n"], 1, "is empty"),
        ([b"submit,duration,gpus\n"], 1, "is not a record"),
        ([b'{"begin":{"form":1}}\n', b'{"put":\n'], 2, "is not a record"),
        ([b'{"begin":{"form":1}}\n', b"\xff\xfe\n"], 2, "is not a record"),
        ([b'{"begin":{"form":1}}\n', b'{"put":{"job":5}}\n'], 2, "is not a record"),
        ([b'{"begin":{"form":1}}\n', b'{"decide":{"now":"soon"}}\n'], 2, "is not a record"),
        ([b'{"begin":{"form":9}}\n'], 1, "is of form 9"),
        ([b'{"begin":{"form":1,"policy":"luck"}}\n'], 1, "must be one of fifo"),
        ([b'{"decide":{"now":1.0}}\n'], 1, "must begin with"),
        ([b'{"begin":{"form":1}}\n', b"{}\n"], 2, "must be one of"),
        ([b'{"begin":{"form":1}}\n', b'{"decide":{"now":1.0}}\n'], 2, "asks before there is a pool"),
    ],
)
def test_what_is_no_record_is_refused_with_its_line(changed: list[bytes], line: int, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        replay(changed)
    assert caught.value.mistakes[0].line == line
    assert words in caught.value.mistakes[0].rule


def test_another_time_to_ask_again_is_a_difference() -> None:
    lines, _ = record_of()
    last = lines[-1] if b"decide" in lines[-1] else next(line for line in lines[::-1] if b"decide" in line)
    changed = [line.replace(b'"wake_at":null', b'"wake_at":5.0') if line is last else line for line in lines]
    found = replay(changed)
    assert found.difference is not None
    assert found.difference.what == "when to ask again"
