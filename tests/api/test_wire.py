from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.parsing.validation_errors import mistakes_of, read
from grus.api.wire_types.base import Derived, GpuCount, Out, Source, Timestamp
from grus.api.wire_types.job import EventOut, JobOut, PlanOut, UsageOut, WhyOut, WorkerOut, job_out
from grus.api.wire_types.pool import (
    NodeOut,
    QueueIn,
    ScaleIn,
    node_out,
    pool_out,
    queue_out,
    to_queue,
    to_size,
)
from grus.api.wire_types.runs import ResultOut
from grus.api.wire_types.timestamps import parse_time, rfc3339
from grus.api.wire_types.users import TokenIn, UserIn, UserOut, expires_at, to_user, token_out
from grus.cli.commands.notebook_session import SESSION
from grus.controlplane.admission.dry_run import SubmissionPlan
from grus.model.errors import BadInput
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName, WorkerId
from grus.model.interfaces import AccessRole, Event, Token, Usage, User, WorkerState, WorkerStatus
from grus.model.jobs import Desired, Exit, ExitCause, Idle, Job, PauseCause, Phase, Seat
from grus.model.nodes import Device, Health, Node
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU, Range
from grus.model.texts.job_text import request_text
from grus.scheduler.explain import Explanation
from grus.scheduler.queues.queue_usage_tree import QueueState
from grus.store.kubernetes.queues import form
from tests.store.builders import a_result

NOON = 1_763_208_000.25
JOB = JobId("j0123456789")


def a_job(gpu: object = 2, **changes: Any) -> Job:
    spec = to_spec(read(JobIn, {"run": "python train.py", "resources": {"gpu": gpu}, "workdir": "/w"}))
    return Job(id=JOB, spec=spec, user=UserName("ada"), submitted_at=NOON, **changes)


def a_seat(index: int, node: str = "n1", share: int = GPU, **changes: Any) -> Seat:
    return Seat("worker", index, NodeId(node), (DeviceId(f"{node}g{index}"),), share, **changes)


def test_times_are_rfc_3339_in_utc_and_come_back() -> None:
    assert rfc3339(NOON) == "2025-11-15T12:00:00.250Z"
    assert parse_time(rfc3339(NOON)) == NOON
    assert parse_time("2025-11-15T13:00:00.25+01:00") == NOON
    with pytest.raises(ValueError, match="Z or an offset"):
        parse_time("2025-11-15T12:00:00")


def test_a_running_job_says_what_it_holds_and_where() -> None:
    seats = (a_seat(0), a_seat(1, "n2"), a_seat(2, "n2", leaving=True))
    out = job_out(a_job("2..4", phase=Phase.RUNNING, seats=seats, attempt=1, generation=2, started_at=NOON))
    assert (out.gpus, out.nodes, out.request, out.run) == (3, ("n1", "n2"), "2..4", "python train.py")
    assert [seat.leaving for seat in out.seats] == [False, False, True]
    assert (out.status, out.started_at, out.ended_at) == ("running", rfc3339(NOON), None)


