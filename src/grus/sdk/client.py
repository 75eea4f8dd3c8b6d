"""The Python way in: `Client().submit(Job(...))` and a handle to follow what became of it.

A client finds the server of this machine by itself (server.json and the token file), or is told by
GRUS_SERVER and GRUS_TOKEN, or by its arguments. Every error of the server is raised here as the same class of
`grus.model.errors`. Everything a method returns is a value of `grus.api.wire`.
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

from grus.api.curves_wire import CurvesOut
from grus.api.dev_wire import SessionOut
from grus.api.forecast_wire import ForecastOut
from grus.api.graph_wire import GraphIn, GraphOut
from grus.api.jobfile import parse_job_file
from grus.api.report_wire import ReportOut
from grus.api.runs_wire import DiffOut, ResultOut
from grus.api.secrets_wire import SecretIn, SecretOut
from grus.api.sweep_wire import BestOut, SweepOut
from grus.api.telemetry_wire import SeriesOut, TelemetryOut
from grus.api.wire import (
    EventOut,
    JobIn,
    JobOut,
    LearnedOut,
    NodeOut,
    PlanOut,
    ProfileOut,
    QueueIn,
    QueueOut,
    ScaleIn,
    StatusOut,
    TokenIn,
    TokenOut,
    UsageOut,
    UserIn,
    UserOut,
    WhyOut,
    WorkerOut,
    read,
)
from grus.model.errors import BadInput, GrusError, Mistake, Unreachable
from grus.model.jobs import TERMINAL, Phase
from grus.sdk.inherited import notice, without_folder
from grus.sdk.transport import BrokenOff, Params, Transport

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Submission = JobIn | Mapping[str, object] | str
LONGEST_STREAM = 3600.0
"""Seconds after which a wait asks anew, whatever happens."""
KEPT_ENVIRONMENT = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""All that a job inherits of its submitter's environment."""
LONGEST_PREDICTION = 90.0
"""Seconds to wait for what a model says; the server gives up before that."""
POLL = 1.0
"""Seconds between two looks at a job when its live stream is not to be had."""


class LogPiece(NamedTuple):
    """A piece of a log that is followed."""

    text: str
    attempt: int
    dropped: int = 0
    """Bytes before this piece that log rotation has removed."""


