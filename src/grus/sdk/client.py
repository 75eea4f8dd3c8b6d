"""Python client: `Client().submit(Job(...))` and a handle to follow the job.

A client finds the server of the current login (`grus login`) or of this machine by itself, or uses
GRUS_CONTEXT, GRUS_SERVER and GRUS_TOKEN, or its arguments. Every error of the server is raised here as the
same class of `grus.model.errors`. Every method returns a value of `grus.api.wire_types`.
"""

import json
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.api.parsing.validation_errors import read
from grus.api.profile_wire import LearnedOut, ProfileOut
from grus.api.wire_types.curves import CurvesOut
from grus.api.wire_types.dev_session import SessionOut
from grus.api.wire_types.forecast import ForecastOut
from grus.api.wire_types.job import EventOut, JobOut, PlanOut, UsageOut, WhyOut, WorkerOut
from grus.api.wire_types.notifications import NotificationTestIn, NotificationTestOut, ReceiverOut
from grus.api.wire_types.pool import DrainIn, NodeOut, QueueIn, QueueOut, ScaleIn, StatusOut
from grus.api.wire_types.report import ReportOut
from grus.api.wire_types.runs import DiffOut, ResultOut
from grus.api.wire_types.secrets import SecretIn, SecretOut
from grus.api.wire_types.sweep import BestOut, SweepOut
from grus.api.wire_types.telemetry import SeriesOut, TelemetryOut
from grus.api.wire_types.users import AuditOut, TokenIn, TokenOut, UserIn, UserOut
from grus.api.wire_types.workflow import GraphIn, GraphOut
from grus.model.errors import BadInput, GrusError, Mistake, Unreachable
from grus.model.jobs import TERMINAL, Phase
from grus.sdk.contexts import Context
from grus.sdk.submitter_environment import notice, without_folder
from grus.sdk.transport import BrokenOff, Params, Transport

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Submission = JobIn | Mapping[str, object] | str
LONGEST_STREAM = 3600.0
"""Seconds after which a wait sends a new request in any case."""
KEPT_ENVIRONMENT = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that a job inherits of its submitter's environment."""
LONGEST_PREDICTION = 90.0
"""Seconds to wait for a model's prediction; the server gives up before that."""
POLL = 1.0
"""Seconds between two checks of a job when its live stream is not available."""


class LogPiece(NamedTuple):
    """Piece of a log that is followed."""

    text: str
    attempt: int
    dropped: int = 0
    """Bytes before this piece that log rotation has removed."""