def test_a_fraction_is_shown_as_one() -> None:
    out = job_out(a_job(0.5, phase=Phase.RUNNING, seats=(a_seat(0, share=GPU // 2),)))
    assert (out.gpus, out.request) == (0.5, "0.5")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "pending"),
        ({"phase": Phase.RUNNING, "desired": Desired.STOP}, "stopping"),
        ({"phase": Phase.STOPPED, "desired": Desired.STOP}, "stopped"),
        ({"phase": Phase.SUCCEEDED, "desired": Desired.STOP}, "succeeded"),
        ({"phase": Phase.RUNNING, "desired": Desired.PAUSE}, "pausing"),
        ({"phase": Phase.PAUSED, "desired": Desired.PAUSE}, "paused"),
        ({"phase": Phase.PAUSED, "paused_by": PauseCause.SCHEDULER}, "paused"),
    ],
)
def test_status_is_the_word_that_people_would_use(changes: dict[str, Any], status: str) -> None:
    assert job_out(a_job(**changes)).status == status


def test_an_ended_job_says_how() -> None:
    end = Exit(ExitCause.CODE, 3, "exited with code 3")
    out = job_out(a_job(phase=Phase.FAILED, exit=end, failures=2, ended_at=NOON, progress=(("step", 7.0),)))
    assert out.exit is not None
    assert (out.exit.cause, out.exit.code, out.exit.text) == ("exit code", 3, "exited with code 3")
    assert (out.failures, out.ended_at, out.progress) == (2, rfc3339(NOON), {"step": 7.0})


def test_a_job_survives_the_journey_and_an_older_client_passes_over_new_fields() -> None:
    out = job_out(a_job(phase=Phase.RUNNING, seats=(a_seat(0),)))
    assert JobOut.model_validate_json(out.model_dump_json()) == out
    assert JobOut.model_validate({**out.model_dump(), "brand_new": 1}) == out


@pytest.mark.parametrize("gpu", ["2..8", "4", "0.5", "12GB", "A100:4", "A100|H100:2..4", "0", "V100:1GiB"])
def test_a_request_is_shown_as_it_was_written(gpu: str) -> None:
    assert request_text(a_job(gpu).spec.request) == gpu


def test_a_request_by_roles_is_shown_by_role() -> None:
    roles = {
        "launcher": {"run": "a", "resources": {"gpu": 0}},
        "worker": {"run": "b", "resources": {"gpu": "A100:2"}, "replicas": "2..8"},
    }
    spec = to_spec(read(JobIn, {"roles": roles}))
    assert request_text(spec.request) == "launcher 0, worker 2..8 × A100:2"


@pytest.mark.parametrize(
    ("gpu", "told"), [(0, "3 × 0"), (0.25, "3 × 0.25"), (1, "3"), ("A100:2", "3 × A100:2")]
)
def test_a_served_model_that_was_scaled_is_told_in_replicas_and_what_each_takes(
    gpu: object, told: str
) -> None:
    given = {
        "type": "serve",
        "serve": {"model": "nets.py:net", "replicas": "1..4"},
        "resources": {"gpu": gpu},
    }
    job = replace(a_job(), spec=to_spec(read(JobIn, given)), size=Range(3, 3))
    assert job_out(job).request == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"train": {"make": "nets.py:make", "epochs": 2}}, 'train: {"epochs": 2, "make": "nets.py:make"}'),
        ({"type": "serve", "serve": {"model": "nets.py:net"}}, 'serve: {"model": "nets.py:net"}'),
        ({"run": (*SESSION, "lab")}, "grus dev: lab"),
        ({"run": ["python3", "fit.py", "--name", "a b"]}, "python3 fit.py --name 'a b'"),
        ({"run": "python fit.py | tee log"}, "python fit.py | tee log"),
    ],
)
def test_a_command_is_shown_as_people_wrote_it(given: dict[str, object], told: str) -> None:
    spec = to_spec(read(JobIn, given))
    assert job_out(replace(a_job(), spec=spec)).run == told
    assert ResultOut.from_model(replace(a_result("j1"), command=spec.run)).command == told


def test_queues_survive_being_read_and_shown() -> None:
    wanted = {
        "quota": {"A100": 4, "any": 2.5},
        "reserved": 1,
        "weight": 2,
        "limit": 8,
        "parent": "lab",
        "max_runtime": "3d",
        "idle": {"below": "5%", "for": "45m", "action": "pause"},
    }
    queue = to_queue("vision", read(QueueIn, wanted, whole="queue"))
    assert queue == Queue(
        name=QueueName("vision"),
        parent=QueueName("lab"),
        quota=Quota((("A100", 4 * GPU), ("any", 2_500_000))),
        reserved=GPU,
        weight=2.0,
        limit=8 * GPU,
        max_runtime=259_200.0,
        idle=Idle(below=0.05, seconds=2700.0, action="pause"),
    )
    assert to_queue("vision", read(QueueIn, form(queue), whole="queue")) == queue
    out = queue_out(queue)
    assert (out.quota, out.quota_by_type, out.limit, out.max_runtime) == (
        6.5,
        {"A100": 4, "any": 2.5},
        8,
        "3d",
    )
    assert out.idle == wanted["idle"]


