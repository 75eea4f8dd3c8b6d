"""`stages:` in a job file, and what stages take from each other."""

import json

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.api.parsing.validation_errors import read
from grus.model.artifacts import Input, Output
from grus.model.errors import BadInput
from grus.model.identifiers import JobId
from grus.sdk.jobs import Job

FOLDER = "/home/ada/project"
PIPELINE = """
queue: vision
env: {A: 1, B: 2}
resources: {gpu: 0, cpu: 2}
workdir: sub
stages:
  export:
    run: python export.py
    inputs: {model: train.model}
    outputs: {onnx: out/m.onnx}
  prepare:
    run: [python, prepare.py, --scale, 1.10]
    env: {B: 3}
    outputs: [data]
  train:
    run: python train.py
    resources: {gpu: 1..4}
    inputs: {data: prepare.data}
    outputs: model
  tell: {run: python tell.py, after: [export], when: always}
"""


def by_name(text: str) -> dict[str | None, JobIn]:
    return {job.name: job for job in parse_job_file(text, folder=FOLDER)}


def test_each_stage_stands_behind_those_that_it_names() -> None:
    assert list(by_name(PIPELINE)) == ["prepare", "train", "export", "tell"]


def test_stages_that_do_not_depend_on_each_other_keep_the_order_of_the_file() -> None:
    text = "stages:\n  c: {run: x}\n  a: {run: x}\n  b: {run: x, after: [c]}\n"
    assert list(by_name(text)) == ["c", "a", "b"]


def test_what_stands_beside_the_stages_is_shared_and_their_own_fields_come_first() -> None:
    jobs = by_name(PIPELINE)
    assert {job.queue for job in jobs.values()} == {"vision"}
    assert {job.workdir for job in jobs.values()} == {f"{FOLDER}/sub"}
    assert jobs["prepare"].env == {"A": "1", "B": "3"}
    assert jobs["train"].env == {"A": "1", "B": "2"}
    assert (jobs["train"].resources.gpu, jobs["train"].resources.cpu) == ("1..4", 2)
    assert jobs["export"].resources.gpu == 0


def test_words_of_a_stage_stay_as_they_are_written() -> None:
    assert list(by_name(PIPELINE)["prepare"].run or ()) == ["python", "prepare.py", "--scale", "1.10"]


def test_outputs_are_names_or_names_with_paths() -> None:
    jobs = by_name(PIPELINE)
    assert to_spec(jobs["prepare"]).outputs == (Output("data"),)
    ids = {"train": JobId("jt"), "prepare": JobId("jp")}
    assert to_spec(jobs["train"], after=ids).outputs == (Output("model"),)
    assert to_spec(jobs["export"], after=ids).outputs == (Output("onnx", "out/m.onnx"),)


def test_a_stage_comes_after_those_whose_outputs_it_takes() -> None:
    spec = to_spec(by_name(PIPELINE)["train"], after={"prepare": JobId("jp")})
    assert spec.after == ("jp",)
    assert spec.inputs == (Input("data", JobId("jp"), "data"),)


def test_a_job_named_in_after_and_in_inputs_is_waited_for_once() -> None:
    job = read(JobIn, {"run": "a", "after": ["p"], "inputs": {"x": "p.x", "y": "j0123456789.y"}})
    assert to_spec(job, after={"p": JobId("jp")}).after == ("jp", "j0123456789")


def test_a_stage_may_start_when_others_have_ended_in_whatever_way() -> None:
    tell = by_name(PIPELINE)["tell"]
    assert to_spec(tell, after={"export": JobId("je")}).after_failure
    assert not to_spec(read(JobIn, {"run": "a"})).after_failure


def test_an_input_of_a_stage_that_the_server_does_not_know_is_refused() -> None:
    with pytest.raises(BadInput, match=r"inputs\.data.*prepare\.data"):
        to_spec(by_name(PIPELINE)["train"])


def test_stages_are_the_same_after_a_journey_as_json() -> None:
    for job in by_name(PIPELINE).values():
        again = JobIn.model_validate_json(job.model_dump_json(exclude_unset=True))
        assert again == job


def test_the_same_file_may_be_json() -> None:
    stages = {"a": {"run": "x", "outputs": ["d"]}, "b": {"run": "y", "inputs": {"d": "a.d"}}}
    assert list(by_name(json.dumps({"stages": stages}))) == ["a", "b"]


def test_stages_and_documents_stand_in_one_file_and_name_each_other() -> None:
    text = (
        "name: first\nrun: x\noutputs: [d]\n---\n"
        "stages:\n  a: {run: x, inputs: {d: first.d}}\n---\nname: last\nrun: x\nafter: [a]\n"
    )
    assert list(by_name(text)) == ["first", "a", "last"]


def test_a_stage_with_a_mistake_is_not_held_against_those_that_come_after_it() -> None:
    text = "stages:\n  a: {run: x, outputs: [d], retrys: 3}\n  b: {run: y, inputs: {d: a.d}}\n"
    with pytest.raises(BadInput) as caught:
        by_name(text)
    assert [mistake.field for mistake in caught.value.mistakes] == ["stages.a.retrys"]


def test_a_job_in_python_has_inputs_and_outputs_too() -> None:
    job = Job("a", inputs={"data": "j0123456789.data"}, outputs=["m"], after="j012345678z", when="success")
    spec = to_spec(job)
    assert spec.inputs == (Input("data", JobId("j0123456789"), "data"),)
    assert (spec.outputs, spec.after) == ((Output("m"),), ("j012345678z", "j0123456789"))
