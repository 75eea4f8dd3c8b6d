"""A client without a server: remembers what it was asked, answers from what the test put in."""

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grus.api.inputs.job_schema import JobIn
from grus.api.profile_wire import ExpectedOut, LearnedOut, ProfileOut, TagOut
from grus.api.wire_types.forecast import ForecastOut
from grus.api.wire_types.job import EventOut, ExitOut, HolderOut, JobOut, PlanOut, UsageOut, WhyOut, WorkerOut
from grus.api.wire_types.pool import DrainOut, GpuOut, NodeOut, PoolOut, QueueIn, QueueOut, StatusOut
from grus.api.wire_types.report import ReportOut
from grus.api.wire_types.telemetry import TelemetryOut
from grus.api.wire_types.users import AuditOut, TokenIn, TokenOut, UserIn, UserOut
from grus.api.wire_types.workflow import GraphOut
from grus.model.errors import GrusError, NotFound
from grus.model.jobs import TERMINAL
from grus.sdk.client import LogPiece
from grus.simulator.workload.history_trace import History, encode

SUBMITTED = "2026-11-15T12:00:00.000Z"


def a_job(id: str = "j0000000001", **given: Any) -> JobOut:
    values: dict[str, Any] = {
        "id": id,
        "name": "resnet",
        "type": "train",
        "queue": "vision",
        "user": "ada",
        "phase": "running",
        "desired": "run",
        "gpus": 2,
        "request": "2",
        "reason": "there is room",
        "submitted_at": SUBMITTED,
        "first_started_at": SUBMITTED,
        **given,
    }
    return JobOut(status=values["phase"], **values)


def an_end(phase: str, cause: str = "exit code", code: int | None = None) -> JobOut:
    return a_job(phase=phase, exit=ExitOut(cause=cause, code=code), ended_at=SUBMITTED)


@dataclass
class Handle:
    job: JobOut


