"""Seats become workers: who sees which GPUs, under which number."""

from dataclasses import replace

from grus.controlplane.workers.worker_launch_spec import Surroundings, members, setup_member, worker_spec
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.interfaces import WorkerSpec
from grus.model.jobs import Checkpoint, Job, JobType, Launch, Seat, Spec
from grus.model.resources import GPU, Range, Replica, Request, Role


def a_gang(launch: Launch, nodes: str) -> Job:
    """One seat a letter of `nodes`, each with one GPU of that node."""
    request = Request((Role("worker", Range(len(nodes), len(nodes)), Replica()),))
    spec = Spec(name="gang", queue=QueueName("default"), run=("true",), request=request, launch=launch)
    seats = tuple(
        Seat("worker", i, NodeId(node), (DeviceId(f"{node}{i}"),), GPU) for i, node in enumerate(nodes)
    )
    return Job(
        id=JobId("j1"), spec=spec, user=UserName("u"), submitted_at=0.0, attempt=1, generation=1, seats=seats
    )


def workers_of(job: Job) -> list[WorkerSpec]:
    around = Surroundings()
    return [worker_spec(job, member, around) for member in members(job)]


def test_each_worker_of_a_gang_finds_its_own_gpu_under_its_local_rank() -> None:
    """As under torchrun: LOCAL_RANK is the index of its GPU among those that it sees."""
    for worker in workers_of(a_gang(Launch.PER_GPU, "aabb")):
        local = int(dict(worker.env)["LOCAL_RANK"])
        assert worker.visible[local] == worker.devices[0]
        assert len(worker.visible) == 2


def test_a_worker_that_has_all_gpus_of_its_job_sees_just_those() -> None:
    (worker,) = workers_of(a_gang(Launch.ONCE, "aa"))
    assert worker.devices == ("a0", "a1")
    assert worker.visible == ()


