import copy
import os
from pathlib import Path

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.model.errors import BadInput
from grus.model.resources import Range
from grus.sdk.jobs import Job


def test_a_job_is_written_with_keywords_and_is_a_job_request() -> None:
    job = Job(
        "python train.py",
        gpu="2..8",
        queue="vision",
        cpu=4,
        checkpoint="ckpt",
        env={"A": "1"},
        after="j0123456789",
    )
    assert isinstance(job, JobIn)
    spec = to_spec(job)
    assert spec.request.roles[0].replicas == Range(2, 8)
    assert (spec.queue, spec.name, spec.workdir) == ("vision", "train", os.getcwd())
    assert spec.checkpoint.path == str(Path.cwd() / "ckpt")


def test_a_job_is_the_same_after_a_journey_as_json() -> None:
    job = Job(["python", "train.py"], gpu=0.5, idle={"for": "5m"}, workdir=Path("/srv"))
    sent = JobIn.model_validate_json(job.model_dump_json(exclude_unset=True))
    assert to_spec(sent) == to_spec(job)
    assert copy.deepcopy(job) == job


def test_every_mistake_is_told_under_the_name_of_its_keyword() -> None:
    with pytest.raises(BadInput) as caught:
        Job("a", gpu="4-8", memory="3G", retries=-1, name="A B", gpus=4, retrys=2)
    told = {mistake.field: mistake.rule for mistake in caught.value.mistakes}
    assert set(told) == {"gpu", "memory", "retries", "name", "gpus", "retrys"}
    assert "4..8" in told["gpu"]
    assert "did you mean gpu?" in told["gpus"]
    assert "did you mean retries?" in told["retrys"]


@pytest.mark.parametrize("run", [None, 5, [], [["a"]], ""])
def test_a_job_needs_something_to_run(run: object) -> None:
    with pytest.raises(BadInput, match="run"):
        Job(run)  # type: ignore[arg-type]  # wrong on purpose


def test_resources_may_also_be_given_as_in_a_job_file() -> None:
    assert Job("a", resources={"gpu": 2}, cpu=3).resources.cpu == 3
    with pytest.raises(BadInput, match=r"resources\.gpu"):
        Job("a", resources={"gpu": -2})


def test_roles_are_given_as_in_a_job_file() -> None:
    job = Job(
        roles={"launcher": {"run": "a", "resources": {"gpu": 0}}, "worker": {"run": "b", "replicas": "2..4"}}
    )
    assert len(to_spec(job).request.roles) == 2
