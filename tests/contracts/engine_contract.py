"""What every Engine promises, as tests: inherit `EngineContract`, give the `make` fixture and `spec`.

Workers here are shell commands that speak through their log only, so that they may run anywhere.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from grus.model.errors import Conflict, Fenced, NotFound
from grus.model.identifiers import JobId, WorkerId
from grus.model.interfaces import Engine, WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause
from tests.waiting import poll

T = TypeVar("T")
PATH = "/usr/local/bin:/usr/bin:/bin"
SAVES = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
"""Ends by itself when asked to."""
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
"""Has to be killed."""

SPEAKS = 'say() { echo "$1" >>"$GRUS_REPORT"; echo >"$GRUS_BELL"; }; '
"""`say word` writes a line to the report and rings."""


def until(condition: Callable[[], T | None], seconds: float = 180.0) -> T:
    """Wait for a condition to hold and return what it gave; the deadline is for broken code only."""
    found = poll(condition, seconds)
    assert found, "waited in vain"
    return found


def status_of(engine: Engine, worker: WorkerId) -> WorkerStatus | None:
    return next((status for status in engine.workers() if status.id == worker), None)


def until_state(engine: Engine, worker: WorkerId, state: WorkerState) -> WorkerStatus:
    def reached() -> WorkerStatus | None:
        status = status_of(engine, worker)
        return status if status is not None and status.state is state else None

    return until(reached)


def until_says(engine: Engine, worker: WorkerId, words: bytes) -> None:
    until(lambda: words in engine.log(worker)[0])


def end_of(engine: Engine, worker: WorkerId) -> Exit:
    status = until_state(engine, worker, WorkerState.ENDED)
    assert status.exit is not None
    return status.exit


class EngineContract(ABC):
    """Inherit, and give `make` and `spec`."""

    @pytest.fixture
    @abstractmethod
    def make(self) -> Callable[[], Engine]:
        """Makes engine objects, all on the same state, none of them open."""

    @abstractmethod
    def spec(self, name: str, line: str, **changes: object) -> WorkerSpec:
        """A worker that runs a shell line; `name` is its id."""

    @pytest.fixture
    def engine(self, make: Callable[[], Engine]) -> Iterator[Engine]:
        """Open under epoch 1; whatever runs at the end is stopped."""
        engine = make()
        engine.open(1)
        yield engine
        try:
            for status in engine.workers():
                engine.stop(status.id, 0)
            until(lambda: all(one.state is WorkerState.ENDED for one in engine.workers()))
        except (Fenced, Conflict):
            pass  # the test has handed over to another engine object, and stops what that started
        engine.close()

    def start(self, engine: Engine, name: str, line: str, **changes: object) -> WorkerId:
        spec = self.spec(name, line, **changes)
        engine.start(spec)
        return spec.id

    # ---------------------------------------------------------------------------------- reports

    def test_the_last_whole_line_of_a_report_is_told_until_the_worker_is_forgotten(
        self, engine: Engine
    ) -> None:
        line = 'echo one >>"$GRUS_REPORT"; echo two >>"$GRUS_REPORT"; printf half >>"$GRUS_REPORT"'
        worker = self.start(engine, "j1", line)
        end_of(engine, worker)
        assert engine.report(worker) == "two"
        engine.forget(worker)
        assert engine.report(worker) == ""

    def test_who_reports_nothing_or_nothing_whole_says_nothing(self, engine: Engine) -> None:
        silent = self.start(engine, "j1", "true")
        endless = self.start(engine, "j2", 'head -c 1000000 /dev/zero | tr "\\0" x >>"$GRUS_REPORT"')
        for worker in (silent, endless):
            end_of(engine, worker)
            assert engine.report(worker) == ""

    # ------------------------------------------------------------------------------------- bells

    def test_who_rings_is_read_at_once_and_listeners_are_told(self, engine: Engine, tmp_path: Path) -> None:
        heard: list[WorkerStatus] = []
        engine.subscribe(heard.append)
        gate = tmp_path / "gate"
        waits = f"while [ ! -e {gate} ]; do sleep 0.01; done"
        worker = self.start(engine, "j1", f"{SPEAKS} say first; {waits}; say second; exec sleep 600")
        until(lambda: heard and heard[-1].said == "first")
        gate.touch()
        until(lambda: heard[-1].said == "second")
        assert {one.state for one in heard if one.said} == {WorkerState.RUNNING}
        status = status_of(engine, worker)
        assert status is not None
        assert (status.state, status.said) == (WorkerState.RUNNING, "second")

    def test_who_rings_without_end_is_still_stopped_and_others_are_heard(self, engine: Engine) -> None:
        loud = self.start(engine, "j1", f"{SPEAKS} while :; do say x; done")
        until(lambda: (status := status_of(engine, loud)) is not None and status.said == "x")
        other = self.start(engine, "j2", f"{SPEAKS} say y; exec sleep 600")
        until(lambda: (status := status_of(engine, other)) is not None and status.said == "y")
        engine.stop(loud, 0)
        assert end_of(engine, loud).cause is ExitCause.STOPPED

    def test_what_was_said_while_nobody_listened_is_known_after_a_re_attach(
        self, engine: Engine, make: Callable[[], Engine], tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        waits = f"while [ ! -e {gate} ]; do sleep 0.01; done"
        worker = self.start(engine, "j1", f"{SPEAKS} {waits}; say late; touch {gate}.said; exec sleep 600")
        until_state(engine, worker, WorkerState.RUNNING)
        engine.close()
        gate.touch()
        until(gate.with_suffix(".said").exists)
        other = make()
        other.open(2)
        found = status_of(other, worker)
        assert found is not None
        assert (found.state, found.said) == (WorkerState.RUNNING, "late")
        other.stop(worker, 0)
        end_of(other, worker)
        other.close()

    # ------------------------------------------------------------------------------------- ends

    def test_a_worker_that_exits_with_0_is_done(self, engine: Engine) -> None:
        worker = self.start(engine, "j1.1.main.0.1", "echo hello")
        assert end_of(engine, worker) == Exit(ExitCause.DONE, 0, "")
        assert engine.log(worker) == (b"hello\n", 6)

    def test_an_exit_code_is_told(self, engine: Engine) -> None:
        found = end_of(engine, self.start(engine, "j1", "exit 3"))
        assert (found.cause, found.code) == (ExitCause.CODE, 3)

    def test_a_death_by_signal_is_told(self, engine: Engine) -> None:
        found = end_of(engine, self.start(engine, "j1", "kill -9 $$"))
        assert (found.cause, found.code) == (ExitCause.SIGNAL, 9)

    def test_cuda_out_of_memory_is_found_in_the_log(self, engine: Engine) -> None:
        line = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'; exit 1"
        found = end_of(engine, self.start(engine, "j1", line))
        assert (found.cause, found.code) == (ExitCause.GPU_MEMORY, 1)

    def test_a_command_that_is_not_there_is_a_start_failure_and_not_raised(self, engine: Engine) -> None:
        spec = self.spec("j1", "", argv=("no-such-command-here",))
        engine.start(spec)
        found = end_of(engine, spec.id)
        assert found.cause is ExitCause.START
        assert "no-such-command-here" in found.text

    def test_an_ended_worker_has_its_times(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", "sleep 0.01")
        status = until_state(engine, worker, WorkerState.ENDED)
        assert status.started_at is not None
        assert status.ended_at is not None
        assert 0 <= status.ended_at - status.started_at < 10

    # ---------------------------------------------------------------------------------- repeats

    def test_a_start_that_is_repeated_runs_once(self, engine: Engine) -> None:
        spec = self.spec("j1", "echo ran; sleep 0.05")
        threads = [threading.Thread(target=engine.start, args=(spec,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end_of(engine, spec.id)
        engine.start(spec)
        assert len(engine.workers()) == 1
        assert engine.log(spec.id)[0] == b"ran\n"

    def test_a_stop_of_an_ended_or_unknown_worker_changes_nothing(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", "exit 0")
        before = until_state(engine, worker, WorkerState.ENDED)
        engine.stop(worker, 0)
        engine.stop(WorkerId("j2"), 0)
        engine.publish(WorkerId("j2"), "{}")
        engine.forget(WorkerId("j2"))
        assert engine.workers() == (before,)

    # ------------------------------------------------------------------------------------ stops

    def test_a_worker_may_save_and_exit_within_its_grace(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", SAVES)
        until_says(engine, worker, b"ready")
        engine.stop(worker, 60)
        found = end_of(engine, worker)
        assert (found.cause, found.code) == (ExitCause.STOPPED, 0)
        assert engine.log(worker)[0] == b"ready\nsaved\n"

    def test_a_worker_that_does_not_listen_is_killed_after_its_grace(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", STUBBORN)
        until_says(engine, worker, b"ready")
        begun = time.monotonic()
        engine.stop(worker, 0.4)
        found = end_of(engine, worker)
        assert found.cause is ExitCause.STOPPED
        assert time.monotonic() - begun >= 0.4

    def test_a_second_stop_shortens_the_grace(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", STUBBORN)
        until_says(engine, worker, b"ready")
        engine.stop(worker, 3600)  # returns at once: nothing here waits an hour
        engine.stop(worker, 0)
        assert end_of(engine, worker).cause is ExitCause.STOPPED

    def test_a_second_stop_never_lengthens_the_grace(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", STUBBORN)
        until_says(engine, worker, b"ready")
        engine.stop(worker, 0.2)
        engine.stop(worker, 3600)
        assert end_of(engine, worker).cause is ExitCause.STOPPED

    def test_a_stop_right_after_the_start_is_heard(self, engine: Engine) -> None:
        for number in range(10):
            worker = self.start(engine, f"j{number}", STUBBORN)
            engine.stop(worker, 0)
            assert end_of(engine, worker).cause is ExitCause.STOPPED

    # ---------------------------------------------------------------------------------- control

    def test_a_worker_sees_the_newest_control_text(self, engine: Engine) -> None:
        line = "while ! grep -q two $GRUS_CONTROL 2>/dev/null; do sleep 0.01; done; cat $GRUS_CONTROL"
        worker = self.start(engine, "j1", line)
        engine.publish(worker, "one")
        until_state(engine, worker, WorkerState.RUNNING)
        engine.publish(worker, "two")
        end_of(engine, worker)
        assert engine.log(worker)[0] == b"two"

    def test_a_worker_without_a_gpu_sees_none(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", 'echo "<$CUDA_VISIBLE_DEVICES>"', devices=(), share=0)
        end_of(engine, worker)
        assert engine.log(worker)[0] == b"<>\n"

    def test_a_worker_sees_the_environment_it_was_given_and_its_gpus(self, engine: Engine) -> None:
        line = 'echo "$COLOUR"; test -n "$CUDA_VISIBLE_DEVICES" && echo gpu'
        worker = self.start(engine, "j1", line, env=(("PATH", PATH), ("COLOUR", "grün")))
        end_of(engine, worker)
        assert engine.log(worker)[0].decode() == "grün\ngpu\n"

    # --------------------------------------------------------------------------------- telling

    def test_listeners_hear_of_running_and_ended_in_order_until_they_leave(self, engine: Engine) -> None:
        heard: list[WorkerStatus] = []
        leave = engine.subscribe(heard.append)
        worker = self.start(engine, "j1", "sleep 0.2")
        until(lambda: [one.state for one in heard][-1:] == [WorkerState.ENDED])
        states = [one.state for one in heard if one.state is not WorkerState.STARTING]
        assert states == [WorkerState.RUNNING, WorkerState.ENDED]
        assert heard[-1] == status_of(engine, worker)
        leave()
        end_of(engine, self.start(engine, "j2", "exit 0"))
        assert all(one.id == worker for one in heard)

    def test_a_listener_that_fails_does_not_stop_the_news(self, engine: Engine) -> None:
        def fails(status: WorkerStatus) -> None:
            raise RuntimeError("a listener's own mistake")

        heard: list[WorkerStatus] = []
        engine.subscribe(fails)
        engine.subscribe(heard.append)
        self.start(engine, "j1", "exit 0")
        until(lambda: [one for one in heard if one.state is WorkerState.ENDED])

    # ------------------------------------------------------------------------------------- logs

    def test_a_log_is_read_in_pieces_and_from_the_end(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", "printf 0123456789")
        end_of(engine, worker)
        assert engine.log(worker, 0, 4) == (b"0123", 4)
        assert engine.log(worker, 4, 100) == (b"456789", 10)
        assert engine.log(worker, 10) == (b"", 10)
        assert engine.log(worker, -3) == (b"789", 10)
        assert engine.log(worker, -99) == (b"0123456789", 10)

    def test_a_forgotten_worker_leaves_its_log_until_that_is_removed(self, engine: Engine) -> None:
        worker = self.start(engine, "j1.1.main.0.1", "echo kept")
        end_of(engine, worker)
        engine.forget(worker)
        engine.forget(worker)
        assert engine.workers() == ()
        assert engine.log(worker)[0] == b"kept\n"
        assert engine.logged(JobId("j1")) == (worker,)
        assert engine.logged(JobId("j2")) == ()
        engine.remove_logs(JobId("j1"))
        assert engine.logged(JobId("j1")) == ()
        engine.remove_logs(JobId("j1"))
        with pytest.raises(NotFound):
            engine.log(worker)

    def test_there_is_no_log_of_a_worker_that_never_was(self, engine: Engine) -> None:
        for name in ("j9.1.main.0.1", "../workers/j1", ""):
            with pytest.raises(NotFound):
                engine.log(WorkerId(name))

    def test_a_living_worker_cannot_be_forgotten(self, engine: Engine) -> None:
        worker = self.start(engine, "j1", STUBBORN)
        with pytest.raises(Conflict):
            engine.forget(worker)

    # ------------------------------------------------------------------------------- re-attach

    def test_workers_outlive_the_engine_and_are_found_again(
        self, engine: Engine, make: Callable[[], Engine]
    ) -> None:
        living = self.start(engine, "j1.2.main.0.1", SAVES, attempt=2)
        until_says(engine, living, b"ready")
        before = until_state(engine, living, WorkerState.RUNNING)
        # Long enough to be seen on a busy machine.
        short = self.start(engine, "j2", "sleep 1; exit 7")
        until_state(engine, short, WorkerState.RUNNING)
        ended = self.start(engine, "j3", "exit 4")
        end_of(engine, ended)
        engine.close()

        other = make()
        other.open(2)
        assert status_of(other, living) == before
        found = end_of(other, short)
        assert (found.cause, found.code) == (ExitCause.CODE, 7)
        found = end_of(other, ended)
        assert (found.cause, found.code) == (ExitCause.CODE, 4)
        other.start(self.spec("j3", "echo again"))
        assert other.log(ended)[0] == b""
        other.stop(living, 60)
        assert end_of(other, living).code == 0
        other.close()

    def test_an_engine_of_an_earlier_epoch_is_fenced(
        self, engine: Engine, make: Callable[[], Engine]
    ) -> None:
        worker = self.start(engine, "j1", STUBBORN)
        until_says(engine, worker, b"ready")
        newer = make()
        newer.open(2)
        effects: list[Callable[[], None]] = [
            lambda: engine.start(self.spec("j2", "echo ran")),
            lambda: engine.stop(worker, 0),
            lambda: engine.publish(worker, "{}"),
            lambda: engine.forget(worker),
            lambda: engine.remove_logs(JobId("j1")),
            lambda: make().open(1),
        ]
        for effect in effects:
            with pytest.raises(Fenced):
                effect()
        assert [status.id for status in newer.workers()] == [worker]
        newer.stop(worker, 0)
        end_of(newer, worker)
        newer.close()

    # ------------------------------------------------------------------------------ pool, usage

    def test_the_pool_and_its_mechanisms_are_told(self, engine: Engine) -> None:
        assert all(node.devices for node in engine.nodes())
        assert {"isolation", "slices", "telemetry"} <= set(engine.mechanisms())

    def test_usage_of_running_workers_is_measured(self, engine: Engine) -> None:
        busy = self.start(engine, "j1", "while :; do :; done")
        ended = self.start(engine, "j2", "exit 0")
        until_state(engine, busy, WorkerState.RUNNING)
        end_of(engine, ended)
        until(lambda: any(one.worker == busy and one.cpu_seconds > 0.05 for one in engine.usage()))
        (use,) = engine.usage()
        assert use.worker == busy
        assert use.memory > 100_000
