"""`grus simulate`: tables, JSON, and mistakes with their lines; no server is needed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grus.cli.main import app

TRACE = "submit,duration,gpus,queue\n" + "".join(
    f"{60 * i},{600 + i},{1 + i % 4},{'vision' if i % 2 else 'speech'}\n" for i in range(40)
)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["simulate", *words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return str(path)


def test_a_trace_is_told_as_a_table_beside_a_static_split(trace: str) -> None:
    code, out, err = run(trace, "--nodes", "1x8xA100")
    assert code == 0, err
    assert "completion, mean" in out
    assert "static split" in out
    assert "One pool instead of a static split" in out
    assert "quotas by the queues' shares" in err


def test_what_if_answers_whether_to_buy(trace: str) -> None:
    code, out, _ = run(trace, "--nodes", "1x8xA100", "--add-nodes", "1x8xA100", "--no-static")
    assert code == 0
    assert "what if" in out
    assert "buy" in out


def test_json_is_complete_and_the_same_every_time(trace: str) -> None:
    words = (trace, "--nodes", "1x8xA100", "--load", "1.5", "--seeds", "2", "-o", "json")
    code, out, _ = run(*words)
    assert code == 0
    found = json.loads(out)
    assert set(found["sides"]) == {"present", "what if", "static split"}
    assert len(found["sides"]["present"]["outcomes"]) == 2
    assert found["sides"]["present"]["figures"]["quota_violations"]["mean"] == 0
    assert run(*words)[1] == out


def test_made_up_jobs_need_no_file() -> None:
    code, out, err = run("--synthetic", "days=1,jobs=30", "--nodes", "2x8xA100", "--faults", "10d")
    assert code == 0, err
    assert "GPU-HOURS" in out


def test_queues_come_from_a_file(trace: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[queues.vision]\nquota = 5\n[queues.speech]\nquota = 3\n")
    code, out, err = run(trace, "--nodes", "1x8xA100", "--queues", str(config), "--quota", "vision=2")
    assert code == 0, err
    assert "With quota vision=2, jobs complete in" in out
    config.write_text("[queues.vision]\nquota = 50\n[queues.speech]\nquota = 3\n")
    code, _, err = run(trace, "--nodes", "1x8xA100", "--queues", str(config))
    assert code == 2
    assert "sum to 53, but the pool has 8 GPUs" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give one of a CSV file"),
        (("{trace}",), "say which GPUs there are"),
        (("{trace}", "--nodes", "lots"), "write nodes x GPUs x type"),
        (("nowhere.csv", "--nodes", "1x8xA100"), "cannot be read"),
        (("{trace}", "--nodes", "1x2xA100"), "line 4: gpus: asks for more than the pool could ever give"),
        (("{trace}", "--nodes", "1x8xA100", "--remove", "node-0"), "leaves no node at all"),
        (("{trace}", "--nodes", "1x8xA100", "--quota", "vision"), "such as vision=12"),
        (("{trace}", "--nodes", "1x8xA100", "--quota", "audio=2"), "names no queue"),
        (("{trace}", "--nodes", "1x8xA100", "--load", "-1"), "above 0"),
        (("{trace}", "--nodes", "1x8xA100", "--queues", "none.toml"), "cannot be read"),
        (("--synthetic", "days=0", "--nodes", "1x8xA100"), "above 0"),
    ],
)
def test_bad_input_is_named_and_nothing_is_simulated(words: tuple[str, ...], told: str, trace: str) -> None:
    code, out, err = run(*(word.format(trace=trace) for word in words))
    assert code == 2
    assert told in err
    assert "completion" not in out


def test_every_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("submit,duration,gpus\n0,-5,1\n1,1,1\n2,3\n")
    code, _, err = run(str(path), "--nodes", "1x8xA100")
    assert code == 2
    assert "line 2: duration" in err
    assert "line 4: line: must have 3 cells" in err