@dataclass
class FakeClient:
    known: list[JobOut] = field(default_factory=list)
    """Newest first."""
    ends_as: JobOut | None = None
    """What a followed job turns into."""
    text: str = "hello\n"
    texts: dict[int, str] = field(default_factory=dict)
    """Logs by attempt, where they differ."""
    dropped: int = 0
    """Bytes that log rotation has removed before the text that is followed."""
    error: GrusError | None = None
    """Raised by the first thing asked."""
    interrupt: int = 0
    """So many times following ends by Ctrl-C."""
    submitted: list[tuple[JobIn, str | None]] = field(default_factory=list)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    queue_list: list[QueueOut] = field(
        default_factory=lambda: [QueueOut(name="default", quota=8, effective_quota=8)]
    )
    measured: TelemetryOut | None = None
    """The newest telemetry; None for a server that records none."""
    reported: ReportOut | None = None
    past: History = field(default_factory=lambda: History(since=0.0, until=0.0))
    """Ended jobs that simulations start from."""
    happened: list[EventOut] | None = None
    """None for one event of any job."""
    foretold: ForecastOut = field(
        default_factory=lambda: ForecastOut(of="pool", measure="demand", reach="hour", missing="too little")
    )
    known_profile: ProfileOut | None = None
    expected: ExpectedOut | None = None
    gpu_tag: TagOut | None = None
    graphs: dict[str, GraphOut] = field(default_factory=dict)
    fresh: bool = False
    """Whether the last stages were to be run whatever has been run before."""
    address: str = "http://127.0.0.1:7600"
    user_list: list[UserOut] = field(default_factory=lambda: [UserOut(name="ada", role="member")])
    token_list: list[TokenOut] = field(
        default_factory=lambda: [
            TokenOut(digest="3f9a2c" + "0" * 58, user="ada", label="laptop", created_at=SUBMITTED)
        ]
    )

    def close(self) -> None: ...

    def _ask(self, *what: str) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def submit(self, job: JobIn, *, key: str | None = None) -> Handle:
        self._ask("submit")
        self.submitted.append((job, key))
        made = a_job(
            f"j000000000{len(self.submitted)}",
            name=job.name or "job",
            queue=job.queue,
            phase="pending",
            gpus=0,
        )
        self.known.insert(0, made)
        return Handle(made)

    def submit_stages(
        self, jobs: list[JobIn], *, key: str | None = None, fresh: bool = False
    ) -> list[Handle]:
        self.fresh = fresh
        return [self.submit(job, key=key) for job in jobs]

    def graph(self, job: str) -> GraphOut:
        self._ask("graph", job)
        return self.graphs[next(one.graph for one in self.known if one.id == job)]

    def retry(self, job: str) -> list[Handle]:
        self._ask("retry", job)
        return [Handle(a_job("j0000000009", name="again", phase="pending"))]

    def plan(self, job: JobIn) -> PlanOut:
        self._ask("plan")
        return PlanOut(
            fits=True,
            starts="now",
            sentence="It starts now on node-0.",
            launch="once",
            nodes=("node-0",),
            expected=self.expected,
        )

    def learned(self, id: str) -> LearnedOut:
        self._ask("learned", id)
        return LearnedOut(
            job=id, fingerprint="4a57964d4c3f3012", profile=self.known_profile, expected=self.expected
        )

    def profiles(self) -> list[ProfileOut]:
        self._ask("profiles")
        return [] if self.known_profile is None else [self.known_profile]

    def profile(self, fingerprint: str) -> ProfileOut:
        self._ask("profile", fingerprint)
        if self.known_profile is None or not self.known_profile.fingerprint.startswith(fingerprint):
            raise NotFound(f"there is no profile {fingerprint!r}")
        return self.known_profile

    def job(self, id: str) -> JobOut:
        self._ask("job", id)
        for job in self.known:
            if job.id == id:
                return job
        raise NotFound(f"There is no job {id}.")

    def jobs(
        self,
        *,
        phases: Sequence[str] = (),
        queue: str | None = None,
        mine: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[JobOut]:
        if after is not None:
            return []
        self._ask("jobs", ",".join(phases), queue or "", str(mine))
        found = [
            job for job in self.known if (not phases or job.phase in phases) and queue in (None, job.queue)
        ]
        return found[:limit]

    def _act(self, verb: str, id: str, phase: str) -> JobOut:
        self._ask(verb, id)
        changed = self.job(id).model_copy(update={"phase": phase, "status": phase})
        self.known = [changed if job.id == id else job for job in self.known]
        return changed

    def stop(self, id: str) -> JobOut:
        return self._act("stop", id, "stopped")

    def pause(self, id: str) -> JobOut:
        return self._act("pause", id, "paused")

    def resume(self, id: str) -> JobOut:
        return self._act("resume", id, "running")

    def scale(self, id: str, size: str) -> JobOut:
        self._ask("scale", id, size)
        return self.job(id)

    def why(self, id: str) -> WhyOut:
        self._ask("why", id)
        holders = (HolderOut(job="j0000000009", gpus=4),)
        change = "stop j0000000009"
        return WhyOut(
            job=id, code="no_room", sentence="It waits for 2 GPUs; 1 is free.", holders=holders, change=change
        )

    def workers(self, id: str) -> list[WorkerOut]:
        return [
            WorkerOut(
                id=f"{id}.1.worker.0.1", job=id, attempt=1, state="running", role="worker", number=0, pid=42
            )
        ]

    def usage(self) -> list[UsageOut]:
        return []

    def telemetry(self) -> TelemetryOut:
        if self.measured is None:
            raise NotFound("this server records no telemetry")
        return self.measured

    def log(
        self,
        id: str,
        *,
        worker: int | None = None,
        offset: int = 0,
        limit: int = 65536,
        attempt: int | None = None,
    ) -> tuple[bytes, int]:
        if worker:
            raise NotFound(f"job {id} has no worker {worker}")
        data = self.texts.get(attempt or 0, self.text).encode()
        begin = max(0, len(data) + offset) if offset < 0 else offset
        piece = data[begin : begin + limit]
        return piece, begin + len(piece)

    def follow_pieces(
        self,
        id: str,
        *,
        worker: int | None = None,
        offset: int = 0,
        attempt: int | None = None,
        since: int | None = None,
    ) -> Iterator[LogPiece]:
        self._ask("follow_log", id)
        if self.interrupt:
            self.interrupt -= 1
            signal.raise_signal(signal.SIGINT)
        yield LogPiece(self.text, self.job(id).attempt, self.dropped)
        if self.ends_as is not None and self.job(id).phase not in TERMINAL:
            ended = self.ends_as.model_copy(update={"id": id})
            self.known = [ended if job.id == id else job for job in self.known]

    def events(self, *, after: int = 0, job: str | None = None, limit: int = 1000) -> list[EventOut]:
        if self.happened is not None:
            return [event for event in self.happened if event.seq > after and job in (None, event.job)]
        return [EventOut(seq=1, at=SUBMITTED, kind="submitted", text="ada submitted it", job=job)]

    def watch(self, *, after: int | None = None, job: str | None = None) -> Iterator[EventOut]:
        yield from self.events(job=job)

    def queues(self) -> list[QueueOut]:
        self._ask("queues")
        return self.queue_list

    def put_queue(self, name: str, queue: QueueIn) -> QueueOut:
        self._ask("put_queue", name)
        wanted = queue.model_dump(exclude={"quota", "max_runtime"}, by_alias=True)
        wanted["configured"] = name in self.configured
        quota = queue.quota if isinstance(queue.quota, int | float) else sum(queue.quota.values())
        made = QueueOut(name=name, quota=quota, **wanted)
        self.queue_list.append(made)
        return made

    configured: frozenset[str] = frozenset()
    """Queues that config.toml defines."""

    def add_member(self, queue: str, user: str) -> QueueOut:
        self._ask("add_member", queue, user)
        return QueueOut(name=queue, members=("ada", user), configured=queue in self.configured)

    def remove_member(self, queue: str, user: str) -> QueueOut:
        self._ask("remove_member", queue, user)
        return QueueOut(name=queue, members=("ada",))

    def delete_queue(self, name: str) -> None:
        self._ask("delete_queue", name)

    def nodes(self) -> list[NodeOut]:
        gpus = tuple(
            GpuOut(id=f"GPU-{n}", type="virtual", memory=16_000_000_000, tag=self.gpu_tag) for n in range(4)
        )
        return [NodeOut(id="node-0", gpus=gpus, cordoned=self.drained is not None, drain=self.drained)]

    def history(self, *, last: str | None = None, until: str | None = None) -> bytes:
        self._ask("history", last or "", until or "")
        return encode(self.past)

    def report(
        self,
        *,
        last: str | None = None,
        job: str | None = None,
        queue: str | None = None,
        target: str | None = None,
    ) -> ReportOut:
        self._ask("report", last or "", job or "", queue or "", target or "")
        assert self.reported is not None
        return self.reported

    def forecast(
        self, of: str = "pool", name: str = "", *, day: bool = False, measure: str | None = None
    ) -> ForecastOut:
        self._ask("forecast", of, name, "day" if day else "hour")
        return self.foretold

    def cordon(self, node: str) -> None:
        self._ask("cordon", node)

    drained: DrainOut | None = None

    def drain(self, node: str, message: str = "") -> None:
        self._ask("drain", node, message)

    def uncordon(self, node: str) -> None:
        self._ask("uncordon", node)

    def status(self) -> StatusOut:
        self._ask("status")
        return StatusOut(
            version="0.1.0",
            now=SUBMITTED,
            pool=PoolOut(nodes=1, gpus=4, usable=4),
            jobs={"running": 2},
            mechanisms=self.mechanisms,
            role=self.role,
        )

    role: str = ""
    """Role of the user who asks."""

    mechanisms: dict[str, str] = field(default_factory=dict)
    """Mechanisms of the server, as `status` shows them."""

    containers: bool = False
    """Whether it stands for a server on Kubernetes."""

    def in_containers(self) -> bool:
        return self.containers

    def users(self) -> list[UserOut]:
        return self.user_list

    def put_user(self, name: str, user: UserIn) -> UserOut:
        self._ask("put_user", name)
        return UserOut(name=name, role=user.role, unix_user=user.unix_user, max_gpus=user.max_gpus)

    def delete_user(self, name: str, *, stop_jobs: bool = False) -> None:
        self._ask("delete_user", name, "stop" if stop_jobs else "")

    audited: list[AuditOut] = field(default_factory=list)

    def audit(
        self, *, actor: str = "", target: str = "", before: int | None = None, limit: int = 100
    ) -> list[AuditOut]:
        self._ask("audit", actor, target, str(before), str(limit))
        return self.audited

    def tokens(self) -> list[TokenOut]:
        return self.token_list

    def new_token(self, token: TokenIn) -> TokenOut:
        return TokenOut(
            digest="ab" * 32, user=token.user, label=token.label, created_at=SUBMITTED, secret="s3cret"
        )

    def delete_token(self, digest: str) -> None:
        self._ask("delete_token", digest)
