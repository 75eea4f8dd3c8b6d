"""Secrets through the whole product: a worker has the value, and nothing else shows or keeps it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.model.errors import BadInput
from tests.cli.real import RealGrus
from tests.live.pool import LivePool
from tests.server.process import eventually

VALUE = "q7-the-value-7q"


@pytest.fixture(params=["processes", "bubblewrap"])
def pool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LivePool]:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs Debian's package bubblewrap")
    made = LivePool(tmp_path, "1x2x1GB")
    made.more = f'isolation = "{request.param}"\n'
    with made:
        yield made


def holding(folder: Path) -> list[Path]:
    """Files that have the value in them, other than the store's own."""
    files = [path for path in folder.rglob("*") if path.is_file() and "secrets" not in path.parts]
    return [path for path in files if VALUE.encode() in path.read_bytes()]


def test_a_worker_has_the_value_and_no_record_log_or_command_line_has_it(pool: LivePool) -> None:
    pool.grus.put_secret("hf-token", VALUE)
    line = 'test "$HF_TOKEN" = "$(cat expected)" && echo same; until test -e go; do sleep 0.05; done'
    work = pool.home.parent / "work"
    work.mkdir()
    (work / "expected").write_text(VALUE)
    job = pool.grus.submit({"run": line, "workdir": str(work), "secrets": ["HF_TOKEN"]})
    eventually(lambda: "same" in "".join(job.logs()), "it has the value")
    assert job.job.secrets == {"HF_TOKEN": "hf-token"}
    assert VALUE not in job.job.model_dump_json()
    assert VALUE not in json.dumps([one.model_dump() for one in pool.grus.events(job=job.id)])
    assert holding(pool.home) == []
    (worker,) = pool.grus.workers(job.id)
    assert worker.pid is not None
    words = Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    assert VALUE.encode() not in words
    (work / "go").touch()
    assert job.wait(300).phase == "succeeded"
    assert holding(pool.home) == []


def test_a_job_with_a_secret_that_does_not_exist_is_refused_and_one_whose_secret_has_gone_says_so(
    pool: LivePool,
) -> None:
    with pytest.raises(BadInput, match="grus secret set key"):
        pool.grus.submit({"run": "true", "workdir": "/", "secrets": {"KEY": "key"}})
    pool.grus.put_secret("key", VALUE)
    go = pool.home.parent / "go"
    first = pool.grus.submit({"run": f"until test -e {go}; do sleep 0.05; done", "workdir": "/"})
    job = pool.grus.submit({"run": "true", "workdir": "/", "secrets": {"KEY": "key"}, "after": [first.id]})
    pool.grus.delete_secret("key")
    go.touch()
    assert job.wait(300).phase == "failed"
    assert "no secret 'key'" in job.job.reason


def test_the_command_takes_a_value_from_the_standard_input_and_lists_names_only(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    grus.up("--virtual", "1x1x1GB", "--port", "0")
    try:
        grus("secret", "set", "HF_TOKEN", input=f"{VALUE}\n")
        listed = grus("secret", "list").stdout
        assert "hf-token" in listed
        assert VALUE not in listed
        target = tmp_path / "backup"
        grus("backup", str(target))
        assert holding(target) == []
        assert not list(target.rglob("hf-token"))
        grus("secret", "delete", "hf-token")
        assert "No secrets" in grus("secret", "list").stdout
    finally:
        grus.down()
