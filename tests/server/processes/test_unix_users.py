"""A server that is root runs each job as the Unix user whom the administrator named, and nobody's as root."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from grus.api.wire_types.job import JobOut
from grus.model.errors import BadInput, Conflict, NotAllowed
from grus.sdk.client import Client, Handle
from grus.sdk.transport import Transport
from tests.server.process import ServerProcess, eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another Unix user")

TELLS = """
echo "uid $(id -u), home $HOME, user $USER"
test -w "$GRUS_CONTROL" && echo "may write the control file"
ls "$(dirname "$GRUS_CONTROL")" >/dev/null 2>&1 && echo "may list the folder"
echo '{"figures": {"step": 7}}' >>"$GRUS_REPORT"
trap 'cat "$GRUS_CONTROL"; exit 0' TERM
echo ready
while :; do sleep 0.02; done
"""


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    """In a folder that other users can pass; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="grus-test-"))
    folder.chmod(0o711)
    built = ServerProcess(folder / "home")
    before = os.umask(0o077)
    try:
        built.start()
        yield built
    finally:
        os.umask(before)
        built.end()
        shutil.rmtree(folder)


def client_of(server: ServerProcess, name: str, **user: str) -> Client:
    """A new member's client."""
    with server.client() as admin:
        admin.put_user(name, {"role": "member", **user})
        secret = admin.new_token({"user": name}).secret
    return Client(transport=Transport(None, secret, timeout=60.0, patience=5.0, env=server.env))


def ended(handle: Handle) -> JobOut:
    return handle.wait(300)


def test_a_job_of_nobody_runs_as_nobody_is_heard_and_can_be_paused(server: ServerProcess) -> None:
    server.home.chmod(0o711)  # made by the test, not by the server
    nobody = pwd.getpwnam("nobody")
    with client_of(server, "ada", unix_user="nobody") as ada:
        handle = ada.submit({"run": TELLS, "workdir": "/", "checkpoint": {"grace": "10s"}})
        eventually(lambda: "ready" in "".join(handle.logs()), "the job has begun")
        (worker,) = ada.workers(handle.id)
        assert os.stat(f"/proc/{worker.pid}").st_uid == nobody.pw_uid
        handle.pause()
        eventually(lambda: handle.refresh().phase == "paused", "it has paused")
        said = "".join(handle.logs())
        assert f"uid {nobody.pw_uid}, home {nobody.pw_dir}, user nobody" in said
        assert '"pause": true' in said
        assert "may" not in said
        assert handle.job.progress == {"step": 7}


def test_who_has_no_unix_user_may_not_submit_and_an_administrator_runs_as_the_server(
    server: ServerProcess,
) -> None:
    with client_of(server, "ada") as ada, pytest.raises(NotAllowed, match="--unix-user"):
        ada.submit({"run": "id", "workdir": "/"})
    with server.client() as admin:
        handle = admin.submit({"run": "id -u", "workdir": "/"})
        assert ended(handle).phase == "succeeded"
        assert "".join(handle.logs()) == "0\n"


def test_a_unix_user_that_is_not_there_is_refused_when_it_is_named(server: ServerProcess) -> None:
    with server.client() as admin, pytest.raises(BadInput, match="is no account"):
        admin.put_user("ada", {"unix_user": "no-such-user"})


def test_a_job_whose_owner_is_deleted_never_starts_as_root(server: ServerProcess) -> None:
    with client_of(server, "ada", unix_user="nobody") as ada, server.client() as admin:
        first = admin.submit({"run": "sleep 600", "workdir": "/", "resources": {"gpu": 4}})
        waits = ada.submit({"run": "id -u", "workdir": "/"})
        with pytest.raises(Conflict, match=waits.id):
            admin.delete_user("ada")
        admin.delete_user("ada", stop_jobs=True)
        first.stop()
        assert admin.handle(waits.id).wait(300).phase == "stopped"
        assert admin.job(waits.id).attempt == 0


def test_code_that_the_submitter_may_not_read_is_not_copied_by_root(server: ServerProcess) -> None:
    with client_of(server, "ada", unix_user="nobody") as ada, pytest.raises(BadInput, match="snapshot"):
        ada.submit({"run": "true", "workdir": "/root", "snapshot": True})


def test_a_place_that_others_cannot_pass_is_told_at_the_start(server: ServerProcess) -> None:
    client_of(server, "ada", unix_user="nobody").close()
    server.home.chmod(0o700)
    server.stop()
    server.start()
    assert f"cannot pass {server.home}" in server.said.read_text()


def test_a_shell_of_another_unix_user_runs_as_them_and_without_grus_of_theirs(server: ServerProcess) -> None:
    server.home.chmod(0o711)
    shell = {
        "type": "dev",
        "run": ["python3", "-m", "grus.interactive.session", "shell"],
        "resources": {"gpu": "0.25"},
        "env": {"PATH": "/nowhere", "SHELL": "/bin/sh"},
        "workdir": "/",
    }
    with client_of(server, "ada", unix_user="nobody") as ada:
        handle = ada.submit(shell)

        def opened() -> bool:
            assert handle.refresh().phase not in ("failed", "succeeded"), "".join(handle.logs())
            with suppress(Conflict):
                return ada.session(handle.id).url != ""
            return False

        eventually(opened, "the session can be opened")
        (worker,) = ada.workers(handle.id)
        assert os.stat(f"/proc/{worker.pid}").st_uid == pwd.getpwnam("nobody").pw_uid
