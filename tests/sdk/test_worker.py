"""What a script inside a job sees, and that all of it also works outside Grus."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grus.sdk import worker


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GRUS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(worker, "_said", worker._ReportState())


def test_outside_grus_everything_answers_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    worker.report(step=1)
    assert not worker.should_pause()
    assert not worker.resuming()
    assert worker.params() == {}
    assert worker.checkpoint_path("here") == Path("here")
    assert capsys.readouterr() == ("", "")


def test_the_environment_tells_of_resuming_checkpoint_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRUS_RESUME", "1")
    monkeypatch.setenv("GRUS_CHECKPOINT", "/data/ckpt")
    monkeypatch.setenv("GRUS_PARAMS", '{"lr": 0.1}')
    assert worker.resuming()
    assert worker.checkpoint_path() == Path("/data/ckpt")
    assert worker.params() == {"lr": 0.1}


def test_reports_are_lines_of_json_appended_to_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRUS_REPORT", str(tmp_path / "report"))
    worker.report(step=1, loss=0.5)
    worker.report(step=2)
    lines = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [line["figures"] for line in lines] == [{"step": 1.0, "loss": 0.5}, {"step": 2.0, "loss": 0.5}]
    assert "saved_at" not in lines[-1]


@pytest.mark.parametrize(
    "save", [worker.saved, lambda: worker.report(saved=True), lambda: worker.report(checkpoint=1)]
)
def test_that_a_checkpoint_is_whole_stays_in_every_later_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, save: Callable[[], None]
) -> None:
    monkeypatch.setenv("GRUS_REPORT", str(tmp_path / "report"))
    save()
    worker.report(step=2, saved=False)
    first, last = (json.loads(line) for line in (tmp_path / "report").read_text().splitlines())
    assert first["at"] >= first["saved_at"] == last["saved_at"]
    assert last["figures"] == {"step": 2.0}


def test_a_report_never_fills_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_bytes(b"x" * (2 << 20))
    monkeypatch.setenv("GRUS_REPORT", str(path))
    worker.report(step=2)
    assert json.loads(path.read_text())["figures"] == {"step": 2.0}


def test_a_figure_that_is_no_number_is_named() -> None:
    with pytest.raises(TypeError, match="loss"):
        worker.report(loss="low")  # type: ignore[arg-type]  # wrong on purpose


def test_a_report_that_cannot_be_written_warns_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRUS_REPORT", str(tmp_path / "missing" / "report"))
    with pytest.warns(RuntimeWarning, match="could not be written"):
        worker.report(step=1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pause": false, "leave": false}'])
def test_a_control_file_that_asks_nothing_means_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    monkeypatch.setattr(worker._asked, "listening", True)  # leave this process's signals alone
    (tmp_path / "control").write_text(text)
    monkeypatch.setenv("GRUS_CONTROL", str(tmp_path / "control"))
    assert not worker.should_pause()


@pytest.mark.parametrize("wish", ["pause", "leave"])
def test_the_control_file_asks_to_pause_or_leave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wish: str
) -> None:
    monkeypatch.setattr(worker._asked, "listening", True)
    (tmp_path / "control").write_text(json.dumps({wish: True}))
    monkeypatch.setenv("GRUS_CONTROL", str(tmp_path / "control"))
    assert worker.should_pause()


def test_a_name_that_grus_does_not_have_is_an_attribute_error() -> None:
    import grus

    with pytest.raises(AttributeError, match="nothing"):
        _ = grus.nothing
    assert "Client" in dir(grus)


def test_inputs_and_outputs_are_where_a_job_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRUS_CONTROL", str(tmp_path / "control"))
    monkeypatch.setenv("GRUS_INPUT_RAW_DATA", "/cache/raw")
    monkeypatch.setenv("GRUS_OUTPUT_MODEL", "/somewhere/model.pt")
    assert worker.input("raw-data") == Path("/cache/raw")
    assert worker.output("model") == Path("/somewhere/model.pt")
    with pytest.raises(KeyError, match="no input 'labels'"):
        worker.input("labels")
    with pytest.raises(KeyError, match="no output 'labels'"):
        worker.output("labels")


def test_outside_a_job_inputs_and_outputs_are_folders_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert worker.input("data") == Path("inputs/data")
    assert worker.input("data", "mine") == Path("mine")
    assert worker.output("model").is_dir()
    assert worker.output("model", "made/model.pt").parent.is_dir()
