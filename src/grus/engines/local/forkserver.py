"""The fork server: a small process that makes supervisors, because forking the server itself would be slow.
Light.

It reads requests from its standard input (a socket): a line `<worker> <length> <length>`, that many bytes of
spec.json and of secrets, which only the supervisor's memory gets. It answers each with a line of JSON on the
same socket, after the supervisor was forked. It ends when the server does; the supervisors live on.

A worker's folder is prepared in the engine's own staging folder and then renamed into place: the rename
fails if the worker was started before, and if a newer engine has removed the staging folder. So a start
happens at most once, and never under an old epoch, without any lock.
"""

import ctypes
import gc
import json
import os
import signal
import sys

from grus.engines.local import processes, state_files, supervisor

_SOCKET = 0
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def main(state: str, stage: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors need no reaping
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Blocked, not handled: a supervisor inherits it, and a stop sent before its handlers are set waits for
    # them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.umask(0o077)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, b"grus-launcher", 0, 0, 0)
    gc.disable()
    gc.freeze()  # otherwise the first collection in each child would copy all pages
    requests = os.fdopen(_SOCKET, "rb", buffering=1 << 16, closefd=False)
    while header := requests.readline():
        name, *lengths = header.decode().split()
        spec, secrets = (requests.read(int(length)) for length in lengths)
        if [len(spec), len(secrets)] != [int(length) for length in lengths]:
            return
        _answer(name, _launch(libc, state, stage, name, spec, secrets))


def _answer(name: str, answer: dict[str, object]) -> None:
    data = json.dumps({"id": name, **answer}).encode() + b"\n"
    try:
        while data:
            data = data[os.write(_SOCKET, data) :]
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server died; end of file comes next


def _launch(
    libc: ctypes.CDLL, state: str, stage: str, name: str, spec: bytes, secrets: bytes
) -> dict[str, object]:
    try:
        outcome = _place(state, stage, name, spec)
        if outcome:
            return {"outcome": outcome}
        pid = os.fork()
    except OSError as error:
        return {"outcome": "failed", "text": f"{error.strerror} ({error.filename or 'fork'})"}
    if pid == 0:
        _become_supervisor(libc, state, name, secrets)
    process = processes.read(pid)
    return {"outcome": "forked", "pid": pid, "start": process.start if process else 0}


def _place(state: str, stage: str, name: str, spec: bytes) -> str:
    """Make the worker's folder, whole and once; "" if this call made it."""
    staged = os.path.join(stage, name)
    try:
        os.mkdir(staged, 0o711)
        os.chmod(staged, 0o711)  # noqa: S103 - a job of another user must reach its control file
        state_files.create_file(staged, state_files.SPEC, spec)
        os.rename(staged, os.path.join(state, state_files.WORKERS, name))
    except FileNotFoundError:
        return "fenced"
    except OSError:
        _remove(staged)
        if os.path.exists(os.path.join(state, state_files.WORKERS, name)):
            return "exists"
        raise
    return ""


def _remove(staged: str) -> None:
    """Remove a staged folder that could not be put in place."""
    try:
        for name in os.listdir(staged):
            os.unlink(os.path.join(staged, name))
        os.rmdir(staged)
    except OSError:
        pass  # the next engine clears the whole staging folder


def _become_supervisor(libc: ctypes.CDLL, state: str, name: str, secrets: bytes) -> None:
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, _SOCKET)
        os.dup2(nothing, 1)
        os.close(nothing)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
        libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
        supervisor.supervise(state, name, secrets)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
