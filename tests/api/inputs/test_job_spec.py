import json

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.secrets import looks_secret
from grus.api.parsing.validation_errors import read
from grus.model.errors import BadInput
from grus.model.execution_plans import Way
from grus.model.identifiers import JobId, UserName
from grus.model.job_spec import with_launch
from grus.model.jobs import Checkpoint, Idle, Job, JobType, Launch, Spec
from grus.model.resources import Range, Replica, Request, Role
from grus.model.texts.job_text import request_text
from grus.store.codec import JOB
from grus.store.kubernetes.job_manifest import written

FULL = {
    "type": "train",
    "name": "resnet",
    "queue": "vision",
    "run": "python train.py",
    "setup": ["pip list"],
    "resources": {"gpu": "A100:2..8", "sizes": [8, 2, 4], "cpu": 4, "memory": "32GB"},
    "priority": "train",
    "checkpoint": {"path": "ckpt/", "grace": "120s", "every": "10m"},
    "idle": {"below": "10%", "for": "30m", "action": "pause"},
    "max_runtime": "3d",
    "retries": 3,
    "env": {"B": "2", "A": "1"},
    "workdir": "/home/ada",
}


def spec(**fields: object) -> Spec:
    return to_spec(read(JobIn, {"run": "a", **fields}))


def request(gpu: object, **resources: object) -> Request:
    return spec(resources={"gpu": gpu, **resources}).request


def test_a_full_job_becomes_the_spec_that_it_says() -> None:
    assert to_spec(read(JobIn, FULL)) == Spec(
        name="resnet",
        queue="vision",  # type: ignore[arg-type]  # plain text for a name
        run=("/bin/sh", "-c", "python train.py"),
        request=Request(
            (Role("worker", Range(2, 8), Replica(gpus=1, types=("A100",), cpu=4000, memory=32 * 10**9)),),
            sizes=(2, 4, 8),
        ),
        launch=Launch.PER_GPU,
        setup=("pip list",),
        checkpoint=Checkpoint(path="/home/ada/ckpt", grace=120.0, every=600.0),
        idle=Idle(below=0.1, seconds=1800.0, action="pause"),
        max_runtime=259_200.0,
        retries=3,
        env=(("A", "1"), ("B", "2")),
        workdir="/home/ada",
    )


def test_secrets_are_names_by_variable_and_a_list_gives_each_the_name_of_its_variable() -> None:
    assert spec(secrets={"B": "team-key", "A": "a"}).secrets == (("A", "a"), ("B", "team-key"))
    assert spec(secrets=["HF_TOKEN"]).secrets == (("HF_TOKEN", "hf-token"),)
    assert spec().secrets == ()


def test_a_record_without_secrets_opens() -> None:
    written = JOB.encode(Job(id=JobId("j0000000001"), spec=spec(), user=UserName("ada"), submitted_at=1.0))
    older = json.loads(written)
    del older["spec"]["secrets"]
    assert JOB.decode(json.dumps(older)).spec.secrets == ()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            ("HF_TOKEN", True),
            ("WANDB_API_KEY", True),
            ("AWS_SECRET_ACCESS_KEY", True),
            ("db_password", True),
        ),
        *(("APIKEY", True), ("GITHUB_TOKENS", True), ("GOOGLE_CREDENTIALS", True)),
        *(("TOKENIZERS_PARALLELISM", False), ("MAX_TOKEN_LENGTH", False), ("KEY", False), ("PATH", False)),
        *(("SSL_KEY_FILE", False), ("AWS_SECRET_NAME", False), ("SECRETARY", False)),
    ],
)
def test_a_variable_looks_secret_by_the_words_in_its_name(name: str, secret: bool) -> None:
    assert looks_secret(name) is secret


def test_a_list_runs_as_it_is_and_a_line_in_a_shell() -> None:
    assert spec(run=["python", "train.py"]).run == ("python", "train.py")
    assert spec(run="a | b").run == ("/bin/sh", "-c", "a | b")


def test_a_rigid_job_is_one_process_on_one_node_and_an_elastic_one_is_a_worker_a_gpu() -> None:
    rigid, elastic = spec(resources={"gpu": 4}), spec(resources={"gpu": "2..4"})
    assert (rigid.launch, rigid.request.one_node) == (Launch.ONCE, True)
    assert (elastic.launch, elastic.request.one_node) == (Launch.PER_GPU, False)
    assert rigid.request.roles == (Role("worker", Range(4, 4), Replica()),)


def test_launch_is_kept_where_it_is_given_and_can_be_changed_later() -> None:
    per_node = spec(launch="per-node", resources={"gpu": 8})
    assert (per_node.launch, per_node.request.one_node) == (Launch.PER_NODE, False)
    once = spec(resources={"gpu": 8})
    spread = with_launch(once, Launch.PER_GPU)
    assert (spread.launch, spread.request.one_node) == (Launch.PER_GPU, False)
    assert with_launch(spread, Launch.ONCE) == once


def test_whether_launch_was_given_can_be_seen() -> None:
    assert read(JobIn, {"run": "a"}).launch is None
    assert read(JobIn, {"run": "a", "launch": "once"}).launch == "once"


@pytest.mark.parametrize(
    ("gpu", "replica"),
    [
        (0.5, Replica(gpus=0, share=500_000)),
        ("12GB", Replica(gpus=0, gpu_memory=12 * 10**9)),
        ("A100:0.25", Replica(gpus=0, share=250_000, types=("A100",))),
        (0, Replica(gpus=0)),
        (1, Replica(gpus=1)),
    ],
)
def test_a_slice_is_one_replica(gpu: object, replica: Replica) -> None:
    assert request(gpu).roles == (Role("worker", Range(1, 1), replica),)


