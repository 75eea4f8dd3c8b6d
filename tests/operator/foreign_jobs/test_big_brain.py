"""BBJob to GpuJob and back."""

import shlex

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import read
from grus.model.errors import BadInput
from grus.operator.foreign_jobs import big_brain
from tests.operator.foreign_jobs.samples import annotated, brain_sample


def test_the_sample_becomes_an_elastic_job_that_trains_by_name() -> None:
    job = big_brain.convert(brain_sample(), image="grus:1")
    spec = to_spec(read(JobIn, {**job["spec"], "name": "x"}, whole="job"))
    assert shlex.split(job["spec"]["run"]) == [
        *("exec", "python3", "-m", "grus.elastic.named", "--model", "resnet50"),
        *("--data", "/data/train.tfrecord", "--loss", "crossentropy", "--optimizer", "adam"),
    ]
    assert job["spec"]["image"] == "grus:1"
    elastic = spec.request.elastic
    assert elastic is not None
    assert (elastic.replicas.low, elastic.replicas.high) == (1, 4)


def test_annotations_say_what_the_kind_has_no_words_for() -> None:
    source = annotated(
        brain_sample(),
        image="team/torch:2",
        gpu="2..8",
        epochs="3",
        batch="64",
        claim="pictures",
        queue="vision",
    )
    spec = big_brain.convert(source, image="grus:1")["spec"]
    assert (spec["image"], spec["resources"], spec["queue"]) == ("team/torch:2", {"gpu": "2..8"}, "vision")
    assert spec["run"].endswith("--epochs 3 --batch 64")
    pod = spec["pod"]["spec"]
    assert pod["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "pictures", "readOnly": True}}
    ]
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == "/data"


def test_words_of_a_user_are_arguments_and_never_commands() -> None:
    job = big_brain.convert(brain_sample(model="x; rm -rf /", loss="$(id)"), image="i")
    assert shlex.split(job["spec"]["run"])[4:6] == ["--model", "x; rm -rf /"]
    assert "'$(id)'" in job["spec"]["run"]


def test_without_a_model_nothing_can_be_done() -> None:
    with pytest.raises(BadInput) as refused:
        big_brain.convert(brain_sample(model=""), image="i")
    assert refused.value.mistakes[0].field == "spec.model"


def test_a_claim_needs_a_folder_to_go_to() -> None:
    with pytest.raises(BadInput, match="in a folder"):
        big_brain.convert(annotated(brain_sample(data="train.tfrecord"), claim="pictures"), image="i")


def test_the_status_that_the_original_left_empty_is_filled() -> None:
    job = {"metadata": {"name": "bbjob-x"}, "status": {"phase": "succeeded", "gpus": "0"}}
    assert big_brain.status(job) == {"job": "gpujob.grus.dev/bbjob-x", "phase": "succeeded", "gpus": "0"}
