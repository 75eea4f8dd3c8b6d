"""What was learned and recognised, as people and programs see it."""

import json

import pytest

from grus.api.profile_wire import ExpectedOut, ProfileOut, RunOut, ShortOut, SizeOut, TagOut, UseOut
from grus.cli.commands.profile_stats import expected_words, tag_words
from grus.model.errors import NotAllowed
from tests.cli.conftest import Grus
from tests.cli.fake import SUBMITTED, FakeClient, a_job

USE = UseOut(
    type="A100", gpus=2, seconds=600, mean_utilisation=0.714, p95_utilisation=0.93, peak_memory=4_100_000_000
)
PROFILE = ProfileOut(
    fingerprint="4a57964d4c3f3012",
    name="resnet",
    user="ada",
    runs=3,
    kind="training",
    period=12.34,
    peak_memory=4_100_000_000,
    mean_utilisation=0.714,
    duration=723.0,
    energy=7.2e6,
    uses=(USE,),
    last=(RunOut(job="j0000000001", at=SUBMITTED, phase="succeeded", seconds=723.0, uses=(USE,)),),
    updated_at=SUBMITTED,
)
EXPECTED = ExpectedOut(
    fingerprint="4a57964d4c3f3012",
    same_code=True,
    runs=3,
    memory=4_100_000_000,
    duration=720.0,
    shortest=600.0,
    longest=900.0,
    utilisation=0.714,
    sizes=(
        SizeOut(gpus=1, type="A100", throughput=100, speedup=1),
        SizeOut(gpus=2, type="A100", throughput=180, speedup=1.8),
    ),
)
WORDS = (
    "3 runs before it: about 12m (10m to 15m), at most 4.1GB on a GPU, 71% in use, "
    "2 GPUs 1.8× as fast as the smallest size"
)


def a_tag(kind: str = "training", **given: object) -> TagOut:
    return TagOut(kind=kind, at=SUBMITTED, expires=SUBMITTED, **given)  # type: ignore[arg-type]  # keywords of many types


def test_all_fingerprints_are_listed(grus: Grus, client: FakeClient) -> None:
    assert "begins with the first job that runs" in grus("profile").stdout
    client.known_profile = PROFILE
    line = grus("profile").stdout.splitlines()[1]
    assert line.split()[:9] == [
        "4a57964d4c3f3012",
        "resnet",
        "ada",
        "3",
        "training",
        "12.3s",
        "4.1GB",
        "71%",
        "12m",
    ]
    assert json.loads(grus("profile", "-o", "json").stdout)[0]["peak_memory"] == 4_100_000_000


def test_a_job_and_a_fingerprint_both_lead_to_the_profile(grus: Grus, client: FakeClient) -> None:
    client.known, client.known_profile, client.expected = [a_job()], PROFILE, EXPECTED
    by_job, by_print = grus("profile", "j0000000001").stdout, grus("profile", "4a57").stdout
    assert f"expected before it ran: {WORDS}" in by_job
    for shown in (by_job, by_print):
        assert "energy       2 kWh" in shown
        assert "A100      2     10m      71%       93%  4.1GB" in shown
    assert json.loads(grus("profile", "j0000000001", "-o", "json").stdout)["expected"]["runs"] == 3
    assert json.loads(grus("profile", "4a57", "-o", "json").stdout)["runs"] == 3


def test_what_did_not_suffice_is_told(grus: Grus, client: FakeClient) -> None:
    short = (ShortOut(gpus=1, memory=2_000_000_000), ShortOut(gpus=2, memory=8_000_000_000, how="split"))
    client.known_profile = PROFILE.model_copy(update={"short": short})
    assert "did not suffice  2GB on a GPU; 8GB on each of 2 GPUs, split" in grus("profile", "4a57").stdout


def test_what_is_neither_a_job_nor_a_fingerprint_is_not_found(grus: Grus, client: FakeClient) -> None:
    result = grus("profile", "nothing")
    assert result.exit_code == 4
    assert "`grus profile` lists them" in result.stderr


def test_who_submits_is_told_what_to_expect(grus: Grus, client: FakeClient) -> None:
    assert "expected" not in grus("submit", "-", input="run: a\n").stdout
    client.expected = EXPECTED
    assert f"expected of j0000000002: {WORDS}" in grus("submit", "-", input="run: a\n").stdout
    assert WORDS in grus("submit", "-", "--plan", input="run: a\n").stdout
    assert WORDS in grus("describe", "j0000000002").stdout


def test_a_server_that_keeps_no_profiles_takes_jobs_all_the_same(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(id: str) -> None:
        raise NotAllowed(f"nothing is kept of {id}")

    monkeypatch.setattr(client, "learned", refuse)
    assert grus("submit", "-", input="run: a\n").exit_code == 0
    assert grus("describe", "j0000000001").exit_code == 0


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        (None, ""),
        (a_tag("unknown"), ""),
        (a_tag("idle"), "idle"),
        (a_tag(period=0.5, stage="evaluation"), "training, every 0.5s, evaluation"),
        (a_tag(period=90.0, stage="training"), "training, every 1m 30s"),
        (a_tag("retraining", stage="training"), "retraining"),
    ],
)
def test_a_tag_in_few_words(tag: TagOut | None, words: str) -> None:
    assert tag_words(tag) == words


def test_a_job_that_hangs_is_called_so_whatever_its_kind() -> None:
    assert tag_words(a_tag(period=2.0, hung_since=SUBMITTED)).startswith("hung for ")


def test_what_runs_is_shown_of_jobs_and_gpus_and_its_column_only_where_something_is_known(
    grus: Grus, client: FakeClient
) -> None:
    client.known = [a_job()]
    assert "DOES" not in grus("ps").stdout + grus("nodes").stdout
    client.known = [a_job(tag=a_tag(period=12.0, utilisation=0.5, note="a rhythm in power"))]
    client.gpu_tag = a_tag("inference")
    assert "training, every 12s" in grus("ps").stdout
    assert "inference" in grus("nodes").stdout
    assert "50% in use: a rhythm in power" in grus("describe", "j0000000001").stdout


def test_other_code_and_other_data_are_told() -> None:
    told = EXPECTED.model_copy(update={"same_code": False, "new_data": True, "runs": 1, "sizes": ()})
    assert expected_words(told).startswith("1 run before it, with other code, on other data: about 12m")
    assert expected_words(ExpectedOut(fingerprint="f", same_code=True, runs=2)) == ""