def test_a_job_shares_its_gpu_only_if_it_says_so() -> None:
    assert not spec(run="a").request.shares
    assert spec(run="a", resources={"gpu": 1, "share": "auto"}).request.shares
    assert spec(run="a", resources={"gpu": "A100:1", "share": "auto"}).request.shares


def test_cpu_and_memory_are_per_gpu_and_per_replica_of_a_slice() -> None:
    assert request(0.5, cpu=2).roles[0].replica.cpu == 2000
    big = spec(run=None, roles={"w": {"run": "a", "resources": {"gpu": 4, "cpu": 1.5, "memory": "1GB"}}})
    assert big.request.roles[0].replica == Replica(gpus=4, cpu=6000, memory=4 * 10**9)


def test_the_range_of_a_job_with_sizes_begins_and_ends_at_a_size() -> None:
    narrowed = request("2..8", sizes=[6, 4])
    assert narrowed.roles[0].replicas == Range(4, 6)
    assert narrowed.allowed == (4, 6)
    single = spec(resources={"gpu": "2..8", "sizes": [4]})
    assert single.request == Request((Role("worker", Range(4, 4), Replica()),), one_node=True)


def test_roles_are_one_gang_with_a_worker_a_replica() -> None:
    found = spec(
        run=None,
        roles={
            "launcher": {"run": "a", "resources": {"gpu": 0}},
            "worker": {"run": ["b"], "resources": {"gpu": 1, "sizes": [2, 4]}, "replicas": "2..4"},
        },
    )
    assert found.run == ()
    assert found.request == Request(
        (
            Role("launcher", Range(1, 1), Replica(gpus=0), ("/bin/sh", "-c", "a")),
            Role("worker", Range(2, 4), Replica(gpus=1), ("b",)),
        ),
        sizes=(2, 4),
    )
    assert with_launch(found, Launch.ONCE) == found


def test_priority_follows_the_type_unless_it_is_given() -> None:
    assert spec().priority == 50
    assert (spec(type="dev").type, spec(type="dev").priority) == (JobType.DEV, 100)
    assert spec(type="dev", priority="dev-preemptible").priority == 75
    assert spec(priority=7).priority == 7


def test_data_is_a_path_from_the_workdir_if_it_has_a_slash_and_else_a_name() -> None:
    given = ("sets/one", "./two", "/three", "imagenet", "s3://bucket/x")
    found = spec(run="a", workdir="/code", data=given).data
    assert found == ("/code/sets/one", "/code/two", "/three", "imagenet", "s3://bucket/x")
    assert spec(run="a", data="imagenet").data == ("imagenet",)
    assert spec(run="a").data == ()


def test_a_dev_job_may_be_elastic() -> None:
    assert spec(type="dev", resources={"gpu": "1..2"}).request.elastic is not None


def test_after_takes_ids_and_the_names_that_the_caller_knows() -> None:
    job = read(JobIn, {"run": "a", "after": ["prepare", "j0123456789"]})
    assert to_spec(job, after={"prepare": JobId("jabc")}).after == ("jabc", "j0123456789")
    with pytest.raises(BadInput, match=r"after\[0\].*prepare"):
        to_spec(job)


def test_a_request_with_a_relative_workdir_is_refused_with_all_else_that_is_wrong() -> None:
    job = read(JobIn, {"run": "a", "after": ["x"], "workdir": "here"})
    with pytest.raises(BadInput) as caught:
        to_spec(job)
    assert [mistake.field for mistake in caught.value.mistakes] == ["after[0]", "workdir"]


def test_a_hundred_thousand_mistakes_are_counted_not_listed() -> None:
    with pytest.raises(BadInput, match="more mistakes") as caught:
        read(JobIn, {f"field{n}": n for n in range(100_000)})
    assert len(caught.value.mistakes) <= 101


def test_a_section_runs_the_trainer_with_a_worker_a_gpu_and_the_section_in_its_command() -> None:
    job = read(JobIn, {"train": {"make": "deep/train.py:make", "epochs": 2}, "resources": {"gpu": 4}})
    made = to_spec(job)
    assert made.run == (
        "python3",
        "-m",
        "grus.elastic.section",
        '{"epochs": 2, "make": "deep/train.py:make"}',
    )
    assert (made.name, made.launch, made.request.one_node) == ("train", Launch.PER_GPU, False)
    assert job.launch_given


def test_a_section_is_named_after_its_model() -> None:
    parts = {"model": "nets.py:ResNet_50", "data": "a:b", "loss": "mse", "optimizer": "adam"}
    assert to_spec(read(JobIn, {"train": parts})).name == "resnet-50"


def test_a_size_that_is_left_to_grus_is_one_whole_gpu_until_it_is_chosen() -> None:
    asked = request("A100:auto", ways=[{"memory": "8GB"}, {"gpus": 2, "memory": "5GB", "how": "split"}])
    assert asked.roles == (Role("worker", Range(1, 1), Replica(gpus=1, types=("A100",))),)
    assert asked.auto
    assert asked.ways == (Way(1, 8 * 10**9), Way(2, 5 * 10**9, ("split",)))
    assert request_text(asked) == "A100:auto"


def test_a_gang_may_mix_types_of_gpu_only_if_it_says_so() -> None:
    assert not spec(run="a", resources={"gpu": 4}).request.mixed
    made = spec(run="a", resources={"gpu": 4, "mixed": True})
    assert made.request.mixed
    assert written(made)["resources"] == {"gpu": "4", "mixed": True}
    roles = {"worker": {"run": "a", "replicas": 4, "resources": {"gpu": 1, "mixed": True}}}
    made = spec(run=None, roles=roles)
    assert made.request.mixed
    assert written(made)["roles"]["worker"]["resources"]["mixed"] is True