class Client:
    """A connection to one server. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        address: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 30.0,
        transport: Transport | None = None,
        notice: Callable[[str], None] = lambda text: warnings.warn(text, UserWarning, stacklevel=4),
    ) -> None:
        """`notice` gets what a submission left behind on this machine."""
        self._transport = transport or Transport(address, token, timeout=timeout, patience=patience)
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
        """Store the job durably and return a handle; exactly once, however often the connection breaks.

        `job` is a `Job`, a mapping like a job file, or the text of a job file with one document. `key` names
        the submission: a second submit of the same user with the same key returns the first one's job.
        """
        (given,) = self._from_here([job_in(job)])
        return self._submit(given, key)

    def _submit(self, given: JobIn, key: str | None) -> "Handle":
        body = _json(given)
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = self._transport.request("POST", "/v1/jobs", content=body, headers=headers)
        return Handle(self, _read(JobOut, answer.content))

    def submit_stages(
        self, jobs: Sequence[Submission], *, key: str | None = None, fresh: bool = False
    ) -> list["Handle"]:
        """Submit the jobs of one file, all or none; a name in `after` or `inputs` is an earlier job's.

        `key` names the whole: a second call with it finds the jobs of the first. Stages of which nothing has
        changed since an earlier run are not run again, unless `fresh`.
        """
        given = self._from_here([job_in(job) for job in jobs])
        if len(given) == 1 and not given[0].outputs:
            return [self._submit(given[0], key)]
        answer = self._transport.request(
            "POST",
            "/v1/graphs",
            content=_json(GraphIn(jobs=tuple(given), fresh=fresh)),
            headers={"Idempotency-Key": key or uuid.uuid4().hex},
        )
        return [Handle(self, job) for job in _read(list[JobOut], answer.content)]

    def _from_here(self, jobs: Sequence[JobIn]) -> list[JobIn]:
        """Jobs with what this machine gives them; for containers elsewhere, without it, with a notice."""
        if not self.in_containers():
            return [_from_here(job) for job in jobs]
        found = [without_folder(job) for job in jobs]
        variables = [name for name in KEPT_ENVIRONMENT if os.environ.get(name)]
        if text := notice(variables, [folder for _, folder in found]):
            self._notice(text)
        return [job for job, _ in found]

    def in_containers(self) -> bool:
        """True if this server runs jobs in containers on other machines, as on Kubernetes. Asked once."""
        if self._containers is None:
            self._containers = self.status().containers
        return self._containers

    def graph(self, job: str) -> GraphOut:
        """The jobs that were submitted together with this one, and who comes after whom."""
        return self._ask(GraphOut, "GET", _at("graphs", job))

    def retry(self, job: str, *, key: str | None = None) -> list["Handle"]:
        """Submit again a job that did not succeed, and those that come after it."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = self._transport.request("POST", _at("jobs", job, "retry"), headers=headers)
        return [Handle(self, job) for job in _read(list[JobOut], answer.content)]

    def plan(self, job: Submission) -> PlanOut:
        """What would happen: whether it fits, where, when and who is affected. Nothing is stored."""
        body = _json(self._from_here([job_in(job)])[0])
        return self._ask(PlanOut, "POST", "/v1/jobs", content=body, params={"plan": "true"})

    def job(self, job: str) -> JobOut:
        return self._ask(JobOut, "GET", _at("jobs", job))

    def handle(self, job: str) -> "Handle":
        """A handle to a job submitted earlier."""
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
        """Jobs, newest first; `after` is the id of the last job of the page before."""
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
        """`4` pins the size, `"2..6"` changes the range, `"auto"` goes back to what was submitted."""
        body = _json(_model(ScaleIn, {"size": size}))
        return self._ask(JobOut, "POST", _at("jobs", job, "scale"), content=body)

    def predict(self, job: str, inputs: Any, *, dtype: str | None = None) -> Any:
        """What a served model says of these samples: a list, or anything with `tolist`. May be repeated."""
        asked = {"inputs": inputs.tolist() if hasattr(inputs, "tolist") else inputs}
        body = json.dumps(asked if dtype is None else {**asked, "dtype": dtype}).encode()
        answer = self._transport.request(
            "POST", _at("jobs", job, "predict"), content=body, timeout=LONGEST_PREDICTION
        )
        return answer.json()["outputs"]

    def why(self, job: str) -> WhyOut:
        return self._ask(WhyOut, "GET", _at("jobs", job, "why"))

    def learned(self, job: str) -> LearnedOut:
        """What is known of its fingerprint, and what was to be expected of it."""
        return self._ask(LearnedOut, "GET", _at("jobs", job, "profile"))

    def profiles(self) -> list[ProfileOut]:
        return self._ask(list[ProfileOut], "GET", _at("profiles"))

    def profile(self, fingerprint: str) -> ProfileOut:
        """By the fingerprint, or the beginning of one."""
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
        """What is kept of jobs that have ended, the last first; `after` is the job of the last one before."""
        params = _params(queue=queue, name=name, mine=mine, limit=limit, after=after)
        return self._ask(list[ResultOut], "GET", _at("runs"), params=params)

    def result(self, job: str) -> ResultOut:
        """What is kept of one job that has ended."""
        return self._ask(ResultOut, "GET", _at("runs", job))

    def diff(self, first: str, second: str) -> DiffOut:
        """Two runs side by side."""
        return self._ask(DiffOut, "GET", _at("runs", first, "diff", second))

    def curves(self, job: str) -> CurvesOut:
        """What it has reported over time."""
        return self._ask(CurvesOut, "GET", _at("jobs", job, "curves"))

    def sweep(self, job: str) -> SweepOut:
        """A search with its trials, the best so far and what mattered."""
        return self._ask(SweepOut, "GET", _at("sweeps", job))

    def best(self, sweep: str) -> BestOut:
        """The best trial of a sweep as a job file. Raises Conflict while no trial has a value."""
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
        """Bytes of a worker's log and the offset to continue from; a negative offset counts from the end.

        The log is that of the last attempt if none is named.
        """
        params = _params(worker=worker, offset=offset, limit=limit, attempt=attempt)
        answer = self._transport.request("GET", _at("jobs", job, "log"), params=params)
        return answer.content, int(answer.headers["Grus-Next-Offset"])

    def follow_log(
        self, job: str, *, worker: int | None = None, offset: int = 0
    ) -> Generator[str, None, None]:
        """The log as text, as it is written, until the job has ended."""
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
        """The log as it is written: of this `attempt` alone, or from attempt `since` to the job's end."""
        params = _params(worker=worker, offset=offset, attempt=attempt)
        last = f"{since}.{offset}" if since else ""
        for event in self._transport.live(_at("jobs", job, "log", "stream"), params=params, last=last):
            said = json.loads(event.data)
            yield LogPiece(said["text"], said["attempt"], said.get("dropped", 0))

    def download(
        self, job: str, name: str, file: IO[bytes], tell: Callable[[int], None] = lambda _: None
    ) -> None:
        """What the job left behind under this name, as a tar, added to what `file` has of it already.

        A connection that breaks is taken up again, as long as each try brings something.
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
        """What happened, oldest first, with a number above `after`."""
        if job is not None:
            params = _params(after=after, limit=limit)
            return self._ask(list[EventOut], "GET", _at("jobs", job, "events"), params=params)
        return self._ask(list[EventOut], "GET", "/v1/events", params=_params(after=after, limit=limit))

    def watch(self, *, after: int | None = None, job: str | None = None) -> Generator[EventOut, None, None]:
        """Events as they happen, for ever; from `after` on if it is given, else from now."""
        last = "" if after is None else str(after)
        for event in self._transport.live("/v1/events", params=_params(job=job), last=last):
            yield _read(EventOut, event.data)

    def wait_for_end(self, job: str, seconds: float) -> None:
        """Return when the job has ended, or after that many seconds."""
        params = _params(job=job, seconds=f"{seconds:.3f}")
        for _ in self._transport.live("/v1/events", params=params, forever=False):
            continue

    def usage(self) -> list[UsageOut]:
        return self._ask(list[UsageOut], "GET", "/v1/usage")

    def telemetry(self) -> TelemetryOut:
        """The newest figures of GPUs and workers. Raises NotFound where nobody measures."""
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
        """Recorded telemetry of a gpu, job, worker, queue, node, or of the pool."""
        given = _params(name=name or None, last=last, until=until, highest=highest)
        steps = {} if step is None else {"step": repr(step)}
        asked = {"of": of, "measure": measure, **given, **steps}
        return self._ask(SeriesOut, "GET", "/v1/telemetry/series", params=asked)

    def watch_usage(self) -> Generator[list[UsageOut], None, None]:
        """What the running workers use, about once a second."""
        for event in self._transport.live("/v1/usage/stream"):
            yield _read(list[UsageOut], event.data)

    # ------------------------------------------------------------------------------------------- pool

    def queues(self) -> list[QueueOut]:
        return self._ask(list[QueueOut], "GET", "/v1/queues")

    def put_queue(self, name: str, queue: QueueIn | Mapping[str, object]) -> QueueOut:
        return self._ask(QueueOut, "PUT", _at("queues", name), content=_json(_model(QueueIn, queue)))

    def delete_queue(self, name: str) -> None:
        self._transport.request("DELETE", _at("queues", name))

    def nodes(self) -> list[NodeOut]:
        return self._ask(list[NodeOut], "GET", "/v1/nodes")

    def forecast(
        self, of: str = "pool", name: str = "", *, day: bool = False, measure: str | None = None
    ) -> ForecastOut:
        """The next hour (or day) of `pool`, a `queue`, a `gpu` or a `job`; see its `missing` for why not."""
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
        """What became of GPU-hours, of the last week or as far back as `last`; of a job its whole life."""
        params = _params(last=last, job=job, queue=queue, target=target, jobs=jobs)
        return self._ask(ReportOut, "GET", "/v1/report", params=params)

    def cordon(self, node: str) -> None:
        self._transport.request("POST", _at("nodes", node, "cordon"))

    def uncordon(self, node: str) -> None:
        self._transport.request("POST", _at("nodes", node, "uncordon"))

    def status(self) -> StatusOut:
        return self._ask(StatusOut, "GET", "/v1/status")

    # ---------------------------------------------------------------------------------------- people

    def users(self) -> list[UserOut]:
        return self._ask(list[UserOut], "GET", "/v1/users")

    def put_user(self, name: str, user: UserIn | Mapping[str, object]) -> UserOut:
        return self._ask(UserOut, "PUT", _at("users", name), content=_json(_model(UserIn, user)))

    def delete_user(self, name: str) -> None:
        self._transport.request("DELETE", _at("users", name))

    def secrets(self) -> list[SecretOut]:
        """One's own, without their values."""
        return self._ask(list[SecretOut], "GET", "/v1/secrets")

    def put_secret(self, name: str, value: str) -> None:
        """Set a secret of one's own, or replace its value."""
        content = _json(SecretIn.model_validate({"value": value}))
        self._transport.request("PUT", _at("secrets", name), content=content)

    def delete_secret(self, name: str) -> None:
        self._transport.request("DELETE", _at("secrets", name))

    def tokens(self) -> list[TokenOut]:
        return self._ask(list[TokenOut], "GET", "/v1/tokens")

    def new_token(self, token: TokenIn | Mapping[str, object]) -> TokenOut:
        """A new token; its secret is told this once. Not repeated by itself: each call makes one more."""
        body = _json(_model(TokenIn, token))
        answer = self._transport.request("POST", "/v1/tokens", content=body, repeatable=False)
        return _read(TokenOut, answer.content)

    def sign_in_code(self) -> str:
        """Opens the dashboard once, within a minute, as the user of this client's token."""
        answer = self._transport.request("POST", "/sign-in/codes", repeatable=False)
        return str(json.loads(answer.content)["code"])

    def session(self, job: str) -> SessionOut:
        """The way into a development session, for its owner: it opens once, within a minute.

        Raises Conflict while the session is not ready.
        """
        answer = self._transport.request("POST", _at("jobs", job, "session"), repeatable=False)
        return _read(SessionOut, answer.content)

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
    ) -> T:
        return _read(kind, self._transport.request(method, path, params=params, content=content).content)


