"""Workers in boxes: every promise of an engine holds as without, and what is not a worker's own is hidden."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grus.engines.local import processes, sandbox, state_files
from grus.engines.local.engine import LocalEngine
from grus.engines.local.orphans import is_alive
from grus.engines.local.sandbox import SandboxSettings, SandboxSpec
from grus.model.identifiers import WorkerId
from grus.model.interfaces import Engine, WorkerSpec, WorkerState
from grus.model.jobs import ExitCause
from grus.telemetry.virtual_gpus import VirtualSource
from tests.contracts.engine_contract import EngineContract, end_of, until
from tests.engines.conftest import opened
from tests.engines.test_local import a_worker
from tests.engines.test_local_descendants import DAEMONS

PROGRAM = shutil.which(sandbox.PROGRAM)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Debian's package bubblewrap")


WAITS = 'until grep -q go "$GRUS_CONTROL" 2>/dev/null; do sleep 0.05; done'


def boxed(home: Path) -> LocalEngine:
    state = home / "state"
    state.mkdir(exist_ok=True)
    made = SandboxSettings(PROGRAM or "", state, state / "code", (home / "token",))
    return LocalEngine(state / "engine", VirtualSource("2x4x16GB"), boxes=made)


class TestBoxedEngine(EngineContract):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Callable[[], Engine]:
        return lambda: boxed(tmp_path)

    def spec(self, name: str, line: str, **changes: object) -> WorkerSpec:
        return a_worker(name, line, **changes)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    with opened(boxed(tmp_path)) as made:
        yield made


def says(engine: LocalEngine, name: str, line: str, **changes: object) -> str:
    """What a shell line prints, in a box."""
    spec = a_worker(name, line, **changes)
    engine.start(spec)
    end_of(engine, spec.id)
    return engine.log(spec.id)[0].decode()


def test_of_the_state_a_worker_sees_its_own_folder_its_code_and_the_vaults(
    engine: LocalEngine, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    for name in (
        "grus.db",
        "session.key",
        "artefacts/ann/piece",
        "artefacts/eve/piece",
        "code/mine/train.py",
        "code/other/train.py",
    ):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text("x")
    (tmp_path / "token").write_text("secret")
    engine.start(a_worker("other.1", "sleep 100"))
    line = f"find {state} | sort; cat {tmp_path}/token; echo; pwd"
    own = {"workdir": str(state / "code" / "mine"), "vault": str(state / "artefacts" / "ann")}
    seen = says(engine, "mine.1", line, **own).splitlines()
    names = ["", "/claim", "/report", "/bell", "/spec.json", "/started"]
    allowed = [f"engine/workers/mine.1{name}" for name in names]
    allowed += [
        "artefacts",
        "artefacts/ann",
        "artefacts/ann/piece",
        "code",
        "code/mine",
        "code/mine/train.py",
    ]
    allowed += ["engine", "engine/workers"]
    paths = [Path(one).relative_to(state) for one in seen if one.startswith(f"{state}/")]
    assert {str(one) for one in paths} - {"."} <= set(allowed)
    assert {"code/mine/train.py", "artefacts/ann/piece"} <= {str(one) for one in paths}
    assert "secret" not in seen
    assert seen[-1] == str(state / "code" / "mine")


def test_not_even_root_takes_away_what_hides_the_rest(engine: LocalEngine, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "grus.db").write_text("x")
    line = f"umount -l {state}; mount --bind / /mnt; cat {state}/grus.db /mnt{state}/grus.db; echo tried"
    seen = says(engine, "mine.1", line)
    assert "x" not in seen.split()
    assert "tried" in seen


def test_a_worker_can_write_its_report_and_nothing_else_of_the_engines(
    engine: LocalEngine, tmp_path: Path
) -> None:
    line = 'echo said >>"$GRUS_REPORT"; cd "${GRUS_REPORT%/*}"; echo forged >exit.json; rm claim; echo tried'
    assert "tried" in says(engine, "mine.1", line)
    assert engine.report(WorkerId("mine.1")) == "said"
    folder = tmp_path / "state" / "engine" / state_files.WORKERS / "mine.1"
    assert (folder / state_files.CLAIM).exists()
    assert "forged" not in (folder / state_files.EXIT).read_text()


def test_nobody_sees_or_ends_processes_outside_the_box(engine: LocalEngine) -> None:
    seen = says(engine, "mine.1", f"ls /proc | grep -c '^[0-9]'; kill -0 {os.getpid()} && echo reached")
    assert int(seen.splitlines()[0]) <= 6, seen
    assert "reached" not in seen
    engine.start(a_worker("brave.1", "kill -9 -1; sleep 1"))
    end_of(engine, WorkerId("brave.1"))  # the test itself, run by the same user, is still here


def test_what_a_worker_is_told_later_reaches_it(engine: LocalEngine) -> None:
    spec = a_worker("mine.1", f"{WAITS}; echo heard")
    engine.start(spec)
    until(lambda: engine.workers()[0].state is WorkerState.RUNNING)
    engine.publish(spec.id, '{"word": "wait"}')
    engine.publish(spec.id, '{"word": "go"}')
    end_of(engine, spec.id)
    assert engine.log(spec.id)[0] == b"heard\n"


SAVES = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(7)))\n"
SAVES += "print('up', flush=True)\ntime.sleep(100)"


@pytest.mark.parametrize(
    "line", ["exec {}", "{} ; true", "( {} ) & wait"], ids=["alone", "shell", "background"]
)
def test_a_stop_is_heard_by_the_program_which_has_its_grace(engine: LocalEngine, line: str) -> None:
    spec = a_worker("mine.1", line.format(f'{sys.executable} -c "{SAVES}"'))
    engine.start(spec)
    until(lambda: b"up" in engine.log(spec.id)[0])
    engine.stop(spec.id, 20.0)
    end = end_of(engine, spec.id)
    assert end.cause is ExitCause.STOPPED
    assert b"saved" in engine.log(spec.id)[0]


def test_a_stop_while_the_box_is_being_made_is_not_lost(engine: LocalEngine) -> None:
    for number in range(5):
        spec = a_worker(f"mine.{number}", "sleep 100")
        engine.start(spec)
        engine.stop(spec.id, 20.0)
        assert end_of(engine, spec.id).cause is ExitCause.STOPPED


@pytest.mark.parametrize("stops", [False, True], ids=["by itself", "stopped"])
def test_whatever_was_started_in_a_box_is_gone_with_it(
    engine: LocalEngine, tmp_path: Path, stops: bool
) -> None:
    go = tmp_path / "go"
    line = f"{DAEMONS} while ! test -e {go}; do sleep 0.01; done; exit 5"
    spec = a_worker("mine.1", line, workdir=str(tmp_path))
    (tmp_path / "pids").touch()
    engine.start(spec)
    until(lambda: b"ready" in engine.log(spec.id)[0])
    [box] = [status.pid for status in engine.workers()]
    assert box is not None
    inside = processes.descendants([box], processes.scan())
    assert len(inside) >= 5  # the first process, the shell and what it has started
    if stops:
        engine.stop(spec.id, 0.2)
    else:
        go.touch()
    end_of(engine, spec.id)
    assert not [one for one in inside if is_alive(one.pid, one.start)]


def test_who_is_left_without_a_supervisor_is_found_and_ended(engine: LocalEngine) -> None:
    spec = a_worker("mine.1", "setsid sleep 1000 & echo ready; sleep 1000")
    engine.start(spec)
    until(lambda: b"ready" in engine.log(spec.id)[0])
    [box] = [status.pid for status in engine.workers()]
    assert box is not None
    inside = processes.descendants([box], processes.scan())
    outer = processes.read(box)
    assert outer is not None
    os.kill(outer.parent, signal.SIGKILL)
    assert end_of(engine, spec.id).cause is ExitCause.LOST
    assert not [one for one in inside if is_alive(one.pid, one.start)]


def test_ends_are_told_as_without_a_box(engine: LocalEngine, tmp_path: Path) -> None:
    ends = {}
    lines = {"code": "exit 3", "signal": "kill -9 $$", "done": "true"}
    for name, line in lines.items():
        engine.start(a_worker(f"{name}.1", line))
        end = end_of(engine, WorkerId(f"{name}.1"))
        ends[name] = (end.cause, end.code)
    assert ends == {
        "code": (ExitCause.CODE, 3),
        "signal": (ExitCause.SIGNAL, 9),
        "done": (ExitCause.DONE, 0),
    }
    engine.start(a_worker("missing.1", "", argv=("no-such-program",)))
    end = end_of(engine, WorkerId("missing.1"))
    assert (end.cause, end.text) == (ExitCause.START, "no such command on PATH: no-such-program")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    engine.start(a_worker("script.1", "", argv=(str(script),)))
    end = end_of(engine, WorkerId("script.1"))
    assert (end.cause, "interpreter" in end.text) == (ExitCause.START, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root runs jobs as other users")
def test_another_unix_user_has_a_box_too() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        home = Path(folder)
        home.chmod(0o711)
        engine = boxed(home)
        (home / "state").chmod(0o711)
        engine.open(1)
        (home / "state" / "grus.db").write_text("x")
        line = f'id -un; echo said >>"$GRUS_REPORT"; ls {home}/state; {WAITS}'
        spec = a_worker("mine.1", line, unix_user="nobody")
        engine.start(spec)
        until(lambda: engine.workers()[0].state is WorkerState.RUNNING)
        engine.publish(spec.id, "go")
        assert end_of(engine, spec.id).cause is ExitCause.DONE
        assert engine.report(spec.id) == "said"
        seen = engine.log(spec.id)[0].decode().split()
        assert seen[0] == "nobody"
        assert "grus.db" not in seen
        engine.close()


def test_why_there_can_be_no_box_is_said(tmp_path: Path) -> None:
    assert sandbox.trouble(PROGRAM) == ""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    broken.chmod(0o700)
    assert sandbox.trouble(str(broken)) == f"{broken} says: no namespaces here"


PRELOADED = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    FILE *out = fopen(getenv("MARK") ? getenv("MARK") : "/dev/null", "a");
    if (!out) return;
    fprintf(out, "%d %s\\n", access(getenv("STATE"), F_OK), program_invocation_short_name);
    fclose(out);
}
"""