def test_a_slice_is_seen_alone() -> None:
    job = a_gang(Launch.PER_GPU, "aa")
    sliced = replace(job, seats=tuple(replace(seat, share=GPU // 2) for seat in job.seats))
    assert all(worker.visible == () for worker in workers_of(sliced))


def test_a_worker_knows_where_it_is_reached_and_how_many_there_may_be() -> None:
    gang = a_gang(Launch.PER_GPU, "aab")
    request = Request((Role("worker", Range(2, 7), Replica()),))
    elastic = replace(gang, spec=replace(gang.spec, request=request, checkpoint=Checkpoint(every=90.0)))
    told = [dict(worker.env) for worker in workers_of(elastic)]
    assert {(env["GRUS_HOST"], env["GRUS_MAX_WORKERS"]) for env in told} == {("127.0.0.1", "7")}
    assert told[0]["GRUS_CHECKPOINT_EVERY"] == "90"
    (alone,) = workers_of(a_gang(Launch.ONCE, "aa"))
    assert dict(alone.env)["GRUS_MAX_WORKERS"] == "1"
    assert "GRUS_CHECKPOINT_EVERY" not in dict(alone.env)


def test_a_worker_has_the_image_and_pod_of_its_role_over_those_of_its_job_and_knows_who_is_first() -> None:
    gang = a_gang(Launch.PER_GPU, "aab")
    role = replace(gang.spec.request.roles[0], image="special", pod='{"spec":{"hostIPC":true}}')
    spec = replace(gang.spec, image="plain", pod='{"metadata":{"labels":{"a":"b"}}}')
    plain = workers_of(replace(gang, spec=spec))
    special = workers_of(replace(gang, spec=replace(spec, request=Request((role,)))))
    assert {(worker.image, worker.pod) for worker in plain} == {("plain", spec.pod)}
    assert {(worker.image, worker.pod) for worker in special} == {
        ("special", '{"metadata":{"labels":{"a":"b"}},"spec":{"hostIPC":true}}')
    }
    assert {worker.first for worker in special} == {special[0].id}


def test_a_checkpoint_of_bundled_code_is_seen_from_where_the_program_runs() -> None:
    job = a_gang(Launch.ONCE, "a")
    spec = replace(job.spec, workdir="bundle:0123", checkpoint=Checkpoint(path="ckpt"))
    (worker,) = workers_of(replace(job, spec=spec))
    assert dict(worker.env)["GRUS_CHECKPOINT"] == "ckpt"


def test_a_worker_is_told_the_strategies_of_the_way_that_was_chosen() -> None:
    gang = a_gang(Launch.PER_GPU, "aa")
    assert all("GRUS_STRATEGY" not in dict(worker.env) for worker in workers_of(gang))
    split = replace(gang.spec.request, how=("split", "bf16"))
    told = workers_of(replace(gang, spec=replace(gang.spec, request=split)))
    assert [dict(worker.env)["GRUS_STRATEGY"] for worker in told] == ["split bf16"] * 2


def test_a_stage_saves_under_a_name_of_its_own_and_any_other_job_where_it_says() -> None:
    def place(path: str, saves_as: str) -> str:
        job = a_gang(Launch.ONCE, "a")
        spec = replace(job.spec, checkpoint=Checkpoint(path=path), workdir="/data")
        (worker,) = workers_of(replace(job, spec=spec, saves_as=saves_as))
        return dict(worker.env)["GRUS_CHECKPOINT"]

    assert place("ckpt/", "4a57964d4c3f3012") == "/data/ckpt-4a57964d4c3f3012"
    assert place("out/model.pt", "4a57964d4c3f3012") == "/data/out/model-4a57964d4c3f3012.pt"
    assert place("ckpt/", "") == "/data/ckpt/"


def test_python_does_not_buffer_its_output_unless_the_job_says_otherwise() -> None:
    gang = a_gang(Launch.ONCE, "a")
    (plain,) = workers_of(gang)
    assert dict(plain.env)["PYTHONUNBUFFERED"] == "1"
    (own,) = workers_of(replace(gang, spec=replace(gang.spec, env=(("PYTHONUNBUFFERED", ""),))))
    assert dict(own.env)["PYTHONUNBUFFERED"] == ""


def distributed(worker: WorkerSpec) -> set[str]:
    return {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & dict(worker.env).keys()


def test_only_workers_that_grus_starts_as_ranks_have_distributed_variables() -> None:
    assert not distributed(*workers_of(a_gang(Launch.ONCE, "a")))
    assert not distributed(*workers_of(a_gang(Launch.ONCE, "aa")))
    for launch in (Launch.PER_GPU, Launch.PER_NODE):
        for nodes in ("a", "ab"):
            assert all(len(distributed(worker)) == 5 for worker in workers_of(a_gang(launch, nodes)))


def test_the_only_worker_of_a_role_is_no_rank() -> None:
    role = Role("trainer", Range(1, 1), Replica(gpus=2), ("python", "train.py"))
    gang = a_gang(Launch.PER_GPU, "a")
    seat = Seat("trainer", 0, NodeId("a"), (DeviceId("a0"), DeviceId("a1")), GPU)
    for replicas, count in ((Range(1, 1), 0), (Range(1, 2), 5)):
        request = Request((replace(role, replicas=replicas),))
        (worker,) = workers_of(replace(gang, seats=(seat,), spec=replace(gang.spec, request=request)))
        assert len(distributed(worker)) == count


def test_setup_is_no_rank() -> None:
    gang = a_gang(Launch.PER_GPU, "ab")
    gang = replace(gang, spec=replace(gang.spec, setup=("true",)))
    setup = setup_member(gang)
    assert setup is not None
    assert "WORLD_SIZE" not in dict(worker_spec(gang, setup, Surroundings()).env)


def test_a_replica_of_a_served_model_is_no_rank_and_sees_its_own_gpu_first() -> None:
    gang = a_gang(Launch.PER_GPU, "aa")
    replicas = workers_of(replace(gang, spec=replace(gang.spec, type=JobType.SERVE)))
    assert all("LOCAL_RANK" not in dict(worker.env) for worker in replicas)
    assert [worker.visible or worker.devices for worker in replicas] == [("a0",), ("a1",)]