class Client:
    """Client of one server. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        address: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 30.0,
        context: Context | None = None,
        transport: Transport | None = None,
        notice: Callable[[str], None] = lambda text: warnings.warn(text, UserWarning, stacklevel=4),
    ) -> None:
        """Connect. `context` is a login to use; `notice` receives a message about parts that a submission
        left on this machine.
        """
        self._transport = transport or Transport(
            address, token, timeout=timeout, patience=patience, context=context
        )
        self._notice = notice
        self._containers: bool | None = None

    @property
    def address(self) -> str:
        return self._transport.address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # ------------------------------------------------------------------------------------------- jobs

    def submit(self, job: Submission, *, key: str | None = None) -> "Handle":
        """Store the job durably and return a handle; exactly once, regardless of broken connections.

        `job` is a `Job`, a mapping like a job file, or the text of a job file with one document. `key` names
        the submission: a second submit of the same user with the same key returns the first one's job.
        """
        (given,) = self._from_here([job_in(job)])
        return self._submit(given, key)

    def _submit(self, given: JobIn, key: str | None) -> "Handle":
        body = _json(given)
        return Handle(self, self._ask(JobOut, "POST", "/v1/jobs", content=body, headers=_once(key)))

    def submit_stages(
        self, jobs: Sequence[Submission], *, key: str | None = None, fresh: bool = False
    ) -> list["Handle"]:
        """Submit the jobs of one file, all or none; a name in `after` or `inputs` is an earlier job's.

        `key` names the whole: a second call with it finds the jobs of the first. Stages that are unchanged
        since an earlier run are not run again, unless `fresh`.
        """
        given = self._from_here([job_in(job) for job in jobs])
        if len(given) == 1 and not given[0].outputs:
            return [self._submit(given[0], key)]
        body = _json(GraphIn(jobs=tuple(given), fresh=fresh))
        stored = self._ask(list[JobOut], "POST", "/v1/graphs", content=body, headers=_once(key))
        return [Handle(self, job) for job in stored]

    def _from_here(self, jobs: Sequence[JobIn]) -> list[JobIn]:
        """Add this machine's parts to the jobs; for containers elsewhere, leave them out, with a notice."""
        if not self.in_containers():
            return [_from_here(job) for job in jobs]
        found = [without_folder(job) for job in jobs]
        variables = [name for name in KEPT_ENVIRONMENT if os.environ.get(name)]
        if text := notice(variables, [folder for _, folder in found]):
            self._notice(text)
        return [job for job, _ in found]

    def in_containers(self) -> bool:
        """Return True if this server runs jobs in containers on other machines, as on Kubernetes.
        Asked once.
        """
        if self._containers is None:
            self._containers = self.status().containers
        return self._containers

    def graph(self, job: str) -> GraphOut:
        """Return the jobs that were submitted together with this one, and their dependencies."""
        return self._ask(GraphOut, "GET", _at("graphs", job))

    def retry(self, job: str, *, key: str | None = None) -> list["Handle"]:
        """Submit again a job that did not succeed, and those that depend on it."""
        stored = self._ask(list[JobOut], "POST", _at("jobs", job, "retry"), headers=_once(key))
        return [Handle(self, one) for one in stored]

    def plan(self, job: Submission) -> PlanOut:
        """Return the plan for a job: feasibility, placement, start and affected jobs. Nothing is stored."""
        body = _json(self._from_here([job_in(job)])[0])
        return self._ask(PlanOut, "POST", "/v1/jobs", content=body, params={"plan": "true"})

    def job(self, job: str) -> JobOut:
        return self._ask(JobOut, "GET", _at("jobs", job))

    def handle(self, job: str) -> "Handle":
        """Return a handle to a job submitted earlier."""
        return Handle(self, self.job(job))

    def jobs(
        self,
        *,
        phases: Sequence[str] = (),
        queue: str | None = None,
        mine: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[JobOut]:
        """Return jobs, newest first; `after` is the id of the last job of the page before."""
        params: dict[str, str | list[str]] = {
            "phase": list(phases),
            **_params(queue=queue, mine=mine, limit=limit, after=after),
        }
        return self._ask(list[JobOut], "GET", "/v1/jobs", params=params)

    def stop(self, job: str) -> JobOut:
        return self._ask(JobOut, "POST", _at("jobs", job, "stop"))

    def pause(self, job: str) -> JobOut:
        return self._ask(JobOut, "POST", _at("jobs", job, "pause"))

    def resume(self, job: str) -> JobOut:
        return self._ask(JobOut, "POST", _at("jobs", job, "resume"))

    def scale(self, job: str, size: int | str) -> JobOut:
        """Change the size: `4` pins it, `"2..6"` changes the range, `"auto"` restores the submitted range."""
        body = _json(_model(ScaleIn, {"size": size}))
        return self._ask(JobOut, "POST", _at("jobs", job, "scale"), content=body)

    def predict(self, job: str, inputs: Any, *, dtype: str | None = None) -> Any:
        """Return a served model's predictions for these samples: a list, or anything with `tolist`. May be
        repeated.
        """
        asked = {"inputs": inputs.tolist() if hasattr(inputs, "tolist") else inputs}
        body = json.dumps(asked if dtype is None else {**asked, "dtype": dtype}).encode()
        answer = self._transport.request(
            "POST", _at("jobs", job, "predict"), content=body, timeout=LONGEST_PREDICTION
        )
        return answer.json()["outputs"]

    def why(self, job: str) -> WhyOut:
        return self._ask(WhyOut, "GET", _at("jobs", job, "why"))

    def learned(self, job: str) -> LearnedOut:
        """Return the profile of its fingerprint, and the expectation for the job."""
        return self._ask(LearnedOut, "GET", _at("jobs", job, "profile"))

    def profiles(self) -> list[ProfileOut]:
        return self._ask(list[ProfileOut], "GET", _at("profiles"))

    def profile(self, fingerprint: str) -> ProfileOut:
        """Return the profile with this fingerprint, or with this prefix."""
        return self._ask(ProfileOut, "GET", _at("profiles", fingerprint))

    def runs(
        self,
        *,
        queue: str | None = None,
        name: str | None = None,
        mine: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[ResultOut]:
        """Return the results of ended jobs, the last first; `after` is the job of the last one before."""
        params = _params(queue=queue, name=name, mine=mine, limit=limit, after=after)
        return self._ask(list[ResultOut], "GET", _at("runs"), params=params)

    def result(self, job: str) -> ResultOut:
        """Return the result of one ended job."""
        return self._ask(ResultOut, "GET", _at("runs", job))

    def diff(self, first: str, second: str) -> DiffOut:
        """Compare two runs."""
        return self._ask(DiffOut, "GET", _at("runs", first, "diff", second))

    def curves(self, job: str) -> CurvesOut:
        """Return its reports over time."""
        return self._ask(CurvesOut, "GET", _at("jobs", job, "curves"))

    def sweep(self, job: str) -> SweepOut:
        """Return a sweep with its trials, the best so far and the parameter importance."""
        return self._ask(SweepOut, "GET", _at("sweeps", job))

    def best(self, sweep: str) -> BestOut:
        """Return the best trial of a sweep as a job file. Raises Conflict while no trial has a value."""
        return self._ask(BestOut, "GET", _at("sweeps", sweep, "best"))

    def workers(self, job: str) -> list[WorkerOut]:
        return self._ask(list[WorkerOut], "GET", _at("jobs", job, "workers"))

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
        """Return bytes of a worker's log and the offset to continue from; a negative offset counts from the
        end.

        The log is that of the last attempt if none is named.
        """
        params = _params(worker=worker, offset=offset, limit=limit, attempt=attempt)
        answer = self._transport.request("GET", _at("jobs", job, "log"), params=params)
        return answer.content, int(answer.headers["Grus-Next-Offset"])

    def follow_log(
        self, job: str, *, worker: int | None = None, offset: int = 0
    ) -> Generator[str, None, None]:
        """Yield the log as text, as it is written, until the job has ended."""
        for piece in self.follow_pieces(job, worker=worker, offset=offset):
            yield piece.text

    def follow_pieces(
        self,
        job: str,
        *,
        worker: int | None = None,
        offset: int = 0,
        attempt: int | None = None,
        since: int | None = None,
    ) -> Generator[LogPiece, None, None]:
        """Yield the log as it is written: of this `attempt` alone, or from attempt `since` to the
        job's end.
        """
        params = _params(worker=worker, offset=offset, attempt=attempt)
        last = f"{since}.{offset}" if since else ""
        for event in self._transport.live(_at("jobs", job, "log", "stream"), params=params, last=last):
            said = json.loads(event.data)
            yield LogPiece(said["text"], said["attempt"], said.get("dropped", 0))

    def download(
        self, job: str, name: str, file: IO[bytes], tell: Callable[[int], None] = lambda _: None
    ) -> None:
        """Download the artifact of this name as a tar, appended to the part that `file` already has.

        A broken connection is resumed, as long as each try receives something.
        """
        at = file.tell()
        while True:
            try:
                params = _params(offset=at)
                for piece in self._transport.stream(_at("jobs", job, "artefacts", name), params=params):
                    file.write(piece)
                    tell(file.tell())
                return
            except BrokenOff as error:
                if file.tell() == at:
                    raise Unreachable(
                        f"{error} after {at} bytes; the server's log may say why. Another try goes on there."
                    ) from error
                at = file.tell()
                self._transport.wait()

    def events(self, *, after: int = 0, job: str | None = None, limit: int = 1000) -> list[EventOut]:
        """Return events, oldest first, with a number above `after`."""
        if job is not None:
            params = _params(after=after, limit=limit)
            return self._ask(list[EventOut], "GET", _at("jobs", job, "events"), params=params)
        return self._ask(list[EventOut], "GET", "/v1/events", params=_params(after=after, limit=limit))

    def watch(self, *, after: int | None = None, job: str | None = None) -> Generator[EventOut, None, None]:
        """Yield events as they happen, without end; from `after` on if it is given, else from now."""
        last = "" if after is None else str(after)
        for event in self._transport.live("/v1/events", params=_params(job=job), last=last):
            yield _read(EventOut, event.data)

    def wait_for_end(self, job: str, seconds: float) -> None:
        """Wait until the job has ended, or that many seconds."""
        params = _params(job=job, seconds=f"{seconds:.3f}")
        for _ in self._transport.live("/v1/events", params=params, forever=False):
            continue

    def usage(self) -> list[UsageOut]:
        return self._ask(list[UsageOut], "GET", "/v1/usage")

    def telemetry(self) -> TelemetryOut:
        """Return the newest metrics of GPUs and workers. Raises NotFound if nothing is measured."""
        return self._ask(TelemetryOut, "GET", "/v1/telemetry")

    def series(
        self,
        of: str,
        measure: str,
        name: str = "",
        *,
        last: str = "1h",
        until: str | None = None,
        step: float | None = None,
        highest: bool = False,
    ) -> SeriesOut:
        """Return recorded telemetry of a gpu, job, worker, queue, node, or of the pool."""
        given = _params(name=name or None, last=last, until=until, highest=highest)
        steps = {} if step is None else {"step": repr(step)}
        asked = {"of": of, "measure": measure, **given, **steps}
        return self._ask(SeriesOut, "GET", "/v1/telemetry/series", params=asked)

    def watch_usage(self) -> Generator[list[UsageOut], None, None]:
        """Yield the resource use of the running workers, about once a second."""
        for event in self._transport.live("/v1/usage/stream"):
            yield _read(list[UsageOut], event.data)

    # ------------------------------------------------------------------------------------------- pool

    def queues(self) -> list[QueueOut]:
        return self._ask(list[QueueOut], "GET", "/v1/queues")

    def put_queue(self, name: str, queue: QueueIn | Mapping[str, object]) -> QueueOut:
        return self._ask(QueueOut, "PUT", _at("queues", name), content=_json(_model(QueueIn, queue)))

    def add_member(self, queue: str, user: str) -> QueueOut:
        """Let one more user submit to a queue; the other members stay."""
        return self._ask(QueueOut, "PUT", _at("queues", queue, "members", user))

    def remove_member(self, queue: str, user: str) -> QueueOut:
        return self._ask(QueueOut, "DELETE", _at("queues", queue, "members", user))

    def delete_queue(self, name: str) -> None:
        self._transport.request("DELETE", _at("queues", name))

    def nodes(self) -> list[NodeOut]:
        return self._ask(list[NodeOut], "GET", "/v1/nodes")

    def forecast(
        self, of: str = "pool", name: str = "", *, day: bool = False, measure: str | None = None
    ) -> ForecastOut:
        """Return the forecast for the next hour (or day) of `pool`, a `queue`, a `gpu` or a `job`; `missing`
        explains a missing one.
        """
        params = _params(of=of, name=name or None, reach="day" if day else "hour", measure=measure)
        return self._ask(ForecastOut, "GET", "/v1/forecast", params=params)

    def report(
        self,
        *,
        last: str | None = None,
        job: str | None = None,
        queue: str | None = None,
        target: str | None = None,
        jobs: int | None = None,
    ) -> ReportOut:
        """Return the use of GPU-hours, of the last week or as far back as `last`; of a job its whole life."""
        params = _params(last=last, job=job, queue=queue, target=target, jobs=jobs)
        return self._ask(ReportOut, "GET", "/v1/report", params=params)

    def history(self, *, last: str | None = None, until: str | None = None) -> bytes:
        """Return ended jobs of the last week, or as far back as `last`: the input of simulations, as JSON."""
        params = _params(last=last, until=until)
        return self._transport.request("GET", "/v1/history", params=params).content

    def cordon(self, node: str) -> None:
        self._transport.request("POST", _at("nodes", node, "cordon"))

    def drain(self, node: str, message: str = "") -> None:
        """Drain a node: it gets no new work, and jobs that save leave. Others run to their end; users see the
        message.
        """
        content = _json(DrainIn(message=message))
        self._transport.request("POST", _at("nodes", node, "drain"), content=content)

    def uncordon(self, node: str) -> None:
        self._transport.request("POST", _at("nodes", node, "uncordon"))

    def status(self) -> StatusOut:
        return self._ask(StatusOut, "GET", "/v1/status")

    # ----------------------------------------------------------------------------------------- users

    def users(self) -> list[UserOut]:
        return self._ask(list[UserOut], "GET", "/v1/users")

    def put_user(self, name: str, user: UserIn | Mapping[str, object]) -> UserOut:
        return self._ask(UserOut, "PUT", _at("users", name), content=_json(_model(UserIn, user)))

    def delete_user(self, name: str, *, stop_jobs: bool = False) -> None:
        """Remove a user with its tokens. Raises Conflict while it has live jobs, unless they are to stop."""
        self._transport.request("DELETE", _at("users", name), params=_params(stop_jobs=stop_jobs))

    def audit(
        self, *, actor: str = "", target: str = "", before: int | None = None, limit: int = 100
    ) -> list[AuditOut]:
        """Return changes by users, newest first; `before` is the number of the last one of the page
        before.
        """
        params = _params(actor=actor or None, target=target or None, before=before, limit=limit)
        return self._ask(list[AuditOut], "GET", "/v1/audit", params=params)

    def secrets(self) -> list[SecretOut]:
        """Return one's own secrets, without their values."""
        return self._ask(list[SecretOut], "GET", "/v1/secrets")

    def put_secret(self, name: str, value: str) -> None:
        """Set a secret of one's own, or replace its value."""
        content = _json(SecretIn.model_validate({"value": value}))
        self._transport.request("PUT", _at("secrets", name), content=content)

    def delete_secret(self, name: str) -> None:
        self._transport.request("DELETE", _at("secrets", name))

    def notifications(self) -> list[ReceiverOut]:
        """Return receivers of notifications and their state; for administrators."""
        return self._ask(list[ReceiverOut], "GET", "/v1/notifications")

    def test_notifications(self, receiver: str | None = None) -> list[NotificationTestOut]:
        """Send a test message to one receiver, or to all. Each call sends one more."""
        body = _json(_model(NotificationTestIn, {"receiver": receiver} if receiver else {}))
        path = "/v1/notifications/test"
        return self._ask(list[NotificationTestOut], "POST", path, content=body, repeatable=False)

    def tokens(self) -> list[TokenOut]:
        return self._ask(list[TokenOut], "GET", "/v1/tokens")

    def new_token(self, token: TokenIn | Mapping[str, object]) -> TokenOut:
        """Create a token; its secret is shown only once. Not repeated by itself: each call creates one
        more.
        """
        body = _json(_model(TokenIn, token))
        return self._ask(TokenOut, "POST", "/v1/tokens", content=body, repeatable=False)

    def sign_in_code(self) -> str:
        """Return a code that opens the dashboard once, within a minute, as the user of this client's
        token.
        """
        answer = self._transport.request("POST", "/sign-in/codes", repeatable=False)
        return str(json.loads(answer.content)["code"])

    def session(self, job: str) -> SessionOut:
        """Return access to a development session, for its owner: it opens once, within a minute.

        Raises Conflict while the session is not ready.
        """
        return self._ask(SessionOut, "POST", _at("jobs", job, "session"), repeatable=False)

    def delete_token(self, digest: str) -> None:
        self._transport.request("DELETE", _at("tokens", digest))

    def _ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> T:
        answer = self._transport.request(
            method, path, params=params, content=content, headers=headers, repeatable=repeatable
        )
        return _read(kind, answer.content)


class Handle:
    """One submitted job: `job` is its last received state; every method sends a new request to the server."""

    def __init__(self, client: Client, job: JobOut) -> None:
        self._client = client
        self.job = job

    def __repr__(self) -> str:
        return f"<job {self.id} {self.job.name}: {self.phase}>"

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def phase(self) -> str:
        return self.job.phase

    @property
    def ended(self) -> bool:
        return Phase(self.phase) in TERMINAL

    def refresh(self) -> JobOut:
        self.job = self._client.job(self.id)
        return self.job

    def wait(self, timeout: float | None = None, *, pause: Callable[[float], None] = time.sleep) -> JobOut:
        """Wait until the job has ended; raises TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while Phase(self.refresh().phase) not in TERMINAL:
            left = LONGEST_STREAM if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.id} is still {self.phase} after {timeout:g} s")
            try:
                self._client.wait_for_end(self.id, min(left, LONGEST_STREAM))
            except GrusError:
                # No stream available (too many of them, a restart): poll instead.
                pause(min(left, POLL))
        return self.job

    def logs(
        self, *, follow: bool = False, worker: int | None = None, attempt: int | None = None
    ) -> Iterator[str]:
        """Yield the log so far, piece by piece; with `follow`, also what is still to come until the job ends.

        The log is that of the last attempt if none is named.
        """
        if follow:
            pieces = self._client.follow_pieces(self.id, worker=worker, attempt=attempt)
            return (piece.text for piece in pieces)
        return self._pieces(worker, attempt)

    def _pieces(self, worker: int | None, attempt: int | None) -> Iterator[str]:
        offset = 0
        while True:
            data, offset = self._client.log(self.id, worker=worker, offset=offset, attempt=attempt)
            if not data:
                return
            yield data.decode(errors="replace")

    def events(self) -> list[EventOut]:
        return self._client.events(job=self.id)

    def pause(self) -> JobOut:
        self.job = self._client.pause(self.id)
        return self.job

    def resume(self) -> JobOut:
        self.job = self._client.resume(self.id)
        return self.job

    def stop(self) -> JobOut:
        self.job = self._client.stop(self.id)
        return self.job

    def scale(self, size: int | str) -> JobOut:
        self.job = self._client.scale(self.id, size)
        return self.job

    def predict(self, inputs: Any, *, dtype: str | None = None) -> Any:
        """Return the served model's predictions for these samples."""
        return self._client.predict(self.id, inputs, dtype=dtype)

    def why(self) -> WhyOut:
        return self._client.why(self.id)


def job_in(job: Submission) -> JobIn:
    if isinstance(job, JobIn):
        return job
    if not isinstance(job, str):
        return _model(JobIn, job)
    found = parse_job_file(job, folder=os.getcwd())
    if len(found) != 1:
        rule = "must be one job; `submit_stages` takes the several of one file"
        raise BadInput([Mistake("job", rule, f"{len(found)} documents")])
    return found[0]


def _model(kind: type[M], given: M | Mapping[str, object]) -> M:
    return given if isinstance(given, kind) else read(kind, given, whole="request")


def _from_here(job: JobIn) -> JobIn:
    """Return the job with the submitter's folder and Python environment."""
    update: dict[str, object] = {"workdir": os.path.abspath(job.workdir)}
    if os.name == "posix":
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if os.environ.get(name)}
        if job.train is not None or job.serve is not None:
            kept["PATH"] = python_first(kept)
        update["env"] = {**kept, **job.env}
    return job.model_copy(update=update)


def python_first(kept: Mapping[str, str]) -> str:
    """Return a PATH on which `python3` is that of the active environment, else the one that runs Grus
    here.
    """
    home = kept.get("VIRTUAL_ENV") or kept.get("CONDA_PREFIX")
    folder = os.path.join(home, "bin") if home else os.path.dirname(sys.executable)
    return os.pathsep.join([folder, kept.get("PATH", os.defpath)])


def _read(kind: type[T], content: bytes | str) -> T:
    adapter: TypeAdapter[T] = _adapter(kind)  # type: ignore[arg-type]  # types are hashable
    return adapter.validate_json(content)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _once(key: str | None) -> dict[str, str]:
    """Return the header with which a repeated request has its effect once."""
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def _json(value: BaseModel) -> bytes:
    return value.model_dump_json(exclude_unset=True).encode()


def _at(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _params(**given: str | int | bool | None) -> dict[str, str]:
    """Return query parameters, without empty ones."""
    kept = {
        name: value
        for name, value in given.items()
        if value is not None and value != "" and value is not False
    }
    return {name: "true" if value is True else str(value) for name, value in kept.items()}