def test_a_library_that_a_job_names_is_not_loaded_outside_its_box(
    engine: LocalEngine, tmp_path: Path
) -> None:
    state = tmp_path / "state" / "grus.db"
    state.write_text("x")
    source, library, mark = tmp_path / "evil.c", tmp_path / "evil.so", tmp_path / "mark"
    source.write_text("#define _GNU_SOURCE\n#include <errno.h>\n" + PRELOADED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    named = (
        ("LD_PRELOAD", str(library)),
        ("MARK", str(mark)),
        ("STATE", str(state)),
        ("PATH", os.environ["PATH"]),
    )
    says(engine, "mine.1", "true", env=named)
    loaded = [line.split() for line in mark.read_text().splitlines()]
    assert [where for where, program in loaded if where == "0" or program == "bwrap"] == []
    assert loaded  # inside, where it is the job's own


def test_a_link_to_the_state_or_to_another_jobs_code_shows_nothing(
    engine: LocalEngine, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    (state / "code" / "other").mkdir(parents=True)
    (state / "code" / "other" / "train.py").write_text("x")
    link = tmp_path / "link"
    link.symlink_to(state / "code" / "other")
    for number, workdir in enumerate((link, state, state / "engine")):
        assert "train.py" not in says(engine, f"mine.{number}", "ls -R .", workdir=str(workdir))


def test_a_variable_that_no_process_can_have_is_told_as_without_a_box(engine: LocalEngine) -> None:
    for number, pair in enumerate((("A", "x" * 140_000), ("A=B", "c"), ("A", "b\0c"))):
        spec = a_worker(f"bad.{number}", "true", env=(pair, ("PATH", os.environ["PATH"])))
        engine.start(spec)
        assert end_of(engine, spec.id).cause is ExitCause.START


def test_only_the_device_files_of_its_own_gpus_are_in_a_box() -> None:
    made = SandboxSettings("bwrap", Path("/state")).around(
        SandboxSpec("/state/w", "/work", devices=("/dev/nvidia1",))
    )
    shown = [made[at + 1] for at, word in enumerate(made) if word.startswith("--dev-bind")]
    assert [one for one in shown if one[-1].isdigit()] == ["/dev/nvidia1"]
    assert "/dev" not in shown
    assert "/dev/nvidiactl" in shown


def test_the_root_is_read_only_where_workers_have_the_servers_own_user(tmp_path: Path) -> None:
    home = Path.home()
    kept = tmp_path / "program"
    boxes_of = SandboxSettings(
        "bwrap", tmp_path / "state", same_user=True, settings=tmp_path / "set", protected=(kept,)
    )

    def writable(workdir: Path, checkpoint: str = "") -> list[str]:
        made = boxes_of.around(SandboxSpec("/w", str(workdir), checkpoint=checkpoint))
        assert made[1:4] == ["--ro-bind", "/", "/"]
        root = made[: made.index("--dev")]
        return [root[at + 1] for at, word in enumerate(root) if word == "--bind-try"]

    (tmp_path / "saved").mkdir()
    assert writable(Path("/srv/work")) == ["/tmp", "/var/tmp", "/srv/work"]
    assert writable(Path("/srv"), str(tmp_path / "saved" / "ckpt"))[2:] == ["/srv", str(tmp_path / "saved")]
    places = (Path("/"), home, home / ".ssh", kept, kept / "x", tmp_path, tmp_path / "state" / "x")
    for refused in (*places, tmp_path / "set"):
        assert writable(refused) == ["/tmp", "/var/tmp"], refused