class Handle:
    """One submitted job: `job` is how it looked last; every method asks the server anew."""

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
                # No stream to be had (too many of them, a restart): look now and then instead.
                pause(min(left, POLL))
        return self.job

    def logs(
        self, *, follow: bool = False, worker: int | None = None, attempt: int | None = None
    ) -> Iterator[str]:
        """The log so far, piece by piece; with `follow`, also what is still to come until the job ends.

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
        """What the served model says of these samples."""
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
    """The job with what the submitter's place gives it: the folder, and the way to its Python."""
    update: dict[str, object] = {"workdir": os.path.abspath(job.workdir)}
    if os.name == "posix":
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if os.environ.get(name)}
        if job.train is not None or job.serve is not None:
            kept["PATH"] = python_first(kept)
        update["env"] = {**kept, **job.env}
    return job.model_copy(update=update)


def python_first(kept: Mapping[str, str]) -> str:
    """A PATH on which `python3` is that of the active environment, else the one that runs Grus here."""
    home = kept.get("VIRTUAL_ENV") or kept.get("CONDA_PREFIX")
    folder = os.path.join(home, "bin") if home else os.path.dirname(sys.executable)
    return os.pathsep.join([folder, kept.get("PATH", os.defpath)])


def _read(kind: type[T], content: bytes | str) -> T:
    adapter: TypeAdapter[T] = _adapter(kind)  # type: ignore[arg-type]  # types are hashable
    return adapter.validate_json(content)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _json(value: BaseModel) -> bytes:
    return value.model_dump_json(exclude_unset=True).encode()


def _at(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _params(**given: str | int | bool | None) -> dict[str, str]:
    """Query parameters, without those that say nothing."""
    kept = {
        name: value
        for name, value in given.items()
        if value is not None and value != "" and value is not False
    }
    return {name: "true" if value is True else str(value) for name, value in kept.items()}
