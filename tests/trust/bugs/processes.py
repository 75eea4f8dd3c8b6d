"""Bugs of whoever starts and ends processes. Those of a supervisor are planted in its own process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from grus.engines.local import forkserver_client, orphans, processes, state_files
from grus.engines.local.engine import LocalEngine
from grus.model.interfaces import WorkerSpec
from tests.trust.bugs.planting import Bug, Swap, instead, issue

ROOT = Path(__file__).resolve().parents[3]


def launched_with(plant: str) -> Callable[[Any], Any]:
    """The launcher's program, with a function of `supervised` called first: its children have it too."""
    return instead(
        f"import sys; sys.path[:0] = [sys.argv[1], {str(ROOT)!r}];"
        f"from tests.trust.bugs import supervised; supervised.{plant}();"
        "from grus.engines.local.forkserver import main; main(sys.argv[2], sys.argv[3])"
    )


def without_a_look_at_what_runs(start: Any) -> Callable[[LocalEngine, WorkerSpec], None]:
    def planted(self: LocalEngine, worker: WorkerSpec) -> None:
        watcher = self._acting()
        with watcher.lock:
            watcher.records.pop(worker.id, None)
        start(self, worker)

    return planted


def whoever_has_the_pid(open_handle: Any) -> Callable[[int, int], int | None]:
    """A process is its number."""

    def planted(pid: int, _start: int) -> int | None:
        found = processes.read(pid)
        return None if found is None else open_handle(pid, found.start)

    return planted


def alive_if_anybody_is(_: Any) -> Callable[[int, int], bool]:
    return lambda pid, _start: (found := processes.read(pid)) is not None and found.alive


def any_name(_: Any) -> Callable[[str], bool]:
    return lambda name: bool(name)


BUGS = (
    Bug(
        "orphans",
        "a worker is ended by its process group, and what has left the group goes on",
        issue("pytorch/pytorch", 5736),
        (Swap(forkserver_client, "_PROGRAM", launched_with("kill_the_group_only")),),
        ("tests/engines/test_local_descendants.py::test_daemons_die_with_a_worker_that_ends_by_itself",),
        everywhere=False,
    ),
    Bug(
        "launched-again",
        "a start that is repeated after a crash runs the command once more",
        issue("apache/airflow", 35676),
        (
            Swap(forkserver_client, "_PROGRAM", launched_with("start_whatever_is_there")),
            Swap(LocalEngine, "start", without_a_look_at_what_runs),
        ),
        ("tests/engines/test_local_reattach.py::test_starts_repeated_across_kills_of_the_server_run_once",),
        everywhere=False,
    ),
    Bug(
        "pid-reused",
        "a signal goes to whoever has the number of a process now",
        issue("bazelbuild/bazel", 11910),
        (
            Swap(processes, "open_handle", whoever_has_the_pid),
            Swap(orphans, "is_alive", alive_if_anybody_is),
        ),
        (
            "tests/engines/test_local_reattach.py::test_a_process_that_got_the_pid_of_a_dead_supervisor_is_left_alone",
        ),
        everywhere=False,
    ),
    Bug(
        "path-in-a-name",
        "a name that a caller gave becomes a path outside the folder of logs",
        issue("ray-project/ray", 39701),
        (Swap(state_files, "safe_name", any_name),),
        ("tests/engines/test_local_logs.py::test_a_name_that_is_a_path_leads_to_no_file_outside_the_logs",),
        everywhere=False,
    ),
)
