"""Interface between Grus and the processes of a job: variables, the control file, the report."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from grus.api.parsing.fields import SET_BY_GRUS
from grus.artifacts.status_reports import tell_kept, tell_trouble
from grus.controlplane.reconciler.apply_engine_calls import Control
from grus.controlplane.workers.worker_launch_spec import Surroundings, members, worker_spec
from grus.engines.kubernetes import pod_manifest
from grus.engines.local.engine import LocalEngine
from grus.engines.local.gpu_device_binding import bind
from grus.kubernetes.api_objects.job_home import Home
from grus.model.artifacts import Artifact, input_variable, output_variable
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.interfaces import WorkerSpec
from grus.model.jobs import Checkpoint, Job, Launch, Seat, Spec
from grus.model.nodes import Device
from grus.model.resources import GPU, Range, Replica, Request, Role
from grus.model.sweep_search import Trial
from grus.model.worker_reports import report_lines
from grus.sdk import worker as sdk
from tests.golden import sources
from tests.golden.complete import complete

NOW = 1_700_000_000.5
LINE: dict[str, Any] = {
    "at": 1.5,
    "figures": {"step": 2.5},
    "saved_at": 3.5,
    "elastic": {
        "address": "127.0.0.1:4711",
        "team": 4,
        "waits": 5.5,
        "hang_after": 6.5,
        "step": 7,
        "lap": 8.5,
    },
    "endpoint": {"address": "127.0.0.1:4712", "secret": "0123456789abcdef", "used_at": 9.5},
}
"""A line of a report that says everything at once."""


def a_trial(launch: Launch, share: int = GPU) -> Job:
    """Two replicas on two nodes, of a job that uses every setting that reaches its workers."""
    request = Request((Role("worker", Range(1, 4), Replica()),), how=("bf16", "zero1"))
    spec = Spec(
        name="trial",
        queue=QueueName("vision"),
        run=("true",),
        request=request,
        launch=launch,
        checkpoint=Checkpoint(path="saved", every=90.0),
        env=(("OWN", "1"),),
        workdir="/home/ada",
        params=(("lr", 0.5),),
        trial=Trial(JobId("sweep"), 7, "step", (10.0, 30.0)),
    )
    seats = tuple(
        Seat("worker", index, NodeId(f"n{index}"), (DeviceId(f"n{index}/0"),), share) for index in range(2)
    )
    return Job(
        id=JobId("job"),
        spec=spec,
        user=UserName("ada"),
        submitted_at=1.0,
        attempt=2,
        generation=3,
        seats=seats,
        progress=(("step", 12.0),),
    )


def started(job: Job) -> WorkerSpec:
    """The last one of its workers."""
    return worker_spec(job, members(job)[-1], Surroundings())


def environment() -> dict[str, Any]:
    whole = started(a_trial(Launch.PER_GPU))
    half = started(a_trial(Launch.PER_GPU, GPU // 2))
    slice_ = pod_manifest.Slice(uuid="GPU-1", memory=1 << 30, of=4 << 30)
    return {
        "by the control plane": {launch.value: dict(started(a_trial(launch)).env) for launch in Launch},
        "by the local engine": {
            "on a virtual GPU": _local(whole, virtual=True),
            "on a GPU": _local(whole, virtual=False),
            "on a slice": _local(half, virtual=False),
            "on a slice, with MPS": _local(half, virtual=False, mps=Path("/mps")),
        },
        "by the Kubernetes engine": {
            "on a GPU": _pod(whole, None),
            "on a slice": _pod(half, slice_),
            "without a GPU": _pod(replace(whole, devices=()), None),
        },
        "by the program around a stage": [input_variable("data-set"), output_variable("model")],
        "not to be set by a job": sorted(SET_BY_GRUS),
        "in the sources": sources.variables(),
    }


def _local(worker: WorkerSpec, *, virtual: bool, mps: Path | None = None) -> dict[str, str]:
    """Variables that the engine adds or changes."""
    pool = {device: Device(device, "H100", 4 << 30) for device in worker.devices}
    record = SimpleNamespace(folder="FOLDER", token="TOKEN")
    bound = bind(worker, pool, virtual=virtual, mps=mps)
    made: dict[str, str] = cast(Any, LocalEngine)._environment(None, worker, record, bound)
    return {name: value for name, value in made.items() if dict(worker.env).get(name) != value}


def _pod(worker: WorkerSpec, slice_: pod_manifest.Slice | None) -> dict[str, Any]:
    made = pod_manifest._variables(worker, Home("team", "trial"), slice_)
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in made}


def control() -> Any:
    """Content of the file by which a worker is asked to pause or to leave."""
    return json.loads(complete(Control).text(deadline=NOW))


def report() -> dict[str, Any]:
    """Lines that the SDK and the program around a stage write, and keys that the control plane reads."""
    return {
        "written": _written(),
        "written by runtimes": sources.runtime_keys(),
        "read": sorted(".".join(place) for place in _places(LINE) if _is_read(place)),
        "figures with a meaning": sources.figures(),
    }


def _places(line: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """All keys, with those of the objects inside."""
    for key, value in line.items():
        if isinstance(value, dict) and key != "figures":
            yield from ((key, one) for one in value)
        else:
            yield (key,)


def _is_read(place: tuple[str, ...]) -> bool:
    """True if a line without this key says something else."""
    less = json.loads(json.dumps(LINE))
    inside = less if len(place) == 1 else less[place[0]]
    del inside[place[-1]]
    return report_lines.read(json.dumps(less)) != report_lines.read(json.dumps(LINE))


def _written() -> list[Any]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "report")
        known = {"GRUS_REPORT": str(file), "GRUS_RUNGS": ""}
        with (
            patch.dict("os.environ", known),
            patch.object(sdk, "_said", sdk._ReportState()),
            patch.object(sdk, "_rungs", sdk._Rungs()),
            patch.object(sdk, "time", SimpleNamespace(time=lambda: NOW)),
        ):
            sdk.report(step=120, total=5000, loss=0.31)
            sdk.tell(endpoint={"address": "127.0.0.1:4712"})
            sdk.saved()
            tell_kept([Artifact("model", "digest", 5)])
            tell_trouble("no room")
        return [json.loads(line) for line in file.read_text().splitlines()]
