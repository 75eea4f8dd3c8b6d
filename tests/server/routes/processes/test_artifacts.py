"""What jobs hand on, with a real server and real processes: kept, passed, got, refused, swept, damaged."""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.artifacts.archive import unpack
from grus.model.errors import BadInput, NotAllowed, NotFound, Unreachable
from grus.sdk.client import Client, Handle
from grus.sdk.transport import Transport
from tests.artifacts.builders import contents
from tests.server.process import ServerProcess, eventually

MAKE = (
    "mkdir -p $GRUS_OUTPUT_DATA/sub && echo 1 > $GRUS_OUTPUT_DATA/one && echo 2 > $GRUS_OUTPUT_DATA/sub/two"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path_factory.mktemp("server") / "home")
    made.start()
    yield made
    made.end()


def submit(client: Client, run: str, folder: Path, **more: object) -> Handle:
    return client.submit({"run": run, "workdir": str(folder), "resources": {"gpu": 0}, **more})


def the_vault(server: ServerProcess) -> Path:
    (vault,) = (server.places.state / "artefacts").iterdir()
    return vault


def test_a_job_finds_what_another_left_behind_and_people_can_get_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    with server.client() as client:
        first = submit(client, MAKE, tmp_path, outputs=["data"])
        run = "cat $GRUS_INPUT_D/one $GRUS_INPUT_D/sub/two > out.txt"
        inputs = {"d": f"{first.id}.data"}
        second = submit(client, run, tmp_path, inputs=inputs, outputs={"sum": "out.txt"})
        assert second.wait().phase == "succeeded"
        (artefact,) = client.job(first.id).artefacts
        assert client.job(second.id).inputs == inputs
        assert (tmp_path / "out.txt").read_text() == "1\n2\n"
        tar = io.BytesIO()
        client.download(first.id, "data", tar)
        tar.seek(0)
        unpack(tar, tmp_path / "got", artefact.digest)
        assert contents(tmp_path / "got") == {"one": b"1\n", "sub/two": b"2\n"}
        rest = io.BytesIO(tar.getvalue()[:700])
        rest.seek(700)
        client.download(first.id, "data", rest)
        assert rest.getvalue() == tar.getvalue()
        with pytest.raises(NotFound, match="has left no model behind; it has data"):
            client.download(first.id, "model", io.BytesIO())


def test_nobody_else_reads_what_a_job_left_behind(server: ServerProcess, tmp_path: Path) -> None:
    with server.client() as admin:
        first = submit(admin, MAKE, tmp_path, outputs=["data"])
        assert first.wait().phase == "succeeded"
        admin.put_user("ada", {"accept_shared_account": True})
        secret = admin.new_token({"user": "ada", "label": "test"}).secret
        backend = Transport(None, secret, timeout=60.0, patience=0.0, env=server.env)
        with Client(transport=backend) as ada:
            assert ada.job(first.id).id == first.id
            with pytest.raises(NotAllowed, match="only admin and administrators"):
                ada.download(first.id, "data", io.BytesIO())


def test_a_missing_output_and_a_missing_input_are_the_reason_of_the_failure(
    server: ServerProcess, tmp_path: Path
) -> None:
    with server.client() as client:
        os.mkfifo(tmp_path / "gate")
        nothing = submit(client, "true", tmp_path, outputs={"model": "no/model.pt"})
        assert nothing.wait().phase == "failed"
        assert "output model is missing" in client.job(nothing.id).reason
        first = submit(client, MAKE, tmp_path, outputs=["data"])
        assert first.wait().phase == "succeeded"
        gate = submit(client, "read x < gate", tmp_path)
        takes = {"inputs": {"d": f"{first.id}.data"}}
        taker = submit(client, "echo started", tmp_path, after=[gate.id], **takes)
        for path in (the_vault(server) / "manifests").glob("*/*"):
            path.unlink()
        (tmp_path / "gate").write_text("go\n")
        assert taker.wait().phase == "failed"
        reason = client.job(taker.id).reason
        assert "input d" in reason
        assert "is not kept any more" in reason
        assert b"started" not in client.log(taker.id)[0]
        with pytest.raises(NotFound, match="not kept any more: run it again"):
            client.download(first.id, "data", io.BytesIO())
        with pytest.raises(BadInput, match=r"inputs.d: is not kept any more: run .* again"):
            submit(client, "echo started", tmp_path, **takes)


def test_a_damaged_artefact_breaks_a_download_off_instead_of_ending_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    with server.client() as client:
        first = submit(client, MAKE, tmp_path, outputs=["data"])
        assert first.wait().phase == "succeeded"
        for chunk in (the_vault(server) / "chunks").glob("*/*"):
            chunk.chmod(0o600)
            chunk.write_bytes(b"x" * chunk.stat().st_size)
        with pytest.raises(Unreachable, match="broke off"):
            client.download(first.id, "data", io.BytesIO())
    assert "changed on the disk" in server.places.log_file.read_text()


def test_a_server_that_dies_while_outputs_are_kept_misses_nothing(
    server: ServerProcess, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with server.client() as client:
        job = submit(
            client,
            f"{MAKE}; echo $GRUS_JOB > $GRUS_OUTPUT_DATA/job; echo ready; read x < gate",
            tmp_path,
            outputs=["data"],
        )
        eventually(lambda: b"ready" in client.log(job.id)[0], "the job runs")
    server.kill()
    before = len(list(the_vault(server).glob("manifests/*/*")))
    with gate.open("w") as opened:
        opened.write("go\n")
    eventually(
        lambda: len(list(the_vault(server).glob("manifests/*/*"))) > before, "it is kept without a server"
    )
    server.start()
    with server.client() as client:
        assert client.handle(job.id).wait().phase == "succeeded"
        assert [one.name for one in client.job(job.id).artefacts] == ["data"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another Unix user")
def test_artefacts_belong_to_whom_their_jobs_run_as(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="grus-test-"))  # pytest's own are closed to others
    folder.chmod(0o711)
    server = ServerProcess(folder / "home")
    server.start()
    server.home.chmod(0o711)
    try:
        with server.client() as admin:
            admin.put_user("ada", {"unix_user": "nobody"})
            secret = admin.new_token({"user": "ada", "label": "test"}).secret
        backend = Transport(None, secret, timeout=60.0, patience=5.0, env=server.env)
        with Client(transport=backend) as ada:
            job = submit(ada, MAKE, Path("/tmp"), outputs=["data"])
            assert job.wait().phase == "succeeded", ada.job(job.id).reason
            taker = submit(ada, "cat $GRUS_INPUT_D/one", Path("/tmp"), inputs={"d": f"{job.id}.data"})
            assert taker.wait().phase == "succeeded", ada.job(taker.id).reason
            ada.download(job.id, "data", tar := io.BytesIO())
            tar.seek(0)
            unpack(tar, tmp_path / "got", ada.job(job.id).artefacts[0].digest)
        vault = the_vault(server)
        assert vault.stat().st_mode & 0o777 == 0o700
        assert {path.owner() for path in (vault, *vault.rglob("*"))} == {"nobody"}
    finally:
        server.end()
        shutil.rmtree(folder)