def test_a_queue_is_shown_with_its_state() -> None:
    queue = to_queue("a", QueueIn(quota=2))
    state = QueueState(
        name=queue.name,
        parent=None,
        quota=2 * GPU,
        effective_quota=GPU,
        reserved=0,
        weight=1.0,
        limit=None,
        held=3 * GPU,
        borrowed=2 * GPU,
        demand=5 * GPU,
        fair_share=3 * GPU,
        exact_share=3.33 * GPU,
        waiting=2,
        running=3,
        state="over quota",
    )
    out = queue_out(queue, state)
    assert (out.quota, out.effective_quota, out.held, out.borrowed, out.fair_share) == (2, 1, 3, 2, 3)
    assert out.exact_share == pytest.approx(3.33)
    assert (out.waiting, out.running, out.state) == (2, 3, "over quota")


def test_every_mistake_of_a_queue_is_told() -> None:
    with pytest.raises(BadInput) as caught:
        read(
            QueueIn,
            {"quota": 2, "reserved": 3, "limit": 1, "weight": 0, "cap": 4, "max_priority": 200},
            whole="queue",
        )
    assert {mistake.field for mistake in caught.value.mistakes} == {
        "reserved",
        "weight",
        "cap",
        "max_priority",
    }
    with pytest.raises(BadInput) as caught:
        read(QueueIn, {"quota": {"A100": -1, "any": "x"}, "members": ["Ada!"]}, whole="queue")
    assert {mistake.field for mistake in caught.value.mistakes} == {"quota.A100", "quota.any", "members[0]"}
    with pytest.raises(BadInput) as caught:
        read(QueueIn, {"quota": 2, "reserved": 3, "limit": 1}, whole="queue")
    assert {mistake.field for mistake in caught.value.mistakes} == {"reserved", "limit"}


def test_a_queue_needs_a_name_that_is_one() -> None:
    with pytest.raises(BadInput, match="name"):
        to_queue("Vision Team", QueueIn())
    with pytest.raises(BadInput, match="circle"):
        to_queue("a", QueueIn(parent="a"))


