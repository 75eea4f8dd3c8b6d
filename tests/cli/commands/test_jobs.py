"""The verbs for jobs: what they send, what they print, what they return."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grus.api.wire_types.job import EventOut, JobOut, SeatOut
from grus.model.errors import Conflict, NotFound
from grus.model.texts.job_warnings import NO_CHECKPOINT, SAME_WORK
from grus.sdk.client import LogPiece
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, Handle, a_job, an_end

STAGES = """
name: prepare
run: python prepare.py
---
name: train
run: python train.py
after: [prepare]
resources: {gpu: 2..4}
"""


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(STAGES)
    return str(file)


def test_stages_are_submitted_in_order(grus: Grus, client: FakeClient, job_file: str, tmp_path: Path) -> None:
    result = grus("submit", job_file)
    assert result.exit_code == 0
    first, second = (job for job, _ in client.submitted)
    assert first.name == "prepare"
    assert list(second.after) == ["prepare"]  # the client turns it into the id
    assert first.workdir == str(tmp_path)


def test_the_name_of_a_submission_goes_along(grus: Grus, client: FakeClient, job_file: str) -> None:
    grus("submit", job_file, "--key", "nightly")
    assert {key for _, key in client.submitted} == {"nightly"}


def test_what_the_job_shall_see_is_given_as_pairs(grus: Grus, client: FakeClient) -> None:
    grus("run", "-d", "-e", "CONDA_PREFIX=/mine", "-e", "A=b=c", "--data", "./set", "--", "true")
    assert client.submitted[0][0].data == ("./set",)
    assert client.submitted[0][0].env == {"CONDA_PREFIX": "/mine", "A": "b=c"}


def test_what_a_job_reports_is_shown_in_words_and_its_column_only_where_somebody_reports(
    grus: Grus, client: FakeClient
) -> None:
    client.known = [a_job()]
    assert "PROGRESS" not in grus("ps").stdout
    figures = {"loss": 0.12345, "step": 120.0, "total": 5000.0, "rate": 2e-7, "epoch": 1.0}
    client.known = [a_job(progress=figures), a_job("j0000000002")]
    assert "PROGRESS" in grus("ps").stdout
    assert "step 120/5000 (2%), epoch 1, loss 0.1235 " in grus("ps").stdout
    whole = "progress     step 120/5000 (2%), epoch 1, loss 0.1235, rate 2e-07"
    assert whole in grus("describe", "j0000000001").stdout


def test_a_size_that_grus_chose_is_shown_with_its_reason(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job(asked="auto", request="2GB", sizing="2GB of a GPU: by its estimate")]
    said = grus("describe", "j0000000001").stdout
    assert "asked for    auto\n" in said
    assert "gets         2GB of a GPU: by its estimate\n" in said
    client.known = [a_job(request="4")]
    said = grus("describe", "j0000000001").stdout
    assert "asked for    4 GPUs\n" in said
    assert "gets" not in said


def test_a_size_that_was_set_is_told_beside_what_was_asked_for(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job(request="4", size="4", unscaled="2..8")]
    assert "asked for    2..8 GPUs, scaled to 4\n" in grus("describe", "j0000000001").stdout
    client.known = [a_job(type="serve", request="3 × 0", size="3", unscaled="0")]
    assert "asked for    0 GPUs, scaled to 3 replicas\n" in grus("describe", "j0000000001").stdout
    assert grus("scale", "resnet", "3").stdout == "j0000000001 (resnet): size 3 replicas\n"


def test_a_plan_is_printed_and_nothing_is_submitted(grus: Grus, client: FakeClient, job_file: str) -> None:
    result = grus("submit", job_file, "--plan")
    assert result.exit_code == 0
    assert "It starts now on node-0." in result.stdout
    assert client.submitted == []


def test_a_plan_says_that_a_stage_starts_after_those_before_it(grus: Grus) -> None:
    stages = "stages:\n  one: {run: a}\n  two: {run: b, after: [one]}\n"
    first, second = json.loads(grus("submit", "-", "--plan", "-o", "json", input=stages).stdout)
    assert (first["starts"], first["nodes"]) == ("now", ["node-0"])
    assert (second["starts"], second["nodes"]) == ("later", [])
    assert second["sentence"] == "starts after one; by itself: It starts now on node-0."
    assert "now" not in grus("submit", "-", "--plan", input=stages).stdout.split("starts after one")[1][40:]


def test_a_job_file_may_come_from_standard_input(grus: Grus, client: FakeClient) -> None:
    assert grus("submit", "-", input="run: python train.py\n").exit_code == 0
    assert client.submitted[0][0].run == "python train.py"


def test_submit_prints_one_object_for_one_job_and_a_list_for_stages(
    grus: Grus, client: FakeClient, job_file: str
) -> None:
    assert len(json.loads(grus("submit", job_file, "-o", "json").stdout)) == 2
    assert json.loads(grus("submit", "-", "-o", "json", input="run: a\n").stdout)["id"].startswith("j")


def test_run_submits_the_command_from_this_folder_and_prints_only_the_jobs_output_on_stdout(
    grus: Grus, client: FakeClient, tmp_path: Path
) -> None:
    client.ends_as = an_end("succeeded", "done", 0)
    result = grus("run", "--gpu", "2", "-q", "vision", "--", "python", "train.py", "--lr", "0.1")
    assert result.exit_code == 0
    assert result.stdout == "hello\n"
    job = client.submitted[0][0]
    assert job.run == ("python", "train.py", "--lr", "0.1")
    assert (job.workdir, job.queue, job.resources.gpu) == (str(tmp_path), "vision", "2")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (an_end("succeeded", "done", 0), 0),
        (an_end("failed", "exit code", 7), 7),
        (an_end("failed", "signal", 9), 137),
        (an_end("failed", "could not start"), 127),
        (an_end("failed", "out of memory", 9), 137),
        (an_end("failed", "ran too long", 15), 143),
        (an_end("stopped", "stopped"), 143),
    ],
    ids=lambda value: (
        f"{value.phase}, {value.exit.cause}" if isinstance(value, JobOut) and value.exit else str(value)
    ),
)
@pytest.mark.parametrize("verb", ["run", "attach", "submit --watch"])
def test_who_follows_a_job_returns_its_own_code(
    grus: Grus, client: FakeClient, verb: str, end: JobOut, code: int
) -> None:
    client.ends_as = end
    client.known = [a_job("jattached00")]
    words = {
        "run": ("run", "--", "x"),
        "attach": ("attach", "jattached00"),
        "submit --watch": ("submit", "-w", "-"),
    }
    assert grus(*words[verb], input="run: x\n").exit_code == code


def test_an_interrupt_where_nobody_can_be_asked_leaves_the_job_running_and_says_so(
    grus: Grus, client: FakeClient
) -> None:
    client.interrupt = 1
    result = grus("run", "--", "x")
    assert result.exit_code == 130
    assert "goes on without us" in result.stderr
    assert not [ask for ask in client.asked if ask[0] == "stop"]


def test_an_interrupt_stops_the_job_when_that_was_asked_for(grus: Grus, client: FakeClient) -> None:
    client.interrupt = 1
    result = grus("run", "--stop-on-interrupt", "--", "x")
    assert ("stop", "j0000000001") in client.asked
    assert result.exit_code == 143


def test_a_detached_run_prints_the_id_alone(grus: Grus) -> None:
    assert grus("run", "-d", "--", "x").stdout == "j0000000001\n"


def test_mistakes_in_options_of_run_are_all_told(grus: Grus, client: FakeClient) -> None:
    result = grus("run", "--gpu", "4-8", "--retries", "1000", "--launch", "twice", "--", "x")
    assert result.exit_code == 122
    assert [word for word in ("resources.gpu", "retries", "launch") if word not in result.stderr] == []
    assert client.submitted == []


def test_ps_lists_live_jobs_and_with_all_the_others_too(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job("j0000000002"), a_job("j0000000001", phase="succeeded", name="old")]
    assert "old" not in grus("ps").stdout
    assert "old" in grus("ps", "-a").stdout


def test_ps_filters_by_queue_user_and_phase(grus: Grus, client: FakeClient) -> None:
    client.known = [
        a_job("j0000000003", user="bob", name="his"),
        a_job("j0000000002", queue="language", name="there"),
        a_job("j0000000001", phase="pending", name="waiting"),
    ]
    ids = [job["id"] for job in json.loads(grus("ps", "--user", "bob", "-o", "json").stdout)]
    assert ids == ["j0000000003"]
    assert "his" not in grus("ps", "-q", "language").stdout
    assert grus("ps", "--phase", "pending").stdout.count("\n") == 2
    grus("ps", "--mine")
    assert client.asked[-1][-1] == "True"


def test_tables_are_plain_when_not_on_a_terminal(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    text = grus("ps").stdout
    assert "\x1b" not in text
    assert text.splitlines()[0].split()[:3] == ["ID", "NAME", "QUEUE"]


def test_no_jobs_is_said_in_words_and_in_json_as_an_empty_list(grus: Grus) -> None:
    assert "No live jobs" in grus("ps").stdout
    assert json.loads(grus("ps", "-o", "json").stdout) == []


@pytest.mark.parametrize("meant", ["j0000000001", "j00", "resnet"])
def test_a_job_is_meant_by_id_beginning_of_an_id_or_name(grus: Grus, client: FakeClient, meant: str) -> None:
    client.known = [a_job("j0000000001")]
    assert grus("stop", meant).exit_code == 0
    assert ("stop", "j0000000001") in client.asked


def test_a_name_means_the_live_job_before_ended_ones_and_else_the_newest(
    grus: Grus, client: FakeClient
) -> None:
    ended = a_job("j0000000003", phase="failed")
    older = a_job("j0000000001", phase="failed")
    client.known = [ended, a_job("j0000000002"), older]
    assert json.loads(grus("describe", "resnet", "-o", "json").stdout)["job"]["id"] == "j0000000002"
    client.known = [ended, older]
    assert json.loads(grus("describe", "resnet", "-o", "json").stdout)["job"]["id"] == "j0000000003"


def test_nothing_is_stopped_when_one_of_several_is_not_found(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    assert grus("stop", "resnet", "nobody").exit_code == 4
    assert not [ask for ask in client.asked if ask[0] == "stop"]


def test_one_that_refuses_does_not_keep_the_others_from_being_stopped(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job(), a_job("j0000000002", name="other")]
    stop = client.stop

    def refuses(id: str) -> JobOut:
        if id == "j0000000001":
            raise Conflict("job j0000000001 has already succeeded")
        return stop(id)

    monkeypatch.setattr(client, "stop", refuses)
    answer = grus("stop", "j0000000001", "j0000000002")
    assert answer.exit_code == 1
    assert client.job("j0000000002").phase == "stopped"
    assert "already succeeded" in answer.stderr


def test_why_says_the_sentence_who_holds_what_and_the_cheapest_change(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    text = grus("why", "resnet").stdout
    assert text.splitlines() == [
        "It waits for 2 GPUs; 1 is free.",
        "held by: j0000000009 4",
        "to start it now: stop j0000000009",
    ]


def test_describe_has_the_job_why_workers_and_events(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    assert set(json.loads(grus("describe", "resnet", "-o", "json").stdout)) == {
        "job",
        "why",
        "workers",
        "events",
        "learned",
    }
    text = grus("describe", "resnet").stdout
    for word in ("vision", "ada submitted it", "42", "It waits for 2 GPUs"):
        assert word in text


def test_describe_tells_of_the_team_and_what_it_survived(grus: Grus, client: FakeClient) -> None:
    members = [SeatOut(role="worker", index=index, node="n", joined=index < 2) for index in range(3)]
    figures = {"step": 7.0, "stall": 0.213, "redone": 1.0}
    client.known = [a_job(team=4, lost=2, seats=tuple(members), progress=figures)]
    told = next(line for line in grus("describe", "resnet").stdout.splitlines() if line.startswith("team"))
    for word in ("number 4: 2 workers", "1 on the way", "2 lost and replaced", "0.21 s", "1 step redone"):
        assert word in told
    client.known = [a_job()]
    assert not any(line.startswith("team") for line in grus("describe", "resnet").stdout.splitlines())


def test_pausing_a_job_without_a_checkpoint_warns_and_asks_on_a_terminal(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job(saves=False)]
    told = grus("pause", "resnet")
    assert (told.exit_code, "has no checkpoint" in told.stderr) == (0, True)
    assert "has no checkpoint" not in grus("pause", "resnet", "--yes").stderr
    client.known = [a_job()]
    assert grus("pause", "resnet").stderr == ""


def test_a_submit_shows_the_warnings(
    grus: Grus, client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = [Handle(a_job(warnings=("it names no checkpoint",)))]
    monkeypatch.setattr(client, "submit_stages", lambda *_, **__: warned)
    (tmp_path / "job.yaml").write_text("run: a\n")
    assert "warning: resnet: it names no checkpoint" in grus("submit", str(tmp_path / "job.yaml")).stderr


def test_run_shows_the_warnings_too_but_of_checkpoints_only_when_nobody_watches(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = Handle(a_job(phase="succeeded", warnings=(SAME_WORK, NO_CHECKPOINT)))
    monkeypatch.setattr(client, "submit", lambda *_, **__: warned)
    client.known = [warned.job]
    detached = grus("run", "--detach", "--gpu", "2..4", "--", "true").stderr
    assert (SAME_WORK in detached, NO_CHECKPOINT in detached) == (True, True)
    watched = grus("run", "--gpu", "2..4", "--", "true").stderr
    assert (SAME_WORK in watched, NO_CHECKPOINT in watched) == (True, False)
    assert SAME_WORK not in grus("run", "--quiet", "--detach", "--gpu", "2..4", "--", "true").stderr


def test_logs_says_that_workers_never_joined_a_worker_group(grus: Grus, client: FakeClient) -> None:
    text = "its 2 workers have not joined a worker group"
    client.happened = [EventOut(seq=1, at=a_job().submitted_at, kind="apart", text=text, job=a_job().id)]
    client.known = [a_job(warnings=(SAME_WORK,))]
    assert f"[grus] {text}" in grus("logs", "resnet").stderr
    client.known = [a_job()]
    assert text not in grus("logs", "resnet").stderr


def test_logs_says_so_too_when_workers_turn_out_apart_while_it_follows(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job(phase="succeeded", warnings=(SAME_WORK,))]
    happened = [
        EventOut(seq=2, at=a_job().submitted_at, kind=kind, text=f"event {kind}", job=a_job().id)
        for kind in ("running", "apart", "succeeded")
    ]
    told = threading.Event()

    def watch(*, after: int, job: str) -> Iterator[EventOut]:
        yield from happened[:2]
        told.set()
        yield happened[2]

    monkeypatch.setattr(client, "watch", watch)
    follow = client.follow_pieces

    def slowly(*args: Any, **more: Any) -> Iterator[LogPiece]:
        assert told.wait(300)
        yield from follow(*args, **more)

    monkeypatch.setattr(client, "follow_pieces", slowly)
    said = grus("logs", "-f", "resnet").stderr
    assert "[grus] event apart" in said
    assert "event running" not in said


def test_logs_prints_all_attempts_in_order_or_one(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job(phase="succeeded", attempt=2)]
    client.texts = {1: "one\ntwo\n", 2: "three\n"}
    whole = grus("logs", "resnet")
    assert whole.stdout == "one\ntwo\nthree\n"
    assert whole.stderr.splitlines() == ["[grus] attempt 1", "[grus] attempt 2"]
    assert grus("logs", "resnet", "--attempt", "1").stdout == "one\ntwo\n"
    assert grus("logs", "resnet", "--tail", "2").stdout == "two\nthree\n"
    assert grus("logs", "resnet", "--all").stdout == "[worker 0] one\n[worker 0] two\n[worker 0] three\n"
    told = json.loads(grus("logs", "resnet", "-o", "json").stdout)
    assert told["attempts"] == [{"attempt": 1, "log": "one\ntwo\n"}, {"attempt": 2, "log": "three\n"}]
    assert told["log"] == "one\ntwo\nthree\n"


def test_all_workers_of_one_attempt_are_followed_and_an_attempt_without_a_log_is_left_out(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job(phase="succeeded", attempt=2)]
    client.texts = {2: "three\n"}
    read = client.log

    def log(id: str, **asked: Any) -> tuple[bytes, int]:
        if asked.get("attempt") == 1:
            raise NotFound("its log is gone")
        return read(id, **asked)

    monkeypatch.setattr(client, "log", log)
    for more in ((), ("-f",), ("-f", "--attempt", "2")):
        assert grus("logs", "resnet", "--all", *more).stdout == "[worker 0] three\n"
    assert "attempt 1: its log is gone" in grus("logs", "resnet", "--all").stderr
    assert grus("logs", "resnet", "--all", "--attempt", "1").exit_code == 4


def test_following_says_what_log_rotation_has_dropped(grus: Grus, client: FakeClient) -> None:
    client.known, client.dropped = [a_job(phase="succeeded")], 5_000_000
    for command in (("logs", "-f", "resnet"), ("attach", "resnet")):
        told = grus(*command)
        assert told.stdout == client.text
        assert "5MB that it wrote before this are no longer kept" in told.stderr


def test_logs_prints_all_or_the_last_lines(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    client.text = "".join(f"line {n}\n" for n in range(20_000))
    assert grus("logs", "resnet").stdout == client.text
    assert grus("logs", "resnet", "--tail", "2").stdout == "line 19998\nline 19999\n"
    assert grus("logs", "resnet", "--tail", "15000").stdout.startswith("line 5000\n")
    assert grus("logs", "resnet", "--tail", "0").stdout == ""


def test_scale_passes_the_size_on(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    grus("scale", "resnet", "2..6")
    assert ("scale", "j0000000001", "2..6") in client.asked
