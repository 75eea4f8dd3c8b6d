"""Objects that leave their size to Grus get one as they become jobs, or are told that nothing would do."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from grus.controlplane.admission.submission import Submission
from grus.controlplane.jobs.lifecycle import JobChange
from grus.model.identifiers import QueueName
from grus.operator.admission import Admission, Refusal, Surroundings
from grus.operator.namespaces import Openness
from tests.controlplane.plane import Plane
from tests.operator.objects import a_gpu_job
from tests.scheduler.builders import GB


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane(pool="1x4:RTX3060")
    yield made
    made.close()


def admit(plane: Plane, **resources: Any) -> JobChange:
    settings = replace(plane.settings, containers=True)
    submission = Submission(plane.store, plane.loop.picture, settings)
    around = Surroundings(lambda: {QueueName("default"): Openness()}, lambda _: {}, lambda _: {})
    found = a_gpu_job(resources=resources, image="train:1")
    return Admission(submission, around).judge(found, plane.now)


def test_an_object_with_ways_becomes_a_job_of_the_fastest_that_fits(plane: Plane) -> None:
    ways = [{"memory": "13GB"}, {"gpus": 2, "memory": "8GB", "how": "split", "speed": 0.5}]
    change = admit(plane, gpu="auto", ways=ways)
    assert change.job.asked.auto
    assert (change.job.spec.request.how, change.job.spec.request.roles[0].replicas.low) == (("split",), 2)
    assert change.event is not None
    assert "it takes 2 GPUs with 8GB or more each, split" in change.event.text


def test_an_object_without_ways_gets_a_whole_gpu(plane: Plane) -> None:
    job = admit(plane, gpu="auto").job
    assert job.spec.request.roles[0].replica.gpus == 1
    assert job.sizing is not None
    assert "nobody could tell" in job.sizing.why


def test_an_object_that_nothing_here_holds_is_refused_in_words(plane: Plane) -> None:
    with pytest.raises(Refusal, match="the largest GPU that it may have has 12GB") as refused:
        admit(plane, gpu="auto", ways=[{"memory": "13GB"}])
    assert refused.value.reason == "DoesNotFit"


def test_a_size_that_is_named_stays(plane: Plane) -> None:
    job = admit(plane, gpu="8GB").job
    assert (job.sizing, job.spec.request.roles[0].replica.gpu_memory) == (None, 8 * GB)
