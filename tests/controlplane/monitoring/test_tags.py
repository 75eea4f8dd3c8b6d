"""What was recognised of jobs reaches the scheduler, and is taken back when nobody vouches for it."""

from dataclasses import replace

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId
from grus.simulator.recorded.replay import replay
from tests.controlplane.plane import Plane

LOOK = 6.0
"""Seconds in which the loop looks at its nodes."""


def a_tag(now: float, **changes: object) -> Tag:
    tag = Tag(kind=WorkloadKind.TRAINING, at=now, expires=now + 60.0, period=20.0, boundary=now)
    return replace(tag, **changes)  # type: ignore[arg-type]  # fields of Tag


def told(plane: Plane, job: JobId) -> Tag | None:
    with plane.loop.snapshot() as snapshot:
        return snapshot.entries[job].tag


def test_a_tag_reaches_the_snapshot_and_goes_when_it_expires_or_is_no_longer_told() -> None:
    record: list[bytes] = []
    plane = Plane(record=record)
    job = plane.submit("one")
    plane.tags[job] = a_tag(plane.now)
    plane.after(LOOK)
    found = told(plane, job)
    assert found is not None
    assert (found.kind, found.period) == (WorkloadKind.TRAINING, 20.0)
    plane.after(70.0)
    assert told(plane, job) is None, "it has expired"
    plane.tags[job] = a_tag(plane.now)
    plane.after(LOOK)
    assert told(plane, job) is not None
    del plane.tags[job]
    plane.after(LOOK)
    assert told(plane, job) is None
    assert replay(record).difference is None
    assert sum(line.startswith(b'{"note"') for line in record) == 4, "on change only"


def test_tags_of_jobs_that_nobody_knows_are_passed_over() -> None:
    plane = Plane()
    plane.tags[JobId("gone")] = a_tag(plane.now)
    plane.after(LOOK)
    with plane.loop.snapshot() as snapshot:
        assert snapshot.tags == {}
