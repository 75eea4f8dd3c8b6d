"""`grus --kubernetes`: the command's verbs, directly on a cluster's API with the user's own kubeconfig.

There is no Grus server in between and no token of its own: the user can do everything that the cluster
permits this user. User actions are changes of the object (`spec.paused`, `spec.replicas`, its deletion),
which the controller carries out.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from grus.api.inputs import workflow_dag
from grus.api.inputs.job_schema import JobIn
from grus.api.parsing.validation_errors import read
from grus.api.profile_wire import LearnedOut, ProfileOut
from grus.api.wire_types.forecast import ForecastOut
from grus.api.wire_types.job import EventOut, JobOut, PlanOut, UsageOut, WhyOut, WorkerOut
from grus.api.wire_types.pool import NodeOut, QueueIn, QueueOut, StatusOut
from grus.api.wire_types.report import ReportOut
from grus.api.wire_types.runs import ResultOut
from grus.api.wire_types.telemetry import TelemetryOut
from grus.cli.kubernetes import explain_scheduling
from grus.cli.kubernetes.object_converter import (
    as_asked,
    events_of,
    job_of,
    pods_of,
    shown,
    worker_out,
    workers_of,
)
from grus.cli.kubernetes.pod_logs import PodLogs
from grus.controlplane.jobs import user_actions
from grus.kubernetes.bundle import code_bundles
from grus.kubernetes.client.api import Api, Exists, Missing, Object
from grus.kubernetes.client.resource_kinds import GPU_JOBS, GPU_QUEUES, NODES
from grus.kubernetes.install.custom_resources import API_VERSION
from grus.model.errors import BadInput, Mistake, NotAllowed, NotFound
from grus.model.identifiers import UserName
from grus.model.jobs import TERMINAL, Job
from grus.model.resources import Range
from grus.sdk.client import Client, Handle, LogPiece, Submission, job_in
from grus.sdk.transport import Transport

_ME = UserName("you")
EVERYWHERE = "*"
"""Marks all namespaces."""
ADMITTED_WITHIN = 10.0
LOOK_EVERY = 0.3
LONGEST_WATCH = 300.0
TRIES = 5


class KubernetesClient(Client):
    """The same questions and answers as a server's client."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str = "",
        resource: str = "nvidia.com/gpu",
        code: bool = True,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._everywhere = namespace == EVERYWHERE
        self._namespace = "" if self._everywhere else namespace or api.namespace or "default"
        self._resource = resource
        self._code = code
        self._clock = clock
        self._pause = pause
        self._stopped: dict[str, JobOut] = {}
        self._logs = PodLogs(api, self._item, pause)

    @property
    def address(self) -> str:
        return self._api.server

    @property
    def _transport(self) -> Transport:  # type: ignore[override]  # the way to a server, which is not there
        """Raise an error: every method of the server's client without a counterpart here ends up at this
        property.
        """
        _not_here("this command")

    def close(self) -> None:
        self._api.close()

    # ------------------------------------------------------------------------------------------- jobs

    def submit(self, job: Submission, *, key: str | None = None) -> Handle:
        """Make the object, with the code of its folder; wait a little until the controller has seen it."""
        given = job_in(job)
        reference = self._bundled(given)
        made = self._create(given, reference, key)
        if reference:
            self._keep(given, made["metadata"], reference)
        return Handle(self, shown(self._admitted(made)))

    def submit_stages(
        self, jobs: Sequence[Submission], *, key: str | None = None, fresh: bool = False
    ) -> list[Handle]:
        """One object after the other, in their order; each names those before it by their ids."""
        del fresh  # stages here pass no outputs, and so none is ever skipped
        ids: dict[str, str] = {}
        handles = []
        for index, job in enumerate(map(job_in, jobs)):
            own = None if key is None else f"{key}-{index}"
            handle = self.submit(workflow_dag.with_ids(job, ids), key=own)
            ids[handle.job.name] = handle.id
            handles.append(handle)
        return handles

    def graph(self, job: str) -> NoReturn:
        del job
        _not_here("the graph of stages")

    def retry(self, job: str, *, key: str | None = None) -> NoReturn:
        del job, key
        _not_here("retry")

    def _keep(self, given: JobIn, metadata: Object, reference: str) -> None:
        """Have the code stay as long as the job."""
        owner = {
            "apiVersion": API_VERSION,
            "kind": "GpuJob",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        try:
            code_bundles.adopt(self._api, metadata["namespace"], reference, owner)
        except NotFound:  # the last job that used it was deleted just now, and the code with it
            self._bundled(given)
            code_bundles.adopt(self._api, metadata["namespace"], reference, owner)

    def _bundled(self, given: JobIn) -> str:
        """The code of the job's folder, in the cluster; "" where the image has it."""
        if not self._code or not given.workdir or given.workdir.startswith("bundle:"):
            return given.workdir if given.workdir.startswith("bundle:") else ""
        folder = Path(given.workdir)
        if not folder.is_dir():
            raise BadInput([Mistake("workdir", "is no folder here; its code cannot be sent", given.workdir)])
        return code_bundles.publish(self._api, self._home(), code_bundles.pack(folder))

    def _create(self, given: JobIn, reference: str, key: str | None) -> Object:
        spec = given.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude={"name", "workdir", "snapshot"}
        )
        spec = {name: value for name, value in spec.items() if value is not None}
        if reference:
            spec["workdir"] = reference
        name = given.name or "job"
        for attempt in range(TRIES):
            body = {"metadata": {"name": _free_name(name, key, attempt)}, "spec": spec}
            try:
                return self._api.create(GPU_JOBS, body, self._home())
            except Exists:
                if key is not None:
                    return self._api.get(GPU_JOBS, _free_name(name, key, attempt), self._home())
        raise BadInput([Mistake("name", "is taken, and so are others like it: choose another", name)])

    def _admitted(self, made: Object) -> Object:
        """Wait for the controller's answer and return the object as the controller left it.

        A refused object is deleted, and its errors are raised.
        """
        metadata = made["metadata"]
        end = self._clock() + ADMITTED_WITHIN
        while not (made.get("status") or {}).get("phase") and self._clock() < end:
            self._pause(LOOK_EVERY)
            made = self._api.get(GPU_JOBS, metadata["name"], metadata["namespace"])
        if (made.get("status") or {}).get("phase") == "refused":
            self._api.delete(GPU_JOBS, metadata["name"], metadata["namespace"])
            raise BadInput([Mistake("job", made["status"].get("reason", "was refused"))])
        return made

    def plan(self, job: Submission) -> PlanOut:  # noqa: ARG002 - as the server's client
        _not_here("--plan")

    def learned(self, job: str) -> LearnedOut:  # noqa: ARG002 - as the server's client
        _not_here("what was learned of a job")

    def profiles(self) -> list[ProfileOut]:
        _not_here("profile")

    def profile(self, fingerprint: str) -> ProfileOut:  # noqa: ARG002 - as the server's client
        _not_here("profile")

    def runs(
        self,
        *,
        queue: str | None = None,  # noqa: ARG002 - as the server's client
        name: str | None = None,  # noqa: ARG002 - likewise
        mine: bool = False,  # noqa: ARG002 - likewise
        limit: int | None = None,  # noqa: ARG002 - likewise
        after: str | None = None,  # noqa: ARG002 - likewise
    ) -> list[ResultOut]:
        _not_here("runs")

    def result(self, job: str) -> ResultOut:  # noqa: ARG002 - as the server's client
        _not_here("runs")

    def job(self, job: str) -> JobOut:
        try:
            return shown(self._item(job))
        except NotFound:
            if job in self._stopped:  # it was ours to stop, and it is gone
                return self._stopped[job]
            raise

    def jobs(
        self,
        *,
        phases: Sequence[str] = (),
        queue: str | None = None,
        mine: bool = False,  # noqa: ARG002 - the namespace says whose they are
        limit: int = 100,
        after: str | None = None,
    ) -> list[JobOut]:
        found = [shown(item) for item in self._items()]
        wanted = [
            job
            for job in sorted(found, key=lambda job: (job.submitted_at, job.id), reverse=True)
            if (not phases or job.phase in phases) and (queue is None or job.queue == queue)
        ]
        ids = [job.id for job in wanted]
        begin = ids.index(after) + 1 if after in ids else 0
        return wanted[begin : begin + limit]

    def stop(self, job: str) -> JobOut:
        """Delete its object: the controller ends its workers first."""
        item = self._item(job)
        metadata = item["metadata"]
        self._api.delete(GPU_JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        asked = shown(item)
        self._stopped[job] = asked.model_copy(update={"phase": "stopped", "status": "stopped"})
        return asked.model_copy(update={"status": "stopping", "reason": "is asked to end"})

    def pause(self, job: str) -> JobOut:
        return self._change(job, {"paused": True}, lambda known: user_actions.pause(known, _ME, 0.0))

    def resume(self, job: str) -> JobOut:
        return self._change(job, {"paused": False}, lambda known: user_actions.resume(known, _ME, 0.0))

    def scale(self, job: str, size: int | str) -> JobOut:
        """`4` pins the size, `"auto"` goes back to what was submitted."""
        text = str(size)
        if text != "auto" and not text.isdecimal():
            raise BadInput([Mistake("size", "must be a number or auto for a job of a cluster", text)])
        wanted = None if text == "auto" else int(text)
        pinned = None if wanted is None else Range(wanted, wanted)
        return self._change(
            job, {"replicas": wanted}, lambda known: user_actions.scale(known, pinned, _ME, 0.0)
        )

    def why(self, job: str) -> WhyOut:
        item = self._item(job)
        known = job_of(item)
        if known is None:
            told = shown(item)
            return WhyOut(job=told.id, phase=told.phase, code=told.status, sentence=told.reason)
        return explain_scheduling.why(self._api, self._resource, known)

    def workers(self, job: str) -> list[WorkerOut]:
        item = self._item(job)
        known = job_of(item)
        roles = [role.name for role in known.spec.request.roles] if known else []
        found = workers_of(pods_of(self._api, item), roles)
        numbers = iter(range(len(found)))
        return [worker_out(one, job, None if one.is_setup else next(numbers)) for one in found]

    # ----------------------------------------------------------------------------------- logs, events

    def log(
        self,
        job: str,
        *,
        worker: int | None = None,
        offset: int = 0,
        limit: int = 65536,
        attempt: int | None = None,
    ) -> tuple[bytes, int]:
        return self._logs.read(job, worker or 0, offset, limit, attempt)

    def follow_pieces(
        self,
        job: str,
        *,
        worker: int | None = None,
        offset: int = 0,
        attempt: int | None = None,
        since: int | None = None,
    ) -> Generator[LogPiece, None, None]:
        yield from self._logs.follow(job, worker or 0, offset, attempt, since or 0)

    def events(self, *, after: int = 0, job: str | None = None, limit: int = 1000) -> list[EventOut]:
        items = self._items() if job is None else [self._item(job)]
        found = [event for item in items for event in events_of(item) if event.seq > after]
        return sorted(found, key=lambda event: event.at)[-limit:]

    def watch(self, *, after: int | None = None, job: str | None = None) -> Generator[EventOut, None, None]:
        """Yield the events of one job until the job is gone."""
        if job is None:
            _not_here("watching all jobs")
        item = self._item(job)
        told = after if after is not None else max((one.seq for one in events_of(item)), default=0)
        for seen in self._changes(item):
            for event in events_of(seen):
                if event.seq > told:
                    yield event
            told = max([told, *(event.seq for event in events_of(seen))])

    def wait_for_end(self, job: str, seconds: float) -> None:
        for seen in self._changes(self._item(job), seconds):
            if shown(seen).phase in TERMINAL:
                return

    def _changes(self, item: Object, seconds: float = LONGEST_WATCH) -> Generator[Object, None, None]:
        """The object as it is, and whenever it has changed, until it is gone or the time is over."""
        yield item
        metadata = item["metadata"]
        watch = self._api.watch(
            GPU_JOBS,
            metadata["namespace"],
            version=metadata["resourceVersion"],
            fields=f"metadata.name={metadata['name']}",
            timeout=max(1.0, seconds),
        )
        with watch:
            for event in watch:
                if event.type == "DELETED":
                    return
                if event.type != "BOOKMARK":
                    yield event.object

    def usage(self) -> list[UsageOut]:
        return []

    def telemetry(self) -> TelemetryOut:
        raise NotFound("figures are told by the controller; ask it with --server, or see the pods' own tools")

    def report(self, **asked: object) -> ReportOut:  # noqa: ARG002 - as the server's client
        raise NotFound("reports are made by the controller from what it records; ask it with --server")

    def forecast(
        self,
        of: str = "pool",  # noqa: ARG002 - as the server's client
        name: str = "",  # noqa: ARG002 - as the server's client
        *,
        day: bool = False,  # noqa: ARG002 - as the server's client
        measure: str | None = None,  # noqa: ARG002 - as the server's client
    ) -> ForecastOut:
        raise NotFound("forecasts are made by the controller from what it records; ask it with --server")

    # ------------------------------------------------------------------------------------------- pool

    def queues(self) -> list[QueueOut]:
        return explain_scheduling.queues(self._api, self._resource)

    def put_queue(self, name: str, queue: QueueIn | Mapping[str, object]) -> QueueOut:
        given = queue if isinstance(queue, QueueIn) else read(QueueIn, queue, whole="queue")
        spec = given.model_dump(mode="json", exclude_unset=True)
        body = {"metadata": {"name": name}, "spec": spec}
        try:
            self._api.create(GPU_QUEUES, body)
        except Exists:
            self._api.patch(GPU_QUEUES, name, {"spec": spec})
        return next(one for one in self.queues() if one.name == name)

    def delete_queue(self, name: str) -> None:
        self._api.delete(GPU_QUEUES, name)

    def nodes(self) -> list[NodeOut]:
        return explain_scheduling.nodes(self._api, self._resource)

    def cordon(self, node: str) -> None:
        self._api.patch(NODES, node, {"spec": {"unschedulable": True}})

    def uncordon(self, node: str) -> None:
        self._api.patch(NODES, node, {"spec": {"unschedulable": None}})

    def status(self) -> StatusOut:
        _not_here("status")

    # ---------------------------------------------------------------------------------------- objects

    def _home(self) -> str:
        if self._everywhere:
            raise BadInput([Mistake("--namespace", "must be one namespace to submit to", EVERYWHERE)])
        return self._namespace

    def _items(self) -> list[Object]:
        try:
            return self._api.list(GPU_JOBS, self._namespace)[0]
        except Missing:
            raise NotFound(
                "This cluster has no Grus: `grus kubernetes install` brings it. Is another kubeconfig meant?"
            ) from None

    def _item(self, job: str) -> Object:
        for item in self._items():
            if job in (shown(item).id, item["metadata"]["name"]):
                return item
        raise NotFound(f"There is no job {job!r} in {self._namespace or 'any namespace'}.")

    def _change(self, job: str, spec: Mapping[str, object], check: Callable[[Job], object]) -> JobOut:
        """Write the user action onto the object if the controller would carry it out; otherwise `check`
        raises why not.
        """
        item = self._item(job)
        known = job_of(item) or as_asked(item)
        if known is not None:
            check(known)
        metadata = item["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "spec": spec}
        return shown(self._api.patch(GPU_JOBS, metadata["name"], body, metadata["namespace"]))


def connect() -> KubernetesClient:
    """Connect as the environment says: KUBECONFIG, GRUS_NAMESPACE, GRUS_GPU_RESOURCE, GRUS_CODE."""
    return KubernetesClient(
        Api.connect(),
        namespace=os.environ.get("GRUS_NAMESPACE", ""),
        resource=os.environ.get("GRUS_GPU_RESOURCE") or "nvidia.com/gpu",
        code=os.environ.get("GRUS_CODE") != "image",
    )


def _free_name(name: str, key: str | None, attempt: int) -> str:
    """The job's own; with a key always the same for it; else, where that is taken, with a tail."""
    if key is not None:
        return f"{name[:54]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    return name if not attempt else f"{name[:57]}-{secrets.token_hex(2)}"


def _not_here(what: str) -> NoReturn:
    raise NotAllowed(
        f"{what} needs a Grus server; with --kubernetes there is none in between. Its own command reaches it:"
        " kubectl -n grus-system port-forward svc/grus 7600, then grus --server http://127.0.0.1:7600"
    )