def test_a_node_shows_who_holds_what_and_what_is_free() -> None:
    devices = (
        Device(DeviceId("g0"), "A100", 40 * 10**9),
        Device(DeviceId("g1"), "A100", 40 * 10**9, health=Health.DIRTY),
        Device(DeviceId("g2"), "A100", 40 * 10**9, outside="pid 7"),
    )
    node = Node(NodeId("n1"), devices, labels=(("rack", "3"),), cpu=8500)
    out = node_out(node, {DeviceId("g0"): [(JOB, GPU // 4)]})
    assert [gpu.free for gpu in out.gpus] == [0.75, 0, 0]
    assert (out.gpus[0].holders[0].job, out.gpus[0].holders[0].gpus) == (JOB, 0.25)
    assert (out.cpu, out.labels) == (8.5, {"rack": "3"})
    assert NodeOut.model_validate_json(out.model_dump_json()) == out
    pool = pool_out([node], GPU // 4)
    assert (pool.nodes, pool.gpus, pool.usable, pool.held) == (1, 3, 1, 0.25)


@pytest.mark.parametrize(
    ("size", "found"), [("4", Range(4, 4)), (4, Range(4, 4)), ("2..6", Range(2, 6)), ("auto", None)]
)
def test_scale_takes_a_size_a_range_or_auto(size: object, found: Range | None) -> None:
    assert to_size(read(ScaleIn, {"size": size}, whole="scale")) == found


@pytest.mark.parametrize(
    "body", [{}, {"size": 0}, {"size": "many"}, {"size": [4]}, {"size": 4, "x": 1}, [], None]
)
def test_scale_refuses_what_is_no_size(body: object) -> None:
    with pytest.raises(BadInput):
        read(ScaleIn, body, whole="scale")


def test_users_and_tokens_are_read_and_shown_without_secrets() -> None:
    user = to_user("ada", read(UserIn, {"role": "admin"}))
    assert user == User(name=UserName("ada"), role=AccessRole.ADMIN)
    assert UserOut.from_model(user).role == "admin"
    wanted = read(TokenIn, {"user": "ada", "label": "laptop", "expires": "30d"})
    assert expires_at(wanted, NOON) == NOON + 30 * 86400
    token = Token(digest="d1", user=UserName("ada"), label="laptop", created_at=NOON)
    assert token_out(token).secret is None
    assert token_out(token, "s").secret == "s"
    with pytest.raises(BadInput, match="viewer, member, admin"):
        read(UserIn, {"role": "root"})
    with pytest.raises(BadInput, match="name"):
        to_user("a b", UserIn())


def test_events_workers_usage_reasons_and_plans_are_shown() -> None:
    event = EventOut.from_model(Event(at=NOON, kind="submitted", text="ada submitted it", job=JOB, seq=5))
    assert (event.seq, event.at, event.job, event.gpus) == (5, rfc3339(NOON), JOB, None)
    half = Event(at=NOON, kind="starting", text="", job=JOB, attempt=1, generation=2, held=GPU // 2)
    assert (EventOut.from_model(half).generation, EventOut.from_model(half).gpus) == (2, 0.5)
    status = WorkerStatus(
        id=WorkerId(f"{JOB}.1.worker.0.1"),
        job=JOB,
        attempt=1,
        state=WorkerState.ENDED,
        pid=7,
        exit=Exit(ExitCause.SIGNAL, 9, "killed"),
    )
    worker = WorkerOut.from_model(status, number=0)
    assert worker.exit is not None
    assert (worker.role, worker.number, worker.exit.code) == ("worker", 0, 9)
    usage = UsageOut.from_model(Usage(worker=status.id, at=NOON, cpu_seconds=1.5, memory=10))
    assert (usage.job, usage.gpu_memory) == (JOB, None)
    told = Explanation("quota", "waits", ((JOB, GPU),), "stop it")
    why = WhyOut.from_model(told, job=JOB, phase=Phase.PENDING, eta=None)
    assert (why.phase, why.holders[0].gpus, why.change) == ("pending", 1, "stop it")
    plan = PlanOut.from_model(
        SubmissionPlan(
            fits=True,
            starts="now",
            sentence="starts now",
            seats=(a_seat(0),),
            affected=((JOB, "pause", "r"),),
        )
    )
    assert (plan.nodes, plan.affected[0].action) == (("n1",), "pause")


def test_errors_of_a_web_framework_become_mistakes() -> None:
    errors = [
        {"type": "missing", "loc": ("body", "size"), "msg": "Field required", "input": {}},
        {
            "type": "json_invalid",
            "loc": ("body", 3),
            "msg": "JSON decode error",
            "input": {},
            "ctx": {"error": "Expecting"},
        },
        {
            "type": "int_parsing",
            "loc": ("query", "limit"),
            "msg": "Input should be a valid integer",
            "input": "x",
        },
    ]
    told = [(mistake.field, mistake.rule) for mistake in mistakes_of(errors, whole="request")]
    assert told == [
        ("size", "is needed"),
        ("request", "is not valid JSON: Expecting"),
        ("limit", "input should be a valid integer"),
    ]


def test_the_json_schema_of_a_job_names_every_field() -> None:
    schema = JobIn.model_json_schema()
    assert set(schema["properties"]) == set(JobIn.field_names())
    assert schema["additionalProperties"] is False


class LapOut(Out):
    at: Timestamp
    gpus: Annotated[GpuCount, Source("seat.held")]
    label: Annotated[str, Derived(lambda lap: f"lap {lap.number}")]
    note: str | None = None


class RaceOut(Out):
    laps: tuple[LapOut, ...]
    best: LapOut | None = None


def a_lap(number: int) -> SimpleNamespace:
    return SimpleNamespace(at=NOON, seat=a_seat(0, share=GPU // 2), number=number, note=None)


def test_a_wire_value_is_made_of_attributes_and_of_what_is_given_at_any_depth() -> None:
    race = RaceOut.from_model(SimpleNamespace(laps=(a_lap(1), a_lap(2))), best=a_lap(2))
    assert race.laps == (LapOut(at=rfc3339(NOON), gpus=0.5, label="lap 1"), race.best)
    assert RaceOut.from_model(SimpleNamespace(laps=race.laps, best=None)).laps == race.laps


def test_a_wire_value_leaves_no_field_to_its_default_unnoticed() -> None:
    with pytest.raises(AttributeError, match="best"):
        RaceOut.from_model(SimpleNamespace(laps=()))
    with pytest.raises(TypeError, match="RaceOut has no field first"):
        RaceOut.from_model(SimpleNamespace(laps=()), best=None, first=None)
