"""What goes wrong is told in a few clear lines and one exit code; never as a traceback."""

import json
from pathlib import Path

import pytest

from grus.cli import main as cli
from grus.cli.server.daemon_start_stop import _end_jobs
from grus.model.errors import (
    BadInput,
    Conflict,
    DoesNotFit,
    GrusError,
    Mistake,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    Unreachable,
)
from tests.api.bad_inputs import BAD_JOB_FILES, BadJob
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job

ERRORS = [
    (GrusError("it broke"), 1),
    (Conflict("it has ended"), 1),
    (BadInput([Mistake("gpu", "must be a number", "x")]), 2),
    (DoesNotFit("the pool has 8 GPUs"), 3),
    (NotFound("no such queue"), 4),
    (NotAllowed("not yours"), 5),
    (NotLoggedIn("no token"), 5),
    (Unreachable("it does not answer"), 6),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: str(value)[:20])
def test_each_error_has_its_exit_code_and_its_sentence_on_stderr(
    grus: Grus, client: FakeClient, error: GrusError, code: int
) -> None:
    client.error = error
    result = grus("ps")
    assert result.exit_code == code
    assert str(error) in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("words", [("run", "--", "true"), ("attach", "resnet")], ids=["run", "attach"])
def test_run_and_attach_add_120_to_their_own_errors(
    grus: Grus, client: FakeClient, words: tuple[str, ...], error: GrusError, code: int
) -> None:
    client.error = error
    assert grus(*words).exit_code == 120 + code


def test_an_unknown_option_is_bad_input_and_names_the_help(grus: Grus) -> None:
    result = grus("ps", "--colour")
    assert result.exit_code == 2
    assert "--colour" in result.stderr
    assert "grus ps --help" in result.stderr


def test_an_unknown_option_of_run_is_122(grus: Grus) -> None:
    assert grus("run", "--gpus", "2", "--", "true").exit_code == 122


def test_an_unknown_verb_suggests_the_nearest(grus: Grus) -> None:
    result = grus("sumbit", "job.yaml")
    assert result.exit_code == 2
    assert "submit" in result.stderr


def test_with_json_the_error_is_the_object_of_the_api(grus: Grus, client: FakeClient) -> None:
    client.error = BadInput([Mistake("gpu", "must be a number", "x", 3)])
    told = json.loads(grus("ps", "-o", "json").stderr)["error"]
    assert told["code"] == "bad_input"
    assert told["mistakes"] == [{"field": "gpu", "rule": "must be a number", "value": "x", "line": 3}]


@pytest.mark.parametrize("bad", BAD_JOB_FILES, ids=lambda bad: bad.name)
def test_every_mistake_of_a_bad_job_file_is_named_with_its_line_and_nothing_is_submitted(
    grus: Grus, client: FakeClient, tmp_path: Path, bad: BadJob
) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(bad.text if isinstance(bad.text, bytes) else bad.text.encode())
    result = grus("submit", str(file))
    assert result.exit_code == 2
    for mistake in bad.mistakes:
        where = "" if mistake.line is None else f"line {mistake.line}: "
        assert f"{where}{mistake.field}: " in result.stderr
        assert mistake.words in result.stderr
    assert client.submitted == []
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there_is_bad_input(grus: Grus) -> None:
    result = grus("submit", "nowhere.yaml")
    assert result.exit_code == 2
    assert "nowhere.yaml: cannot be read: No such file or directory" in result.stderr


def test_a_job_that_nobody_knows_is_not_found(grus: Grus) -> None:
    result = grus("why", "resnet")
    assert result.exit_code == 4
    assert "'resnet'" in result.stderr


def test_a_queue_that_nobody_knows_is_not_an_empty_list(grus: Grus) -> None:
    assert grus("ps", "-q", "default").exit_code == 0
    result = grus("ps", "-q", "nobody")
    assert result.exit_code == 4
    assert "'nobody'; there are default" in result.stderr


def test_the_state_of_jobs_that_may_run_is_not_purged(grus: Grus, tmp_path: Path) -> None:
    worker = tmp_path / "home" / "state" / "engine" / "workers" / "j1.1.main.0.1"
    worker.mkdir(parents=True)
    (worker / "claim").touch()
    result = grus("down", "--purge", "--yes")
    assert result.exit_code == 1
    assert "grus up" in result.stderr
    (worker / "exit.json").touch()
    assert grus("down", "--purge", "--yes").exit_code == 0
    assert not worker.exists()


def test_a_job_that_ends_while_all_are_stopped_is_no_error(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job()]

    def too_late(id: str) -> None:
        client.known = [a_job(phase="succeeded")]
        raise Conflict(f"job {id} has already succeeded")

    monkeypatch.setattr(client, "stop", too_late)
    assert _end_jobs(stop=True) == []


def test_a_log_whose_beginning_is_gone_says_so(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job()]
    pieces = iter([(b"rest\n", 5_000_005), (b"", 5_000_005)])
    monkeypatch.setattr(client, "log", lambda *_, **__: next(pieces))
    result = grus("logs", "resnet")
    assert result.stdout == "rest\n"
    assert "5MB that it wrote before this are no longer kept" in result.stderr


def test_a_name_of_two_live_jobs_is_refused_with_both(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job("j0000000002"), a_job("j0000000001")]
    result = grus("stop", "resnet")
    assert result.exit_code == 2
    assert "j0000000001" in result.stderr
    assert "j0000000002" in result.stderr
    assert not [ask for ask in client.asked if ask[0] == "stop"]


@pytest.mark.parametrize(
    ("error", "words", "not_said"),
    [
        (OSError(28, "No space left on device", "/state/log"), "the system refuses: [Errno 28]", "defect"),
        (ValueError("odd"), "ValueError: odd\n  this is a defect in Grus", "the system"),
    ],
)
def test_what_the_system_refuses_is_no_defect_of_grus(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    words: str,
    not_said: str,
) -> None:
    def app(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.delenv("GRUS_DEBUG", raising=False)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    told = capsys.readouterr().err
    assert words in told
    assert not_said not in told
