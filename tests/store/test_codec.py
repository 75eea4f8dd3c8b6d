"""Text written by an earlier Grus still decodes: what it did not know has its default."""

import json
from dataclasses import replace

from grus.model.identifiers import NodeId
from grus.model.jobs import Phase, Seat
from grus.store.codec import JOB
from tests.store.builders import a_job

OF_JOBS = {"team", "team_at", "broken", "lost", "boot"}
OF_SEATS = {"address", "ready_at", "joined", "tries", "lost", "cut"}


def test_a_job_that_was_stored_before_there_were_teams_decodes() -> None:
    job = replace(a_job(phase=Phase.RUNNING), seats=(Seat("worker", 0, NodeId("n"), (), 0, born=2),))
    text = json.loads(JOB.encode(job))
    old = {name: value for name, value in text.items() if name not in OF_JOBS}
    old["seats"] = [
        {name: value for name, value in seat.items() if name not in OF_SEATS} for seat in old["seats"]
    ]
    assert len(old) == len(text) - len(OF_JOBS)
    assert JOB.decode(json.dumps(old)) == job


def test_a_job_in_a_team_comes_back_as_it_was() -> None:
    seat = Seat(
        "worker", 0, NodeId("n"), (), 0, address="127.0.0.1:1", ready_at=1.5, joined=3, lost=2, cut=True
    )
    job = replace(a_job(phase=Phase.RUNNING), seats=(seat,), team=3, team_at=2.5, broken=2, lost=2)
    assert JOB.decode(JOB.encode(job)) == job


def test_a_job_that_was_stored_before_grus_chose_sizes_decodes() -> None:
    job = a_job()
    text = json.loads(JOB.encode(job))
    del text["sizing"]
    for name in ("auto", "ways", "how"):
        del text["spec"]["request"][name]
    assert JOB.decode(json.dumps(text)) == job
