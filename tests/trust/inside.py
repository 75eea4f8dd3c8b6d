"""A member's job against the server and against another member's job, on one machine, in each mode.

- `Unix users`: the server is root, each member has a Unix user.
- `Unix users, boxed`: the same with `isolation = "bubblewrap"`.
- `bubblewrap`: no root, `isolation = "bubblewrap"`; both members have the server's Unix user.
- `no isolation`: no root, none; a second member is refused, which is all that there is to attack.

`survived` runs all of them: how many attacks there were, and which got through. It needs root, to become
other users.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from grus.model.errors import BadInput, Conflict
from grus.sdk.client import Client, Handle
from grus.sdk.transport import Transport
from tests.live.pool import LivePool
from tests.server.process import eventually

ACCOUNT = 12345
"""Unix user of a server without root; it needs no name."""
VALUE, VARIABLE, LOGGED = "q7secret7q", "q7variable7q", "q7log7q"
ROOT = Path(__file__).parents[2]
MEMBERS = ("nobody", "games")
"""Unix users of the victim and of the attacker; every Debian has them."""


class Mode(NamedTuple):
    name: str
    root: bool
    boxed: bool


MODES = (
    Mode("Unix users", root=True, boxed=False),
    Mode("Unix users, boxed", root=True, boxed=True),
    Mode("bubblewrap", root=False, boxed=True),
    Mode("no isolation", root=False, boxed=False),
)


def missing() -> str:
    """Why this cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root, to run servers and jobs as other Unix users"
    if shutil.which("bwrap") is None:
        return "needs Debian's package bubblewrap"
    if python() is None:
        return "needs a Python of the same version that every Unix user can run"
    return ""


