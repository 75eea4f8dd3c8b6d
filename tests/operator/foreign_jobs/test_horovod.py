"""ElasticHorovodJob to GpuJob and back."""

from typing import Any

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import read
from grus.model.errors import BadInput
from grus.operator.foreign_jobs import horovod
from tests.operator.foreign_jobs.samples import annotated, horovod_sample


def spec_of(job: dict[str, Any]) -> dict[str, Any]:
    """As a job file would say it: what a GpuJob's spec has besides is its own."""
    return {name: value for name, value in job["spec"].items() if name != "replicas"}


@pytest.mark.parametrize("prepared", [False, True], ids=["front", "horovodrun"])
def test_the_sample_becomes_a_job_that_keeps_every_rule(prepared: bool) -> None:
    job = horovod.convert(horovod_sample(), prepared=prepared)
    spec = to_spec(read(JobIn, {**spec_of(job), "name": job["metadata"]["name"]}, whole="job"))
    elastic = spec.request.elastic
    assert elastic is not None
    assert (elastic.replicas.low, elastic.replicas.high) == (2, 5)
    assert elastic.replica.gpus == 1
    assert spec.retries == 1


def test_the_job_belongs_to_the_object_and_goes_with_it() -> None:
    metadata = horovod.convert(horovod_sample(), prepared=False)["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("elastichorovodjob-sample", "team")
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ElasticHorovodJob", "sample", "u-1")
    assert owner["controller"]


def test_a_long_name_is_cut_and_stays_its_own() -> None:
    names = set()
    for tail in ("a", "b"):
        source = horovod_sample()
        source["metadata"]["name"] = "x" * 80 + tail
        names.add(horovod.convert(source, prepared=False)["metadata"]["name"])
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_where_the_originals_config_map_is_its_horovodrun_is_used() -> None:
    roles = horovod.convert(horovod_sample(), prepared=True)["spec"]["roles"]
    launcher, worker = roles["launcher"], roles["worker"]
    assert launcher["run"].splitlines()[-1] == (
        "exec horovodrun -p 12345 -np 2 --min-np 2 --max-np 5 --host-discovery-script"
        " /tmp/discover_hosts.sh python /examples/pytorch_cifar_elastic.py --epochs=10"
    )
    assert launcher["resources"] == {"gpu": 0}
    assert (worker["resources"], worker["replicas"]) == ({"gpu": 1}, "2..5")
    assert "sshd -D -e -p 12345" in worker["run"]
    volumes = horovod.convert(horovod_sample(), prepared=True)["spec"]["pod"]["spec"]["volumes"]
    assert volumes[0]["secret"]["secretName"] == "horovod-sshkeys"


@pytest.mark.parametrize(("said", "prepared"), [("run", False), ("front", True)])
def test_an_annotation_chooses_otherwise(said: str, prepared: bool) -> None:
    job = horovod.convert(annotated(horovod_sample(), horovod=said), prepared=prepared)
    assert ("roles" in job["spec"]) == (said == "run")


@pytest.mark.parametrize(
    ("workers", "wanted"),
    [
        ({"minReplicas": 2, "maxReplicas": 5, "targetReplicas": 3}, 3),
        ({"minReplicas": 2, "maxReplicas": 5, "targetReplicas": 9}, 5),
        ({"minReplicas": 2, "maxReplicas": 5, "targetReplicas": 1}, 2),
        ({"minReplicas": 4, "maxReplicas": 4, "targetReplicas": 4}, None),
    ],
)
def test_a_target_pins_the_size_and_never_leaves_the_range(
    workers: dict[str, int], wanted: int | None
) -> None:
    assert horovod.convert(horovod_sample(**workers), prepared=False)["spec"].get("replicas") == wanted


@pytest.mark.parametrize(
    ("workers", "gpu"),
    [
        ({}, 1),
        ({"minReplicas": 0, "maxReplicas": 3}, "1..3"),
        ({"minReplicas": 3}, 3),
        ({"targetReplicas": 2}, 2),
        ({"minReplicas": 1, "targetReplicas": 4}, "1..4"),
    ],
)
def test_what_is_not_said_of_the_workers_is_filled_in(workers: dict[str, int], gpu: int | str) -> None:
    source = horovod_sample()
    source["spec"]["workersSpec"] = {"image": "x", **workers}
    assert horovod.convert(source, prepared=False)["spec"]["resources"] == {"gpu": gpu}


def test_queue_and_priority_come_from_annotations() -> None:
    spec = horovod.convert(annotated(horovod_sample(), queue="vision", priority="75"), prepared=False)["spec"]
    assert (spec["queue"], spec["priority"]) == ("vision", 75)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"workersSpec": {"image": "x", "minReplicas": 4, "maxReplicas": 2}}, "spec.workersSpec.maxReplicas"),
        ({"launcherSpec": {"image": "x", "pythonCommand": []}}, "spec.launcherSpec.pythonCommand"),
    ],
)
def test_nonsense_is_refused_in_the_objects_own_words(change: dict[str, Any], field: str) -> None:
    source = horovod_sample()
    source["spec"] |= change
    with pytest.raises(BadInput) as refused:
        horovod.convert(source, prepared=False)
    assert refused.value.mistakes[0].field == field


def test_the_status_has_the_originals_fields_and_what_became_of_the_job() -> None:
    job = {
        "metadata": {"name": "elastichorovodjob-sample"},
        "status": {"phase": "running", "reason": "runs", "gpus": "3", "replicas": 3, "record": {"secret": 1}},
    }
    assert horovod.status(job) == {
        "availableReplicas": 3,
        "launcher": "gpujob.grus.dev/elastichorovodjob-sample",
        "workers": "gpujob.grus.dev/elastichorovodjob-sample",
        "job": "gpujob.grus.dev/elastichorovodjob-sample",
        "phase": "running",
        "reason": "runs",
        "gpus": "3",
    }
