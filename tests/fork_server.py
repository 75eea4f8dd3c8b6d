"""Fork programs from a process that has their modules in memory: tens of milliseconds each, not seconds.

`ForkServer` is used by tests and imports none of those modules itself. The other end is this module run as a
program: it reads orders from its standard input, one a line, forks, and reports starts and ends on its
standard output. It starts no thread and computes nothing, so that forking it is safe. A child leaves the loop
and ends like any program: what happens at the end of an interpreter is part of what is tested.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import poll

ROOT = Path(__file__).parents[1]
TRAINEE = "tests.elastic.trainee"
TORCH = ("torch", "torch._dynamo", TRAINEE)
"""Modules for trainings: the first step of an optimizer imports torch._dynamo."""


class ForkServer:
    """Use it as a context manager: all that it forked is killed at the end.

    `known` are modules that the programs need, and that take long to import.
    """

    def __init__(self, *known: str) -> None:
        self._known = known

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", *self._known],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )
        self._codes: dict[int, int] = {}
        """By birth: pids come again."""
        self._births: dict[int, int] = {}
        """Of those alive, by pid."""
        self._born = 0
        self._rest = b""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(
        self, module: str, *words: str, environment: Mapping[str, str], output: Path, only: bool = False
    ) -> "Child":
        """Start a module as a program; what it prints goes to the file.

        `only`: it has no other variables than these, in place of those and the fork server's.
        """
        return Child(self, *self.born(environment, output, module, *words, only=only))

    def born(
        self,
        environment: Mapping[str, str],
        output: Path,
        module: str = TRAINEE,
        *words: str,
        only: bool = False,
    ) -> tuple[int, int]:
        """Start a program; its pid, and the number of its start. What it prints goes to the file."""
        assert self._process.stdin is not None
        order = {
            "environment": dict(environment),
            "only": only,
            "output": str(output),
            "command": [module, *words],
        }
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            if (pid := self._hear()) is not None:
                return pid, self._births[pid]

    def code(self, birth: int) -> int | None:
        """Its exit code (negative: the signal that killed it); None while it lives."""
        while birth not in self._codes and self._ready():
            self._hear()
        return self._codes.get(birth)

    def _ready(self) -> bool:
        assert self._process.stdout is not None
        return b"\n" in self._rest or bool(select.select([self._process.stdout], [], [], 0)[0])

    def _hear(self) -> int | None:
        """Read one word; the pid of a child that was born, None if it is of a death."""
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            found = os.read(self._process.stdout.fileno(), 1 << 16)
            if not found:
                raise RuntimeError("the fork server is gone")
            self._rest += found
        line, _, self._rest = self._rest.partition(b"\n")
        word: dict[str, Any] = json.loads(line)
        if "born" in word:
            self._born += 1
            self._births[word["born"]] = self._born
            return int(word["born"])
        self._codes[self._births.pop(word["ended"])] = word["code"]
        return None


_SHARED: dict[tuple[str, ...], ForkServer] = {}


def shared(*known: str) -> ForkServer:
    """The one of this process with these modules, until the session of the tests ends."""
    if known not in _SHARED:
        _SHARED[known] = ForkServer(*known).__enter__()
    return _SHARED[known]


def close_shared() -> None:
    """End those that `shared` has started, and all that they forked."""
    while _SHARED:
        _SHARED.popitem()[1].__exit__(None, None, None)


class Child:
    """One program of a fork_server, with those methods of `subprocess.Popen` that tests need."""

    def __init__(self, fork_server: ForkServer, pid: int, birth: int) -> None:
        self.pid = pid
        self._fork_server = fork_server
        self._birth = birth

    def poll(self) -> int | None:
        return self._fork_server.code(self._birth)

    def wait(self, timeout: float = 300.0) -> int:
        code = poll(lambda: None if (code := self.poll()) is None else (code,), timeout)
        if not code:
            raise TimeoutError(f"process {self.pid} still runs after {timeout:.0f} s")
        return code[0]

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


# ------------------------------------------------------------------------------------------- its other end


def main() -> None:
    for known in sys.argv[1:]:
        importlib.import_module(known)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    # At its end a child would walk through all objects of torch and copy their pages: 1.3 s instead of 0.4 s.
    gc.freeze()
    order = _orders()
    if order is None:
        return
    if order["only"]:
        os.environ.clear()
    os.environ.update(order["environment"])
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    module, *words = order["command"]
    sys.argv = [module, *words]
    sys.modules.pop(module, None)  # it may be in memory already, and shall run as a program
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _orders() -> dict[str, Any] | None:
    """Fork as ordered; returns in each child with its order, in the parent with nothing at the end."""
    rest = b""
    children: set[int] = set()
    while True:
        readable, _, _ = select.select([0], [], [], 0.005)
        if readable:
            found = os.read(0, 1 << 16)
            if not found:
                break
            rest += found
        while b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            pid = os.fork()
            if pid == 0:
                _apart()
                child: dict[str, Any] = json.loads(line)
                return child
            children.add(pid)
            _tell(born=pid)
        children -= _reap(children)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while children:
        children.discard(os.wait()[0])
    return None


def _reap(children: set[int]) -> set[int]:
    gone: set[int] = set()
    while children - gone:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        gone.add(pid)
        _tell(ended=pid, code=os.waitstatus_to_exitcode(status))
    return gone


def _tell(**word: int) -> None:
    os.write(1, json.dumps(word).encode() + b"\n")


def _apart() -> None:
    """Give a child nothing of the fork server's but its memory, and end it with its parent."""
    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


if __name__ == "__main__":
    main()