def python() -> str | None:
    """An interpreter that any Unix user can run, with our packages."""
    for found in (sys.executable, "/usr/bin/python3"):
        line = "import sys; print(sys.version_info[:2])"
        try:
            done = subprocess.run(
                [found, "-c", line], user=ACCOUNT, group=ACCOUNT, extra_groups=[], cwd="/",
                env={}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        except OSError:
            continue
        if done.stdout.strip() == str(tuple(sys.version_info[:2])):
            return found
    return None


class OtherPool(LivePool):
    """A server of the Unix user that the mode asks for."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        super().__init__(folder, "1x4x1GB")
        self.mode = mode
        self.more = 'isolation = "bubblewrap"\n' if mode.boxed else ""
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        self.env |= {"PYTHONPATH": f"{ROOT / 'src'}:{packages}", "HOME": str(folder)}

    def launch(self) -> subprocess.Popen[str]:
        self.home.mkdir(exist_ok=True, mode=0o711)
        self.places.config_file.write_text(self._config + self.more)
        self.said.touch()
        account = 0 if self.mode.root else ACCOUNT
        for path in (self._work, self.home, self.places.config_file, self.said):
            os.chown(path, account, account)
        command = [python() or "", "-m", "grus.cli.main", "up", "--foreground"]
        with self.said.open("a") as said:
            return subprocess.Popen(
                command, env=self.env, stdout=said, stderr=said, text=True, cwd="/",
                user=account, group=account, extra_groups=[], umask=0o022,
            )  # fmt: skip


@contextmanager
def a_pool(mode: Mode) -> Iterator[OtherPool]:
    folder = Path(tempfile.mkdtemp(prefix="grus-inside-", dir="/var/tmp"))
    folder.chmod(0o711)
    try:
        with OtherPool(folder, mode) as pool:
            pool.home.chmod(0o711)
            yield pool
    finally:
        shutil.rmtree(folder)


def member(pool: OtherPool, name: str, unix_user: str, *, accept: bool = False) -> Client:
    user: dict[str, object] = {"role": "member"}
    user |= {"unix_user": unix_user} if pool.mode.root else {}
    user |= {"accept_shared_account": True} if accept else {}
    pool.grus.put_user(name, user)
    secret = pool.grus.new_token({"user": name}).secret
    return Client(transport=Transport(None, secret, timeout=60.0, patience=5.0, env=pool.env))


def folder_of(pool: OtherPool, name: str, unix_user: str) -> Path:
    """A workdir of one's own, closed to others."""
    folder = pool.home.parent / name
    folder.mkdir(mode=0o700)
    (folder / "checkpoint").write_text(VARIABLE)
    account = pwd.getpwnam(unix_user).pw_uid if pool.mode.root else ACCOUNT
    for path in (folder, folder / "checkpoint"):
        os.chown(path, account, account)
    return folder


def victim(pool: OtherPool, ada: Client, *, secrets: bool = True) -> Handle:
    """It has a secret, a variable, a log and a checkpoint, and runs on."""
    work = folder_of(pool, "ada", MEMBERS[0])
    job: dict[str, object] = {
        "run": f"echo {LOGGED}; exec sleep 1000",
        "workdir": str(work),
        "env": {"VARIABLE": VARIABLE},
    }
    if secrets:
        ada.put_secret("key", VALUE)
        job["secrets"] = {"KEY": "key"}
    made = ada.submit(job)
    eventually(lambda: LOGGED in "".join(made.logs()), "the victim runs")
    return made


def targets(pool: OtherPool, ada: Client, made: Handle) -> dict[str, Any]:
    """Everything that the attacker may know the name of: all but the values."""
    state, at = pool.places.state, pool.places
    (worker,) = ada.workers(made.id)
    folder = state / "engine" / "workers" / worker.id
    assert pool.process is not None
    assert worker.pid is not None
    parents = [int(pid) for pid in _parents(worker.pid)]
    secret_files = [str(at.token_file), str(state / "grus.db"), str(state / "session.key")]
    of_server = [
        str(state / name) for name in ("grus.db", "grus.db-wal", "session.key", "server.log", "lock")
    ]
    source = str(ROOT / "src" / "grus" / "__init__.py")
    shared = not pool.mode.root  # one Unix user: workdirs can be read, as the page says
    return {
        "token": at.token_file.read_text().strip(),
        "marks": [VALUE, VARIABLE, LOGGED, at.token_file.read_text().strip()],
        "pids": [pool.process.pid, worker.pid, *parents],
        "state": str(state),
        "database": str(state / "grus.db"),
        "secret_files": secret_files,
        "read": {
            "the admin token": [str(at.token_file)],
            "the settings": [str(at.config_file)] if pool.mode.boxed else [],
            "the server's files": of_server,
            "another worker's folder": [
                str(folder / name) for name in ("spec.json", "claim", "started", "report")
            ],
            "another job's checkpoint": [] if shared else [str(pool.home.parent / "ada" / "checkpoint")],
        },
        "write": {
            "the admin token": [str(at.token_file)],
            "the settings": [str(at.config_file)],
            "the server's files": of_server,
            "the server's program": [source],
            "another worker's folder": [
                str(folder / name) for name in ("control", "report", "bell", "claim")
            ],
            "another job's checkpoint": [] if shared else [str(pool.home.parent / "ada" / "checkpoint")],
        },
        "create": {
            "the state": [str(state), str(state / "engine" / "workers"), str(folder), str(state / "secrets")],
            "the settings": [str(at.config)],
            "the program": [str(ROOT / "src" / "grus"), str(Path(sys.prefix) / "bin")],
            "another job's folder": [] if shared else [str(pool.home.parent / "ada")],
        },
        "list": {
            "secrets": [str(state / "secrets")],
            "logs": [str(state / "engine" / "logs")],
            "artifacts and code": [str(state / "artefacts"), str(state / "code")],
        },
    }


def _parents(pid: int) -> Iterator[str]:
    """Its supervisor and the launcher."""
    for _ in range(3):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
        if pid > 1:
            yield str(pid)
        else:
            return


def attacked(pool: OtherPool, *, accept: bool = False) -> dict[str, Any]:
    """What a member's job got of the server and of another member's job, and how many ways it tried."""
    with (
        member(pool, "ada", MEMBERS[0], accept=accept) as ada,
        member(pool, "eve", MEMBERS[1], accept=accept) as eve,
    ):
        made = victim(pool, ada, secrets=not accept)
        own = folder_of(pool, "eve", MEMBERS[1])
        told = targets(pool, ada, made)
        program = Path(__file__).with_name("inside_job.py").read_text()
        words = [python() or "", "-I", "-c", program, json.dumps(told)]
        spy = eve.submit({"run": words, "workdir": str(own), "env": {"PATH": os.defpath}})
        assert spy.wait(120).phase == "succeeded", "".join(spy.logs())
        found: dict[str, Any] = json.loads("".join(spy.logs()).splitlines()[-1])
        by_api = dict(_by_api(pool, eve, made))
        found["got"] |= {name: text for name, text in by_api.items() if text}
        found["tried"] += list(by_api)
        if made.refresh().phase != "running":
            found["got"]["end another job"] = made.job.reason
        pool.grus.status()
    return found


def _by_api(pool: OtherPool, eve: Client, made: Handle) -> Iterator[tuple[str, str]]:
    """Jobs that would run, or save, where the state is; secrets of others by their names."""
    state = str(pool.places.state)
    jobs: dict[str, dict[str, object]] = {
        "a workdir in the state": {"workdir": state},
        "a workdir in another worker's folder": {"workdir": f"{state}/engine/workers"},
        "a checkpoint in the state": {"workdir": "/", "checkpoint": {"path": f"{state}/secrets"}},
        "another's secret by its name": {"workdir": "/", "secrets": {"KEY": "key"}},
    }
    for name, job in jobs.items():
        yield name, _refused(partial(eve.submit, {"run": "true", **job}))
    yield "another's secrets by the API", ", ".join(one.name for one in eve.secrets())


def _refused(call: Callable[[], object]) -> str:
    try:
        call()
    except (BadInput, Conflict):
        return ""
    return "it was taken"


def refusals(pool: OtherPool) -> dict[str, Any]:
    """Ways to a second member where jobs are not isolated."""
    admin = pool.grus
    admin.put_user("viewer", {"role": "viewer"})
    tried = {
        "add a member": lambda: admin.put_user("eve", {"role": "member"}),
        "add an administrator": lambda: admin.put_user("eve", {"role": "admin"}),
        "make a viewer a member": lambda: admin.put_user("viewer", {"role": "member"}),
    }
    got = {name: text for name, call in tried.items() if (text := _refused(call))}
    return {"tried": list(tried), "got": got}


def survived(say: Callable[[str], None]) -> dict[str, Any]:
    """All modes; figures, with every attack that got through."""
    if why := missing():
        return {"inside": {}, "inside_missing": why, "inside_through": []}
    counts: dict[str, int] = {}
    through: list[str] = []
    for mode in MODES:
        with a_pool(mode) as pool:
            found = attacked(pool) if mode.root or mode.boxed else refusals(pool)
        counts[mode.name] = len(found["tried"])
        through += [f"{mode.name}: {name}: {text[:200]}" for name, text in found["got"].items()]
        say(f"{mode.name}: {len(found['tried'])} attacks from inside, {len(found['got'])} got through")
    return {"inside": counts, "inside_through": through}


if __name__ == "__main__":
    print(json.dumps(survived(lambda text: print(text, file=sys.stderr, flush=True))))
